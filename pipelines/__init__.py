"""The code location: jobs and the only Definitions."""
