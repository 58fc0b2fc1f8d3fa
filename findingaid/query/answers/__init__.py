"""Answers composed from claims, each sentence with its citations."""
