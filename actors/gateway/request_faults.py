"""Fault injection for requests: faults that a listener applies to matching requests, and the journal of requests.

Rule 1: a request is checked against the faults in their order. The first matching fault whose trigger fires is applied
        and ends the check. Each matching fault that was checked increments its `calls`.
Rule 2: `lose_response` and `blackhole` leave the connection open. Responses keep the order of requests, so a client
        also receives no response to later requests on this connection.
Rule 3: each hit is a message to the node's actors (FaultInjected), so it is in the log and in the trace.
Rule 4: the journal has the last KEPT requests of clients, without the bytes of records. A listener without faults
        (`kafka-actors broker`, `up`) keeps none.
"""

from __future__ import annotations

import base64
import math
import random
import types
import typing
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from messages import errors
from messages.apis import API_BY_REQUEST
from messages.apis.declaration import Target
from messages.apis.produce import ProduceRequest, produce_partition
from messages.cluster import TopicPartition
from messages.error_names import CODES
from messages.records import Body
from messages.vocabulary import AnyMessage, Message, evolve
from messages.wire import RequestHeader, WireError, encode_response

ERROR, RESPOND, DELAY, DISCONNECT = "error", "respond", "delay", "disconnect"
LOSE_RESPONSE, BLACKHOLE, THROTTLE = "lose_response", "blackhole", "throttle"

KINDS = (ERROR, RESPOND, DELAY, DISCONNECT, LOSE_RESPONSE, BLACKHOLE, THROTTLE)

FILTERS = ("topic", "partition", "broker", "client_id")

OBSERVER = "kafka_actors.observer"
"""The client id of the requests by which a report reads the cluster. No fault affects them."""
OWN = "kafka_actors."
"""The first letters of the client ids of a cluster for tests itself. The journal omits their requests."""
KEPT = 10_000
"""Maximum number of requests in the journal: 10 MB."""

APIS = {api.name: api for api in API_BY_REQUEST.values()}
_OF_CONTROLLERS = frozenset(api.request for api in APIS.values() if api.control)


class FaultError(ValueError):
    """A fault cannot be injected; the exception's message is the reason."""


@attrs.define(str=False, eq=False)
class RequestFault:
    """A fault with filters; the listener injects it into the requests that match all its filters.

    A filter that is None matches every request.

    The fault is injected into the matching requests `first` to `last` (counted from 1), each with `probability`.
    """

    kind: str
    api: str
    value: Any = 0.0
    """The error code (or its name), the seconds or the milliseconds; the fields of a scripted response; else 0."""
    topic: str | None = None
    partition: int | None = None
    broker: int | None = None
    client_id: str | None = None
    first: int = 1
    last: float = math.inf
    probability: float = 1.0
    seed: int = 0
    calls: int = 0
    """Number of matching requests so far."""
    hits: int = 0
    """Number of requests into which the fault was injected."""
    _fields: Mapping[str, Any] = attrs.field(init=False, factory=dict)
    """The fields of a scripted response, in the types of its message."""
    _random: random.Random = attrs.field(init=False, factory=random.Random)

    def __attrs_post_init__(self) -> None:
        self._random.seed(self.seed)
        if self.api not in APIS:
            raise FaultError(f"unknown API {self.api!r}. Use one of {', '.join(sorted(APIS))}.")
        if self.kind == RESPOND:
            self._set_fields(self.value)
            self.value = 0.0
        self.value = float(_code_of(self.value) if self.kind == ERROR else self.value)

    def _set_fields(self, given: object) -> None:
        """Set the response's fields. Raises FaultError if they are not those of the API, or cannot be encoded."""
        api = APIS[self.api]
        self._fields, request = _fields_of(api.response, given), api.sample(Target())
        response: Any = self.response(request)
        try:
            encode_response(RequestHeader(api.key, request.version, 0, ""), response)
        except WireError as error:
            raise FaultError(str(error)) from None

    def response(self, request: Message) -> Message | None:
        """Return the response that replaces the request's own one; None if the kind of fault has none.

        The response of RESPOND has no error for each topic or partition of the request, before its fields are set.
        """
        if self.kind == ERROR:
            return API_BY_REQUEST[type(request)].refusal(request, int(self.value))
        if self.kind != RESPOND:
            return None
        response: AnyMessage = API_BY_REQUEST[type(request)].refusal(request, errors.NONE)
        fields = {
            name: tuple([evolve(entry, **value) for entry in getattr(response, name)])
            if isinstance(value, Mapping)
            else value
            for name, value in self._fields.items()
        }
        return evolve(response, **fields)

    def fires(self, broker: int, client_id: str, request: Message) -> bool:
        """Return whether to inject the fault into this request. Counts the request."""
        if client_id == OBSERVER:
            return False
        if API_BY_REQUEST[type(request)].name != self.api or self.broker not in (None, broker):
            return False
        if self.client_id not in (None, client_id) or not self._names(request):
            return False
        self.calls += 1
        hit = self.first <= self.calls <= self.last and self._random.random() < self.probability
        self.hits += hit
        return hit

    @property
    def over(self) -> bool:
        """Whether the fault can affect no more requests."""
        return self.calls >= self.last

    def __str__(self) -> str:
        filters = [f"{name}={getattr(self, name)}" for name in FILTERS if getattr(self, name) is not None]
        return f"{self.kind} {self.api} ({', '.join([*filters, f'calls: {self.calls}'])})"

    def _names(self, request: Message) -> bool:
        """Return whether the request has the fault's topic and partition."""
        if self.topic is None and self.partition is None:
            return True
        return any(
            self.topic in (None, topic) and self.partition in (None, partition)
            for topic, partition in subjects(request)
        )


