"""Hostile frames: well-formed requests with extreme values, and mutated ones, over every API and version."""
