"""Decode large error-free responses; no object is created for each partition.

Rule: rows with names of the same length are of the same size; a look takes as many of them as follow each other, and
compares the bytes of all their lengths, and those of all their error codes and tags, with what they are to be. Where a
row says anything else, nothing is said here, and the answer is read as any other. Names are not looked at: they are
those of the request.
"""

from __future__ import annotations

import struct

from messages.conversation import SLICE
from messages.parts import PARTED, NoErrorsPart, PartitionErrorsPart
from messages.vocabulary import Message
from messages.wire.compiler import Steps
from messages.wire.layout import Layout
from messages.wire.primitives import read_length

OF_PARTITIONS = frozenset(kind for kind, parted in PARTED.items() if parted.part is PartitionErrorsPart)
"""The answers that say of each partition what error it has."""
_ROW = ("string", "int32", "int16")
"""The fields of a row, as far as these answers are no other than that: topic, partition, error code."""
_ERROR_CODE = struct.Struct(">h")
_NUMBER, _CODE = 4, 2
"""Bytes of a partition's number, and of its code."""
_FEW = 8
_LOOKS = 64
"""Entries in one slice of work."""


def without_errors(
    kind: type, layout: Layout, data: bytes, position: int
) -> Steps[tuple[tuple[NoErrorsPart], Message, int] | None]:
    """The part, the message and the end of the answer of that kind that stands there, as a reader of it has them.

    None if there are at most SLICE, if one has an error or tags, or if the response has another form.
    Raises ValueError, IndexError or struct.error for bytes that are none.
    """
    fields = [field for field in layout.fields if field.present]
    if tuple(field.type for field in fields[-1].fields if field.present) != _ROW:
        return None
    compact = layout.flexible
    (error_code,) = _ERROR_CODE.unpack_from(data, position)
    count, position = read_length(data, position + _ERROR_CODE.size, compact)
    if count <= SLICE:
        return None
    left, most = count, SLICE
    looks = 0
    while left:
        size, name = read_length(data, position, compact, text=True)
        if size < 0:
            return None
        head = data[position:name]
        row = len(head) + size + _NUMBER + _CODE + compact
        many = min(left, most)
        block = data[position : position + many * row]
        alike = min(_leading(block[place::row], byte) for place, byte in enumerate(head))
        block = block[: alike * row]
        if any(_leading(block[place::row], 0) < alike for place in range(row - _CODE - compact, row)):
            return None
        position += alike * row
        left -= alike
        most = min(SLICE, 2 * alike + _FEW)
        looks += 1
        if not looks % _LOOKS:
            yield
    if compact:
        if data[position]:
            return None
        position += 1
    return (NoErrorsPart(count),), kind(error_code), position


def _leading(data: bytes, byte: int) -> int:
    """How many of the first bytes are that one."""
    return len(data) - len(data.lstrip(bytes((byte,))))
