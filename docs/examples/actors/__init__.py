"""Who does something in the shop."""
