"""The rules of the transaction coordinator: states, records, decisions, markers. No actor, no clock, no file."""
