"""A project made of components."""
