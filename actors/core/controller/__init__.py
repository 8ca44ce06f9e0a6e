"""What a controller decides: its context, the state machines, and a flow for each event."""
