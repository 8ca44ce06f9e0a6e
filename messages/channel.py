"""Messages to a BrokerChannelActor besides the controller's requests (controller.md 5)."""

from __future__ import annotations

from thespian.actors import ActorAddress

from messages.cluster import Endpoint
from messages.vocabulary import message


@message
class StartChannel:
    """First mail of BrokerChannelActor: the broker to which it sends requests, and the connection.

    `channel` names the network's connection and is unique. The timeouts are in seconds,
    for connecting and for an answer.
    The responses go to the sender, as events.
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
