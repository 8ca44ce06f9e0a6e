"""The public functions of this package, which convert between frames and messages.

Rule 1: a message's type determines the API. The layout of a request is determined by its `version`, and the layout of a
        response by the version in the request's header.
Rule 2: a flexible layout has request header v2 and response header v1. Any other layout has request header v1 and
        response header v0 (broker.md 6.3). Two exceptions: ControlledShutdown v0 has a request header without client
        id, and ApiVersions responses always have response header v0.
Rule 3: clients send ApiVersions before they know the supported versions. If the version of an ApiVersions request is
        unsupported, only the request's header is decoded. Responses with UNSUPPORTED_VERSION (35) are always written
        and read in the layout of version 0.
Rule 4: `encoding_...` and `decoding_...` return generators, so that other work can run between the steps of a large
        message (`compiler`, rule 4). Those that a broker uses return the result itself if the message has no steps.
        They accept or return the parts of a message (`messages.parts`). `encode_...` and `decode_...` execute all steps
        at once, and accept or return the whole message.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from messages.apis import API_BY_KEY, API_BY_REQUEST, BINDINGS
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.declaration import Api
from messages.apis.produce import TRANSACTIONAL_SINCE, ProduceRequest, ProduceResponse
from messages.errors import UNSUPPORTED_VERSION
from messages.flow.conversation import all_at_once
from messages.parts import MAX_ENTRIES, PARTED, Part, join_parts
from messages.vocabulary import AnyMessage, Message
from messages.wire.compiler import Reader, Result, Steps, Writer, compile_reader, compile_writer
from messages.wire.data_plane import (
    READERS,
    WRITERS,
    Data,
    Piece,
    read_produce_of_one,
    write_produced_of_one,
)
from messages.wire.error_free_responses import OF_PARTITIONS, without_errors
from messages.wire.errors import MalformedFrame, Unencodable, UnknownApi, UnsupportedVersion
from messages.wire.layout import Schema
from messages.wire.primitives import TEXTS, framed_text, skip_tags

MAX_OF_CLUSTER = 6 * MAX_ENTRIES
"""Maximum number of entries of a response, and of a controller's request: it may contain a whole cluster."""

_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18
_PRODUCE = API_BY_REQUEST[ProduceRequest].key
_PRODUCE_VERSIONS = range(TRANSACTIONAL_SINCE, API_BY_KEY[_PRODUCE].max_version + 1)

FEW_BYTES = 4096
"""Responses up to this size are one piece: several pieces cost more than copying so few bytes."""

_KEY_AND_VERSION = struct.Struct(">hh")
_HEADER_V0 = struct.Struct(">hhi")
_HEADER_V1 = struct.Struct(">hhih")
"""Header fields up to the length of the client id."""
_CLIENT_ID_AT = _HEADER_V1.size
_SIZE = _CORRELATION_ID = struct.Struct(">i")
_SIZE_AND_CORRELATION_ID = struct.Struct(">ii")
_NO_TAGS = b"\0"


