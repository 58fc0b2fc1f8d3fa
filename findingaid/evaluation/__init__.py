"""Evaluation runs: searches and answers graded against known cases."""
