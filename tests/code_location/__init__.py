"""Tests of code_location."""
