"""Tests of the calls of language models."""
