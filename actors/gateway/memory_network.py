"""An in-memory network: nodes in one process exchange requests without sockets, in real or virtual time.

Rule 1: the network has the same messages and guarantees as the gateways with sockets (`network`, `listener`). Each
        Transmit is answered once, each connection has one request in progress, and connections wait for `ServeClients`.
Rule 2: requests and responses are passed as values. The wire decides when they arrive. The default wire delivers them
        at once, but the caller may give another wire (`actors.simulation.wire`). A request fails if its peer is absent,
        stops, closes the connection, or does not answer in time.
Rule 3: every request has its own connection. After a timeout the sender receives nothing more for that request. The
        request's messages in flight still arrive at their hosts, possibly after a later request, as between real
        machines.
Rule 4: the principal of a node is its host; that of another client is the user that it names. The users in
        `MemoryNetwork.users` need a SCRAM credential, or their connections are closed.
Rule 5: idle polls on a wire without faults cause no events: the poll that the listener holds represents all following
        polls (`idle_polls`, rule 5). This ends when the wire changes (`handle_wire_change`), when the sender interrupts
        or abandons the poll, or when the session's idle state ends.
Rule 6: clients with quotas are throttled (`throttling`). The requests of a user with one client id wait while it is
        muted, as if they had one connection. Only the bytes of records are charged, because nothing is encoded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, TypeAlias

from thespian.actors import ActorAddress

from actors.core.security.access import Authorizer, Edit
from actors.gateway import request_faults
from actors.gateway.idle_polls import IdleFetchSessions, poll_again
from actors.gateway.metrics import RequestMetrics
from actors.gateway.paced_reports import DenialReport, denial_of
from actors.gateway.throttling import Charge, Throttle, throttle_fetch
from actors.gateway.vault import Vault
from actors.runtime import LocalBase, ScheduledCall
from messages.acls import AclsChanged
from messages.apis import API_BY_REQUEST, CARRIERS
from messages.apis.fetch import FetchResponse
from messages.apis.produce import ProduceRequest
from messages.ask import Answer, Ask
from messages.client_quotas import ClientQuotasConfigured, ClientsThrottled
from messages.network import (
    ChannelPart,
    ClientPart,
    ClientRequest,
    ClientResponse,
    ClientResponses,
    CloseClient,
    CloseConnection,
    FaultInjected,
    Interrupt,
    Received,
    Transmit,
    TransmitFailed,
    WakeFetchSessions,
)
from messages.node import NodeSettings, ServeClients
from messages.parts import Part, join_parts, tersely
from messages.vocabulary import AnyMessage, Message
from messages.wire import RequestHeader

_log = logging.getLogger("kafka_actors.network")

MECHANISM = "SCRAM-SHA-256"
"""The mechanism of the users that need a credential."""

Place: TypeAlias = tuple[str, int]
"""Host and port."""


class _Timers(Protocol):
    """The part of the scheduler's interface that the network uses: start and cancel a timer."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ScheduledCall: ...


