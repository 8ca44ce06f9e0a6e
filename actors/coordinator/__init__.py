"""The actors that coordinate consumer groups and transactions."""
