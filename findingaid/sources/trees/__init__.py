"""File trees that are not local folders.

They are in object storage, on a web server, in an archive, in a git repository, or in any other file system of fsspec.
"""
