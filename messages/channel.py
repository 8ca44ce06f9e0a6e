"""Messages to a BrokerChannelActor besides the controller's requests (controller.md 5)."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.cluster import Endpoint
from messages.vocabulary import message


@message
class StartChannel:
    """The first message to BrokerChannelActor: the broker to which it sends requests, and the connection.

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
class MoveChannel:
    """Set the broker's endpoint."""

    endpoint: Endpoint
