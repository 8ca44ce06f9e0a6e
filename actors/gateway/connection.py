"""A client connection, which decodes requests and writes the responses in the order of the requests.

Rule 1: one request of a connection is in progress at a time. Exception: successive Produce requests are in progress
        together, up to UNDER_WAY requests and UNDER_WAY_BYTES. Their records are still appended in order, and no
        partition waits for another partition's replicas.
Rule 2: an invalid or forbidden request is refused in its turn: earlier requests are answered, and then the connection
        is closed.
Rule 3: the socket is read only while the connection can use more data. Beyond the requests in progress, it reads at
        most READ_AHEAD bytes, or one large request that fits into the memory pool.
Rule 4: `ConnectionState` defines when a request begins. `_beginning` and `_answering` are set only during a call.
"""

from __future__ import annotations

import asyncio
import enum
import socket
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import GeneratorType
from typing import Any, Protocol, TypeVar, cast

from actors.core.illegal_transition import enter
from actors.core.security.access import Authorizer, Edit, RefusedAccess
from actors.core.security.listener_security import ListenerSecurity, Tls
from actors.core.supported_apis import lacks
from actors.gateway import request_faults
from actors.gateway.authentication import Deadlines, SaslAuthentication
from actors.gateway.limits import MemoryPool, TraceRateLimit
from actors.gateway.paced_reports import DenialReport, denial_of
from actors.gateway.sliced_tasks import SlicedTaskQueue, free_parts
from actors.gateway.stream import Data, Piece, Stream
from actors.gateway.throttling import Charge, Throttle, throttle_fetch
from actors.gateway.tls_stream import TlsSocket, TlsStream
from actors.gateway.vault import OF_TOKENS, WITH_SECRETS, Vault
from actors.runtime import RealClock
from actors.runtime.rate_limited_logger import RateLimitedLogger
from messages import errors
from messages.apis import API_BY_KEY, API_BY_REQUEST, APIS
from messages.apis.fetch import FetchRequest, FetchResponse
from messages.apis.produce import ProduceRequest
from messages.client_quotas import FetchThrottled
from messages.network import (
    ANONYMOUS,
    ClientPart,
    ClientRequest,
    ClientResponse,
    client_request,
)
from messages.node import NodeSettings
from messages.parts import Part, join_parts
from messages.releases import NEWEST
from messages.vocabulary import Message
from messages.wire import LongSteps, RequestHeader, WireError, decoding_request, encoding_response_pieces
from messages.wire.batch_records import checking_produce
from messages.wire.primitives import TEXTS


class ConnectionState(enum.Enum):
    """The state of a connection that is not closed (the stream stores whether it is closed).

    It is entered only from the states that `PREVIOUS` contains. A request begins only in state READY, and only while
    there is no hold. With a hold, or in state REFUSING, the socket is not read. Kafka: `KafkaChannel.ChannelMuteState`.
    """

    READY = "Ready"
    DECODING = "Decoding"
    REFUSING = "Refusing"

    __hash__ = object.__hash__  # Enum's own hash is a Python function, which each request would call twice


READY, DECODING, REFUSING = ConnectionState

PREVIOUS: Mapping[ConnectionState, tuple[ConnectionState, ...]] = {
    READY: (DECODING,),
    DECODING: (READY,),
    REFUSING: tuple(ConnectionState),
}
"""State -> states from which it can be entered."""


class Hold(enum.Enum):
    """A reason to delay the next request of a connection; the value of each enum member describes it."""

    THROTTLED = "the client has exceeded a quota, or trace.client.bytes.per.second"
    DRAINING = "the client does not read its responses"
    FAILED = "the client has failed to authenticate, and is disconnected after a delay"
    MEMORY = "a large request waits for memory"
    TURN = "the client has sent further requests already, and other clients are served first"


T = TypeVar("T")

READ_AHEAD = 32 * 1024
"""Maximum number of bytes that are buffered while a complete request waits for its turn."""
UNDER_WAY = 64
UNDER_WAY_BYTES = 8 << 20
"""Maximum number of Produce requests of a connection in progress together, and of their bytes."""

