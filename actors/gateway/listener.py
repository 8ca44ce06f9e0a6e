"""ListenerGateway accepts the connections of clients, controllers and other brokers.

Rule 1: it is outside the actor system. A decoded request is injected as `ClientRequest`, and `ClientResponse` comes
        back as a message. Until the gateway receives `ServeClients`, connections wait in the listening socket
        (broker.md 7.1).
Rule 2: each connection has one request in progress at a time, or several Produce requests. Responses keep the order of
        requests (broker.md 3.7, `connection`).
Rule 3: an invalid request closes its connection, and one log line names peer, API and version. Other clients are not
        affected (broker.md 6.3).
Rule 4: memory is bounded. While a peer does not read its responses, its connection does not read the socket. While a
        complete request waits for its turn, the connection stops reading when READ_AHEAD bytes are buffered
        (`connection`). `limits` has the other limits for peers.
Rule 5: if a node has several listeners, requests of controllers and brokers (`messages.apis`, `control`) are accepted
        only on the inter-broker listener and on the listener of control.plane.listener.name. On other listeners they
        are refused with code 31 and do not reach an actor.
Rule 6: while the actors are busy, a connection that has sent further requests already begins the next one only in its
        turn. A client that waits for each response is therefore not held up by clients that do not. The actors are busy
        if more messages wait for them than they handle in a turn of the loop, at most BUSY. Each turn of the loop
        begins at least one of these requests.
Rule 7: clients that exceed a quota are throttled (`throttling`).
Rule 8: idle polls of an idle fetch session do not reach an actor either: the listener answers them (`idle_polls`).
Rule 9: the Produce requests that arrive between two turns of the actors are one message, also those of different
        connections. With client quotas, they are those of one connection, so that no client pays for another's time.

Kafka: `SocketServer`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Sequence
from itertools import groupby

from thespian.actors import ActorAddress

from actors.core.security.access import Authorizer
from actors.core.security.listener_security import UNPROTECTED, Security
from actors.gateway.authentication import Deadlines
from actors.gateway.connection import UNDER_WAY, Connection
from actors.gateway.idle_polls import IdleFetchSessions
from actors.gateway.limits import LINES_PER_SECOND, ConnectionCount, FileLimit, MemoryPool
from actors.gateway.metrics import RequestMetrics
from actors.gateway.paced_reports import DenialReport, PacedReport
from actors.gateway.request_faults import RequestFault, RequestFaults
from actors.gateway.sliced_tasks import SlicedTaskQueue
from actors.gateway.throttling import Throttle
from actors.gateway.vault import Vault
from actors.runtime import LocalBase, RealClock
from actors.runtime.rate_limited_logger import RateLimitedLogger
from messages import network
from messages.acls import AclsChanged
from messages.apis import CARRIERS
from messages.apis.produce import ProduceRequest
from messages.broker import LogFileFailed
from messages.client_quotas import ClientQuotasConfigured, ClientsThrottled, FetchThrottled
from messages.cluster import Endpoint
from messages.delegation_tokens import DelegationTokensChanged
from messages.node import NodeSettings, ServeClients
from messages.vocabulary import Message
from messages.wire import RequestHeader
from messages.wire.primitives import TEXTS

_log = logging.getLogger("kafka_actors.listener")

_audit = logging.getLogger("kafka.authorizer.logger")

BACKLOG = 128
ACCEPTED_AT_ONCE = 16
"""Maximum number of connections accepted in a turn of the loop; each takes 0.1 ms, and then has bytes to read."""
RUSH = 0.001
"""Seconds since the last accepted connection within which several are accepted in a turn. Else it is one, because the
call that finds no further one costs as much as a tenth of an accepted connection."""
NO_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
PAUSE = 1.0
"""Seconds without accepting after the system had no resources for a connection."""
REGION_FROM = 32 * 1024
"""Minimum number of bytes of records that are sent from their file: below, the calls cost more than the copy.

