"""The coordinator of consumer groups."""
