"""Mail between actors and the two gateways that own sockets: the network (outgoing) and the listeners (incoming).

The gateways are outside the actor system: what they send in is recorded as input, what they are sent is an effect.
"""

from __future__ import annotations

from typing import ClassVar

from messages.cluster import Endpoint
from messages.conversation import Question
from messages.vocabulary import Message, maker, message


@message
class Transmit(Question["Received | TransmitFailed"]):
    """To the network: send `request` on `channel`'s connection and wait for the reply.

    The gateway keeps one connection per channel name, connects it where it is not (or where the endpoint changed),
    and answers `Received` or `TransmitFailed` with the same channel and correlation id. Connecting takes no more than
    `connect_timeout` seconds (0: than `timeout`), the answer no more than `timeout` from then on. After a failure the
    connection is closed; the next Transmit connects anew. One in flight per channel is the caller's rule.
    A flow may yield it as a question: the same answers then come wrapped in Answer.

    `again`: while an idle poll of a fetch session is answered with nothing, the gateway polls again by itself, with the
    session's next epoch and the next correlation id; the caller gets the first answer that says something, or the one
    after its `Interrupt`, and sees by its correlation id how many polls there were.
    """

    asks: ClassVar[str] = "network"
    channel: str
    endpoint: Endpoint
    correlation_id: int
    client_id: str
    request: Message
    timeout: float
    connect_timeout: float = 0.0
    again: bool = False


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
class Interrupt:
    """To the network: hand in the next answer to what is polled `again` on this channel, whatever it is."""

    channel: str


@message
class ClientRequest:
    """From a listener: a decoded request. The handler sends `ClientResponse` with the same ids to the sender.

    `client_host` is the address that it came from, as Kafka writes it.
    """

    connection: int
    correlation_id: int
    client_id: str
    listener: str
    request: Message
    client_host: str = "/127.0.0.1"


@message
class ClientRequests:
    """From a listener: requests of one connection that came together, in their order; each has an answer of its own."""

    requests: tuple[ClientRequest, ...]


@message
class ClientResponse:
    """To a listener: the response to `ClientRequest(connection, correlation_id)`.

    None says that the request gets none, as a produce with acks=0, and that the next one may be taken.
    `rest`: the fetch session that this answers rests from now on, until its `FetchSessionWoken`. The listener answers
    its idle polls, the next of which has this epoch, when their time is up, and no actor hears of them
    (`gateway.idle_polls`).
    """

    connection: int
    correlation_id: int
    response: Message
    rest: int = 0


client_request, client_response = maker(ClientRequest), maker(ClientResponse)
"""Make one, for where there are many."""


@message
class ClientResponses:
    """To a listener: responses that were there together, in this order."""

    responses: tuple[ClientResponse, ...]


@message
class WakeFetchSession:
    """To a listener: a resting fetch session has to be served again. -> FetchSessionWoken, unless that is on its way
    already"""

    session_id: int


@message
class FetchSessionWoken:
    """From a listener: a fetch session rests no longer. The epoch of its next request, and when it polled last.

    A poll that the listener held comes next, as a ClientRequest, for the time that it has left.
    """

    session_id: int
    epoch: int
    used_at: float


@message
class ClientPart:
    """From a listener or to it: goes ahead of the ClientRequest or the ClientResponse (`messages.parts`)."""

    connection: int
    part: Message


@message
class ClientGone:
    """From a listener: the connection with a pending Fetch is closed; drop the Fetch."""

    connection: int


@message
class FaultInjected:
    """From a listener to the request handler: a request met an injected fault (actors.gateway.request_faults)."""

    connection: int
    correlation_id: int
    client_id: str
    api: str
    fault: str
    value: float


@message
class CloseClient:
    """To a listener: close the connection without an answer; `reason` goes to the log."""

    connection: int
    reason: str
