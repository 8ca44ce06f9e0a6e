"""The actors that coordinate consumer groups."""
