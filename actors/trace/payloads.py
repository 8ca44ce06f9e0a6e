"""Decode only the few fields of recorded messages that identify requests, responses, writes and watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from messages.store import OK
from messages.trace.schema import Payload

_T = TypeVar("_T")


class EndpointRead(msgspec.Struct):
    """The field that is decoded from a recorded Transmit message: the endpoint of the connection."""

    host: str
    port: int


class TransmitRead(msgspec.Struct):
    """The fields decoded from a recorded Transmit: channel, request header, and the Kafka request as raw JSON."""

    channel: str
    correlation_id: int
    client_id: str
    endpoint: EndpointRead
    request: tuple[str, msgspec.Raw]
    again: bool = False


class ReturnRead(msgspec.Struct):
    """The fields decoded from a recorded Received or TransmitFailed: the ids of the answered or failed request."""

    channel: str
    correlation_id: int


class RequestRead(msgspec.Struct):
    """The fields decoded from a recorded ClientRequest: connection, request header, and Kafka request as raw JSON."""

    connection: int
    correlation_id: int
    client_id: str
    request: tuple[str, msgspec.Raw]


class RequestsRead(msgspec.Struct):
    """What is decoded from a recorded ClientRequests message: the requests."""

    requests: list[RequestRead]


class ResponseRead(msgspec.Struct):
    """The fields decoded from a recorded ClientResponse message; the Kafka response that it carries is not decoded."""

    connection: int
    correlation_id: int


class ResponsesRead(msgspec.Struct):
    """What is decoded from a recorded ClientResponses message: the responses."""

    responses: list[ResponseRead]


class StoreRequestRead(msgspec.Struct):
    """What is decoded from a recorded request to the ZooKeeper client: only the request's id."""

    id: int


class StoreReplyRead(msgspec.Struct):
    """The fields decoded from a recorded StoreReply: its id and error code."""

    id: int
    code: int = OK


class WatchesRead(msgspec.Struct):
    """The paths to watch, decoded from a recorded StoreRead: the lists of `messages.store.Watches`."""

    watches: list[list[str]]


class WritesRead(msgspec.Struct):
    """The fields decoded from a recorded StoreWrite: its id and operations."""

    id: int
    ops: list[tuple[Any, ...]]


class WatchEventRead(msgspec.Struct):
    """The fields decoded from a recorded WatchEvent: its znode and kind."""

    path: str
    kind: str


def _decoding(form: type[_T]) -> Callable[[Payload], _T | None]:
    """Return a decoder, which returns None for a payload that is omitted or has another form."""
    decode = msgspec.json.Decoder(form).decode

    def decoded(payload: Payload) -> _T | None:
        try:
            return decode(payload)
        except msgspec.MsgspecError:
            return None

    return decoded


transmit_of, return_of = _decoding(TransmitRead), _decoding(ReturnRead)
request_of, requests_of = _decoding(RequestRead), _decoding(RequestsRead)
response_of, responses_of = _decoding(ResponseRead), _decoding(ResponsesRead)
store_request_of, store_reply_of = _decoding(StoreRequestRead), _decoding(StoreReplyRead)
writes_of, watches_of, watch_event_of = _decoding(WritesRead), _decoding(WatchesRead), _decoding(WatchEventRead)
