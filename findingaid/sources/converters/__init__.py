"""Converters of documents to text: one module a format. They run in a process of their own, see `process`."""
