"""The messages between actors and the two gateways that own sockets: network (outgoing) and listeners (incoming).

The gateways are external endpoints. Their messages to actors are recorded as input. Messages from actors to the
gateways are effects.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from thespian.actors import ActorAddress

from messages.ask import Question
from messages.cluster import Endpoint
from messages.vocabulary import AnyMessage, Message, maker, message

ANONYMOUS = "User:ANONYMOUS"
"""The principal of a client that has not authenticated, as Kafka names it: a type, a colon and a name."""


@message
class Transmit(Question["Received | TransmitFailed"]):
    """A message to the network gateway: send `request` on the connection `channel`.

    The gateway keeps one connection per channel name. It connects again if the connection is closed or if the endpoint
    has changed. The reply is `Received` or `TransmitFailed` with the same channel and correlation id. After a failure
    the connection is closed; the next Transmit reconnects. The caller may have one request in flight per channel. An
    event handler can yield a Transmit as a question: the reply is then wrapped in Answer.

    If `again` is set, the gateway repeats an idle poll of a fetch session after each empty response, with the session's
    next epoch and the next correlation id. The caller gets the first response with content, or the next response after
    the caller sends `Interrupt`. The correlation id of that response shows the number of polls.

    Attributes:
        timeout: Maximum seconds to wait for the response once the connection is established.
        connect_timeout: Maximum seconds to connect. If it is 0, `timeout` is the maximum.
    """

    asks: ClassVar[str] = "network"
    channel: str
    endpoint: Endpoint
    correlation_id: int
    client_id: str
    request: AnyMessage
    timeout: float
    connect_timeout: float = 0.0
    again: bool = False


@message
class Received(Message):
    """A message from the network gateway: the response to the Transmit with this correlation id."""

    channel: str
    correlation_id: int
    response: AnyMessage


@message
class TransmitFailed(Message):
    """A message from the network gateway: a request got no response.

    The connection failed, or the response was invalid.
    """

    channel: str
    correlation_id: int
    reason: str


@message
class ChannelPart(Message):
    """A part of a large request or response on a connection; the parts are sent one after the other."""

    channel: str
    part: AnyMessage


@message
class CloseConnection(Message):
    """A message to the network gateway: close the connection of this channel; requests in flight get no response."""

    channel: str


@message
class Interrupt(Message):
    """A message to the network gateway: stop idle polls on this channel; deliver the next response, even if empty."""

    channel: str


@message
class ClientRequest(Message):
    """A request that a listener received; the handler of the request sends a ClientResponse to the listener.

    `connection` and `correlation_id` identify the request, and are repeated in the response. `client_host` is the
    client's address in Kafka's notation. `principal` is the authenticated client, as ACLs and quotas name it.
    """

    connection: int
    correlation_id: int
    client_id: str
    listener: str
    request: AnyMessage
    client_host: str = "/127.0.0.1"
    principal: str = ANONYMOUS

    def reply(self, response: Message, rest: int = 0) -> ClientResponse:
        """Return the ClientResponse that sends `response` to this request's client; `rest` is as in ClientResponse."""
        return ClientResponse(self.connection, self.correlation_id, response, rest)


@message
class Forwarded(Message):
    """A client's request that was forwarded to the actor that handles it.

    That actor sends a ClientResponse to `client`.
    """

    client: ActorAddress
    request: ClientRequest

    def reply(self, response: Message, rest: int = 0) -> tuple[ActorAddress, ClientResponse]:
        """Return the receiver and the message of a response. `rest` is passed to `ClientRequest.reply`."""
        return self.client, self.request.reply(response, rest)


class WokenFetchSession(NamedTuple):
    """A fetch session that is no longer idle: the epoch of its next request, and the time of its last poll (fetch)."""

    session_id: int
    epoch: int
    used_at: float


@message
class ClientRequests(Message):
    """A message from a listener: several requests, each of which needs its own response.

    These are Produce requests that arrived together, also on different connections. Or they are the held polls of the
    fetch sessions in `woken`, each with the remaining time as its maximum wait.
    """

    requests: tuple[ClientRequest, ...]
    woken: tuple[WokenFetchSession, ...] = ()


@message
class ClientResponse(Message):
    """A message to a listener: the response to the ClientRequest with the same connection and correlation id.

    If `response` is None (for example, for a produce request with acks=0), nothing is sent, and the next request
    begins.

    If `rest` is not 0, the response's fetch session is idle until it is in `ClientRequests.woken`, and `rest` is the
    epoch of the session's next poll. The listener holds each poll of an idle session for the poll's maximum wait. Then
    the listener itself answers the poll, without a message to an actor (`gateway.idle_polls`).
    """

    connection: int
    correlation_id: int
    response: AnyMessage
    rest: int = 0


client_request, client_response = maker(ClientRequest), maker(ClientResponse)
"""Create values faster than the classes do, for the paths of records."""


@message
class ClientResponses(Message):
    """A message to a listener: several responses, in the order in which they are to be written."""

    responses: tuple[ClientResponse, ...]


@message
class WakeFetchSessions(Message):
    """A message to a listener: these fetch sessions are not idle any more; forward their requests, do not answer them.

    The reply is one ClientRequests for all of them. It leaves out a session whose next request is already on its way to
    the actor.
    """

    session_ids: tuple[int, ...]


@message
class ClientPart(Message):
    """Some entries of a large client request or response, sent before the message that has all other fields."""

    connection: int
    part: AnyMessage


@message
class ClientGone(Message):
    """A message from a listener: a client with a pending Fetch closed its connection, so the Fetch is dropped."""

    connection: int


class Authentications(NamedTuple):
    """A number of successful authentications of a principal from a host; the last session lasts `lifetime_ms`.

    If `lifetime_ms` is 0, the session does not end. If there are too many principals, the principal and the host of
    some are "".
    """

    listener: str
    mechanism: str
    principal: str
    client_host: str
    lifetime_ms: int
    times: int


@message
class ClientsAuthenticated(Message):
    """A message from a listener to the request handler, at most one a second: clients have authenticated."""

    authentications: tuple[Authentications, ...]


class FailedAuthentications(NamedTuple):
    """A number of failed authentications; the mechanism is "" if the client has chosen none."""

    listener: str
    mechanism: str
    number: int


@message
class AuthenticationsFailed(Message):
    """A message from a listener to the request handler, at most one a second: clients have failed to authenticate."""

    failures: tuple[FailedAuthentications, ...]


class Denial(NamedTuple):
    """An operation that the authorizer refused, with Kafka's names, and how many times.

    `denied_by` is the ACL that denies it, as text; "" if no ACL allows it.
    """

    principal: str
    client_host: str
    client_id: str
    api: str
    operation: str
    resource: str
    name: str
    denied_by: str
    times: int = 1


@message
class AccessDenied(Message):
    """A message from a listener to the request handler, at most one a second: what the authorizer has refused."""

    denials: tuple[Denial, ...]


@message
class FaultInjected(Message):
    """A message from a listener to the request handler: a fault was injected into a request."""

    connection: int
    correlation_id: int
    client_id: str
    api: str
    fault: str
    value: float


@message
class CloseClient(Message):
    """A message to a listener: close a client's connection, send no response, and log `reason`."""

    connection: int
    reason: str
