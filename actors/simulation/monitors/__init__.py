"""Monitors: each class checks one family of invariants."""
