"""The decisions of the transaction coordinator, as pure functions and classes."""
