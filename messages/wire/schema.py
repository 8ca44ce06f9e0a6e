"""Layouts: what the fields of a request or response are in each version, and how they become bytes.

The engine is kafka-python's `kafka.protocol`: it compiles Apache's message JSON into encoders and decoders, one per
version. This is the only module that knows it, and `Wire` the only untyped value that leaves it (broker.md 8.4).

Rule 1: kafka-python keeps one response class per API key for its own client. Layouts it ships are used as they are;
        only those of the broker-to-broker APIs, which its client never speaks, are defined here (from `schemas/`).
Rule 2: its decoders trust their peer: a varint may be endless, a tag costs a copy of the rest of the frame, a count
        below -1 is an empty array, and a string may end beyond the frame. `_Decoder` bounds the first two and reads
        every negative count as null, as Apache does; `Schema.decode` compares where it ended with where the frame
        does. Large counts need no bound: elements are read one by one, and none is smaller than a byte.
Rule 3: unknown tags and trailing bytes are ignored, as Apache Kafka does (broker.md 6.3).
"""

from __future__ import annotations

import functools
import operator
import struct
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka.protocol.api_header import RequestHeader, ResponseHeader
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest, MetadataResponse
from kafka.protocol.schemas.fields.codegen import CodegenContext

Wire = Any
"""A decoded struct of the engine: one attribute per field, the schema's default where the version lacks the field."""


class _Rest:
    """The rest of a frame as the engine's tag decoder reads it: in place, and never past the end."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._start = self._position = position

    def read(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise ValueError("the frame ends inside a field")
        taken = bytes(self._data[self._position : end])
        self._position = end
        return taken

    def tell(self) -> int:
        return self._position - self._start


class _Decoder(CodegenContext):
    """The engine's generated decoder, with its trust in the peer taken out as the lines are written (rule 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.globs["_Rest"] = _Rest

    def emit(self, indent: str, line: str) -> None:
        line = line.replace("_BytesIO(bytes(data[pos:]))", "_Rest(data, pos)").replace(" == -1:", " < 0:")
        super().emit(indent, line)
        if line.endswith(" += 7"):
            shift = line.split()[0]
            super().emit(indent, f"    if {shift} > 28: raise ValueError('a varint of more than five bytes')")


class Schema:
    """The layouts of one request or response, for all its versions."""

    def __init__(self, engine_class: Any) -> None:
        self._class = engine_class
        self._decoders: dict[int, Callable[[bytes, int], tuple[Wire, int]]] = {}

    def is_flexible(self, version: int) -> bool:
        """Whether `version` has compact fields and tags (also for versions beyond the known ones)."""
        return bool(self._class.flexible_version_q(version))

    @functools.cache  # noqa: B019 - schemas live as long as the process
    def columns(self, version: int, *path: str) -> tuple[str, ...]:
        """Names of the fields, in order, of the struct that is reached by `path`; tagged fields are not counted."""
        field = self._class._struct
        for name in path:
            field = field.fields[name]
        return tuple(column.name for column in field.untagged_fields(version))

    @functools.cache  # noqa: B019
    def row(
        self, version: int, path: tuple[str, ...], renamed: tuple[tuple[str, str], ...] = ()
    ) -> Callable[[Any], Any]:
        """A function from a value to the tuple that the struct at `path` is encoded from.

        A column is the value's attribute of that name, or the one that `renamed` gives for it.
        """
        attributes = dict(renamed)
        return operator.attrgetter(*(attributes.get(name, name) for name in self.columns(version, *path)))

    def encode(self, version: int, fields: Mapping[str, object]) -> bytes:
        """The body's bytes. `fields` may be more than the version has; structs inside arrays are tuples by column.

        Raises ValueError for a value that its field cannot hold.
        """
        try:
            return bytes(self._class(version=version, **fields).encode())
        except (struct.error, TypeError, OverflowError) as error:
            raise ValueError(str(error)) from error

    def decode(self, version: int, frame: bytes, position: int) -> Wire:
        """The body that starts at `position` of `frame`. Raises ValueError if the bytes are not one."""
        decode = self._decoders.get(version)
        if decode is None:
            decode = self._decoders[version] = self._compile(version)
        try:
            body, end = decode(frame, position)
        except (struct.error, IndexError) as error:
            raise ValueError("the frame ends too early") from error
        except AssertionError as error:
            raise ValueError("tags where none are allowed") from error
        if end > len(frame):
            raise ValueError("the frame ends inside a field")
        return body

    def _compile(self, version: int) -> Callable[[bytes, int], tuple[Wire, int]]:
        code = _Decoder()
        code.emit("", "def decode(data, pos):")
        flexible = self.is_flexible(version)
        layout = self._class._struct
        layout._data_class, weak_class = self._class, layout._data_class  # a weak proxy there cannot make instances
        try:
            layout.emit_decode_from(code, "obj", "    ", version=version, compact=flexible, tagged=flexible)
        finally:
            layout._data_class = weak_class
        code.emit("    ", "return obj, pos")
        exec(compile(code.source(), f"<{self._class.__name__} v{version}>", "exec"), code.globs)
        decoder: Callable[[bytes, int], tuple[Wire, int]] = code.globs["decode"]
        return decoder


