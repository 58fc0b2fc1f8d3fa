"""Claims: statements of artifacts, their review, and summary nodes over them."""
