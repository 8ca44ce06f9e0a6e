"""Soak tests: inject random faults into clusters of real processes, and check them with external clients."""
