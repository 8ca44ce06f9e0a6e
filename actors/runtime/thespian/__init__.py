"""Thespian's API, implemented on `actors.runtime.kernel`: the system base, schedulers, dispatch of messages."""
