"""Find for each delivery the delivery that caused it, even if the cause is on another node.

Rule 1: the cause of a message or timer is the delivery during which it was sent or armed.
Rule 2: the cause of a message from outside is the delivery of the request that it answers. The request is found by the
        id of a StoreReply, or by the channel and correlation id of a response from the network.
Rule 3: the cause of a ClientRequest is another node's Transmit with the same client id, correlation id and API, sent to
        this node. The cause of the response to a Transmit is the ClientResponse of the node that received the
        ClientRequest, or the Transmit if no such ClientResponse is recorded. If the network gateway repeats a
        follower's fetch by itself, the cause of each repeated request is the Transmit that began the repetition.
Rule 4: the cause of a WatchEvent is the last recorded write of that znode since the watch was set. If none is recorded,
        for example after a session ended, the WatchEvent has no cause.
Rule 5: deliveries are processed in the order of time. The finder stores the requests without a response, and
        for each znode the last write and the times of watches.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from actors.trace import payloads
from actors.trace.reader import TraceDelivery, TraceRun
from messages.store import OK
from messages.trace.schema import OUTSIDE


class DeliveryId(NamedTuple):
    """A delivery in a trace of several runs: the index of the run, and the delivery's number."""

    run: int
    seq: int


class Link(NamedTuple):
    """A delivery that caused another delivery, and how the cause was found.

    `shared` is True if other deliveries may have the same request or write as their cause.
    """

    cause: DeliveryId
    crossed: bool = False
    shared: bool = False


_ZnodeChange = tuple[str, str]
"""(znode path, kind of its watch event)."""


class _PendingTransmit(NamedTuple):
    """A recorded Transmit (a request to another node) that has no response yet."""

    cause: DeliveryId
    target: int | None
    channel: tuple[int, str]
    correlation_id: int


STORE = frozenset(("StoreRead", "StoreWrite"))
_LEAVING = STORE | {"Transmit", "ClientResponse", "ClientResponses"}
_ENTERING = {"StoreReply", "Received", "TransmitFailed", "ClientRequest", "ClientRequests", "WatchEvent"}
_CHANGES = {"create": "created", "set": "changed", "delete": "deleted"}
"""The kind of a watch event by the kind of the write, for watches on the written znode itself."""


