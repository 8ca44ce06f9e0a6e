"""Between frames and messages: what everybody outside this package uses.

Rule 1: a message's type says the API, its `version` (a response's: the request header's) the layout.
Rule 2: headers follow the layout: request header v2 and response header v1 where it is flexible, else v1 and v0
        (broker.md 6.3). Two exceptions: ControlledShutdown v0 has a request header without client id, and ApiVersions
        responses always have response header v0.
Rule 3: ApiVersions is how strangers meet, so a request of it in a version that we do not know is read as far as its
        header, and UNSUPPORTED_VERSION (35) always goes out, and is read, in the layout of version 0.
Rule 4: everything is done in steps, so that a large message can be worked on between other things (`compiler`, rule 4);
        `encode_...` and `decode_...` take all steps at once, and know of no parts.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from messages.apis import API_BY_KEY, API_BY_REQUEST, Api
from messages.errors import UNSUPPORTED_VERSION
from messages.parts import MAX_ENTRIES, Part, joined
from messages.requests import ApiVersionsRequest
from messages.vocabulary import Message
from messages.wire.bindings import BINDINGS
from messages.wire.compiler import Steps, T, compile_reader, compile_writer
from messages.wire.data_plane import READERS, WRITERS, Data
from messages.wire.errors import MalformedFrame, Unencodable, UnknownApi, UnsupportedVersion
from messages.wire.frame import framed
from messages.wire.layout import Schema
from messages.wire.primitives import TEXTS, framed_text, skip_tags

MAX_ANSWER_ENTRIES = 4 * MAX_ENTRIES
"""Entries that a response may have: we asked for it, and all of a cluster may be in it."""

_CONTROLLED_SHUTDOWN = 7
_API_VERSIONS = 18

_KEY_AND_VERSION = struct.Struct(">hh")
_HEADER_V0 = struct.Struct(">hhi")
_SHORT = struct.Struct(">h")
_SIZE = struct.Struct(">i")
_CORRELATION_ID = struct.Struct(">i")
_NO_TAGS = b"\0"


class RequestHeader(NamedTuple):
    """A request's header, whatever its own version; a null client id reads as ""."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