FRAME_SIZE = 4
"""Bytes of a frame's size field, which Kafka does not count."""

_PRODUCE, _FETCH = API_BY_REQUEST[ProduceRequest].key, API_BY_REQUEST[FetchRequest].key
_OF_RECORDS = frozenset(api.key for api in APIS if api.carries_records)
_OF_THE_CLUSTER_TOO = _OF_RECORDS | {api.key for api in APIS if api.control}


class Gateway(Protocol):
    """The part of the listener gateway's interface that a connection uses."""

    settings: NodeSettings
    bench: SlicedTaskQueue
    memory: MemoryPool
    log: RateLimitedLogger
    paused: bool
    """Whether reading from all connections is paused."""
    authorizer: Authorizer | None
    """Judges requests; None if every client may do everything."""
    audit: RateLimitedLogger
    """The log of refused requests."""
    vault: Vault
    """The secrets that no actor sees."""
    trusted: frozenset[str]
    """The listeners that controllers and brokers may use."""
    faults: request_faults.RequestFaults | None
    """The faults and the journal of requests; None if the node is not one of a cluster for tests."""
    throttle: Throttle | None
    """The client quotas; None if no client has one."""
    denials: DenialReport
    """The report of refused operations."""
    deadlines: Deadlines
    """The connections of clients that have not authenticated yet."""

    def fault_met(self, connection: int, header: RequestHeader, api: str, fault: request_faults.RequestFault) -> None:
        """Report that a fault was injected into a request."""

    def add(self, connection: Connection) -> None:
        """Add a new connection."""

    def active(self, connection: Connection) -> None:
        """Record that bytes were sent or received on the connection."""

    def remove(self, connection: Connection) -> None:
        """Remove a closed connection."""

    def disk_failed(self, error: OSError) -> None:
        """Report that a file could not be read when its content was to be sent; the error contains the file's name."""

    def report_authentication(self, connection: Connection, mechanism: str, lifetime_ms: int) -> None:
        """Report that a client has authenticated."""

    def authentication_failed(self, listener: str, mechanism: str) -> None:
        """Report that a client has failed to authenticate."""

    def fetch_throttled(self, throttled: FetchThrottled) -> None:
        """Report that an empty response was sent in place of the one to a fetch."""

    def submit(self, request: ClientRequest | ClientPart, size: int = 0) -> None:
        """Send the actors a request whose frame has `size` bytes, or a part of a large request."""

    def has_turn(self, connection: Connection) -> bool:
        """Return whether a connection with pipelined requests may begin one now.

        If False, the gateway calls the connection's `take_turn` later.
        """


class _PendingResponse:
    """A pending request, or a response that waits until earlier responses are written."""

    __slots__ = "charge", "edit", "fault", "header", "pieces", "size", "taken"

    def __init__(self, header: RequestHeader, size: int) -> None:
        self.header = header
        self.size = size
        self.taken = False
        """Whether the actors have sent the response."""
        self.edit: Edit | None = None
        """Changes the response, because the client may not see or do everything."""
        self.fault: request_faults.RequestFault | None = None
        """The fault that was injected into the request."""
        self.charge: Charge | None = None
        """What the request has used; None if its client has no quota, or if it is exempt."""
        self.pieces: Sequence[Piece] | None = None
        """The encoded response."""


_NO_REQUESTS: deque[_PendingResponse] = deque()
"""The requests in progress of a connection without a request yet: an empty deque takes 0.6 KB."""
_NO_PARTS: list[Part] = []
_NO_HOLDS: dict[Hold, asyncio.TimerHandle | None] = {}
_NO_STEPS: dict[int, LongSteps[Any]] = {}
"""Shared by the connections that need no own list or dictionary: three empty ones take 0.2 KB."""


def _both(first: Edit, then: Edit) -> Edit:
    return lambda response, parts: then(*first(response, parts))


