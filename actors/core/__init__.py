"""Decisions without I/O that several roles share; the packages in it are the decisions of one role."""
