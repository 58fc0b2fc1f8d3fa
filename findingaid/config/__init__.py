"""Configuration: settings, loading and building."""