Sending from the file takes half the CPU with records of 100 bytes, and a third with 1 KB.
"""
TURN_SECONDS = 0.002
"""CPU seconds for large requests and responses in a turn of the loop."""
BUSY = 64
"""Maximum number of messages that wait for the actors when a pipelined request begins: some milliseconds of work."""
FAILURES_SECONDS = 1.0
"""Seconds from the first failed authentication to the report of all since then."""
MOST_AUTHENTICATED = 100
"""Maximum number of different clients in a report of those that have authenticated."""
TOGETHER_BYTES = 1 << 20
"""Number of bytes of Produce requests after which no further one enters their message."""
GRAIN = 0.5
"""Resolution in seconds of the time of the last activity; at most a twentieth of connections.max.idle.ms."""


class ListenerGateway:
    """All listeners of a node with their connections; it runs on the node's asyncio loop."""

    def __init__(
        self, base: LocalBase, settings: NodeSettings, security: Security = UNPROTECTED, vault: Vault | None = None
    ) -> None:
        self._base = base
        self._security = security
        self.vault = vault or Vault()
        self.region_from = None if any(each.tls for each in security.values()) else REGION_FROM
        """Minimum size of records that are sent from their file; None if any connection must encrypt them."""
        self._failures: Counter[tuple[str, str]] = Counter()
        """Failed authentications that the request handler does not know yet, by listener and mechanism."""
        self._authenticated: dict[tuple[str, str, str, str], tuple[int, int]] = {}
        """Listener, mechanism, principal and host of clients that have authenticated -> lifetime in ms and number; the
        request handler does not know them yet."""
        self.deadlines = Deadlines(settings.connections_max_idle_ms)
        self._logins = PacedReport(_call_later, self._report_authenticated)
        self.denials = DenialReport(_call_later, self._send_to_handler)
        self.settings = settings
        self.bench = SlicedTaskQueue(TURN_SECONDS)
        self.memory = MemoryPool(settings.queued_max_request_bytes)
        self.log = RateLimitedLogger(_log, LINES_PER_SECOND, 1, RealClock.now)
        self.audit = RateLimitedLogger(_audit, LINES_PER_SECOND, 1, RealClock.now)
        names = {endpoint.listener for endpoint in settings.listeners}
        of_cluster = {settings.inter_broker_listener_name, settings.control_plane_listener_name}
        self.trusted = frozenset(names if len(names) == 1 else names & of_cluster)
        """The listeners that controllers and brokers may use (rule 5)."""
        self._sockets: list[tuple[Endpoint, socket.socket]] = []
        self._count = ConnectionCount(settings, FileLimit.of_process())
        self._connections: OrderedDict[int, Connection] = OrderedDict()
        """The connections by id, in the order of their last activity."""
        self._grain = min(GRAIN, settings.connections_max_idle_ms / 20_000)
        self._accepted = 0
        self._accepted_at = 0.0
        """The loop's time of the last accepted connection."""
        self._waiting: deque[Connection] = deque()
        """Connections with pipelined requests, in the order of their turns (rule 6)."""
        self._busy = BUSY
        """Number of waiting messages from which on the actors are busy."""
        self._giving_turns = self._gives_turn = False
        self._together: list[network.ClientRequest] = []
        """Produce requests for the next turn of the actors (rule 9)."""
        self._together_bytes = 0
        base.loop.before_turn = self._pass_on
        self._serving = False
        self.authorizer = Authorizer(settings) if settings.authorizer_class_name else None
        """Judges requests; None if every client may do everything."""
        self.faults: RequestFaults | None = None
        """The faults and the journal of requests; None if the node is not one of a cluster for tests."""
        self.throttle: Throttle | None = None
        """The client quotas; None if no client has one."""
        self._throttle = Throttle(base, settings, RealClock.now, _call_later, self._report_throttles)
        self.paused = False
        """Whether the node is paused: no connection is read."""
        self._full: set[str] = set()
        """Listeners that stopped accepting because the limit was reached."""
        self._cut: dict[str, socket.socket] = {}
        """Listeners that clients cannot reach, each with the connection that fills its queue."""
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._handler: ActorAddress | None = None
        self._records: ActorAddress | None = None
        self._logs: ActorAddress | None = None
        self.request_metrics: RequestMetrics | None = None
        """The request metrics; None if requests are not counted."""
        self._idle = IdleFetchSessions(_call_later, base.clock.now, self._respond, self._send_to_fetches)
        self.address: ActorAddress = base.external_endpoint("listener", self.receive)

    @property
    def ports(self) -> dict[str, int]:
        """The bound port of each listener, by listener name; port 0 in the settings means a free port."""
        return {endpoint.listener: bound.getsockname()[1] for endpoint, bound in self._sockets}

    def connection_counts(self) -> list[tuple[tuple[str, ...], tuple[float, ...]]]:
        """Return the number of open connections of each listener. The thread of the metrics server calls this."""
        found = Counter(each.listener for each in self._connections.copy().values())
        return [((endpoint.listener,), (found[endpoint.listener],)) for endpoint in self.settings.listeners]

    async def bind(self) -> None:
        """Bind every listener.

        New connections wait in the socket's backlog until the node accepts them.

        Raises:
            OSError: A listener cannot be bound, or a host of max.connections.per.ip.overrides is unknown. The error
                text names the listener or host.
        """
        self._count.resolve()
        try:
            for endpoint in self.settings.listeners:
                self._sockets.append((endpoint, _bound(endpoint)))
        except OSError:
            self._close_sockets()
            raise

    async def stop(self) -> None:
        """Close the listeners and every connection. Requests in progress are not answered."""
        loop = asyncio.get_running_loop()
        self._serving = False
        self._idle.stop()
        self._throttle.stop()
        self.bench.close()
        for timer in self._timers.values():
            timer.cancel()
        for timed in (self._logins, self.denials, self.deadlines):
            timed.stop()
        for _, bound in self._sockets:
            loop.remove_reader(bound)
        self._close_sockets()
        for connection in list(self._connections.values()):
            connection.close()
        await asyncio.sleep(0)
        for connection in list(self._connections.values()):
            connection.abort()
        await asyncio.sleep(0)

    def pause(self) -> None:
        """Pause the node: it accepts no connections, reads no data, and answers no idle polls."""
        self.paused, loop = True, asyncio.get_running_loop()
        for _, bound in self._sockets:
            loop.remove_reader(bound)
        self._idle.wake_all()
        for connection in list(self._connections.values()):
            connection.pace()

    def resume(self) -> None:
        """Resume with the requests that arrived meanwhile."""
        self.paused = False
        if self._serving:
            self._serve()
        for connection in list(self._connections.values()):
            connection.pace()

    def cut(self, listener: str) -> None:
        """Make a listener unreachable: its connections are silent, and new ones time out, until `restore`."""
        loop = asyncio.get_running_loop()
        for endpoint, bound in self._sockets:
            if endpoint.listener == listener and listener not in self._cut:
                loop.remove_reader(bound)
                bound.listen(0)  # one connection fills this queue; the system ignores clients then, as a dead host does
                self._cut[listener] = filler = socket.socket(bound.family)
                filler.setblocking(False)
                filler.connect_ex(bound.getsockname())
        for connection in self._connections.values():
            if connection.listener == listener:
                connection.silence()

    def restore(self) -> None:
        """End `cut`: the silent connections are closed, and new ones are accepted."""
        cut, self._cut = self._cut, {}
        for endpoint, bound in self._sockets:
            if endpoint.listener in cut:
                cut[endpoint.listener].close()
                bound.listen(BACKLOG)
        for connection in list(self._connections.values()):
            if connection.listener in cut:
                connection.abort()
        if self._serving and cut:
            self._serve()

    def _close_sockets(self) -> None:
        for bound in (*self._cut.values(), *(bound for _, bound in self._sockets)):
            bound.close()

    # ------------------------------------------------------------------------------------------------ mail

    def receive(self, message: Message, sender: ActorAddress) -> None:
        """Handle a message of an actor (on the loop's thread)."""
        match message:
            case network.ClientResponse():
                self._respond(message)
            case network.ClientResponses(responses):
                for connection, of_connection in groupby(responses, lambda response: response.connection):
                    self._respond_all(connection, tuple(of_connection))
            case network.WakeFetchSessions(session_ids):
                self._idle.wake(session_ids)
            case network.ClientPart(id, part):
                if id in self._connections:
                    self._connections[id].take(part)
            case network.CloseClient(id, reason):
                if id in self._connections:
                    self._connections[id].refuse(reason)
            case ClientQuotasConfigured(quotas):
                self._throttle.configure(quotas)
                self.throttle = self._throttle if self._throttle.has_quotas else None
            case AclsChanged():
                assert self.authorizer is not None
                self.authorizer.change(message)
            case DelegationTokensChanged():
                self.vault.change_tokens(message)
            case ServeClients(handler, records, logs):
                self._handler, self._records, self._logs = handler, records or handler, logs
                self._serve()
            case _:
                _log.error(
                    "The listener gateway ignores an unexpected %s message from actor %s",
                    type(message).__name__,
                    sender,
                )

    def _respond(self, message: network.ClientResponse) -> None:
        if message.rest:
            self._idle.rest(message)
        self._respond_all(message.connection, (message,))

    def _respond_all(self, id: int, responses: Sequence[network.ClientResponse]) -> None:
        """Pass on the responses to requests of one connection."""
        if self.request_metrics is not None:
            self.request_metrics.count_answers(id, [response.correlation_id for response in responses])
        if id in self._connections:
            self._connections[id].respond(responses)

    # ------------------------------------------------------------------------------------------------ accepting

    def _serve(self) -> None:
        """Start to accept connections; if the node is paused, `resume` does this later."""
        self._serving = True
        if self.paused:
            return
        loop = asyncio.get_running_loop()
        for endpoint, bound in self._sockets:
            self._full.discard(endpoint.listener)
            if endpoint.listener not in self._cut:
                loop.add_reader(bound, self._accept, endpoint.listener, bound)

    def _accept(self, listener: str, bound: socket.socket) -> None:
        """Accept waiting connections, up to the limit."""
        before, self._accepted_at = self._accepted_at, RealClock.now()
        for _ in range(ACCEPTED_AT_ONCE if self._accepted_at - before < RUSH else 1):
            if not self._count.has_capacity(listener):
                asyncio.get_running_loop().remove_reader(bound)
                self._full.add(listener)
                return
            try:
                accepted, (host, port, *_) = bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno not in NO_RESOURCES:
                    raise
                self.log.warning(
                    "Listener %s accepts no connections for the next %g s: %s", listener, PAUSE, error.strerror
                )
                loop = asyncio.get_running_loop()
                loop.remove_reader(bound)
                self._timers["accept"] = loop.call_later(PAUSE, self._serve)
                return
            address = TEXTS[host.removeprefix("::ffff:").encode()]  # shared by the connections of a host
            refusal = self._count.begin(listener, address)
            if refusal:
                accepted.close()
                self.log.warning("Rejected a connection from %s on listener %s: %s", address, listener, refusal)
                continue
            self._accepted += 1
            try:
                security = self._security.get(listener)
                connection = Connection(self, self._accepted, listener, address, port, accepted, security)
            except OSError:  # the system watches no more sockets
                self._count.end(address)
                accepted.close()
                continue
            connection.read_ahead()

    # ------------------------------------------------------------------------------------------------ connections

    def add(self, connection: Connection) -> None:
        """Add a connection.

        If there are now too many, close the longest-idle one among the connections of unprotected listeners.
        """
        self._connections[connection.id] = connection
        connection.active_at = RealClock.now()
        if self._count.is_exceeded():
            others = (other for other in self._connections.values() if not self._count.is_protected(other.listener))
            quiet = next(others, None)
            if quiet is not None:
                quiet.refuse("the connection is needed by another broker")
        if "idle" not in self._timers:
            self._watch_idle()

    def active(self, connection: Connection) -> None:
        """Record activity on a connection."""
        now = RealClock.now()
        if now - connection.active_at > self._grain:
            connection.active_at = now
            self._connections.move_to_end(connection.id)

    def remove(self, connection: Connection) -> None:
        """Remove a connection. Later responses for it are dropped, and another connection may be accepted."""
        self._connections.pop(connection.id, None)
        if connection.waits_for_records:
            self._idle.gone(connection.id)
            self._send_to_fetches(network.ClientGone(connection.id))
        self._throttle.forget_connection(connection.id)
        if self.request_metrics is not None:
            self.request_metrics.drop_requests(connection.id)
        self._count.end(connection.address)
        if self._serving and self._full:
            self._serve()

    def disk_failed(self, error: OSError) -> None:
        """Report a file failure to the actor that manages the logs, because that actor cannot detect it."""
        if self._logs is not None:
            failed = LogFileFailed(error.filename, error.strerror or str(error))
            self._base.inject(self._logs, failed, self.address)

    def report_authentication(self, connection: Connection, mechanism: str, lifetime_ms: int) -> None:
        """Report that a client has authenticated. A message for each login took a tenth of its CPU."""
        authenticated, listener = self._authenticated, connection.listener
        client = listener, mechanism, connection.principal, connection.address
        if client not in authenticated and len(authenticated) >= MOST_AUTHENTICATED:
            client = listener, mechanism, "", ""
        authenticated[client] = lifetime_ms, authenticated.get(client, (0, 0))[1] + 1
        self._logins.send_soon()

    def _report_authenticated(self) -> bool:
        authenticated, self._authenticated = self._authenticated, {}
        if authenticated:
            found = [network.Authentications(*client, *last) for client, last in authenticated.items()]
            self._send_to_handler(network.ClientsAuthenticated(tuple(found)))
        return bool(authenticated)

    def authentication_failed(self, listener: str, mechanism: str) -> None:
        """Count a failed authentication; the request handler receives the numbers once a second."""
        self._failures[listener, mechanism] += 1
        if "failures" not in self._timers:
            self._timers["failures"] = asyncio.get_running_loop().call_later(FAILURES_SECONDS, self._report_failures)

    def _report_failures(self) -> None:
        del self._timers["failures"]
        failures, self._failures = self._failures, Counter()
        counts = [network.FailedAuthentications(*which, count) for which, count in failures.items()]
        self._send_to_handler(network.AuthenticationsFailed(tuple(counts)))

    def _report_throttles(self, throttled: ClientsThrottled) -> None:
        """Report throttled clients to the request handler."""
        self._send_to_handler(throttled)

    def _watch_idle(self) -> None:
        """Close the connections that were idle for too long. Schedule the next check."""
        most = self.settings.connections_max_idle_ms / 1000
        self._timers.pop("idle", None)
        if most < 0:
            return
        loop = asyncio.get_running_loop()
        for connection in list(self._connections.values()):
            left = connection.active_at + most - RealClock.now()
            if left > 0:
                self._timers["idle"] = loop.call_later(left, self._watch_idle)
                return
            connection.abort()

    def has_turn(self, connection: Connection) -> bool:
        """Return whether a connection with pipelined requests may begin one now (rule 6); if not, it waits."""
        if self._gives_turn or (self._base.queued < self._busy and (self._giving_turns or not self._waiting)):
            self._gives_turn = False
            return True
        self._waiting.append(connection)
        if len(self._waiting) == 1 and not self._giving_turns:
            asyncio.get_running_loop().call_soon(self._give_turns)
        return False

    def _give_turns(self) -> None:
        """Let waiting connections begin requests, until the actors are busy or the time of this turn is used up."""
        began = self.bench.cpu()
        self._busy = max(self._busy // 2, 1) if self._base.queued else min(2 * self._busy, BUSY)
        self._giving_turns = self._gives_turn = True
        while self._waiting and (self._gives_turn or self._base.queued < self._busy):
            self._waiting.popleft().take_turn()
            if self.bench.cpu() - began >= TURN_SECONDS:
                break
        self._giving_turns = self._gives_turn = False
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._give_turns)

    def submit(self, request: network.ClientRequest | network.ClientPart, size: int = 0) -> None:
        """Send the actors a request whose frame has `size` bytes, or a part of a large request."""
        to = self._handler
        if isinstance(request, network.ClientRequest):
            if request.request.__class__ is ProduceRequest:
                if not self._together:
                    self._base.wake()
                elif self.throttle is not None and self._together[0].connection != request.connection:
                    self._pass_on()
                self._together.append(request)
                self._together_bytes += size
                if len(self._together) >= UNDER_WAY or self._together_bytes >= TOGETHER_BYTES:
                    self._pass_on()
                return
            if self.request_metrics is not None:
                self.request_metrics.start_times((request,))
            if type(request.request) in CARRIERS:
                if self._idle.hold_if_idle(request):
                    return
                to = self._records
        if to is not None:
            self._base.inject(to, request, self.address)

    def _pass_on(self) -> None:
        """Send the actors the waiting Produce requests (rule 9)."""
        together, self._together, self._together_bytes = self._together, [], 0
        if together and self._records is not None:
            if self.request_metrics is not None:
                self.request_metrics.start_times(together)
            message = together[0] if len(together) == 1 else network.ClientRequests(tuple(together))
            self._base.inject(self._records, message, self.address)

    def fault_met(self, connection: int, header: RequestHeader, api: str, fault: RequestFault) -> None:
        """Report an injected fault to the request handler (rule 3 of `request_faults`)."""
        hit = network.FaultInjected(
            connection, header.correlation_id, header.client_id or "", api, fault.kind, fault.value
        )
        self._send_to_handler(hit)

    def fetch_throttled(self, throttled: FetchThrottled) -> None:
        """Report that an empty response was sent in place of the one to a fetch."""
        self._send_to_fetches(throttled)

    def _send_to_handler(self, message: Message) -> None:
        """Send a message to the request handler."""
        if self._handler is not None:
            self._base.inject(self._handler, message, self.address)

    def _send_to_fetches(self, message: Message) -> None:
        """Send a message to the actor that handles fetches."""
        if self._records is not None:
            self._base.inject(self._records, message, self.address)


