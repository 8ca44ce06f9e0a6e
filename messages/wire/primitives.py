"""Encode and decode the primitive types of the Kafka protocol that have a variable length (broker.md 6.3).

Rule 1: a length comes first: an int16 before a string, an int32 before bytes and arrays. In flexible versions it is
        compact: a varint of the length + 1. The length -1 (compact: 0) means null; every other negative length is read
        as null too, as in Apache Kafka.
Rule 2: the peer is not trusted: a varint has at most five bytes, and a field that ends beyond the frame is an error. A
        large count needs no limit of its own: elements are read one by one, and each has at least one byte, so reading
        stops at the end of the frame at the latest.
Rule 3: names of topics and lists of brokers recur: each is created once and shared. The caches are bounded, because
        peers choose the values.
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from messages.cluster import NO_ID

MAX_TEXT = 0x7FFF
"""Maximum bytes of a string, also if its length field could be larger."""

MOST_KEPT = 1 << 15
LONGEST_KEPT = 256
"""Maximum number of values in a `BoundedCache`, and maximum length of a cached value in bytes."""

ZERO_ID = bytes(16)
_ID_CHARACTERS = 22

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VARINT_BYTES = 5


# -------------------------------------------------------------------------------------------------------- reading


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at `position`, and its end."""
    value = shift = 0
    for place in range(position, position + _VARINT_BYTES):
        byte = data[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place + 1
        shift += 7
    raise ValueError("a varint has more than five bytes")


def read_length(data: bytes, position: int, compact: bool, text: bool = False) -> tuple[int, int]:
    """Return the length at `position` (negative for null), and the position after the length (rule 1)."""
    if compact:
        value, position = read_varint(data, position)
        value -= 1
    elif text:
        (value,) = _INT16.unpack_from(data, position)
        position += _INT16.size
    else:
        (value,) = _INT32.unpack_from(data, position)
        position += _INT32.size
    if text and value > MAX_TEXT:
        raise ValueError(f"invalid length {value} of a string")
    return value, position


def read_text(data: bytes, position: int, compact: bool) -> tuple[str | None, int]:
    """Return the string at `position`, and its end."""
    length, position = read_length(data, position, compact, text=True)
    return (None, position) if length < 0 else (TEXTS[data[position : position + length]], position + length)


def read_bytes(data: bytes, position: int, compact: bool) -> tuple[bytes | None, int]:
    """Return the bytes at `position`, and their end."""
    length, position = read_length(data, position, compact)
    return (None, position) if length < 0 else (data[position : position + length], position + length)


def read_ids(data: bytes, position: int, compact: bool) -> tuple[tuple[int, ...] | None, int]:
    """Return the array of int32 at `position`, and its end."""
    count, position = read_length(data, position, compact)
    if count < 0:
        return None, position
    end = position + 4 * count
    if end > len(data):
        raise ValueError("the frame ends inside a field")
    return IDS[data[position:end]], end


def read_longs(data: bytes, position: int, compact: bool) -> tuple[tuple[int, ...] | None, int]:
    """Return the array of int64 at `position`, and its end."""
    count, position = read_length(data, position, compact)
    if position + 8 * count > len(data):
        raise ValueError("the frame ends inside a field")
    return (None, position) if count < 0 else (struct.unpack_from(f">{count}q", data, position), position + 8 * count)


def read_view(data: bytes, position: int, compact: bool) -> tuple[memoryview | None, int]:
    """Return the bytes at `position` without a copy, and their end; used for records."""
    length, position = read_length(data, position, compact)
    if length > len(data) - position:
        raise ValueError("the frame ends inside a field")
    return (None, position) if length < 0 else (memoryview(data)[position : position + length], position + length)


def text_of_id(data: bytes) -> str:
    """Return an id as topic znodes contain it; NO_ID for the zero id. Raises ValueError for less than 16 bytes."""
    if len(data) != len(ZERO_ID):
        raise ValueError("the frame ends inside a field")
    return NO_ID if data == ZERO_ID else base64.urlsafe_b64encode(data)[:_ID_CHARACTERS].decode()


def id_of_text(text: str) -> bytes:
    """Return the bytes of an id, zero for NO_ID. Raises ValueError if the text is no id."""
    found = base64.urlsafe_b64decode(f"{text}==") if text else ZERO_ID
    if len(found) != len(ZERO_ID):
        raise ValueError(f"{text!r} is not a topic id")
    return found


def read_tags(data: bytes, position: int) -> tuple[dict[int, bytes], int]:
    """Return the tagged fields at `position` by their tags, and their end."""
    count, position = read_varint(data, position)
    found = {}
    for _ in range(count):
        tag, position = read_varint(data, position)
        size, position = read_varint(data, position)
        if position + size > len(data):
            raise ValueError("the frame ends inside a field")
        found[tag] = bytes(data[position : position + size])
        position += size
    return found, position


def skip_tags(data: bytes, position: int) -> int:
    """Return the end of the tagged fields at `position`, which are ignored."""
    count, position = read_varint(data, position)
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > len(data):
            raise ValueError("the frame ends inside a field")
    return position


# -------------------------------------------------------------------------------------------------------- writing


def varint(value: int) -> bytes:
    """Return `value`, which is not negative, as an unsigned varint."""
    if value < 0x80:
        return _SMALL[value]
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def length(count: int, compact: bool) -> bytes:
    """Encode `count` as the length of an array or of bytes."""
    return varint(count + 1) if compact else _INT32.pack(count)


def framed_text(value: str, compact: bool) -> bytes:
    """Return an encoded string, preceded by its length. Raises ValueError if it is too long or not valid Unicode."""
    data = value.encode()
    if len(data) > MAX_TEXT:
        raise ValueError(f"a string has {len(data)} bytes; the maximum is {MAX_TEXT}")
    return (varint(len(data) + 1) if compact else _INT16.pack(len(data))) + data


def framed_tags(fields: tuple[tuple[int, bytes], ...]) -> bytes:
    """Return encoded tagged fields; the argument has the tag and the bytes of each."""
    return varint(len(fields)) + b"".join([varint(tag) + varint(len(data)) + data for tag, data in fields])


def framed_bytes(value: bytes, compact: bool) -> bytes:
    """Return the bytes, preceded by their encoded length."""
    return length(len(value), compact) + value


def framed_ids(value: tuple[int, ...], compact: bool) -> bytes:
    """Return an encoded array of int32."""
    return length(len(value), compact) + struct.pack(f">{len(value)}i", *value)


def framed_longs(value: tuple[int, ...], compact: bool) -> bytes:
    """Return an encoded array of int64."""
    return length(len(value), compact) + struct.pack(f">{len(value)}q", *value)


def null(type: str, compact: bool) -> bytes:
    """Return the encoded length that means null; for a struct, the byte before it."""
    if type == "struct":
        return b"\xff"
    if compact:
        return b"\0"
    return b"\xff\xff" if type == "string" else b"\xff\xff\xff\xff"


_SMALL = [bytes((value,)) for value in range(0x80)]


# -------------------------------------------------------------------------------------------------------- shared values


class BoundedCache(dict[Any, Any]):
    """A cache of limited size, which computes missing values with `make`."""

    def __init__(self, make: Any, *arguments: object) -> None:
        super().__init__()
        self._make = make
        self._arguments = arguments

    def __missing__(self, key: Any) -> Any:
        value = self._make(key, *self._arguments)
        if len(key) <= LONGEST_KEPT:
            if len(self) >= MOST_KEPT:
                self.clear()
            self[key] = value
        return value


def _ids(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f">{len(data) // 4}i", data)


TEXTS = BoundedCache(bytes.decode)
"""Strings by their bytes."""
IDS = BoundedCache(_ids)
"""Tuples of int32 by their bytes."""
TOPIC_IDS = BoundedCache(text_of_id)
"""Texts of topic ids by their bytes."""
FRAMED_TEXTS = {compact: BoundedCache(framed_text, compact) for compact in (False, True)}
FRAMED_TOPIC_IDS = BoundedCache(id_of_text)
"""Bytes of topic ids by their texts."""
FRAMED_IDS = {compact: BoundedCache(framed_ids, compact) for compact in (False, True)}
"""Encoded strings and tuples of int32, as `framed_text` and `framed_ids` return them."""


# -------------------------------------------------------------------------------------------------------- rows


class FixedStructs:
    """A cache of `struct.Struct` objects: one for each combination of the lengths of a message's lists and strings.

    `parts` has the fields in order: a format for fields of fixed size (such as "iiii"), and "ids" or "text" for each
    variable field. A variable field is unpacked as two byte strings, its length and its content. A reader first unpacks
    a row with the previous row's struct. If the unpacked lengths differ from those of the struct, it calls `layout_at`.
    """

    def __init__(self, parts: tuple[str, ...], compact: bool) -> None:
        self._parts = parts
        self._compact = compact
        self._known: dict[tuple[bytes, ...], tuple[Any, int, tuple[bytes, ...]]] = {}
        self.guess = self._row(tuple(self._empty(part) for part in parts if part in _ELEMENTS))
        """The row with empty variable fields, as `layout_at` would return it."""

    def layout_at(self, data: bytes, position: int) -> tuple[Any, int, tuple[bytes, ...]]:
        """Return the struct's `unpack_from`, the size and the lengths of the row at `position`.

        The lengths are the encoded lengths of the row's variable fields. Raises ValueError if a field is null, or ends
        beyond the frame.
        """
        lengths = []
        for part in self._parts:
            if part in _ELEMENTS:
                count, end = read_length(data, position, self._compact, part == "text")
                if count < 0:
                    raise ValueError(f"{'a string' if part == 'text' else 'an array'} must not be null")
                lengths.append(data[position:end])
                position = end + count * _ELEMENTS[part]
            else:
                position += struct.calcsize(">" + part)
        if position > len(data):
            raise ValueError("the frame ends inside a field")
        found = tuple(lengths)
        return self._known.get(found) or self._row(found)

    def _row(self, lengths: tuple[bytes, ...]) -> tuple[Any, int, tuple[bytes, ...]]:
        form, given = ">", iter(lengths)
        for part in self._parts:
            if part in _ELEMENTS:
                declared = next(given)
                count, _ = read_length(declared, 0, self._compact, part == "text")
                form += f"{len(declared)}s{count * _ELEMENTS[part]}s"
            else:
                form += part
        layout = struct.Struct(form)
        if len(self._known) >= MOST_KEPT:
            self._known.clear()
        self._known[lengths] = layout.unpack_from, layout.size, lengths
        return self._known[lengths]

    def _empty(self, part: str) -> bytes:
        return framed_text("", self._compact) if part == "text" else length(0, self._compact)


_ELEMENTS = {"ids": 4, "text": 1}
"""Bytes of an element, by variable part."""
