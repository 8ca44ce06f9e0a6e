"""Generate request frames of every API and version, with extreme values and mutations.

The layouts are those of `messages.wire`. All choices use one `random.Random`, so that a seed determines the sequence of
frames.
"""

from __future__ import annotations

import struct
import uuid
from random import Random

from messages.apis import APIS
from messages.wire.layout import Field, Layout, Schema
from messages.wire.primitives import varint
from tests.storage.batches import batch, with_header

EVERY_VERSION = [(api, version) for api in APIS for version in range(api.min_version, api.max_version + 1)]
SCHEMAS = {api.key: Schema(f"{api.name}Request") for api in APIS}

TOPICS = ("t", "t", "t", "u", "__consumer_offsets")
"""Topics of the attacked node. A repeated name is chosen more often."""
DESTRUCTIVE = frozenset((4, 5, 6, 7, 20))
"""Controller requests, ControlledShutdown and DeleteTopics.

Well-formed requests of these APIs do not name the node's topics, so that the topics continue to exist.
"""
TEXTS = (
    *(
        "",
        "g",
        "0",
        "1",
        "consumer",
        "range",
        "retention.ms",
        "cleanup.policy",
        "PLAINTEXT",
        "127.0.0.1",
        "é\U0001f600",
    ),
    *("x" * 249, "x" * 250, "y" * 30_000, "..", "a/b", "a\0b", "a\x1b[2Jb", "-1", "9" * 400, "\u2028", "%s%n{}"),
    "n\n[2026-01-01 00:00:00,000] ERROR forged (kafka.controller)",
)
WIDTHS = {"int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d"}
SMALL = (0, 0, 0, 1, 1, 2, 3, 5, 100, -1, -1, -2)
FORMAT = struct.Struct


def extremes(type: str) -> tuple[int, ...]:
    """Return values at both ends and in the middle of an integer type's range; 0, 1 and -1 for float64."""
    if type == "float64":
        return (0, 1, -1)
    bits = 8 * struct.calcsize(WIDTHS[type]) - (not type.startswith("u"))
    least = 0 if type.startswith("u") else -(1 << bits)
    return (least, least + 1, (1 << bits) - 1, (1 << bits) - 2, (1 << bits) // 2)


BATCHES = (
    batch(b"value"),
    batch(b"a", b"b", b"c", producer=1, epoch=0, sequence=0),
    batch(b"late", timestamp=2**62),
    with_header(batch(b"x"), last_offset_delta=2**31 - 1),
    with_header(batch(b"x"), producer_id=2**63 - 1, producer_epoch=2**15 - 1, base_sequence=2**31 - 1),
    with_header(batch(b"x"), first_timestamp=-(2**63), max_timestamp=2**63 - 1),
    batch(b"x")[:-1],
    b"",
    bytes(61),
)


class Frames:
    """A generator of random frames."""

    def __init__(self, random: Random, wait_ms: int | None = None) -> None:
        self._random = random
        self._wait_ms = wait_ms
        """Maximum value of fields that contain a waiting time; None for no maximum."""
        self._correlation_id = self._key = 0

    def next(self, share_mutated: float = 0.5) -> tuple[int, int, int, bytes]:
        """Return the API key, version, correlation id and bytes of the next frame.

        A mutation may change the API key and version in the bytes, also to values of no API.
        """
        random = self._random
        api, version = random.choice(EVERY_VERSION)
        self._correlation_id += 1
        frame = self.request(api.key, version, self._correlation_id)
        if random.random() < share_mutated:
            frame = self.mutated(frame)
        return api.key, version, self._correlation_id, struct.pack(">i", len(frame)) + frame

    def request(self, key: int, version: int, correlation_id: int) -> bytes:
        """Return a well-formed request, without its size."""
        schema, self._key = SCHEMAS[key], key
        head = struct.pack(">hhi", key, version, correlation_id)
        if (key, version) != (7, 0):
            client = self._text(nullable=True)
            head += struct.pack(">h", -1) if client is None else struct.pack(">h", len(client)) + client
        if schema.is_flexible(version):
            head += b"\0"
        return head + self._struct(schema.layout(version).fields, schema.layout(version))

    def _struct(self, fields: tuple[Field, ...], layout: Layout) -> bytes:
        body = b"".join(self._field(field, layout) for field in fields if field.present)
        return body + (b"\0" if layout.flexible else b"")

    def _field(self, field: Field, layout: Layout) -> bytes:
        if not field.array:
            return self._value(field, layout)
        if field.nullable and self._random.random() < 0.1:
            return b"\0" if layout.flexible else struct.pack(">i", -1)
        count = self._random.choice((0, 1, 1, 1, 2, 3))
        items = b"".join(self._value(field._replace(nullable=False), layout) for _ in range(count))
        return (varint(count + 1) if layout.flexible else struct.pack(">i", count)) + items

    def _value(self, field: Field, layout: Layout) -> bytes:
        random = self._random
        match field.type:
            case "struct":
                return self._struct(field.fields, layout)
            case "bool":
                return bytes([random.choice((0, 1))])
            case "uuid":
                return random.choice((bytes(16), uuid.UUID(int=random.getrandbits(128)).bytes))
            case "string":
                text = self._text(field.nullable, "topic" in field.name or field.name == "name")
                return self._sized(text, layout.flexible, ">h")
            case "bytes" | "records":
                data = None if field.nullable and random.random() < 0.1 else random.choice(BATCHES)
                return self._sized(data, layout.flexible, ">i")
        value = random.choice(SMALL if random.random() < 0.7 else extremes(field.type))
        if self._wait_ms is not None and field.name in ("max_wait_ms", "timeout_ms", "rebalance_timeout_ms"):
            value = min(value, self._wait_ms)
        if field.type.startswith("u"):
            value = abs(value)
        return struct.pack(">" + WIDTHS[field.type], value)

    def _sized(self, data: bytes | None, compact: bool, length: str) -> bytes:
        if data is None:
            return b"\0" if compact else struct.pack(length, -1)
        return (varint(len(data) + 1) if compact else struct.pack(length, len(data))) + data

    def _text(self, nullable: bool, topic: bool = False) -> bytes | None:
        random = self._random
        if nullable and random.random() < 0.1:
            return None
        names = TOPICS if topic and self._key not in DESTRUCTIVE and random.random() < 0.7 else TEXTS
        return random.choice(names).encode()

    def mutated(self, frame: bytes) -> bytes:
        """Return a frame in which a few bytes are changed, inserted or deleted."""
        random, data = self._random, bytearray(frame)
        for _ in range(random.choice((1, 1, 1, 2, 4))):
            at = random.randrange(len(data) + 1)
            match random.randrange(6):
                case 0:
                    del data[at:]
                case 1:
                    data[at:at] = random.randbytes(random.choice((1, 2, 8, 100)))
                case 2:
                    del data[at : at + random.choice((1, 2, 4, 8))]
                case 3:
                    type = random.choice(("int8", "int16", "int32", "int64"))
                    data[at : at + struct.calcsize(WIDTHS[type])] = struct.pack(
                        ">" + WIDTHS[type], random.choice(extremes(type))
                    )
                case 4 if at < len(data):
                    data[at] ^= 1 << random.randrange(8)
                case _:
                    data[0 : min(4, len(data))] = struct.pack(">hh", random.randrange(70), random.randrange(16))
        return bytes(data)
