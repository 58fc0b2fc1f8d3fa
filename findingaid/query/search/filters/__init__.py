"""Filters: which fields they can name, what is allowed in them, and what from untrusted callers."""