def encode_request_header(api_key: int, version: int, correlation_id: int, client_id: str, flexible: bool) -> bytes:
    """Request header v2 if `flexible`, else v1. Raises ValueError for numbers or texts that do not fit."""
    header = RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return _encode_header(header, flexible)


def encode_response_header(correlation_id: int, flexible: bool) -> bytes:
    """Response header v1 if `flexible`, else v0. Raises ValueError for a number that does not fit."""
    return _encode_header(ResponseHeader(correlation_id=correlation_id), flexible)


def _encode_header(header: Any, flexible: bool) -> bytes:
    try:
        return bytes(header.encode(flexible=flexible))
    except struct.error as error:
        raise ValueError(str(error)) from error


def decode_request_header(frame: bytes, flexible: bool) -> tuple[Wire, int]:
    """Request header v2 or v1 and where the body starts. Raises ValueError if the bytes are not one."""
    return _decode_header(RequestHeader, frame, flexible)


def decode_response_header(frame: bytes, flexible: bool) -> tuple[Wire, int]:
    """Response header v1 or v0 and where the body starts. Raises ValueError if the bytes are not one."""
    return _decode_header(ResponseHeader, frame, flexible)


def _decode_header(kind: Any, frame: bytes, flexible: bool) -> tuple[Wire, int]:
    rest = _Rest(frame, 0)
    return kind.decode(rest, flexible=flexible), rest.tell()


def present(value: Any) -> Any:
    """`value`, which the layout does not allow to be null. Raises ValueError if it is."""
    if value is None:
        raise ValueError("null where a value is due")
    return value


def read_states(body: Any, by_topic: bool, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    """`read(topic, state)` of all partition states of a request: grouped by topic, or flat with a topic in each."""
    if not by_topic:
        return tuple([read(present(state.topic_name), state) for state in present(body.ungrouped_partition_states)])
    states = []
    for topic in present(body.topic_states):
        name = present(topic.topic_name)
        states += [read(name, state) for state in present(topic.partition_states)]
    return tuple(states)


def grouped(states: Iterable[Any], row: Callable[[Any], Any]) -> dict[str, list[Any]]:
    """Rows of `states` by topic, topics in the order in which they were first seen."""
    topics: dict[str, list[Any]] = {}
    for state in states:
        topics.setdefault(state.partition.topic, []).append(row(state))
    return topics


def _own(name: str) -> Schema:
    """The layouts in `schemas/<name>.json`, as an engine class like those that kafka-python ships."""
    return Schema(types.new_class(name, (ApiMessage,), {"load_json": "messages.wire.schemas"}))


LEADER_AND_ISR_REQUEST = _own("LeaderAndIsrRequest")
LEADER_AND_ISR_RESPONSE = _own("LeaderAndIsrResponse")
STOP_REPLICA_REQUEST = _own("StopReplicaRequest")
STOP_REPLICA_RESPONSE = _own("StopReplicaResponse")
UPDATE_METADATA_REQUEST = _own("UpdateMetadataRequest")
UPDATE_METADATA_RESPONSE = _own("UpdateMetadataResponse")
CONTROLLED_SHUTDOWN_REQUEST = _own("ControlledShutdownRequest")
CONTROLLED_SHUTDOWN_RESPONSE = _own("ControlledShutdownResponse")
METADATA_REQUEST = Schema(MetadataRequest)
METADATA_RESPONSE = Schema(MetadataResponse)
API_VERSIONS_REQUEST = Schema(ApiVersionsRequest)
API_VERSIONS_RESPONSE = Schema(ApiVersionsResponse)