class Wire(Protocol):
    """The interface of a connection between two hosts, which delivers each message after a delay or loses it."""

    def carry(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Send a message from `source` to `target`: call `deliver` when it arrives, or never if it is lost."""

    def is_steady(self, one: str, other: str) -> bool:
        """Return whether the wire between two hosts has no faults.

        If the result is True, the code that later causes a fault must call `MemoryNetwork.handle_wire_change`.
        """


class NetworkObserver(Protocol):
    """The interface of an observer that sees all requests and responses on the in-memory network.

    `connection` is the number of a connection.
    """

    def observe_request(self, connection: int, host: str, request: Message) -> None:
        """Observe that a request arrived at a host, where an actor handles it."""

    def observe_response(self, connection: int, response: Message | None) -> None:
        """Observe that the response to a connection's request leaves the host that handled the request."""

    def observe_authentication(self, host: str, user: str, accepted: bool) -> None:
        """Observe whether a host has accepted a user that needs a credential."""

    def observe_judgement(self, host: str, principal: str, request: Message, allowed: bool) -> None:
        """Observe whether a host's authorizer has refused nothing of a client's request."""


class Direct:
    """A connection that delivers each message without delay."""

    def carry(self, source: str, target: str, deliver: Callable[[], None]) -> None:
        """Call `deliver` at once."""
        deliver()

    def is_steady(self, one: str, other: str) -> bool:
        """Return False: no code calls `MemoryNetwork.handle_wire_change` for this wire, as True would require."""
        return False


class MemoryNetwork:
    """An in-memory network; `network` and `listener` create the two gateways of a node.

    Args:
        timers: Starts and cancels timers.
        wire: Delivers the messages; None means that they are delivered at once.
        heard: Called with (source host, target host, request) for every request that leaves a host.
    """

    def __init__(
        self, timers: _Timers, wire: Wire | None = None, heard: Callable[[str, str, Message], None] | None = None
    ) -> None:
        self.timers = timers
        self.wire: Wire = Direct() if wire is None else wire
        self.heard = heard
        self.answered: Callable[[Message, Message | None], None] | None = None
        """Called with a request and its response when the response leaves a host."""
        self.watcher: NetworkObserver | None = None
        self.faults: request_faults.RequestFaults | None = None
        """The faults and the journal of requests; None if the network is not one of a cluster for tests."""
        self.listeners: dict[Place, tuple[MemoryListener, str]] = {}
        """Listener and its name, by host and port."""
        self.users: set[str] = set()
        """The users that need a SCRAM credential."""
        self.connections = 0
        """Number of connections ever made."""

        self.under_way: dict[int, _InFlightRequest] = {}
        """The pending requests, by connection."""
        self._representing: dict[tuple[str, str], dict[int, _InFlightRequest]] = {}
        """The representing polls, by pair of hosts and connection."""

    def network(self, base: LocalBase, host: str = "") -> MemoryGateway:
        """Return the gateway for outgoing connections of a node on `host`."""
        return MemoryGateway(base, self, host)

    def listener(self, base: LocalBase, settings: NodeSettings, vault: Vault | None = None) -> MemoryListener:
        """Return the gateway for incoming connections of a node; `vault` has the credentials of users."""
        return MemoryListener(base, settings, self, vault)

    def begin(
        self,
        host: str,
        transmit: Transmit,
        reply: Callable[[AnyMessage], None],
        parts: tuple[AnyMessage, ...] = (),
        user: str = "",
    ) -> _InFlightRequest:
        """Send a request from a host. `reply` is called once, with Received or TransmitFailed."""
        self.connections += 1
        exchange = _InFlightRequest(self, self.connections, host, transmit, parts, reply)
        exchange.user = user or host
        self.under_way[exchange.connection] = exchange
        exchange.wait()
        if self.heard is not None:
            self.heard(host, transmit.endpoint.host, join_parts(parts, transmit.request))
        exchange.carry(self._handle_arrival, back=False)
        return exchange

    def reset(self, one: str, other: str) -> None:
        """Break all connections between two hosts: messages in flight are lost, waiting requests fail."""
        for exchange in list(self.under_way.values()):
            if {exchange.host, exchange.transmit.endpoint.host} == {one, other}:
                exchange.lost = True
                exchange.end_with_failure("connection reset")

    def handle_wire_change(self, one: str, other: str) -> None:
        """Handle a change of the wire between two hosts (rule 5)."""
        for exchange in list(self._representing.get(_pair(one, other), {}).values()):
            exchange.wake()

    def represent_polls(self, exchange: _InFlightRequest, polls: IdleFetchSessions) -> None:
        """If the wire has no faults, let an arrived idle poll represent all following polls (rule 5)."""
        hosts = exchange.host, exchange.transmit.endpoint.host
        if exchange.again and not exchange.over and self.wire.is_steady(*hosts):
            representing = self._representing.setdefault(_pair(*hosts), {})

            def end_representation() -> None:
                del representing[exchange.connection]
                exchange.represent(None)

            session_id: int = exchange.transmit.request.session_id
            if polls.represent(session_id, end_representation):
                representing[exchange.connection] = exchange
                exchange.represent(lambda: polls.stop_representing(session_id))

    def _handle_arrival(self, exchange: _InFlightRequest) -> None:
        endpoint = exchange.transmit.endpoint
        listener, name = self.listeners.get((endpoint.host, endpoint.port), (None, ""))
        if listener is None:
            exchange.carry(lambda lost: lost.end_with_failure("connection refused"))
        else:
            listener.handle_request(exchange, name)


class _InFlightRequest:
    """A request in flight: the actor that sent it, its connection and its timeout."""

    def __init__(
        self,
        network: MemoryNetwork,
        connection: int,
        host: str,
        transmit: Transmit,
        parts: tuple[AnyMessage, ...],
        reply: Callable[[Message], None],
    ) -> None:
        self.connection = connection
        self.host = host
        self.transmit = transmit
        self.parts = parts
        self.again = transmit.again
        """Whether the request is an idle poll that is repeated."""
        self.over = False
        """Whether the request has ended."""
        self.lost = False
        """Whether messages in flight are lost."""
        self.throttle_ms = 0.0
        """The throttle time of an injected fault."""
        self.user = ""
        """The name of the client's principal (rule 4)."""
        self.edit: Edit | None = None
        """Changes the response, because the client may not see or do everything."""
        self.charge: Charge | None = None
        """What the request has used of its client's quotas; None if it is exempt."""
        self._network = network
        self._reply = reply
        self._timer: ScheduledCall
        self._stop_representing: Callable[[], None] | None = None

    @property
    def principal(self) -> str:
        """The principal of the client."""
        return f"User:{self.user}"

    @property
    def request(self) -> Message:
        """The request, with the entries of all its parts."""
        return join_parts(self.parts, self.transmit.request)

    def wait(self) -> None:
        """Start the timer for the request's timeout."""
        self._timer = self._network.timers.call_later(
            self.transmit.timeout, lambda: self.end_with_failure("TimeoutError")
        )

    def represent(self, stop: Callable[[], None] | None) -> None:
        """Let this idle poll represent all polls that would follow it (rule 5), and cancel its timeout.

        Args:
            stop: The function with which `wake` ends this state. None ends it now: the poll becomes an ordinary poll
                with a timeout again.
        """
        self._stop_representing = stop
        if stop is not None:
            self._timer.cancel()
        elif not self.over:
            self.wait()

    def wake(self) -> None:
        """If this idle poll represents all polls that would follow it (rule 5), make it an ordinary poll again."""
        if self._stop_representing is not None:
            self._stop_representing()

    def carry(self, deliver: Callable[[_InFlightRequest], None], back: bool = True) -> None:
        """Send the request to the listener's host or, if `back` is true, the outcome to the requester's host.

        Args:
            deliver: Called with this request when the message arrives, unless the connection was reset.
        """
        there = self.transmit.endpoint.host
        source, target = (there, self.host) if back else (self.host, there)
        self._network.wire.carry(source, target, lambda: None if self.lost else deliver(self))

    def end_with_response(self, parts: tuple[AnyMessage, ...], response: Message) -> None:
        channel = self.transmit.channel
        parts, response = tersely(parts, response)
        self._end(
            *(ChannelPart(channel, part) for part in parts),
            Received(channel, self.transmit.correlation_id, response),
        )

    def end_with_failure(self, reason: str) -> None:
        self._end(TransmitFailed(self.transmit.channel, self.transmit.correlation_id, reason))

    def forget(self) -> None:
        """End the request without sending an outcome to the actor."""
        self.over = True
        self._network.under_way.pop(self.connection, None)
        self._timer.cancel()
        self.wake()

    def _end(self, *outcome: Message) -> None:
        if not self.over:
            self.forget()
            for message in outcome:
                self._reply(message)


class MemoryGateway:
    """The outgoing connections of a node on the in-memory network."""

    def __init__(self, base: LocalBase, network: MemoryNetwork, host: str) -> None:
        self._base = base
        self._network = network
        self._host = host
        self._under_way: dict[str, _InFlightRequest] = {}
        self._parts: dict[str, list[AnyMessage]] = {}
        """Parts that precede a channel's next request."""
        self._repeated: set[str] = set()
        """Channels whose idle polls are repeated."""
        self.address: ActorAddress = base.external_endpoint("network", self.receive)

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle a message of an actor."""
        match message:
            case Ask(id, Transmit() as transmit):
                self._begin(transmit, lambda outcome: self._base.inject(sender, Answer(id, outcome), self.address))
            case Transmit():
                self._begin(message, lambda outcome: self._base.inject(sender, outcome, self.address))
            case ChannelPart(channel, part):
                self._parts.setdefault(channel, []).append(part)
            case Interrupt(channel):
                self._repeated.discard(channel)
                if channel in self._under_way:
                    self._under_way[channel].again = False
                    self._under_way[channel].wake()
            case CloseConnection(channel):
                self._forget(channel)
            case _:
                _log.error(
                    "The network gateway ignores an unexpected %s message from actor %s", type(message).__name__, sender
                )

    def _begin(self, transmit: Transmit, reply: Callable[[Message], None]) -> None:
        parts = tuple(self._parts.pop(transmit.channel, ()))
        self._repeated.discard(transmit.channel)
        if transmit.again:
            self._repeated.add(transmit.channel)
        self._exchange(transmit, reply, parts)

    def _exchange(
        self, transmit: Transmit, reply: Callable[[AnyMessage], None], parts: tuple[AnyMessage, ...] = ()
    ) -> None:
        def report(outcome: Message) -> None:
            following = None
            if isinstance(outcome, Received) and transmit.channel in self._repeated:
                following = poll_again(transmit, outcome.response)
            if following is None:
                reply(outcome)
            else:
                self._exchange(following, reply)

        self._under_way[transmit.channel] = self._network.begin(self._host, transmit, report, parts)

    def _forget(self, channel: str) -> None:
        self._repeated.discard(channel)
        self._parts.pop(channel, None)
        exchange = self._under_way.pop(channel, None)
        if exchange is not None:
            exchange.forget()

    async def stop(self) -> None:
        """Close every connection. Requests in flight are not answered."""
        for channel in list(self._under_way):
            self._forget(channel)


class MemoryListener:
    """The incoming connections of a node on the in-memory network, for all its listeners."""

    region_from: ClassVar[int | None] = None

    def __init__(
        self, base: LocalBase, settings: NodeSettings, network: MemoryNetwork, vault: Vault | None = None
    ) -> None:
        self.authorizer = Authorizer(settings) if settings.authorizer_class_name else None
        """Judges requests; None if every client may do everything."""
        self._base = base
        self._network = network
        self._vault = vault
        self._denials = DenialReport(network.timers.call_later, self._send_to_handler)
        self._node_id = settings.node_id
        self._endpoints = (*settings.listeners, *settings.advertised_listeners)
        self._handler: ActorAddress | None = None
        self._records: ActorAddress | None = None
        self.request_metrics: RequestMetrics | None = None
        """The request metrics; None if requests are not counted."""
        self._waiting: list[tuple[_InFlightRequest, str]] = []
        self._exchanges: dict[int, _InFlightRequest] = {}
        """Unanswered requests, by connection."""
        self._parts: dict[int, list[AnyMessage]] = {}
        """Parts that precede a response, by connection."""
        self._idle = IdleFetchSessions(network.timers.call_later, base.clock.now, self._respond, self._send_to_fetches)
        self._throttle = Throttle(base, settings, base.clock.now, network.timers.call_later, self._report_throttles)
        self._muted_until: dict[tuple[str, str], float] = {}
        """The times until which clients are muted, by user and client id."""
        self.address: ActorAddress = base.external_endpoint("listener", self.receive)

    def connection_counts(self) -> tuple[tuple[tuple[str, ...], tuple[float, ...]], ...]:
        """Return no rows, because this network has no sockets."""
        return ()

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener by name."""
        return {endpoint.listener: endpoint.port for endpoint in self._endpoints}

    async def bind(self) -> None:
        """Register the listeners. Raises OSError if another node already uses one of the endpoints."""
        for endpoint in self._endpoints:
            there, _ = self._network.listeners.setdefault((endpoint.host, endpoint.port), (self, endpoint.listener))
            if there is not self:
                raise OSError(f"listener {endpoint.listener}://{endpoint.host}:{endpoint.port} is already in use")

    async def stop(self) -> None:
        """Remove the listeners. Requests in progress fail with "connection closed"."""
        for place, (listener, _) in list(self._network.listeners.items()):
            if listener is self:
                del self._network.listeners[place]
        self._idle.stop()
        self._throttle.stop()
        self._denials.stop()
        exchanges, self._exchanges = self._exchanges, {}
        for exchange in exchanges.values():
            exchange.carry(lambda closed: closed.end_with_failure("connection closed"))

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle a message of an actor."""
        match message:
            case ClientPart(id, part):
                self._parts.setdefault(id, []).append(part)
            case ClientResponse():
                self._respond(message)
            case ClientResponses(responses):
                for response in responses:
                    self._respond(response)
            case WakeFetchSessions(session_ids):
                self._idle.wake(session_ids)
            case CloseClient(id, reason):
                self._parts.pop(id, None)
                self._answer(id, lambda exchange: exchange.end_with_failure(f"connection closed: {reason}"))
            case AclsChanged():
                assert self.authorizer is not None
                self.authorizer.change(message)
            case ClientQuotasConfigured(quotas):
                self._throttle.configure(quotas)
            case ServeClients(handler, records):
                self._handler, self._records = handler, records or handler
                for exchange, listener in self._waiting:
                    if not exchange.over:
                        self._submit(exchange, listener)
                self._waiting.clear()
            case _:
                _log.error(
                    "The listener gateway ignores an unexpected %s message from actor %s",
                    type(message).__name__,
                    sender,
                )

    def _respond(self, message: ClientResponse) -> None:
        id, response = message.connection, message.response
        if self.request_metrics is not None:
            self.request_metrics.count_answers(id, (message.correlation_id,))
            self.request_metrics.drop_requests(id)
        if message.rest:
            self._idle.rest(message)
        parts: Sequence[Part] = tuple(self._parts.pop(id, ()))
        if id in self._exchanges and (edit := self._exchanges[id].edit) is not None and response is not None:
            response, parts = edit(response, parts)
        if id in self._exchanges and self._exchanges[id].throttle_ms and response is not None:
            response = request_faults.with_throttle_time(response, self._exchanges[id].throttle_ms)
        answered, watcher, exchange = self._network.answered, self._network.watcher, self._exchanges.get(id)
        if exchange is not None and exchange.charge is not None and self._throttle.has_quotas:
            response, parts = self._respond_charged(exchange, exchange.charge, response, parts)
        if exchange is not None and (answered is not None or watcher is not None):
            whole = response if response is None else join_parts(parts, response)
            if answered is not None:
                answered(exchange.transmit.request, whole)
            if watcher is not None:
                watcher.observe_response(id, whole)
        self._answer(id, lambda exchange: exchange.end_with_response(tuple(parts), response))

    def _respond_charged(
        self, exchange: _InFlightRequest, charge: Charge, response: Message | None, parts: Sequence[Part]
    ) -> tuple[Message | None, Sequence[Part]]:
        """Charge a request to its client's quotas, and mute a throttled client (rule 6).

        Returns:
            The response with the throttle time. It has no records if the client is throttled and the request a fetch.
        """
        throttle, id, header = self._throttle, exchange.connection, _header(exchange.transmit)
        if isinstance(response, FetchResponse):
            whole: FetchResponse = join_parts(parts, response)
            delay = throttle.charge_fetch(charge, id, header, sum(each.body.size for each in whole.partitions))
            if delay:
                (response, throttled), parts = throttle_fetch(charge, whole, delay), ()
                if throttled is not None:
                    self._send_to_fetches(throttled)
        else:
            request = exchange.request
            produced = request.partitions if isinstance(request, ProduceRequest) else ()
            size = sum(each.records.body.size for each in produced)
            delay = throttle.charge(charge, id, header, size, response is not None)
        if delay:
            client = exchange.principal, exchange.transmit.client_id
            self._muted_until[client] = max(self._muted_until.get(client, 0.0), throttle.now() + delay / 1000)
        return response and request_faults.with_throttle_time(response, delay), parts

    def _report_throttles(self, throttled: ClientsThrottled) -> None:
        """Report throttled clients to the request handler."""
        self._send_to_handler(throttled)

    def _send_to_handler(self, message: Message) -> None:
        """Send a message to the request handler."""
        if self._handler is not None:
            self._base.inject(self._handler, message, self.address)

    def _send_to_fetches(self, message: Message) -> None:
        """Send a message to the actor that handles fetches."""
        if self._records is not None:
            self._base.inject(self._records, message, self.address)

    def _answer(self, connection: int, deliver: Callable[[_InFlightRequest], None]) -> None:
        exchange = self._exchanges.pop(connection, None)
        if exchange is not None:
            exchange.carry(deliver)

    def handle_request(self, exchange: _InFlightRequest, listener: str) -> None:
        """Handle a request that arrives. Until `ServeClients` arrives, the request waits."""
        self._exchanges[exchange.connection] = exchange
        if self._handler is None:
            self._waiting.append((exchange, listener))
        else:
            self._submit(exchange, listener)

    def _submit(self, exchange: _InFlightRequest, listener: str) -> None:
        """Pass on a request, or inject a fault into it."""
        faults, transmit = self._network.faults, exchange.transmit
        fault = None if faults is None else faults.next_fault(self._node_id, transmit.client_id, exchange.request)
        if fault is None:
            self._forward(exchange, listener)
            return
        id, api = transmit.correlation_id, API_BY_REQUEST[type(transmit.request)].name
        hit = FaultInjected(exchange.connection, id, transmit.client_id, api, fault.kind, fault.value)
        self._send_to_handler(hit)
        response = fault.response(exchange.request)
        if response is not None:
            self._answer(exchange.connection, lambda answered: answered.end_with_response((), response))
        elif fault.kind == request_faults.DISCONNECT:
            self._answer(
                exchange.connection, lambda closed: closed.end_with_failure("connection closed: an injected fault")
            )
        elif fault.kind == request_faults.DELAY:
            self._network.timers.call_later(fault.value, lambda: self._forward(exchange, listener))
        elif fault.kind != request_faults.BLACKHOLE:
            if fault.kind == request_faults.LOSE_RESPONSE:
                del self._exchanges[exchange.connection]
            else:
                exchange.throttle_ms = fault.value
            self._forward(exchange, listener)

    def _forward(self, exchange: _InFlightRequest, listener: str) -> None:
        transmit, connection = exchange.transmit, exchange.connection
        if not self._authenticates(exchange):
            reason = "connection closed: authentication failed"
            self._answer(connection, lambda refused: refused.end_with_failure(reason))
            return
        allowed, throttle = transmit.request, self._throttle
        if throttle.has_quotas or self._muted_until:
            header = _header(transmit)
            exchange.charge = charge = throttle.admit(exchange.principal, header, allowed, throttle.now())
            if charge is not None:
                muted = self._muted_for(exchange)
                if muted > 0:
                    self._network.timers.call_later(muted, lambda: self._forward_later(exchange, listener))
                    return
                allowed = throttle.cap(charge, allowed)
        if self.authorizer is not None:
            allowed = self._permitted_part(exchange, self.authorizer, allowed)
            if allowed is None:
                return
        request = ClientRequest(connection, transmit.correlation_id, transmit.client_id, listener, allowed)
        to = self._records if type(transmit.request) in CARRIERS else self._handler
        if to is not None:
            if self.request_metrics is not None:
                self.request_metrics.start_times((request,))
            if self._network.watcher is not None:
                self._network.watcher.observe_request(connection, transmit.endpoint.host, exchange.request)
            if self._idle.hold_if_idle(request):
                self._network.represent_polls(exchange, self._idle)
                return
            for part in exchange.parts:
                self._base.inject(to, ClientPart(connection, part), self.address)
            self._base.inject(to, request, self.address)

    def _muted_for(self, exchange: _InFlightRequest) -> float:
        """Return for how many more seconds the client of a request is muted."""
        until = self._muted_until.get((exchange.principal, exchange.transmit.client_id), 0.0)
        return until - self._throttle.now()

    def _forward_later(self, exchange: _InFlightRequest, listener: str) -> None:
        """Forward the request of a client that was muted, unless it has ended meanwhile."""
        if not exchange.over and exchange.connection in self._exchanges:
            self._forward(exchange, listener)

    def _authenticates(self, exchange: _InFlightRequest) -> bool:
        """Return whether the client is who it says (rule 4)."""
        user = exchange.user
        if self._vault is None or user not in self._network.users:
            return True
        accepted = self._vault.credential(MECHANISM, user, False) is not None
        if self._network.watcher is not None:
            self._network.watcher.observe_authentication(exchange.transmit.endpoint.host, user, accepted)
        return accepted

    def _permitted_part(self, exchange: _InFlightRequest, authorizer: Authorizer, request: Message) -> Message:
        """Return what a client may do of its request; None if it is refused, and answered."""
        host, transmit = exchange.transmit.endpoint.host, exchange.transmit
        judged = authorizer.judge(request, exchange.principal, exchange.host, True)
        if self._network.watcher is not None:
            self._network.watcher.observe_judgement(host, exchange.principal, transmit.request, judged.refused is None)
        if judged.refused is not None:
            api = API_BY_REQUEST[type(transmit.request)].name
            self._denials.add(denial_of(exchange.principal, exchange.host, transmit.client_id, api, judged.refused))
        exchange.edit = judged.edit
        if judged.request is None:
            self._answer(exchange.connection, lambda answered: answered.end_with_response((), judged.refusal))
        return judged.request


def _header(transmit: Transmit) -> RequestHeader:
    api = API_BY_REQUEST[type(transmit.request)]
    return RequestHeader(api.key, transmit.request.version, transmit.correlation_id, transmit.client_id)


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one <= other else (other, one)
