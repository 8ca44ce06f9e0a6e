"""Decode large responses that contain no errors, without creating an object for each partition.

Rule: rows (one per partition) with topic names of equal length have equal size. One step takes the longest run of such
rows, and checks that the bytes of their error codes and tags are zero. If any of these bytes is not zero, the general
reader decodes the response. Topic names are not checked: they are those of the request.
"""

from __future__ import annotations

import struct

from messages.flow.conversation import SLICE
from messages.parts import PARTED, NoErrorsPart, PartitionErrorsPart
from messages.vocabulary import Message
from messages.wire.compiler import Steps
from messages.wire.layout import Layout
from messages.wire.primitives import read_length

OF_PARTITIONS = frozenset(kind for kind, parted in PARTED.items() if parted.part is PartitionErrorsPart)
"""Responses with an error code per partition."""
_ROW = ("string", "int32", "int16")
"""The only supported fields of a row: topic, partition, error code."""
_ERROR_CODE = struct.Struct(">h")
_NUMBER, _CODE = 4, 2
"""Bytes of a partition's number, and of its error code."""
_FEW = 8
_LOOKS = 64
"""Number of runs in one slice of work."""


def without_errors(
    kind: type, layout: Layout, data: bytes, position: int
) -> Steps[tuple[tuple[NoErrorsPart], Message, int] | None]:
    """Decode a large response without errors of partitions.

    Return what a reader returns (`compile_reader`): the parts, the message, and the position after the message. The
    only part contains the number of partitions.

    Return None if the response has at most SLICE partitions, contains an error of a partition or tags, or has a format
    that is not supported here. Raises ValueError, IndexError or struct.error for invalid bytes.
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
    """Return how many bytes at the beginning equal `byte`."""
    return len(data) - len(data.lstrip(bytes((byte,))))
