"""Benchmarks. Each module measures kafka-actors and a peer in one run, and prints one JSON object per line:

    {"bench": "runtime", "case": "create", "ours": 9e5, "peer": 9e4, "peer_name": "...", "unit": "1/s", "ratio": 10}

`ratio` is how many times better than the peer kafka-actors is. `make bench` runs all benchmarks;
docs/reference/benchmarks.md has the results.
"""
