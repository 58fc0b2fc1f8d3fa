"""Tests of query/context."""
