"""Tests of permissions: rules, their life in an index, and what a caller sees."""
