"""Tests of query/lookup."""
