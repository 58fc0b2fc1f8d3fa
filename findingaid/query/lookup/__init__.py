"""Lookups of single artifacts: contents, status, references and provenance."""
