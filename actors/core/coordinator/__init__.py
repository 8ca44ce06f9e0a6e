"""The decisions of the group coordinator, as pure functions and classes."""
