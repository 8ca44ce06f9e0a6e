"""Explain how a cluster came to its state, from the records of a trace (`kafka-actors why`)."""
