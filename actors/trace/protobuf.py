"""Write the wire format of Protocol Buffers, with the few kinds of fields that exports need."""

from __future__ import annotations

import struct

VARINT, FIXED64, LENGTH = 0, 1, 2
_fixed64 = struct.Struct("<Q").pack
_double = struct.Struct("<d").pack


def varint(value: int) -> bytes:
    """Return the varint encoding of an unsigned number: 7-bit groups, the lowest first."""
    if value < 0x80:
        return _ONE[value]
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


_ONE = [bytes([value]) for value in range(0x80)]


def key(field: int, kind: int) -> bytes:
    """Return the encoded key that precedes a field's value; `kind` is the wire type."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Return an encoded field with an unsigned integer, enumeration or bool."""
    return key(field, VARINT) + varint(value)


def int64_field(field: int, value: int) -> bytes:
    """Return an encoded int64 field."""
    return key(field, VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def fixed64_field(field: int, value: int) -> bytes:
    """Return an encoded fixed64 field."""
    return key(field, FIXED64) + _fixed64(value)


def double(field: int, value: float) -> bytes:
    """Return an encoded double field."""
    return key(field, FIXED64) + _double(value)


def block(field: int, content: bytes) -> bytes:
    """Return an encoded field whose value is bytes or an encoded message."""
    return key(field, LENGTH) + varint(len(content)) + content


def text(field: int, value: str) -> bytes:
    """Return an encoded string field."""
    return block(field, value.encode("utf-8", "replace"))