def _call_later(seconds: float, then: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(seconds, then)


def _bound(endpoint: Endpoint) -> socket.socket:
    """Return a listening socket at the endpoint.

    If the endpoint has no host, the socket listens on all interfaces, IPv6 and IPv4, as in Java.
    """
    place = f"listener {endpoint.listener}://{endpoint.host}:{endpoint.port}"
    everywhere = endpoint.host in ("", "::") and socket.has_dualstack_ipv6()
    try:
        if everywhere:
            family, address = socket.AF_INET6, ("::", endpoint.port)
        else:
            family, address = _resolve(endpoint)
        bound = socket.create_server(address, family=family, backlog=BACKLOG, dualstack_ipv6=everywhere)
    except socket.gaierror as error:
        raise OSError(error.errno, f"{place} cannot be bound: {error.strerror}") from error
    except OSError as error:
        busy = error.errno == errno.EADDRINUSE
        why = f"port {endpoint.port} is in use" if busy else os.strerror(error.errno or 0)
        raise OSError(error.errno, f"{place} cannot be bound: {why}") from error
    bound.setblocking(False)
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted sockets inherit it
    return bound


def _resolve(endpoint: Endpoint) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return the address family and address to bind. IPv4 is preferred if the host has both."""
    found = socket.getaddrinfo(endpoint.host or None, endpoint.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, (str(address[0]), int(address[1]))
