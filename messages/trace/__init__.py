"""The trace of a node: what a record contains, how messages are encoded, and how files are written."""
