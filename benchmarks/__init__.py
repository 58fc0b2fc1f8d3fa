"""Speed, as ratios beside a floor or a peer in the same run: `make bench`."""
