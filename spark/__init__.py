"""Summaries of the traces of one node or of many, computed with Spark."""
