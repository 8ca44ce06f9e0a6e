"""The trace of a node: what a record contains, and how messages are encoded."""
