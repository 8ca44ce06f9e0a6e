"""The network in memory: nodes of one process talk without sockets, on the clock of a scheduler.

Rule 1: mail is that of the gateways with sockets (`network`, `listener`), and so are the promises: each Transmit is
        answered once, of each connection one request is under way, connections wait until there is a `ServeClients`.
Rule 2: requests and responses go over as values, at once; what may go wrong is a peer that is not there, goes away,
        refuses, or does not answer in time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from thespian.actors import ActorAddress

from actors.runtime import LocalBase
from messages.apis import CARRIERS
from messages.conversation import Answer, Ask
from messages.network import (
    ClientRequest,
    ClientResponse,
    CloseClient,
    CloseConnection,
    Received,
    Transmit,
    TransmitFailed,
)
from messages.node import NodeSettings, ServeClients
from messages.vocabulary import Message

_log = logging.getLogger("kafka_actors.network")

Place: TypeAlias = tuple[str, int]
"""Host and port."""


class _Timers(Protocol):
    def call_later(self, seconds: float, callback: Callable[[], None]) -> Any: ...


class MemoryNetwork:
    """All that can be reached. Its methods `network` and `listener` make a node's two gateways."""

    def __init__(self, timers: _Timers) -> None:
        self.timers = timers
        self.listeners: dict[Place, tuple[MemoryListener, str]] = {}
        """Who listens at a place, and the listener's name."""
        self.connections = 0
        """How many there ever were."""

    def network(self, base: LocalBase) -> MemoryGateway:
        """The outgoing side of a node."""
        return MemoryGateway(base, self)

    def listener(self, base: LocalBase, settings: NodeSettings) -> MemoryListener:
        """The incoming side of a node."""
        return MemoryListener(base, settings, self)


class _Exchange:
    """One request under way: who wants to know, on which channel, and what ends the wait."""

    def __init__(self, transmit: Transmit, tell: Callable[[Message], None], connection: int) -> None:
        self.transmit = transmit
        self.tell = tell
        self.connection = connection
        self.listener: MemoryListener | None = None
        self.timer: Any = None

    def received(self, response: Message) -> None:
        self._end(Received(self.transmit.channel, self.transmit.correlation_id, response))

    def failed(self, reason: str) -> None:
        self._end(TransmitFailed(self.transmit.channel, self.transmit.correlation_id, reason))

    def forget(self) -> None:
        """Nobody waits any more."""
        if self.timer is not None:
            self.timer.cancel()
        if self.listener is not None:
            self.listener.exchanges.pop(self.connection, None)

    def _end(self, outcome: Message) -> None:
        self.forget()
        self.tell(outcome)


class MemoryGateway:
    """Outgoing connections of a node, one per channel name."""

    def __init__(self, base: LocalBase, network: MemoryNetwork) -> None:
        self._base = base
        self._network = network
        self._under_way: dict[str, _Exchange] = {}
        self.address: ActorAddress = base.outsider("network", self.receive)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take mail from an actor."""
        match message:
            case Ask(id, Transmit() as transmit):
                self._begin(transmit, lambda outcome: self._base.inject(sender, Answer(id, outcome), self.address))
            case Transmit():
                self._begin(message, lambda outcome: self._base.inject(sender, outcome, self.address))
            case CloseConnection(channel):
                self._forget(channel)
            case _:
                _log.error("the network knows no %s (from %s)", type(message).__name__, sender)

    def _begin(self, transmit: Transmit, tell: Callable[[Message], None]) -> None:
        network, endpoint = self._network, transmit.endpoint
        network.connections += 1
        exchange = self._under_way[transmit.channel] = _Exchange(transmit, tell, network.connections)
        found = network.listeners.get((endpoint.host, endpoint.port))
        if found is None:
            exchange.failed("nobody listens there")
            return
        exchange.timer = network.timers.call_later(transmit.timeout, lambda: exchange.failed("TimeoutError"))
        found[0].connected(exchange, found[1])

    def _forget(self, channel: str) -> None:
        exchange = self._under_way.pop(channel, None)
        if exchange is not None:
            exchange.forget()

    async def stop(self) -> None:
        """Close every connection; what is in flight gets no answer."""
        for channel in list(self._under_way):
            self._forget(channel)


class MemoryListener:
    """Incoming connections of a node, at all places that its settings listen at or advertise."""

    def __init__(self, base: LocalBase, settings: NodeSettings, network: MemoryNetwork) -> None:
        self._base = base
        self._network = network
        self._endpoints = (*settings.listeners, *settings.advertised_listeners)
        self._handler: ActorAddress | None = None
        self._records: ActorAddress | None = None
        self._waiting: list[tuple[_Exchange, str]] = []
        self.exchanges: dict[int, _Exchange] = {}
        self.address: ActorAddress = base.outsider("listener", self.receive)

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener by name."""
        return {endpoint.listener: endpoint.port for endpoint in self._endpoints}

    async def bind(self) -> None:
        """Be there. Raises OSError where another node is."""
        for endpoint in self._endpoints:
            there, _ = self._network.listeners.setdefault((endpoint.host, endpoint.port), (self, endpoint.listener))
            if there is not self:
                raise OSError(f"listener {endpoint.listener}://{endpoint.host}:{endpoint.port} is taken")

    async def stop(self) -> None:
        """Be gone; requests under way get no answer."""
        for place, (listener, _) in list(self._network.listeners.items()):
            if listener is self:
                del self._network.listeners[place]
        for exchange in list(self.exchanges.values()):
            exchange.failed("connection closed")

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Take mail from an actor."""
        match message:
            case ClientResponse(id, _, response):
                if id in self.exchanges:
                    self.exchanges[id].received(response)
            case CloseClient(id, reason):
                if id in self.exchanges:
                    self.exchanges[id].failed(f"connection closed: {reason}")
            case ServeClients(handler, records):
                self._handler, self._records = handler, records or handler
                waiting, self._waiting = self._waiting, []
                for exchange, listener in waiting:
                    self._submit(exchange, listener)
            case _:
                _log.error("the listeners know no %s (from %s)", type(message).__name__, sender)

    def connected(self, exchange: _Exchange, listener: str) -> None:
        """A request arrives; it waits until clients are served."""
        exchange.listener = self
        self.exchanges[exchange.connection] = exchange
        if self._handler is None:
            self._waiting.append((exchange, listener))
        else:
            self._submit(exchange, listener)

    def _submit(self, exchange: _Exchange, listener: str) -> None:
        transmit = exchange.transmit
        request = ClientRequest(
            exchange.connection, transmit.correlation_id, transmit.client_id, listener, transmit.request
        )
        to = self._records if type(transmit.request) in CARRIERS else self._handler
        if exchange.connection in self.exchanges and to is not None:
            self._base.inject(to, request, self.address)