class CauseFinder:
    """Finds the cause of each delivery; the deliveries are passed to it one by one, in order of time."""

    def __init__(self, runs: Iterable[TraceRun]) -> None:
        self.index = {id(run): place for place, run in enumerate(runs)}
        self._node_at = nodes_by_endpoint(runs)
        self._stores: dict[tuple[int, int], tuple[DeliveryId, tuple[_ZnodeChange, ...]]] = {}
        self._channels: dict[tuple[int, str], tuple[DeliveryId, tuple[str, int, str]]] = {}
        self._under_way: dict[tuple[str, int, str], deque[_PendingTransmit]] = defaultdict(deque)
        self._requests: dict[tuple[int, int, int], _PendingTransmit] = {}
        self._polls: dict[tuple[str, str], dict[tuple[int, str], _PendingTransmit]] = defaultdict(dict)
        self._answers: dict[tuple[int, str], tuple[int, DeliveryId, bool]] = {}
        self._taken = 0
        self._znodes: dict[tuple[str, str], tuple[int, DeliveryId]] = {}
        self._watches: dict[tuple[int, str], int] = {}
        """The last time at which each run set a watch on a znode, as the number of deliveries until then."""

    def link(self, delivery: TraceDelivery) -> Link | None:
        """Return the link from a delivery to its cause, or None. Must be called for all deliveries in order."""
        record, run = delivery.record, self.index[id(delivery.run)]
        name = record.type
        self._taken += 1
        if record.kind != OUTSIDE:
            if record.actor == "":
                self._leaves(delivery, DeliveryId(run, record.n), name)
            return Link(DeliveryId(run, record.cause)) if record.cause > 0 else None
        return self._enters(delivery, run, name)

    def _leaves(self, delivery: TraceDelivery, here: DeliveryId, name: str) -> None:
        """Store what an external endpoint received."""
        read = payloads.read(delivery.record.payload) if name in _LEAVING else None
        if read is None:
            return
        if name in STORE:
            changes = tuple(_changes(read))
            self._stores[here.run, read.id] = here, changes
            self._znodes.update((change, (self._taken, here)) for change in changes)
            for path in chain.from_iterable(read.watches):
                self._watches[here.run, path] = self._taken
        elif name == "Transmit":
            self._transmit(read, here)
        else:
            for each in read.exchanges:
                self._respond(each, here, shared=name == "ClientResponses")

    def _transmit(self, sent: payloads.MessageRead, here: DeliveryId) -> None:
        channel = here.run, sent.channel
        self._answers.pop(channel, None)
        target = self._node_at.get((sent.endpoint.host, sent.endpoint.port))
        key = sent.client_id, sent.correlation_id, sent.request[0]
        self._close(channel)
        self._channels[channel] = here, key
        waiting = self._under_way[key]
        pending = _PendingTransmit(here, target, channel, sent.correlation_id)
        waiting.append(pending)
        if sent.again:
            self._polls[sent.client_id, sent.request[0]][channel] = pending

    def _close(self, channel: tuple[int, str]) -> Link | None:
        """Remove a channel's Transmit, and return a link to the Transmit; None if the channel has none.

        The link's `shared` is True if a recorded node received the Transmit.
        """
        for polls in self._polls.values():
            polls.pop(channel, None)
        cause, key = self._channels.pop(channel, (None, None))
        if cause is None or key is None:
            return None
        waiting = self._under_way.get(key, ())
        left = deque(each for each in waiting if each.channel != channel)
        if left:
            self._under_way[key] = left
        else:
            self._under_way.pop(key, None)
        return Link(cause, shared=len(left) == len(waiting))

    def _respond(self, responded: payloads.ExchangeRead, here: DeliveryId, shared: bool) -> None:
        asked = self._requests.pop((here.run, responded.connection, responded.correlation_id), None)
        if asked is not None:
            self._answers[asked.channel] = responded.correlation_id, here, shared

    def _enters(self, delivery: TraceDelivery, run: int, name: str) -> Link | None:
        read = payloads.read(delivery.record.payload) if name in _ENTERING else None
        if read is None:
            return None
        if name == "StoreReply":
            asked = self._stores.pop((run, read.id), None)
            if asked is None:
                return None
            cause, changes = asked
            for change in changes if read.code != OK else ():
                if self._znodes.get(change, (0, None))[1] == cause:
                    del self._znodes[change]  # the write failed
            return Link(cause)
        if name in ("Received", "TransmitFailed"):
            return self._return(read, run, name)
        if name == "WatchEvent":
            return self._fire(read, run)
        links = [self._arrive(each, delivery.node, run) for each in read.exchanges]
        return next((link for link in links if link is not None), None)

    def _fire(self, watched: payloads.MessageRead, run: int) -> Link | None:
        order, cause = self._znodes.get((watched.path, watched.kind), (0, None))
        if cause is None or order < self._watches.get((run, watched.path), order):
            return None
        return Link(cause, cause.run != run, shared=True)

    def _return(self, back: payloads.MessageRead, run: int, name: str) -> Link | None:
        channel = run, back.channel
        sent, answer = self._close(channel), self._answers.pop(channel, None)
        if answer is not None and answer[0] == back.correlation_id and name == "Received":
            return Link(answer[1], answer[1].run != run, answer[2])
        return sent

    def _arrive(self, asked: payloads.ExchangeRead, node: int, run: int) -> Link | None:
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
        return Link(found.cause, found.cause.run != run, shared=found.correlation_id != asked.correlation_id)


def nodes_by_endpoint(runs: Iterable[TraceRun]) -> dict[tuple[str, int], int]:
    """Return the nodes of these runs by the host and port of their listeners."""
    found: dict[tuple[str, int], int] = {}
    for run in runs:
        for name in ("advertised_listeners", "listeners"):
            for each in run.settings.get(name) or ():
                if isinstance(each, dict) and each.get("port"):
                    found[each.get("host", ""), each["port"]] = run.node
    return found


def _changes(written: payloads.MessageRead) -> Iterator[_ZnodeChange]:
    """Yield the watch events that a write may cause."""
    for kind, path, *_ in written.ops:
        change = _CHANGES.get(kind.partition("_")[0])
        if change is not None:
            yield path, change
            if change != "changed":
                yield path.rpartition("/")[0], "children"
