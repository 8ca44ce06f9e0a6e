"""Between frames and messages: the four functions that everybody outside this package uses.

Rule 1: a message's type says the API, its `version` (a response's: the request header's) the layout.
Rule 2: headers follow the layout: request header v2 and response header v1 where it is flexible, else v1 and v0
        (broker.md 6.3). Two exceptions: ControlledShutdown v0 has a request header without client id, and ApiVersions
        responses always have response header v0.
Rule 3: ApiVersions is how strangers meet, so a request of it in a version that we do not know is read as far as its
        header, and UNSUPPORTED_VERSION (35) always goes out, and is read, in the layout of version 0.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from messages.requests import ApiVersionRange, ApiVersionsRequest
from messages.vocabulary import Message
from messages.wire.api import Api
from messages.wire.api_versions import API_VERSIONS
from messages.wire.controlled_shutdown import CONTROLLED_SHUTDOWN
from messages.wire.errors import MalformedFrame, Unencodable, UnknownApi, UnsupportedVersion
from messages.wire.frame import framed
from messages.wire.leader_and_isr import LEADER_AND_ISR
from messages.wire.metadata import METADATA
from messages.wire.schema import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
    encode_response_header,
)
from messages.wire.stop_replica import STOP_REPLICA
from messages.wire.update_metadata import UPDATE_METADATA

UNSUPPORTED_VERSION = 35
"""Kafka's error code for an ApiVersions request in a version that the node does not know."""

SUPPORTED: dict[int, Api[Any, Any]] = {
    api.key: api for api in (METADATA, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, API_VERSIONS)
}
"""Every API that can be read and written, by key; `name`, `min_version` and `max_version` tell the rest."""

ADVERTISED: tuple[ApiVersionRange, ...] = tuple(
    ApiVersionRange(api.key, api.min_version, api.max_version) for api in (METADATA, API_VERSIONS)
)
"""What clients may be told of. The broker-to-broker APIs are never advertised: their versions are fixed by the
configured inter.broker.protocol.version (broker.md 4.1)."""

_BY_REQUEST: dict[type, Api[Any, Any]] = {api.request_type: api for api in SUPPORTED.values()}
_KEY_AND_VERSION = struct.Struct(">hh")
_HEADER_V0 = struct.Struct(">hhi")


class RequestHeader(NamedTuple):
    """A request's header, whatever its own version; a null client id reads as ""."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


def encode_request(request: Message, correlation_id: int, client_id: str) -> bytes:
    """The whole frame of `request` in `request.version`, size included.

    Raises UnknownApi if it is no request, UnsupportedVersion, or Unencodable (also a ValueError) if that version has
    no bytes for what the request says.
    """
    api = _BY_REQUEST.get(type(request))
    if api is None:
        raise UnknownApi(f"{type(request).__name__} is no request")
    version = request.version
    _check_version(api, version)
    try:
        body = api.request_schema.encode(version, api.request_fields(request, version))
        if _lacks_client_id(api, version):
            return framed(_HEADER_V0.pack(api.key, version, correlation_id) + body)
        flexible = api.request_schema.is_flexible(version)
        return framed(encode_request_header(api.key, version, correlation_id, client_id, flexible) + body)
    except (ValueError, struct.error) as error:
        raise Unencodable(str(error), api.name, version) from error


def decode_request(frame: bytes) -> tuple[RequestHeader, Message]:
    """Header and message of a request's frame (without its size).

    An ApiVersions request beyond the known versions comes back with that version and nothing else. Raises UnknownApi,
    UnsupportedVersion, MalformedFrame.
    """
    frame = bytes(frame)
    if len(frame) < _KEY_AND_VERSION.size:
        raise MalformedFrame(f"a request of {len(frame)} bytes")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    api = SUPPORTED.get(key)
    if api is None:
        raise UnknownApi("no such API here", f"API {key}", version)
    stranger = api is API_VERSIONS and not _has_version(api, version)
    if not stranger:
        _check_version(api, version)
    try:
        header, position = _read_request_header(api, version, frame)
        if stranger:
            return header, ApiVersionsRequest(version)
        return header, api.read_request(api.request_schema.decode(version, frame, position), version)
    except (ValueError, struct.error) as error:
        raise MalformedFrame(str(error), api.name, version) from error


def encode_response(header: RequestHeader, response: Message) -> bytes:
    """The whole frame of the answer to the request that `header` came with, size included.

    Raises UnknownApi, UnsupportedVersion, or Unencodable if the message does not answer that API or has no bytes.
    """
    api = _api(header.api_key, header.version)
    version = header.version
    if type(response) is not api.response_type:
        raise Unencodable(f"{type(response).__name__} does not answer it", api.name, version)
    if api is API_VERSIONS and (response.error_code == UNSUPPORTED_VERSION or not _has_version(api, version)):
        version = 0
    _check_version(api, version)
    try:
        head = encode_response_header(header.correlation_id, _flexible_response_header(api, version))
        return framed(head + api.response_schema.encode(version, api.response_fields(response, version)))
    except ValueError as error:
        raise Unencodable(str(error), api.name, version) from error


def decode_response(request: type | int, version: int, frame: bytes) -> tuple[int, Message]:
    """Correlation id and message of a response's frame (without its size).

    `request` is the type or the API key of the request that it answers, `version` that request's version. Raises
    UnknownApi, UnsupportedVersion, MalformedFrame.
    """
    api = _api(request, version)
    if api is not API_VERSIONS:
        _check_version(api, version)
    frame = bytes(frame)
    try:
        header, position = decode_response_header(frame, _flexible_response_header(api, version))
        if api is API_VERSIONS and _error_code(frame, position) == UNSUPPORTED_VERSION:
            version = 0
        _check_version(api, version)
        return header.correlation_id, api.read_response(api.response_schema.decode(version, frame, position), version)
    except (ValueError, struct.error) as error:
        raise MalformedFrame(str(error), api.name, version) from error


def _api(request: type | int, version: int) -> Api[Any, Any]:
    api = SUPPORTED.get(request) if isinstance(request, int) else _BY_REQUEST.get(request)
    if api is None:
        name = f"API {request}" if isinstance(request, int) else request.__name__
        raise UnknownApi("no such API here", name, version)
    return api


def _has_version(api: Api[Any, Any], version: int) -> bool:
    return api.min_version <= version <= api.max_version


def _check_version(api: Api[Any, Any], version: int) -> None:
    if not _has_version(api, version):
        known = f"versions {api.min_version} to {api.max_version} are known"
        raise UnsupportedVersion(known, api.name, version)


def _lacks_client_id(api: Api[Any, Any], version: int) -> bool:
    return api is CONTROLLED_SHUTDOWN and version == 0


def _read_request_header(api: Api[Any, Any], version: int, frame: bytes) -> tuple[RequestHeader, int]:
    if _lacks_client_id(api, version):
        _, _, correlation_id = _HEADER_V0.unpack_from(frame)
        return RequestHeader(api.key, version, correlation_id, ""), _HEADER_V0.size
    header, position = decode_request_header(frame, api.request_schema.is_flexible(version))
    return RequestHeader(api.key, version, header.correlation_id, header.client_id or ""), position


def _flexible_response_header(api: Api[Any, Any], version: int) -> bool:
    return api is not API_VERSIONS and api.response_schema.is_flexible(version)


def _error_code(frame: bytes, position: int) -> int:
    return int.from_bytes(frame[position : position + 2], "big", signed=True)
