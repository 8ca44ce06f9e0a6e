"""Measurements, each against its peer in one run. A module prints one JSON object per line and takes a minute or two:

    {"bench": "runtime", "case": "create", "ours": 9e5, "peer": 9e4, "peer_name": "...", "unit": "1/s", "ratio": 10}

`ratio` is how many times better than the peer. `make bench` runs them all; docs/reference/benchmarks.md has the
results.
"""
