"""Thespian's API on the kernel: the system base, its schedulers, and the dispatch of messages to handlers."""
