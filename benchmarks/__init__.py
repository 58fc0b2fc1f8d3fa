"""Speed, as ratios beside a floor or a peer in the same run: `make bench`."""

import os

os.environ.setdefault("LANCEDB_LOG", "error")  # bare hybrid search warns of its own columns, twice a query
