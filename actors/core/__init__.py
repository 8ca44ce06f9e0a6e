"""Decisions without I/O: each subpackage has those of one role, or of one noun that several roles share."""