def _code_of(error: float | str) -> int:
    """Return the number of one of Kafka's errors."""
    if error in CODES.values():
        return int(error)
    if error in CODES:
        return CODES[str(error)]
    from difflib import get_close_matches  # only a wrong name needs it

    close = ", ".join(get_close_matches(str(error).upper(), CODES, 3))
    raise FaultError(f"unknown error code {error!r}" + (f"; did you mean {close}?" if close else ""))


class ClientCall(typing.NamedTuple):
    """A request in the journal: when it was received, by which broker, and from which client."""

    received_at: float
    broker: int
    client_id: str
    request: AnyMessage


class RequestFaults:
    """The request faults and the journal of a cluster, for all its brokers; `now` returns the time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.active: list[RequestFault] = []
        """The faults in the order of injection."""
        self._now = now
        self._journal: deque[ClientCall] = deque(maxlen=KEPT)

    def next_fault(self, broker: int, client_id: str, request: Message) -> RequestFault | None:
        """Add a request to the journal. Return the fault to apply to it (rule 1); None if no fault applies."""
        is_own = client_id.startswith(OWN) or request.__class__ in _OF_CONTROLLERS
        if not is_own and getattr(request, "replica_id", -1) < 0:
            kept = _without_bytes(request) if request.__class__ is ProduceRequest else request
            self._journal.append(ClientCall(self._now(), broker, client_id, kept))
        if not self.active:
            return None
        return next((fault for fault in self.active if fault.fires(broker, client_id, request)), None)

    def requests(self, api: str | None, client_id: str | None, since: float) -> list[dict[str, Any]]:
        """Return the requests in the journal as plain values. Raises FaultError if the API is unknown."""
        if api is not None and api not in APIS:
            raise FaultError(f"unknown API {api!r}. Use one of {', '.join(sorted(APIS))}.")
        kind = None if api is None else APIS[api].request
        return [
            {
                "api": API_BY_REQUEST[type(call.request)].name,
                "version": call.request.version,
                "broker": call.broker,
                "client_id": call.client_id,
                "received_at": call.received_at,
                "fields": _plain(call.request),
            }
            for call in self._journal
            if kind in (None, type(call.request)) and client_id in (None, call.client_id) and call.received_at >= since
        ]


def _without_bytes(request: Any) -> ProduceRequest:
    """Return a request without the bytes of its records, which would keep a buffer of the socket in memory."""
    entries = [
        produce_partition(
            each.partition, each.records._replace(body=Body(each.records.body.size, each.records.body.crc))
        )
        for each in request.partitions
    ]
    without: ProduceRequest = attrs.evolve(request, partitions=tuple(entries))
    return without


# -------------------------------------------------------------------------------------------------------- plain values


def _plain(value: Any) -> object:
    """Return a value of a message for JSON: messages and NamedTuples by field, tuples as lists, bytes in base64."""
    if attrs.has(type(value)):
        return {field.name: _plain(getattr(value, field.name)) for field in attrs.fields(type(value))}
    if isinstance(value, tuple):
        named: Any = value
        if hasattr(value, "_fields"):
            return {name: _plain(each) for name, each in zip(named._fields, value, strict=True)}
        return [_plain(each) for each in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _fields_of(kind: type, given: object) -> dict[str, Any]:
    """Return the values of a class's fields, from plain values.

    A mapping in place of a list has the fields that change in each entry. Raises FaultError for what does not fit.
    """
    hints = typing.get_type_hints(kind)
    names = [field.name for field in attrs.fields(kind)] if attrs.has(kind) else [*kind.__annotations__]
    if not isinstance(given, Mapping) or not given.keys() <= {*names}:
        raise FaultError(f"{given!r:.100} must have fields of {kind.__name__}: {', '.join(names)}")
    found: dict[str, Any] = {}
    for name, value in given.items():
        is_changed_each = isinstance(value, Mapping) and typing.get_origin(hints[name]) is tuple
        arguments = typing.get_args(hints[name])
        found[name] = _fields_of(arguments[0], value) if is_changed_each else _value(hints[name], value, name)
    return found


def _value(hint: object, given: object, name: str) -> object:
    """Return a value of the annotation `hint` from a plain value. Raises FaultError if it does not fit."""
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if given is None and type(None) in arguments:
            return None
        hint = next(each for each in arguments if each is not type(None))
        arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and isinstance(given, list | tuple):
        return tuple([_value(arguments[0], each, name) for each in given])
    if isinstance(hint, type) and (attrs.has(hint) or hasattr(hint, "_fields")):
        try:
            return hint(**_fields_of(hint, given))
        except TypeError as error:
            raise FaultError(f"{name}: {error}") from None
    if hint is bytes and isinstance(given, str):
        try:
            return base64.b64decode(given, validate=True)
        except ValueError as error:
            raise FaultError(f"{name}: {error}") from None
    if isinstance(hint, type) and (type(given) is hint or (hint is float and type(given) is int)):
        return given
    raise FaultError(f"{name}={given!r:.100} must be of the type {getattr(hint, '__name__', hint)}")


def subjects(request: object) -> Iterator[tuple[str, int | None]]:
    """Yield the topics and partitions of a request. The partition is None for a whole topic."""
    for field in ("partitions", "topics", "partition_states"):
        for each in getattr(request, field, None) or ():
            named = getattr(each, "partition", each)
            if isinstance(named, TopicPartition):
                yield named.topic, named.partition
            elif isinstance(named, str) or hasattr(each, "name"):
                yield named if isinstance(named, str) else each.name, None


def with_throttle_time(response: Message, milliseconds: float) -> Message:
    """Return the response with this throttle time, if its API has one."""
    return evolve(response, throttle_time_ms=int(milliseconds)) if hasattr(response, "throttle_time_ms") else response
