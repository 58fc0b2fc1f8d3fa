"""The index served: one list of capabilities, spoken as HTTP, MCP and lines of JSON."""
