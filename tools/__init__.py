"""What makes files that are kept in the repository."""