class RequestHeader(NamedTuple):
    """The header of a request, in any header version; a null client id is read as ""."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


Decoded = tuple[RequestHeader, tuple[Part, ...], Message]


def encode_request(request: Message, correlation_id: int, client_id: str) -> bytes:
    """Return the frame of `request` in `request.version`, including its size.

    Raises:
        UnknownApi: The message is not a request.
        UnsupportedVersion: The API does not have this version.
        Unencodable: The request has a value that this version cannot encode. This exception is also a ValueError.
    """
    return b"".join(all_at_once(encoding_request(request, correlation_id, client_id)))


def decode_request(frame: Data) -> tuple[RequestHeader, Message]:
    """Decode a request's frame (without its size), and return the header and the message.

    An ApiVersions request in an unsupported version raises no error: the returned message has only its `version`.

    Raises:
        UnknownApi: The API key is unknown.
        UnsupportedVersion: The API does not have this version.
        MalformedFrame: The bytes do not match the layout.
    """
    steps = decoding_request(frame)
    header, parts, request = steps if isinstance(steps, tuple) else all_at_once(steps)
    return header, join_parts(parts, request)


def encode_response(header: RequestHeader, response: Message) -> bytes:
    """Return the frame of the response to the request with this header, including its size.

    Raises:
        UnknownApi: The API key is unknown.
        UnsupportedVersion: The API does not have this version.
        Unencodable: The message has a wrong type, or a value that this version cannot encode.
    """
    steps = encoding_response_pieces(header, response)
    pieces: tuple[Any, ...] = steps if isinstance(steps, tuple) else all_at_once(steps)
    return b"".join(pieces)


def decode_response(request: type | int, version: int, frame: Data) -> tuple[int, AnyMessage]:
    """Decode a response's frame (without its size), and return the correlation id and the message.

    Args:
        request: The type or the API key of the request.
        version: The version of the request.
        frame: The bytes.

    Raises:
        UnknownApi: The API is unknown.
        UnsupportedVersion: The API does not have this version.
        MalformedFrame: The bytes do not match the layout.
    """
    correlation_id, parts, response = all_at_once(decoding_response(request, version, frame))
    return correlation_id, join_parts(parts, response)


# -------------------------------------------------------------------------------------------------------- in steps


def encoding_request(
    request: AnyMessage, correlation_id: int, client_id: str, parts: Sequence[Part] = ()
) -> Steps[tuple[Data, ...]]:
    """Encode a request in steps; return the frame in pieces, because a large one is not sent at once.

    `parts` are the parts of a large request that were sent before `request` (`messages.parts`). The other arguments and
    the errors are those of `encode_request`.
    """
    api = API_BY_REQUEST.get(type(request))
    if api is None:
        raise UnknownApi(f"{type(request).__name__} is not a request")
    version = request.version
    _check_version(api, version)
    try:
        head = _HEADER_V0.pack(api.key, version, correlation_id)
        if not _lacks_client_id(api, version):
            head += framed_text(client_id, compact=False)
            if _request_schema(api).is_flexible(version):
                head += _NO_TAGS
        written = _request_writer(api, version)(request, parts)
        pieces = written if isinstance(written, list) else (yield from written)
    except UNENCODABLE as error:
        raise Unencodable(str(error), api.name, version) from error
    return (_SIZE.pack(len(head) + sum(map(len, pieces))) + head, *pieces)


def decoding_request(frame: Data) -> Steps[Decoded] | Decoded:
    """Decode a request and its parts: at once if it is small, else in steps. Errors as in `decode_request`."""
    if len(frame) < _KEY_AND_VERSION.size:
        raise MalformedFrame(f"a request of {len(frame)} bytes")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    if key == _PRODUCE and (produce := _produce_of_one(frame)) is not None:
        return produce
    api, _, in_place, has_client_id, has_tags, read = _reading(key, version)
    data: Any = frame if in_place else bytes(frame)
    try:
        header, position = _read_request_header(data, has_client_id, has_tags)
        if read is None:
            return header, (), ApiVersionsRequest(version)
        result = read(data, position)
    except UNREADABLE as error:
        raise _malformed_frame(error, api, version) from error
    if not isinstance(result, tuple):
        return _decoding_on(result, header, frame, api)
    parts, request, end = result
    _check_end(end, frame, api, version)
    return header, parts, request


def _decoding_on(steps: Steps[Result], header: RequestHeader, frame: Data, api: Api) -> Steps[Decoded]:
    try:
        parts, request, end = yield from steps
    except UNREADABLE as error:
        raise _malformed_frame(error, api, header.version) from error
    _check_end(end, frame, api, header.version)
    return header, parts, request


def encoding_response_pieces(
    header: RequestHeader, response: AnyMessage, parts: Sequence[Part] = ()
) -> Steps[tuple[Piece, ...]] | tuple[Piece, ...]:
    """Encode a response, at once if it is small, else in steps; return the frame in pieces.

    The body of record batches is a piece of its own, so that it is not copied. `parts` are the parts of a large
    response that were sent before `response` (`messages.parts`). The other arguments and the errors are those of
    `encode_response`.
    """
    key, version, correlation_id, _ = header
    api = API_BY_KEY.get(key) or _api(key, version)
    if response.__class__ is not api.response:
        raise Unencodable(f"{type(response).__name__} does not answer it", api.name, version)
    if key == _PRODUCE and version in _PRODUCE_VERSIONS and (frame := _produced_of_one(header, response)) is not None:
        return (frame,)
    if key == _API_VERSIONS and (response.error_code == UNSUPPORTED_VERSION or not _has_version(api, version)):
        version = 0
    has_tags, write = _writing(key, version)
    try:
        pieces = write(response, parts)
        if not isinstance(pieces, list):
            return _encoding_on(pieces, correlation_id, has_tags, api, version)
        return _frame_response(pieces, correlation_id, has_tags)
    except UNENCODABLE as error:
        raise Unencodable(str(error), api.name, version) from error


def _encoding_on(
    steps: Steps[Sequence[Piece]], correlation_id: int, has_tags: bool, api: Api, version: int
) -> Steps[tuple[Piece, ...]]:
    try:
        return _frame_response((yield from steps), correlation_id, has_tags)
    except UNENCODABLE as error:
        raise Unencodable(str(error), api.name, version) from error


def _frame_response(pieces: Sequence[Any], correlation_id: int, has_tags: bool) -> tuple[Piece, ...]:
    """Return a response's frame; it is one piece if it is small."""
    size = _CORRELATION_ID.size + has_tags + sum(map(len, pieces))
    head = _SIZE_AND_CORRELATION_ID.pack(size, correlation_id)
    if has_tags:
        head += _NO_TAGS
    return (b"".join((head, *pieces)),) if size <= FEW_BYTES else (head, *pieces)


