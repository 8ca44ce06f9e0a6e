"""The messages between actors, the API table, the wire format and the trace format."""
