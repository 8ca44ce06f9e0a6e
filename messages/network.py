"""The messages between actors and the two gateways that own sockets: network (outgoing) and listeners (incoming).

The gateways are outside the actor system: what they send in is recorded as input, what they are sent is an effect.
"""

from __future__ import annotations

from typing import ClassVar

from messages.cluster import Endpoint
from messages.conversation import Question
from messages.vocabulary import Message, maker, message


@message
class Transmit(Question["Received | TransmitFailed"]):
    """A message to the network gateway: send `request` on the connection `channel`.

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
    """A message from the network gateway: the response to the Transmit with this correlation id."""

    channel: str
    correlation_id: int
    response: Message


@message
class TransmitFailed:
    """A message from the network gateway: a request got no response, because the connection failed or the response was
    invalid.
    """

    channel: str
    correlation_id: int
    reason: str


@message
class ChannelPart:
    """A part of a large request or response on the connection `channel`, which is sent before the rest."""

    channel: str
    part: Message


@message
class CloseConnection:
    """A message to the network gateway: close the connection of the channel; requests in flight get no response."""

    channel: str


@message
class Interrupt:
    """A message to the network gateway: pass the next response on this channel to the actor, even if it contains no
    data.
    """

    channel: str


@message
class ClientRequest:
    """A request that a listener received; its handler sends a ClientResponse with the same ids to the sender.

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
    """Several requests that a listener received together on one connection; each needs its own response."""

    requests: tuple[ClientRequest, ...]


@message
class ClientResponse:
    """A message to a listener: the response to the ClientRequest with the same connection and correlation id.

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
    """A message to a listener: several responses, in the order in which they are to be written."""

    responses: tuple[ClientResponse, ...]


@message
class WakeFetchSession:
    """A message to a listener: return an idle fetch session to its actor; the reply is FetchSessionWoken.

    No reply is sent if the session's next request is on its way already.
    """

    session_id: int


@message
class FetchSessionWoken:
    """A message from a listener: a fetch session is no longer idle; its next request has this epoch.

    It also has the time of the last poll.

    A poll that the listener held comes next, as a ClientRequest, for the time that it has left.
    """

    session_id: int
    epoch: int
    used_at: float


@message
class ClientPart:
    """A part of a large client request or response, which is sent before the rest."""

    connection: int
    part: Message


@message
class ClientGone:
    """A message from a listener: a client with a pending Fetch closed its connection, so the Fetch is dropped."""

    connection: int


@message
class FaultInjected:
    """A message from a listener to the request handler: a fault was injected into a request."""

    connection: int
    correlation_id: int
    client_id: str
    api: str
    fault: str
    value: float


@message
class CloseClient:
    """A message to a listener: close the connection of a client without a response, and log `reason`."""

    connection: int
    reason: str
