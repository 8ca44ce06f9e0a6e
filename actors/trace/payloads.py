"""Read from payloads the few fields that identify requests, responses, writes and watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from messages.store import OK
from messages.trace.schema import Payload

_T = TypeVar("_T")


class EndpointRead(msgspec.Struct):
    """The endpoint of a Transmit."""

    host: str
    port: int


class TransmitRead(msgspec.Struct):
    """What is read from a Transmit: all but the fields of the request that it carries."""

    channel: str
    correlation_id: int
    client_id: str
    endpoint: EndpointRead
    request: tuple[str, msgspec.Raw]
    again: bool = False


class ReturnRead(msgspec.Struct):
    """What is read from a Received or a TransmitFailed message."""

    channel: str
    correlation_id: int


class RequestRead(msgspec.Struct):
    """What is read from a ClientRequest: all but the fields of the Kafka request that it carries."""

    connection: int
    correlation_id: int
    client_id: str
    request: tuple[str, msgspec.Raw]


class RequestsRead(msgspec.Struct):
    """What is read from a ClientRequests message."""

    requests: list[RequestRead]


class ResponseRead(msgspec.Struct):
    """What is read from a ClientResponse: all but the Kafka response that it carries."""

    connection: int
    correlation_id: int


class ResponsesRead(msgspec.Struct):
    """What is read from a ClientResponses message."""

    responses: list[ResponseRead]


class StoreRequestRead(msgspec.Struct):
    """The part of a recorded StoreRequest that links need: its id."""

    id: int


class StoreReplyRead(msgspec.Struct):
    """The parts of a recorded StoreReply that links need: its id and error code."""

    id: int
    code: int = OK


class WatchesRead(msgspec.Struct):
    """The znodes of a StoreArm."""

    data: list[str]
    children: list[str]
    exists: list[str]


class WritesRead(msgspec.Struct):
    """The operations of a StoreWrite."""

    id: int
    ops: list[tuple[Any, ...]]


class WatchEventRead(msgspec.Struct):
    """A WatchEvent."""

    path: str
    kind: str


def _decoding(form: type[_T]) -> Callable[[Payload], _T | None]:
    """A decoder; None for a payload that is omitted or has another form."""
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