class Connection:
    """A client connection of a listener; `security` is None if the listener is PLAINTEXT."""

    __slots__ = (
        "__weakref__",
        *("_allowance", "_answering", "_began", "_beginning", "_bytes_under_way", "_exempt", "_gateway"),
        *("_handshaking", "_holds", "_host", "_only_produce", "_parts", "_peer", "_refusal", "_sasl"),
        *("_size", "_state", "_steps", "_stream", "_taken", "_tls", "_trusted", "_under_way"),
        *("active_at", "address", "id", "listener", "principal"),
    )

    def __init__(
        self,
        gateway: Gateway,
        id: int,
        listener: str,
        address: str,
        port: int,
        connected: socket.socket,
        security: ListenerSecurity | None = None,
    ) -> None:
        self.id = id
        self.listener = listener
        self.address = address
        self.principal = ANONYMOUS
        """The authenticated client."""
        self.active_at = 0.0
        """The loop's time of the last bytes sent or received."""
        settings = gateway.settings
        self._trusted = listener in gateway.trusted
        """Whether controllers and brokers may use this listener."""
        self._exempt = _OF_THE_CLUSTER_TOO if self._trusted or gateway.authorizer is not None else _OF_RECORDS
        """API keys without a size limit: those of the cluster, and those of which the trace records only the headers of
        the records."""
        self._gateway = gateway
        self._allowance = TraceRateLimit(settings.trace_client_bytes_per_second)
        self._peer, self._host = f"{address}:{port}", TEXTS[f"/{address}".encode()]
        self._under_way = _NO_REQUESTS
        self._bytes_under_way = 0
        self._began = 0.0
        """The loop's time when the decoding of the last request began, if clients have quotas."""
        self._only_produce = True
        """Whether all requests in progress are Produce requests."""
        self._state = READY
        self._holds = _NO_HOLDS
        """Why no request begins now (`Hold`), with the timer that ends it."""
        self._answering = False
        """Whether responses are being encoded: they are then sent together."""
        self._beginning = False
        """Whether requests are being begun. A response that arrives meanwhile begins no further request itself."""
        self._size = 0
        """Size in bytes of the request that is being decoded."""
        self._steps = _NO_STEPS
        """Unfinished steps of this connection in the sliced task queue."""
        self._parts = _NO_PARTS
        """Parts that precede the next response."""
        self._refusal = ""
        """In state REFUSING, the reason to close once the requests in progress are answered (rule 2)."""
        self._taken = 0
        """Bytes that this connection has taken from the memory pool."""
        self._sasl: SaslAuthentication | None = None
        """The authentication of this connection; None if its listener has no SASL."""
        most = settings.socket_request_max_bytes
        self._tls: Tls | None = None if security is None else security.tls
        self._handshaking = self._tls is not None
        """Whether the TLS handshake is not complete."""
        if security is not None and security.mechanisms:
            most = min(most, security.max_receive_bytes)
            self._sasl = SaslAuthentication(self, security, settings.api_versions_max)
        if self._tls is None:
            self._stream = Stream(connected, self, most)
        else:
            self._stream = TlsStream(TlsSocket(connected, self._tls.server, self._use_certificate), self, most)
        if security is not None:
            gateway.deadlines.add(self)
        gateway.add(self)

    @property
    def waits_for_records(self) -> bool:
        """Whether the oldest request in progress is a fetch."""
        return bool(self._under_way) and self._under_way[0].header.api_key == _FETCH

    def read_ahead(self) -> None:
        """Handle the bytes of a new connection that have arrived already."""
        self._stream.read_ahead()

    # ------------------------------------------------------------------------------------------------ the stream calls

    def connection_lost(self, disk_error: OSError | None) -> None:
        """Clean up after the connection was closed by either side or by a disk failure during a send."""
        if disk_error is not None:
            self._gateway.disk_failed(disk_error)
        for steps in list(self._steps.values()):
            steps.close()
        for timer in filter(None, self._holds.values()):
            timer.cancel()
        if self._sasl is not None:
            self._sasl.close()
        self._gateway.deadlines.remove(self)
        if self._handshaking:
            self.authentication_failed("TLS", "SSL handshake failed")
        self._gateway.remove(self)
        self._release_memory()

    def handle_bytes(self, count: int) -> None:
        """Handle bytes that the client sent."""
        self._gateway.active(self)
        self._begin_next()

    def pause_writing(self) -> None:
        """Stop handling new requests: too many bytes of responses wait for the client to read them."""
        self._hold(Hold.DRAINING)
        self._regulate()

    def resume_writing(self) -> None:
        """Handle new requests again, after all buffered responses were written to the socket."""
        self._release(Hold.DRAINING)

    def take_turn(self) -> None:
        """Begin requests: the connection had to wait for its turn."""
        self._release(Hold.TURN)

    def pace(self) -> None:
        """After the gateway was paused or resumed, stop or resume handling new requests and reading the socket."""
        self._begin_next()

    # ------------------------------------------------------------------------------------------------ requests

    def _begin_next(self) -> None:
        """Begin the requests whose turn it is."""
        if self._beginning:
            return
        self._beginning = True
        frames = self._stream.frames
        try:
            while frames.held and self._is_free():
                if frames.are_pipelined and not self._gateway.has_turn(self):
                    self._hold(Hold.TURN)
                    break
                frame = frames.take()
                if frame is None:
                    self._receive_more()
                    break
                self._begin(frame)
        except WireError as error:
            self._refuse_in_turn(str(error))
        finally:
            self._beginning = False
        self._regulate()

    def _is_free(self) -> bool:
        """Return whether the next request may begin (rule 1)."""
        if self._state is not READY or self._holds or self._gateway.paused or self._stream.is_closing:
            return False
        if not self._under_way:
            return True
        if not self._can_start_produce():
            return False
        key = self._stream.frames.next_key()
        if key is None:
            self._receive_more()
        return key == _PRODUCE

    def _can_start_produce(self) -> bool:
        """Return whether the connection may start another Produce request while earlier ones are in progress."""
        return self._only_produce and len(self._under_way) < UNDER_WAY and self._bytes_under_way < UNDER_WAY_BYTES

    def _receive_more(self) -> None:
        """Refuse an incomplete request that is too large, or reserve memory for the part that has not arrived.

        See rules 3 and 4 of `limits`.
        """
        begun = self._stream.frames.next_frame_head()
        if begun is None or self._taken:
            return
        size, head = begun
        if len(head) >= 2 and not self._is_too_large(size, int.from_bytes(head[:2], "big")):
            if self._gateway.memory.take(size, partial(self._release, Hold.MEMORY)):
                self._taken = size
            else:
                self._hold(Hold.MEMORY)

    def _hold(self, hold: Hold, timer: asyncio.TimerHandle | None = None) -> None:
        """Begin no request until the hold is released."""
        if self._holds is _NO_HOLDS:
            self._holds = {}
        self._holds[hold] = timer

    def _release(self, hold: Hold) -> None:
        """Remove this hold, and begin requests if no other hold is left."""
        self._holds.pop(hold, None)
        self._begin_next()

    def _release_memory(self) -> None:
        taken, self._taken = self._taken, 0
        self._gateway.memory.give_back(taken)

    def _is_too_large(self, size: int, key: int) -> bool:
        """Return whether the request exceeds the limit for recorded requests. If so, refuse it."""
        most = self._gateway.settings.trace_client_request_max_bytes
        if size <= most or key in self._exempt:
            return False
        self._refuse_in_turn(f"a request of {size} bytes, {most} are allowed (trace.client.request.max.bytes)")
        return True

    def _charge(self, size: int) -> None:
        """Count `size` bytes that the trace records, and throttle the connection if it exceeds its rate limit."""
        self._allowance.use(size, RealClock.now())
        self._throttle_if_due()

    def _throttle_if_due(self) -> None:
        """Throttle the connection if it exceeds its rate limit for trace data."""
        delay = self._allowance.delay(RealClock.now())
        if delay:
            self._mute(delay)

    def _mute(self, seconds: float) -> None:
        """Throttle the connection: begin no request for `seconds` seconds (KIP-219)."""
        loop, timer = asyncio.get_running_loop(), self._holds.get(Hold.THROTTLED)
        until = loop.time() + seconds
        if timer is None or until > timer.when():
            if timer is not None:
                timer.cancel()
            self._hold(Hold.THROTTLED, loop.call_at(until, self._unthrottle))

    def _unthrottle(self) -> None:
        self._holds.pop(Hold.THROTTLED, None)
        self._throttle_if_due()  # the client may have used more of its quota meanwhile
        self._begin_next()

    def _begin(self, frame: Data) -> None:
        if self._sasl is not None and self._sasl.take(frame):
            return
        size, key = len(frame), int.from_bytes(frame[:2], "big")
        exempt = key in self._exempt
        if not exempt and self._is_too_large(size, key):
            return
        self._state = enter(self._peer, self._state, DECODING, PREVIOUS)
        self._size = size
        if not exempt:
            self._charge(size)
        if self._gateway.throttle is not None:
            self._began = self._gateway.throttle.now()
        self._work(decoding_request(frame), self._check, self._refuse_in_turn)

    def _work(self, steps: LongSteps[T] | T, then: Callable[[T], None], refuse: Callable[[str], None]) -> None:
        """Run the steps and call `then` with their result, or `refuse` with the error text."""
        if not isinstance(steps, GeneratorType):
            then(cast(T, steps))
            return
        try:
            long = next(steps)
        except StopIteration as done:
            then(done.value)
            return
        except WireError as error:
            refuse(str(error))
            return

        def finish(result: T | WireError) -> None:
            self._steps.pop(id(steps), None)
            if isinstance(result, WireError):
                refuse(str(result))
            elif not self._stream.is_closing:
                then(result)

        if self._steps is _NO_STEPS:
            self._steps = {}
        self._steps[id(steps)] = steps
        self._gateway.bench.continue_steps(steps, finish, long)

    def _check(self, read: tuple[RequestHeader, tuple[Part, ...], Message]) -> None:
        """Check the records of a Produce request, and pass the request on."""
        header, parts, request = read
        release = self._gateway.settings.api_versions_max
        if release != NEWEST and lacks(release, header.api_key, header.version, header.client_id or ""):
            self._refuse_in_turn(f"{API_BY_REQUEST[type(request)].name} v{header.version}: Kafka {release} lacks it")
            return
        if isinstance(request, ProduceRequest):

            def submit(seen: ProduceRequest) -> None:
                self._submit((header, parts, seen))

            self._work(checking_produce(request), submit, self._refuse_in_turn)
        else:
            self._submit(read)

    def _submit(self, read: tuple[RequestHeader, tuple[Part, ...], Message]) -> None:
        """Pass on a decoded request, refuse it, or inject a fault into it."""
        if self._taken:
            self._release_memory()
        self._state = enter(self._peer, self._state, READY, PREVIOUS)
        header, parts, request = read
        under_way = _PendingResponse(header, self._size)
        if self._under_way is _NO_REQUESTS:
            self._under_way = deque()
        self._under_way.append(under_way)
        self._bytes_under_way += self._size
        self._only_produce = header.api_key == _PRODUCE  # if False, the next request waits until this one is answered
        if header.api_key in WITH_SECRETS:
            under_way.edit = partial(self._gateway.vault.reveal, self.principal)
            if isinstance(request, OF_TOKENS) and not self._may_use_tokens():
                refusal = API_BY_REQUEST[type(request)].refusal(request, errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
                self._refuse_request(header, request, parts, refusal)
                return
            request = self._gateway.vault.conceal(request, self.principal)
            read = header, parts, request
        authorizer = self._gateway.authorizer
        if authorizer is not None:
            judged = authorizer.judge(request, self.principal, self.address, self._trusted)
            if judged.refused is not None:
                self._log_refusal(header, judged.refused)
            if judged.request is None:
                self._refuse_request(header, request, parts, judged.refusal)
                return
            request = judged.request
            if judged.edit is not None:
                under_way.edit = judged.edit if under_way.edit is None else _both(judged.edit, under_way.edit)
            read = header, parts, request
        elif not self._trusted and API_BY_REQUEST[type(request)].control:
            self._gateway.log.warning(
                "Rejecting %s from %s: listener %s does not permit it",
                type(request).__name__,
                self._peer,
                self.listener,
            )
            refusal = API_BY_REQUEST[type(request)].refusal(
                join_parts(parts, request), errors.CLUSTER_AUTHORIZATION_FAILED
            )
            self.respond((ClientResponse(self.id, header.correlation_id, refusal),))
            return
        throttle = self._gateway.throttle
        if throttle is not None:
            under_way.charge = charge = throttle.admit(self.principal, header, request, self._began)
            if charge is not None:
                read = header, parts, throttle.cap(charge, request)
        faults = self._gateway.faults
        if faults is not None:
            fault = faults.next_fault(self._gateway.settings.node_id, header.client_id or "", request)
            if fault is not None:
                under_way.fault = fault
                self._gateway.fault_met(self.id, header, API_BY_REQUEST[type(request)].name, fault)
                self._meet(fault, read)
                return
        self._forward(read)

    def _may_use_tokens(self) -> bool:
        """Return whether the client may use the APIs of tokens: it has authenticated, but not by a token."""
        if self._sasl is not None:
            return not self._sasl.by_token
        return self._tls is not None and self.principal != ANONYMOUS

    def _refuse_request(self, header: RequestHeader, request: Message, parts: Sequence[Part], refusal: Message) -> None:
        """Send the response to a request that the authorizer refuses."""
        if isinstance(request, ProduceRequest) and request.acks == 0:
            self.refuse("a refused Produce request with acks=0")
            return
        if parts:
            refusal = API_BY_REQUEST[type(request)].refusal(
                join_parts(parts, request), errors.CLUSTER_AUTHORIZATION_FAILED
            )
        self.respond((ClientResponse(self.id, header.correlation_id, refusal),))

    def _log_refusal(self, header: RequestHeader, refused: RefusedAccess) -> None:
        """Write Kafka's line about a refused operation, and report it."""
        api = API_BY_KEY[header.api_key].name
        denial = denial_of(self.principal, self.address, header.client_id or "", api, refused)
        self._gateway.audit.info(
            "Principal = %.200s is Denied Operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s",
            *(self.principal, denial.operation, self.address, denial.resource, denial.name, api),
        )
        self._gateway.denials.add(denial)

    def _meet(self, fault: request_faults.RequestFault, read: tuple[RequestHeader, tuple[Part, ...], Message]) -> None:
        """Apply a fault to a request. The fault determines whether the request is forwarded, and when."""
        header, parts, request = read
        response = fault.response(join_parts(parts, request))
        if response is not None and not (isinstance(request, ProduceRequest) and request.acks == 0):
            self.respond((ClientResponse(self.id, header.correlation_id, response),))
        elif response is not None or fault.kind == request_faults.DISCONNECT:
            self.refuse("an injected fault")
        elif fault.kind == request_faults.DELAY:
            asyncio.get_running_loop().call_later(fault.value, self._forward, read)
        elif fault.kind != request_faults.BLACKHOLE:
            self._forward(read)

    def _forward(self, read: tuple[RequestHeader, tuple[Part, ...], Message]) -> None:
        """Pass a request to the actors."""
        if self._stream.is_closing:
            return
        header, parts, request = read
        for part in parts:
            self._gateway.submit(ClientPart(self.id, part))
        id, client_id, principal = header.correlation_id, header.client_id, self.principal
        begun = client_request(self.id, id, client_id, self.listener, request, self._host, principal)
        self._gateway.submit(begun, self._size)

    # ------------------------------------------------------------------------------------------------ authentication

    def _use_certificate(self, certificate: bytes | None) -> None:
        """Use the client's certificate after the TLS handshake. Raises ValueError if it names no principal."""
        assert self._tls is not None
        if certificate is not None and self._sasl is None:
            self.principal = self._tls.principal(certificate)
        self._handshaking = False
        if self._sasl is None:
            self._gateway.deadlines.remove(self)
            self._gateway.report_authentication(self, "TLS", 0)

    def write_now(self, piece: Piece) -> None:
        """Send bytes at once."""
        self._stream.write((piece,), more=False)

    def end(self, piece: Piece, delay: float) -> None:
        """Read nothing more; after `delay` seconds, send bytes and close."""

        def finish() -> None:
            self._stream.write((piece,))
            self.close()

        if delay:
            self._hold(Hold.FAILED, asyncio.get_running_loop().call_later(delay, finish))
        else:
            finish()

    def accept(self, principal: str, mechanism: str, lifetime_ms: int) -> None:
        """Accept the requests of this principal from now on."""
        self.principal = principal
        self._gateway.deadlines.remove(self)
        self._stream.frames.max_bytes = self._gateway.settings.socket_request_max_bytes
        self._gateway.report_authentication(self, mechanism, lifetime_ms)

    def authentication_failed(self, mechanism: str, reason: str) -> None:
        """Count and log a failure."""
        self._gateway.authentication_failed(self.listener, mechanism)
        self._gateway.log.info("Failed authentication with %s on listener %s (%s)", self._peer, self.listener, reason)

    # ------------------------------------------------------------------------------------------------ answers

    def take(self, part: Part) -> None:
        """Store a part of a large response; the rest of the response follows."""
        if self._parts is _NO_PARTS:
            self._parts = []
        self._parts.append(part)

    def respond(self, responses: Sequence[ClientResponse]) -> None:
        """Encode the responses, send those whose turn it is, and begin the next requests."""
        parts, self._parts = self._parts, _NO_PARTS
        if self._stream.is_closing:
            return
        place = 0
        self._answering = True
        try:
            for response in responses:
                answered = self._pending_response(response.correlation_id, place)
                if answered is not None:
                    answered.taken = True
                    place += 1
                    fault, message = answered.fault, response.response
                    if fault is not None and fault.kind == request_faults.LOSE_RESPONSE:
                        continue
                    if fault is not None and fault.kind == request_faults.THROTTLE and message is not None:
                        message = request_faults.with_throttle_time(message, fault.value)
                        self._mute(fault.value / 1000)
                    if answered.edit is not None and message is not None:
                        message, edited = answered.edit(message, parts)
                        parts = list(edited)
                    if answered.charge is not None:
                        self._respond_charged(answered, message, parts)
                    elif message is None:
                        answered.pieces = ()
                    else:
                        self._encode(answered.header, message, parts, partial(self._store_response, answered, parts))
        finally:
            self._answering = False
        self._send_answers()

    def _encode(
        self, header: RequestHeader, message: Message, parts: list[Part], then: Callable[[Sequence[Piece]], None]
    ) -> None:
        """Encode a response and call `then` with it; close the connection if that is not possible."""
        try:
            steps = encoding_response_pieces(header, message, parts)
        except WireError as error:
            self._refuse_answer(str(error))
        else:
            self._work(steps, then, self._refuse_answer)

    def _respond_charged(self, answered: _PendingResponse, message: Message | None, parts: list[Part]) -> None:
        """Charge a request to its client's quotas, throttle the client if necessary, and encode the response."""
        throttle, charge, header = self._gateway.throttle, answered.charge, answered.header
        then = partial(self._store_response, answered, parts)
        if throttle is None or charge is None:
            pass
        elif isinstance(message, FetchResponse):
            then = partial(self._charge_fetch, throttle, charge, answered, message)
        else:
            delay = throttle.charge(charge, self.id, header, answered.size, message is not None)
            if delay:
                self._mute(delay / 1000)
                message = message and request_faults.with_throttle_time(message, delay)
        if message is None:
            answered.pieces = ()
            return
        began = RealClock.now()
        self._encode(header, message, parts, then)
        if throttle is not None and charge is not None:
            throttle.charge_encoding(charge, RealClock.now() - began)

    def _charge_fetch(
        self,
        throttle: Throttle,
        charge: Charge,
        answered: _PendingResponse,
        message: FetchResponse,
        pieces: Sequence[Piece],
    ) -> None:
        """Charge a fetch to its client's quotas. If the client is throttled, an empty response replaces this one."""
        size = sum(map(len, pieces)) - FRAME_SIZE
        delay = throttle.charge_fetch(charge, self.id, answered.header, size)
        if not delay:
            self._store_response(answered, [], pieces)
            return
        self._mute(delay / 1000)
        empty, throttled = throttle_fetch(charge, message, delay)
        if throttled is not None:
            self._gateway.fetch_throttled(throttled)
        self._encode(answered.header, empty, [], partial(self._store_response, answered, []))

    def _pending_response(self, correlation_id: int, place: int) -> _PendingResponse | None:
        """Return the pending response to the request with this correlation id; None if there is none.

        The request at index `place` is tried first, because most responses arrive in the order of the requests.
        """
        under_way = self._under_way
        if place < len(under_way):
            each = under_way[place]
            if each.header.correlation_id == correlation_id and not each.taken:
                return each
        waiting = (each for each in under_way if not each.taken)
        return next((each for each in waiting if each.header.correlation_id == correlation_id), None)

    def _store_response(self, answered: _PendingResponse, parts: list[Part], pieces: Sequence[Piece]) -> None:
        """Store the encoded response with its request, and send all responses whose turn it is."""
        answered.pieces = pieces
        if parts:
            self._gateway.bench.begin(free_parts(parts), lambda _: None)
        if not self._answering:
            self._send_answers()

    def _send_answers(self) -> None:
        """Send the responses whose turn it is, and begin the next requests."""
        under_way = self._under_way
        pieces: list[Piece] = []
        while under_way and (answer := under_way[0].pieces) is not None:
            done = under_way.popleft()
            self._bytes_under_way -= done.size
            pieces += answer
            if answer and done.header.api_key not in self._exempt:
                self._charge(sum(map(len, answer)))
        if pieces:
            self._gateway.active(self)
            self._stream.write(pieces, more=bool(under_way))
        if self._state is REFUSING:
            self._refuse_in_turn(self._refusal)
        self._begin_next()

    def _refuse_in_turn(self, reason: str) -> None:
        """As soon as no request is in progress, log the reason and close the connection (rule 2)."""
        self._state = enter(self._peer, self._state, REFUSING, PREVIOUS)
        self._refusal = reason
        if not self._under_way:
            self.refuse(reason)

    def _refuse_answer(self, reason: str) -> None:
        """Close the connection after the earlier responses, because a response could not be encoded."""
        self._send_answers()
        self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """Log the reason and close the connection."""
        if not self._stream.is_closing:
            self._gateway.log.warning(
                "Closing the connection from %s on listener %s: %s", self._peer, self.listener, reason
            )
            self.close()

    def close(self) -> None:
        """Close after all written bytes are sent."""
        self._stream.close()

    def silence(self) -> None:
        """Neither receive nor send anything until `abort`."""
        self._stream.silence()

    def abort(self) -> None:
        """Close at once, without sending written bytes."""
        self._stream.abort()

    def _regulate(self) -> None:
        """Pause or resume reading of the socket (rule 3)."""
        if self._stream.is_closing:
            return
        frames = self._stream.frames
        if self._holds or self._gateway.paused or self._state is REFUSING:
            useful = False
        elif not frames.held:
            useful = True
        elif frames.is_large:
            whole = frames.next_key() is not None
            useful = not (whole or self._state is DECODING) and (not self._under_way or self._can_start_produce())
        else:
            useful = frames.held < READ_AHEAD or (frames.next_key() is None and not frames.is_refused)
        (self._stream.resume_reading if useful else self._stream.pause_reading)()
