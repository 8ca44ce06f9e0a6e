"""Summaries of traces, computed with Spark, for one node or many."""
