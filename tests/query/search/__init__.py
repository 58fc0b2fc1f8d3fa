"""Tests of query/search."""
