"""Benchmarks of speed, as ratios to a minimal program or to other tools in the same run: `make bench`."""

import os

os.environ.setdefault("LANCEDB_LOG", "error")  # LanceDB's hybrid search warns about its own columns, twice per query