def decoding_response(
    request: type | int, version: int, frame: Data, terse: bool = False
) -> Steps[tuple[int, tuple[Part, ...], AnyMessage]]:
    """Decode a response in steps and in parts. Arguments and errors as in `decode_response`.

    Args:
        terse: Whether a NoErrorsPart may replace parts without errors.
    """
    api = _api(request, version)
    if api.key != _API_VERSIONS:
        _check_version(api, version)
    data: Any = frame if api.response in READERS else bytes(frame)
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        position = _CORRELATION_ID.size
        if _flexible_response_header(api, version):
            position = skip_tags(data, position)
        if api.key == _API_VERSIONS and _error_code(data, position) == UNSUPPORTED_VERSION:
            version = 0
        _check_version(api, version)
        read: Result | None = None
        if terse and api.response in OF_PARTITIONS:
            read = yield from without_errors(api.response, _response_schema(api).layout(version), data, position)
        if read is None:
            result = _response_reader(api, version)(data, position)
            read = result if isinstance(result, tuple) else (yield from result)
        parts, response, end = read
    except UNREADABLE as error:
        raise _malformed_frame(error, api, version) from error
    _check_end(end, frame, api, version)
    return correlation_id, parts, response


def _produce_of_one(frame: Data) -> Decoded | None:
    """Decode a Produce request for one partition in one step; return None for other or damaged requests."""
    try:
        key, version, correlation_id, length = _HEADER_V1.unpack_from(frame)
        if key != _PRODUCE or version not in _PRODUCE_VERSIONS:
            return None
        end = _CLIENT_ID_AT + max(length, 0)
        request = read_produce_of_one(version, frame, end)
        client_id = TEXTS[bytes(frame[_CLIENT_ID_AT:end])]
    except UNREADABLE:
        return None
    return None if request is None else (RequestHeader(key, version, correlation_id, client_id), (), request)


def _produced_of_one(header: RequestHeader, response: ProduceResponse) -> bytes | None:
    """Encode a response to Produce for one partition in one step; None for other or unencodable responses."""
    try:
        return write_produced_of_one(header.version, header.correlation_id, response)
    except UNENCODABLE:
        return None


UNENCODABLE = (ValueError, TypeError, AttributeError, OverflowError, struct.error)
UNREADABLE = (ValueError, IndexError, struct.error)


def _malformed_frame(error: Exception, api: Api, version: int) -> MalformedFrame:
    reason = str(error) if isinstance(error, ValueError) else "the message ends before its last field"
    return MalformedFrame(reason, api.name, version)


def _check_end(end: int, frame: Data, api: Api, version: int) -> None:
    if end > len(frame):
        raise MalformedFrame("the message ends in the middle of a field", api.name, version)


