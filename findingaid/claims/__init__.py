"""Claims: what artifacts state, who stands behind it, and summaries over it."""
