"""The tests; `make test`."""
