"""Scripts that generate files of the repository and the documentation."""
