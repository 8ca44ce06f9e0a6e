"""Messages between actors and the two gateways that own sockets: network (outgoing) and listeners (incoming).

The gateways are outside the actor system: what they send in is recorded as input, what they are sent is an effect.
"""

from __future__ import annotations

from typing import ClassVar

from messages.cluster import Endpoint
from messages.conversation import Question
from messages.vocabulary import Message, maker, message


@message
class Transmit(Question["Received | TransmitFailed"]):
    """To the network: send `request` on the connection of `channel` and wait for the response.

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
    """From the network: the response to `Transmit(channel, correlation_id)`."""

    channel: str
    correlation_id: int
    response: Message


@message
class TransmitFailed:
    """From the network: no response (refused, reset, timed out or undecodable); the connection is closed."""

    channel: str
    correlation_id: int
    reason: str


@message
class ChannelPart:
    """To or from the network: a part that precedes a Transmit or Received on `channel` (`messages.parts`)."""

    channel: str
    part: Message


@message
class CloseConnection:
    """To the network: close the channel's connection; in-flight requests get no response."""

    channel: str


@message
class Interrupt:
    """To the network: return the next response to a repeated poll on this channel, whatever it contains."""

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
    """From a listener: requests of one connection that arrived together, in order; each needs its own response."""

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
    """To a listener: several responses, in this order."""

    responses: tuple[ClientResponse, ...]


@message
class WakeFetchSession:
    """To a listener: return an idle fetch session to its actor. -> FetchSessionWoken, unless it is on its way"""

    session_id: int


@message
class FetchSessionWoken:
    """From a listener: a fetch session is idle no longer: the epoch of its next request and the time of its last poll.

    A poll that the listener held comes next, as a ClientRequest, for the time that it has left.
    """

    session_id: int
    epoch: int
    used_at: float


@message
class ClientPart:
    """To or from a listener: a part that precedes a ClientRequest or ClientResponse (`messages.parts`)."""

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
    """To a listener: close the connection without a response; `reason` is logged."""

    connection: int
    reason: str
