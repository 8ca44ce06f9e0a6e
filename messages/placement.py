"""Compute the partition of __consumer_offsets for a group, by the Java hash of its name (broker.md 5.7)."""

from __future__ import annotations


def slot(group: str) -> int:
    """Return the hash of a group's name as a number of at least 0.

    This number modulo the partition count of __consumer_offsets is the group's partition.
    """
    units = group.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)
