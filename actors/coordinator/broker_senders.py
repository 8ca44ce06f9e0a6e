"""BrokerSenders is the base of actors that have one RequestSender for each broker that they send requests to.

Rule: a sender is created when it is first needed. If the endpoint of its broker changes, a new sender replaces it.
"""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest

from actors.coordinator.request_sender import RequestSender
from actors.runtime import Dispatcher
from messages.cluster import Endpoint
from messages.transactions import StartRequestSender, StartTransactionMarkers, StartTransactionVerifier


class BrokerSenders(Dispatcher):
    """The base class of actors that have one child actor per broker; the child sends the requests to its broker."""

    SENDER: type[RequestSender[Any]]
    """Class of the senders."""
    CHANNELS: str
    """Prefix of the names of their connections."""

    def __init__(self) -> None:
        super().__init__()
        self._start: StartTransactionMarkers | StartTransactionVerifier
        """The first message, with the settings of the senders."""
        self._senders: dict[int, tuple[ActorAddress, Endpoint]] = {}
        self._made = 0

    def sender_to(self, broker: int, endpoint: Endpoint) -> ActorAddress:
        """Return the RequestSender for a broker; create it if there is none for this endpoint."""
        known = self._senders.get(broker)
        if known is not None and known[1] == endpoint:
            return known[0]
        if known is not None:
            self.send(known[0], ActorExitRequest())
        start = self._start
        self._made += 1
        sender = self.createActor(self.SENDER)
        self._senders[broker] = sender, endpoint
        channel, timeout = f"{self.CHANNELS}-{broker}-{self._made}", start.request_timeout_ms / 1000
        network = start.network, timeout, start.metrics
        self.send(sender, StartRequestSender(start.node_id, broker, endpoint, channel, *network))
        return sender