def all_at_once(steps: Steps[T]) -> T:
    """Take all steps; their result."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


def encode_request(request: Message, correlation_id: int, client_id: str) -> bytes:
    """The whole frame of `request` in `request.version`, size included.

    Raises UnknownApi if it is no request, UnsupportedVersion, or Unencodable (also a ValueError) if that version has
    no bytes for what the request says.
    """
    return all_at_once(encoding_request(request, correlation_id, client_id))


def decode_request(frame: bytes) -> tuple[RequestHeader, Message]:
    """Header and message of a request's frame (without its size).

    An ApiVersions request beyond the known versions comes back with that version and nothing else. Raises UnknownApi,
    UnsupportedVersion, MalformedFrame.
    """
    header, parts, request = all_at_once(decoding_request(frame))
    return header, joined(parts, request)


def encode_response(header: RequestHeader, response: Message) -> bytes:
    """The whole frame of the answer to the request that `header` came with, size included.

    Raises UnknownApi, UnsupportedVersion, or Unencodable if the message does not answer that API or has no bytes.
    """
    return all_at_once(encoding_response(header, response))


def decode_response(request: type | int, version: int, frame: Data) -> tuple[int, Message]:
    """Correlation id and message of a response's frame (without its size).

    `request` is the type or the API key of the request that it answers, `version` that request's version. Raises
    UnknownApi, UnsupportedVersion, MalformedFrame.
    """
    correlation_id, parts, response = all_at_once(decoding_response(request, version, frame))
    return correlation_id, joined(parts, response)


# -------------------------------------------------------------------------------------------------------- in steps


def encoding_request(request: Message, correlation_id: int, client_id: str, parts: Sequence[Part] = ()) -> Steps[bytes]:
    """`encode_request` in steps, with the parts that go ahead of the request."""
    api = API_BY_REQUEST.get(type(request))
    if api is None:
        raise UnknownApi(f"{type(request).__name__} is no request")
    version = request.version
    _check_version(api, version)
    try:
        head = _HEADER_V0.pack(api.key, version, correlation_id)
        if not _lacks_client_id(api, version):
            head += framed_text(client_id, compact=False)
            if _request_schema(api).is_flexible(version):
                head += _NO_TAGS
        pieces = yield from _request_writer(api, version)(request, parts)
    except _UNENCODABLE as error:
        raise Unencodable(str(error), api.name, version) from error
    return framed(head, *pieces)


def decoding_request(frame: Data) -> Steps[tuple[RequestHeader, tuple[Part, ...], Message]]:
    """`decode_request` in steps and in parts. Nothing of the request is to be had before the last step."""
    if len(frame) < _KEY_AND_VERSION.size:
        raise MalformedFrame(f"a request of {len(frame)} bytes")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    api = API_BY_KEY.get(key)
    if api is None:
        raise UnknownApi("no such API here", f"API {key}", version)
    stranger = key == _API_VERSIONS and not _has_version(api, version)
    if not stranger:
        _check_version(api, version)
    data: Any = frame if api.request in READERS else bytes(frame)
    try:
        header, position = _read_request_header(api, version, data)
        if stranger:
            return header, (), ApiVersionsRequest(version)
        parts, request, end = yield from _request_reader(api, version)(data, position)
    except _UNREADABLE as error:
        raise _malformed(error, api, version) from error
    _check_end(end, frame, api, version)
    return header, parts, request


def encoding_response(header: RequestHeader, response: Message, parts: Sequence[Part] = ()) -> Steps[bytes]:
    """`encode_response` in steps, with the parts that go ahead of the response."""
    return b"".join((yield from encoding_response_pieces(header, response, parts)))


def encoding_response_pieces(
    header: RequestHeader, response: Message, parts: Sequence[Part] = ()
) -> Steps[Sequence[Data]]:
    """The whole frame in pieces, in steps: bodies of record batches are pieces of their own, not copied."""
    api = _api(header.api_key, header.version)
    version = header.version
    if type(response) is not api.response:
        raise Unencodable(f"{type(response).__name__} does not answer it", api.name, version)
    if api.key == _API_VERSIONS and (response.error_code == UNSUPPORTED_VERSION or not _has_version(api, version)):
        version = 0
    _check_version(api, version)
    try:
        head = _CORRELATION_ID.pack(header.correlation_id)
        if _flexible_response_header(api, version):
            head += _NO_TAGS
        pieces = yield from _response_writer(api, version)(response, parts)
    except _UNENCODABLE as error:
        raise Unencodable(str(error), api.name, version) from error
    return [_SIZE.pack(len(head) + sum(map(len, pieces))), head, *pieces]


def decoding_response(request: type | int, version: int, frame: Data) -> Steps[tuple[int, tuple[Part, ...], Message]]:
    """`decode_response` in steps and in parts."""
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
        parts, response, end = yield from _response_reader(api, version)(data, position)
    except _UNREADABLE as error:
        raise _malformed(error, api, version) from error
    _check_end(end, frame, api, version)
    return correlation_id, parts, response


_UNENCODABLE = (ValueError, TypeError, AttributeError, OverflowError, struct.error)
_UNREADABLE = (ValueError, IndexError, struct.error)


def _malformed(error: Exception, api: Api, version: int) -> MalformedFrame:
    said = str(error) if isinstance(error, ValueError) else "the frame ends too early"
    return MalformedFrame(said, api.name, version)


def _check_end(end: int, frame: Data, api: Api, version: int) -> None:
    if end > len(frame):
        raise MalformedFrame("the frame ends inside a field", api.name, version)


# -------------------------------------------------------------------------------------------------------- layouts


@functools.cache
def _request_schema(api: Api) -> Schema:
    return Schema(f"{api.name}Request")


@functools.cache
def _response_schema(api: Api) -> Schema:
    return Schema(f"{api.name}Response")


@functools.cache
def _request_reader(api: Api, version: int) -> Callable[[Any, int], Steps[tuple[tuple[Any, ...], Any, int]]]:
    if api.request in READERS:
        return READERS[api.request](version)
    return compile_reader(api.request, _request_schema(api).layout(version), version, BINDINGS, MAX_ENTRIES)


@functools.cache
def _request_writer(api: Api, version: int) -> Callable[[Any, Sequence[Part]], Steps[Sequence[Data]]]:
    if api.request in WRITERS:
        return WRITERS[api.request](version)
    return compile_writer(api.request, _request_schema(api).layout(version), version, BINDINGS)


@functools.cache
def _response_reader(api: Api, version: int) -> Callable[[Any, int], Steps[tuple[tuple[Any, ...], Any, int]]]:
    if api.response in READERS:
        return READERS[api.response](version)
    return compile_reader(api.response, _response_schema(api).layout(version), version, BINDINGS, MAX_ANSWER_ENTRIES)


@functools.cache
def _response_writer(api: Api, version: int) -> Callable[[Any, Sequence[Part]], Steps[Sequence[Data]]]:
    if api.response in WRITERS:
        return WRITERS[api.response](version)
    return compile_writer(api.response, _response_schema(api).layout(version), version, BINDINGS)


def _api(request: type | int, version: int) -> Api:
    api = API_BY_KEY.get(request) if isinstance(request, int) else API_BY_REQUEST.get(request)
    if api is None:
        name = f"API {request}" if isinstance(request, int) else request.__name__
        raise UnknownApi("no such API here", name, version)
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


def _read_request_header(api: Api, version: int, frame: Any) -> tuple[RequestHeader, int]:
    _, _, correlation_id = _HEADER_V0.unpack_from(frame)
    position, client_id = _HEADER_V0.size, ""
    if not _lacks_client_id(api, version):
        (length,) = _SHORT.unpack_from(frame, position)
        position, end = position + _SHORT.size, position + _SHORT.size + max(length, 0)
        client_id, position = TEXTS[bytes(frame[position:end])], end
        if _request_schema(api).is_flexible(version):
            position = skip_tags(frame, position)
    return RequestHeader(api.key, version, correlation_id, client_id), position


def _flexible_response_header(api: Api, version: int) -> bool:
    return api.key != _API_VERSIONS and _response_schema(api).is_flexible(version)


def _error_code(frame: bytes, position: int) -> int:
    return int.from_bytes(frame[position : position + 2], "big", signed=True)
