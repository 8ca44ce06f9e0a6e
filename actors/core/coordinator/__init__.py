"""Decisions of the group coordinator."""
