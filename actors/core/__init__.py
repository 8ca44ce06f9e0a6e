"""Decisions without I/O: the modules are shared by several roles; each subpackage has the decisions of one role."""
