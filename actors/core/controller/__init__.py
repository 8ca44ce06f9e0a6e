"""Decisions of the controller: its context, the state machines, and a handler for each event."""
