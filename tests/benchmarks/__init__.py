"""Measurements, each against its peer in one run. A module prints one JSON object per line and takes a minute or two:

    {"bench": "runtime", "case": "ping_pong", "ours": 1.9e6, "peer": 3.1e5, "peer_name": "...", "unit": "msg/s", "ratio": 6.1}

`ratio` is how many times better than the peer. `make bench` runs them all; docs/benchmarks.md has the results.
"""
