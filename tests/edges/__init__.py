"""Tests of edges."""