# -------------------------------------------------------------------------------------------------------- layouts


@functools.cache
def _request_schema(api: Api) -> Schema:
    return Schema(f"{api.name}Request")


@functools.cache
def _response_schema(api: Api) -> Schema:
    return Schema(f"{api.name}Response")


@functools.cache
def _request_reader(api: Api, version: int) -> Reader:
    if api.request in READERS:
        return READERS[api.request](version)
    most = MAX_OF_CLUSTER if api.request in PARTED else MAX_ENTRIES
    return compile_reader(api.request, _request_schema(api).layout(version), version, BINDINGS, most)


@functools.cache
def _request_writer(api: Api, version: int) -> Writer:
    if api.request in WRITERS:
        return WRITERS[api.request](version)
    return compile_writer(api.request, _request_schema(api).layout(version), version, BINDINGS)


@functools.cache
def _response_reader(api: Api, version: int) -> Reader:
    if api.response in READERS:
        return READERS[api.response](version)
    return compile_reader(api.response, _response_schema(api).layout(version), version, BINDINGS, MAX_OF_CLUSTER)


@functools.cache
def _response_writer(api: Api, version: int) -> Writer:
    if api.response in WRITERS:
        return WRITERS[api.response](version)
    return compile_writer(api.response, _response_schema(api).layout(version), version, BINDINGS)


class _RequestReading(NamedTuple):
    """How a request of one API and version is decoded; `read` is None if only its header is decoded."""

    api: Api
    version: int
    in_place: bool
    has_client_id: bool
    has_tags: bool
    read: Reader | None


@functools.lru_cache(maxsize=256)
def _reading(key: int, version: int) -> _RequestReading:
    api = _api(key, version)
    read = None
    if key != _API_VERSIONS or _has_version(api, version):
        _check_version(api, version)
        read = _request_reader(api, version)
    has_tags = _request_schema(api).is_flexible(version)
    return _RequestReading(api, version, api.request in READERS, not _lacks_client_id(api, version), has_tags, read)


@functools.cache
def _writing(key: int, version: int) -> tuple[bool, Writer]:
    """Return whether responses in this version have tags in their header, and the function that writes their body."""
    api = API_BY_KEY[key]
    _check_version(api, version)
    return _flexible_response_header(api, version), _response_writer(api, version)


def _api(request: type | int, version: int) -> Api:
    api = API_BY_KEY.get(request) if isinstance(request, int) else API_BY_REQUEST.get(request)
    if api is None:
        name = f"API {request}" if isinstance(request, int) else request.__name__
        raise UnknownApi("this API is not supported", name, version)
    return api


def _has_version(api: Api, version: int) -> bool:
    return api.min_version <= version <= api.max_version


def _check_version(api: Api, version: int) -> None:
    if not _has_version(api, version):
        known = f"versions {api.min_version} to {api.max_version} are known"
        raise UnsupportedVersion(known, api.name, version)


# -------------------------------------------------------------------------------------------------------- headers


def _lacks_client_id(api: Api, version: int) -> bool:
    return api.key == _CONTROLLED_SHUTDOWN and version == 0


def _read_request_header(frame: Any, has_client_id: bool, has_tags: bool) -> tuple[RequestHeader, int]:
    if not has_client_id:
        key, version, correlation_id = _HEADER_V0.unpack_from(frame)
        return RequestHeader(key, version, correlation_id, ""), _HEADER_V0.size
    key, version, correlation_id, length = _HEADER_V1.unpack_from(frame)
    end = _CLIENT_ID_AT + length if length > 0 else _CLIENT_ID_AT
    client_id = TEXTS[bytes(frame[_CLIENT_ID_AT:end])]
    # the class's own constructor is a Python function, which takes as long as the rest of these lines
    header = tuple.__new__(RequestHeader, (key, version, correlation_id, client_id))
    return header, skip_tags(frame, end) if has_tags else end


def _flexible_response_header(api: Api, version: int) -> bool:
    return api.key != _API_VERSIONS and _response_schema(api).is_flexible(version)


def _error_code(frame: bytes, position: int) -> int:
    return int.from_bytes(frame[position : position + 2], "big", signed=True)
