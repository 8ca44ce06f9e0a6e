"""The trace: what a record of a delivery holds, how messages are encoded in it, and how its files are framed."""
