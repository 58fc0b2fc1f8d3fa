"""Servers for the index: one list of capabilities, exposed over HTTP, MCP and JSON lines."""
