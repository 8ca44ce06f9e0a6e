"""Find the delivery that led to each delivery, also across nodes.

Rule 1: a message or timer was caused by the delivery during which it was sent or armed.
Rule 2: what came from outside was caused by the delivery of the request that it answers: StoreReply by its id, the
        network's answers by channel and correlation id.
Rule 3: a ClientRequest was caused by another node's Transmit with the same client id, correlation id and API, sent to
        that node; the answer that comes back by the ClientResponse of that node.
        The polls that the network repeats by itself belong to the Transmit that began them.
Rule 4: a WatchEvent was caused by the last recorded write of that znode since the watch was set. If none is recorded,
        as when a session ended, the WatchEvent is where the causes begin.
Rule 5: deliveries are taken in the order of time; what is kept are the requests without a response, and per znode the
        last write and when watches were set.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import msgspec

from actors.trace.reader import TraceDelivery, TraceRun
from messages.store import OK
from messages.trace.schema import OUTSIDE, Payload

_T = TypeVar("_T")


class DeliveryId(NamedTuple):
    """A delivery in a trace of several runs: the index of the run, and the delivery's number."""

    run: int
    seq: int


class Link(NamedTuple):
    """A cause of a delivery: its id, and whether the message crossed from another node."""

    cause: DeliveryId
    crossed: bool = False


class _EndpointRead(msgspec.Struct):
    host: str
    port: int


class _TransmitRead(msgspec.Struct):
    channel: str
    correlation_id: int
    client_id: str
    endpoint: _EndpointRead
    request: tuple[str, msgspec.Raw]
    again: bool = False


class _ReturnRead(msgspec.Struct):
    channel: str
    correlation_id: int


class _RequestRead(msgspec.Struct):
    connection: int
    correlation_id: int
    client_id: str
    request: tuple[str, msgspec.Raw]


class _RequestsRead(msgspec.Struct):
    requests: list[_RequestRead]


class _ResponseRead(msgspec.Struct):
    connection: int
    correlation_id: int


class _ResponsesRead(msgspec.Struct):
    responses: list[_ResponseRead]


class _StoreRequestRead(msgspec.Struct):
    id: int


class _StoreReplyRead(msgspec.Struct):
    id: int
    code: int = OK


class _WatchesRead(msgspec.Struct):
    data: list[str]
    children: list[str]
    exists: list[str]


class _WritesRead(msgspec.Struct):
    id: int
    ops: list[tuple[Any, ...]]


class _WatchEventRead(msgspec.Struct):
    path: str
    kind: str


_ZnodeChange = tuple[str, str]
"""A znode's path and the kind of its watch event."""


class _PendingTransmit(NamedTuple):
    """A Transmit without an answer."""

    cause: DeliveryId
    target: int | None
    channel: tuple[int, str]
    correlation_id: int


def _decoding(form: type[_T]) -> Callable[[Payload], _T | None]:
    decode = msgspec.json.Decoder(form).decode

    def decoded(payload: Payload) -> _T | None:
        try:
            return decode(payload)
        except msgspec.MsgspecError:  # omitted, or without a form
            return None

    return decoded


_transmitted, _returned = _decoding(_TransmitRead), _decoding(_ReturnRead)
_requested, _requested_together = _decoding(_RequestRead), _decoding(_RequestsRead)
_responded, _responded_together = _decoding(_ResponseRead), _decoding(_ResponsesRead)
_stored, _written, _watched = _decoding(_StoreRequestRead), _decoding(_WritesRead), _decoding(_WatchEventRead)
_replied, _armed = _decoding(_StoreReplyRead), _decoding(_WatchesRead)

_STORE = frozenset(("StoreRead", "StoreArm", "StoreWrite"))
_CHANGES = {"create": "created", "set": "changed", "delete": "deleted"}
"""The kind of a watch event by the kind of the write, as far as it names the znode itself."""


