"""A node: its root actor, its process, its settings and its I/O adapters."""
