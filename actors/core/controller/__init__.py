"""The decisions of the controller: its context, its state machines, and a handler for each event."""
