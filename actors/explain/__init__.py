"""Explain from the records of a trace how a cluster came to its state (`kafka-actors why`)."""
