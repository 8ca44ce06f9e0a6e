"""Mail between actors and the two gateways that own sockets: the network (outgoing) and the listeners (incoming).

The gateways are outside the actor system: what they send in is recorded as input, what they are sent is an effect.
"""

from __future__ import annotations

from typing import ClassVar

from messages.cluster import Endpoint
from messages.conversation import Question
from messages.vocabulary import Message, message


@message
class Transmit(Question["Received | TransmitFailed"]):
    """To the network: send `request` on `channel`'s connection and wait for the reply.

    The gateway keeps one connection per channel name, connects it where it is not (or where the endpoint changed),
    and answers `Received` or `TransmitFailed` with the same channel and correlation id. Connecting takes no more than
    `connect_timeout` seconds (0: than `timeout`), the answer no more than `timeout` from then on. After a failure the
    connection is closed; the next Transmit connects anew. One in flight per channel is the caller's rule.
    A flow may yield it as a question: the same answers then come wrapped in Answer.
    """

    asks: ClassVar[str] = "network"
    channel: str
    endpoint: Endpoint
    correlation_id: int
    client_id: str
    request: Message
    timeout: float
    connect_timeout: float = 0.0


@message
class Received:
    """From the network: the reply to `Transmit(channel, correlation_id)`."""

    channel: str
    correlation_id: int
    response: Message


@message
class TransmitFailed:
    """From the network: no reply (refused, reset, timed out, undecodable); the connection is closed."""

    channel: str
    correlation_id: int
    reason: str


@message
class ChannelPart:
    """To the network or from it: goes ahead of the Transmit or the Received on `channel` (`messages.parts`)."""

    channel: str
    part: Message


@message
class CloseConnection:
    """To the network: close the channel's connection and forget it; what is in flight gets no answer."""

    channel: str


@message
class ClientRequest:
    """From a listener: a decoded request. Whoever handles it sends `ClientResponse` with the same ids to the sender.

    `client_host` is the address that it came from, as Kafka writes it.
    """

    connection: int
    correlation_id: int
    client_id: str
    listener: str
    request: Message
    client_host: str = "/127.0.0.1"


@message
class ClientResponse:
    """To a listener: the response to `ClientRequest(connection, correlation_id)`.

    None says that the request gets none, as a produce with acks=0, and that the next one may be taken.
    """

    connection: int
    correlation_id: int
    response: Message


@message
class ClientPart:
    """From a listener or to it: goes ahead of the ClientRequest or the ClientResponse (`messages.parts`)."""

    connection: int
    part: Message


@message
class CloseClient:
    """To a listener: close the connection without an answer; `reason` goes to the log."""

    connection: int
    reason: str