class Links:
    """The causes of deliveries, which are taken one by one in the order of time."""

    def __init__(self, runs: Iterable[TraceRun]) -> None:
        self.index = {id(run): place for place, run in enumerate(runs)}
        self._node_at: dict[tuple[str, int], int] = {}
        for run in runs:
            for name in ("advertised_listeners", "listeners"):
                for each in run.settings.get(name) or ():
                    if isinstance(each, dict) and each.get("port"):
                        self._node_at[each.get("host", ""), each["port"]] = run.node
        self._stores: dict[tuple[int, int], tuple[DeliveryId, tuple[_ZnodeChange, ...]]] = {}
        self._channels: dict[tuple[int, str], DeliveryId] = {}
        self._under_way: dict[tuple[str, int, str], deque[_PendingTransmit]] = defaultdict(deque)
        self._requests: dict[tuple[int, int, int], _PendingTransmit] = {}
        self._polls: dict[tuple[str, str], dict[tuple[int, str], _PendingTransmit]] = defaultdict(dict)
        self._answers: dict[tuple[int, str], tuple[int, DeliveryId]] = {}
        self._taken = 0
        self._znodes: dict[tuple[str, str], tuple[int, DeliveryId]] = {}
        self._watches: dict[tuple[int, str], int] = {}
        """When each run last set a watch on a znode, as the number of deliveries taken by then."""

    def link(self, delivery: TraceDelivery) -> Link | None:
        """The cause of the next delivery; None for one where causes begin."""
        record, run = delivery.record, self.index[id(delivery.run)]
        name = record.type
        self._taken += 1
        if record.kind != OUTSIDE:
            if record.actor == "":
                self._leaves(delivery, DeliveryId(run, record.n), name)
            return Link(DeliveryId(run, record.cause)) if record.cause > 0 else None
        return self._enters(delivery, run, name)

    def _leaves(self, delivery: TraceDelivery, here: DeliveryId, name: str) -> None:
        """Keep what an external endpoint received."""
        payload = delivery.record.payload
        if name in _STORE:
            written = _written(payload) if name == "StoreWrite" else None
            stored = written or _stored(payload)
            if stored is not None:
                changes = () if written is None else tuple(_changes(written))
                self._stores[here.run, stored.id] = here, changes
                self._znodes.update((change, (self._taken, here)) for change in changes)
            if name == "StoreArm":
                armed = _armed(payload)
                for path in (*armed.data, *armed.children, *armed.exists) if armed is not None else ():
                    self._watches[here.run, path] = self._taken
        elif name == "Transmit":
            sent = _transmitted(payload)
            if sent is not None:
                self._transmit(sent, here)
        elif name == "ClientResponse":
            responded = _responded(payload)
            if responded is not None:
                self._respond(responded, here)
        elif name == "ClientResponses":
            together = _responded_together(payload)
            for each in together.responses if together is not None else ():
                self._respond(each, here)

    def _transmit(self, sent: _TransmitRead, here: DeliveryId) -> None:
        channel = here.run, sent.channel
        self._channels[channel] = here
        self._answers.pop(channel, None)
        target = self._node_at.get((sent.endpoint.host, sent.endpoint.port))
        key = sent.client_id, sent.correlation_id, sent.request[0]
        waiting = self._under_way[key]
        while waiting and waiting[0].channel == channel:
            waiting.popleft()  # it never arrived
        pending = _PendingTransmit(here, target, channel, sent.correlation_id)
        waiting.append(pending)
        if sent.again:
            self._polls[sent.client_id, sent.request[0]][channel] = pending

    def _respond(self, responded: _ResponseRead, here: DeliveryId) -> None:
        asked = self._requests.pop((here.run, responded.connection, responded.correlation_id), None)
        if asked is not None:
            self._answers[asked.channel] = responded.correlation_id, here

    def _enters(self, delivery: TraceDelivery, run: int, name: str) -> Link | None:
        payload = delivery.record.payload
        if name == "StoreReply":
            replied = _replied(payload)
            asked = None if replied is None else self._stores.pop((run, replied.id), None)
            if replied is None or asked is None:
                return None
            cause, changes = asked
            for change in changes if replied.code != OK else ():
                if self._znodes.get(change, (0, None))[1] == cause:
                    del self._znodes[change]  # the write failed
            return Link(cause)
        if name in ("Received", "TransmitFailed"):
            back = _returned(payload)
            return None if back is None else self._return(back, run, name)
        if name == "ClientRequest":
            single = _requested(payload)
            return None if single is None else self._arrive(single, delivery.node, run)
        if name == "ClientRequests":
            together = _requested_together(payload)
            links = [self._arrive(each, delivery.node, run) for each in (together.requests if together else ())]
            return next((link for link in links if link is not None), None)
        if name == "WatchEvent":
            watched = _watched(payload)
            return None if watched is None else self._fire(watched, run)
        return None

    def _fire(self, watched: _WatchEventRead, run: int) -> Link | None:
        order, cause = self._znodes.get((watched.path, watched.kind), (0, None))
        if cause is None or order < self._watches.get((run, watched.path), order):
            return None
        return Link(cause, cause.run != run)

    def _return(self, back: _ReturnRead, run: int, name: str) -> Link | None:
        channel = run, back.channel
        sent, answer = self._channels.pop(channel, None), self._answers.pop(channel, None)
        for polls in self._polls.values():
            polls.pop(channel, None)
        if answer is not None and answer[0] == back.correlation_id and name == "Received":
            return Link(answer[1], answer[1].run != run)
        return None if sent is None else Link(sent)

    def _arrive(self, asked: _RequestRead, node: int, run: int) -> Link | None:
        key = asked.client_id, asked.correlation_id, asked.request[0]
        waiting = self._under_way.get(key, ())
        found = next((each for each in waiting if each.target in (None, node)), None)
        if found is not None:
            self._under_way[key].remove(found)
            if not self._under_way[key]:
                del self._under_way[key]
        else:
            polls = self._polls.get((asked.client_id, asked.request[0]), {}).values()
            found = next(
                (each for each in polls if each.target in (None, node) and each.correlation_id < asked.correlation_id),
                None,
            )
        if found is None:
            return None
        self._requests[run, asked.connection, asked.correlation_id] = found
        return Link(found.cause, found.cause.run != run)


def _changes(written: _WritesRead) -> Iterator[_ZnodeChange]:
    """The watch events that a write may cause."""
    for kind, path, *_ in written.ops:
        change = _CHANGES.get(kind.partition("_")[0])
        if change is not None:
            yield path, change
            if change != "changed":
                yield path.rpartition("/")[0], "children"
