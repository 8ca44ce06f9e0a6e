"""Decisions of a broker: accepted requests, roles of partitions, metadata for clients."""
