"""Calls of language models: endpoint, rate limits, prompts and completions."""
