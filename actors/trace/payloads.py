"""Decode only the few fields of recorded messages that identify requests, responses, writes and watches."""

from __future__ import annotations

from typing import Any

import msgspec

from messages.store import OK
from messages.trace.schema import NO_PAYLOAD, Payload


class EndpointRead(msgspec.Struct, frozen=True):
    """The endpoint of a connection."""

    host: str
    port: int


class ExchangeRead(msgspec.Struct):
    """A request or response of a client: its connection and header, and the class of the request."""

    connection: int = 0
    correlation_id: int = 0
    client_id: str = ""
    request: tuple[str, msgspec.Raw] = ("", NO_PAYLOAD)


class MessageRead(ExchangeRead):
    """The fields of a recorded message; a field that its class lacks has the default."""

    requests: tuple[ExchangeRead, ...] = ()
    responses: tuple[ExchangeRead, ...] = ()
    channel: str = ""
    endpoint: EndpointRead = EndpointRead("", 0)
    again: bool = False
    id: int = 0
    code: int = OK
    watches: tuple[tuple[str, ...], ...] = ()
    ops: tuple[tuple[Any, ...], ...] = ()
    path: str = ""
    kind: str = ""

    @property
    def exchanges(self) -> tuple[ExchangeRead, ...]:
        """The requests or responses in the message, also if it is a single one."""
        return self.requests or self.responses or (self,)


_decode = msgspec.json.Decoder(MessageRead).decode


def read(payload: Payload) -> MessageRead | None:
    """Return the fields; None if the payload is omitted or has another form."""
    try:
        return _decode(payload)
    except msgspec.MsgspecError:
        return None
