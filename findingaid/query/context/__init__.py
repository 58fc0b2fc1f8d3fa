"""Context packs: search hits and summaries under a token budget."""
