"""Ids derived from content: hashes of data, fingerprints of components, hashes of code."""
