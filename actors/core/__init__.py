"""Decisions without I/O. The modules here are shared by several roles; each subpackage has the decisions of one role."""
