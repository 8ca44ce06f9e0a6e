"""Compute the partition of __consumer_offsets for a group, by the Java hash of its name (broker.md 5.7)."""

from __future__ import annotations


def slot(group: str) -> int:
    """The group's hash as a number of 0 and more; the remainder by the number of partitions is the group's."""
    units = group.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return 0 if signed == -(1 << 31) else abs(signed)
