"""The deterministic simulation."""
