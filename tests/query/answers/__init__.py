"""Tests of query/answers."""
