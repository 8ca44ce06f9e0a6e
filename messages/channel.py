"""The messages that a BrokerChannelActor receives besides the requests it passes on to a broker (controller.md 5)."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.cluster import Endpoint
from messages.vocabulary import Message, message


@message
class StartChannel(Message):
    """The first message to BrokerChannelActor: the broker to which it sends requests, and the name of the connection.

    `channel` is the unique name of the connection. The timeouts for connecting and for a response are in seconds.
    The actor sends the responses as events to the sender of this message.
    """

    broker_id: int
    controller_id: int
    endpoint: Endpoint
    channel: str
    connect_timeout: float
    timeout: float
    network: ActorAddress
    metrics: ActorAddress


@message
class MoveChannel(Message):
    """A request to BrokerChannelActor to connect to another endpoint of its broker."""

    endpoint: Endpoint
