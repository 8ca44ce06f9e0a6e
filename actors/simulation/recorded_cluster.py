"""Check a recorded trace: read its deliveries in the order of time, as facts of one cluster, and pass them to monitors.

Rule 1: the clocks of the nodes must agree, because deliveries of several nodes are ordered by time.
Rule 2: a write to ZooKeeper takes effect when its writer receives the reply, a read when the reader does.
Rule 3: a monitor sees a trace as it sees a simulated cluster. An invariant that needs more than the trace shows, or the
        start of a run whose first segments were removed, is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from heapq import merge
from types import SimpleNamespace
from typing import Any

import attrs

from actors.controller.channel import BrokerChannelActor
from actors.simulation.exchanges import WATCHED
from actors.simulation.monitors.families import FAMILIES, INVARIANTS
from actors.simulation.monitors.monitor import Invariant, Monitors
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import Process, StableOffsetSeen
from actors.simulation.simulated_cluster import host_of
from messages.network import ClientRequest
from messages.parts import joined
from messages.store import CONNECTED, OK, WriteOp
from messages.trace.codec import decode
from messages.trace.files.runs import Run, RunRecords
from messages.trace.schema import DELIVERIES, OUTSIDE, TraceRecord
from messages.vocabulary import AnyMessage

LISTENER, NETWORK = "outside:listener", "outside:network"
_CHANNEL = f"{BrokerChannelActor.__name__}."
_WATCHED = re.compile(f'"({"|".join(each.__name__ for each in sorted(WATCHED, key=str))})"'.encode())
_ZNODES = re.compile(rb"/brokers/|/controller|/admin/delete_topics|/config/topics/")
_IDS = re.compile(rb'"connection":(\d+),"correlation_id":(\d+),')


@attrs.frozen
class FoundViolation:
    """A violated invariant, with the run and the delivery that show it."""

    invariant: Invariant
    text: str
    at: float
    run: str
    delivery: int


@attrs.frozen
class TraceCheck:
    """The result of a check: the first violation of each invariant, and how often each invariant was checked."""

    violations: tuple[FoundViolation, ...]
    checked: dict[str, int]
    deliveries: int
    not_checked: dict[str, str]
    """Invariant -> what its check needs that the trace lacks."""


def check(runs: Sequence[Run]) -> TraceCheck:
    """Check all monitors on these runs.

    Raises:
        TraceError: A run is damaged.
    """
    moment = [0.0]
    settings = SimpleNamespace(**runs[0].header.settings)
    observed = ObservedCluster(lambda: moment[0], settings)
    observed.traced = {run.header.node for run in runs}
    observed.is_whole = not any(run.removed or run.header.begins for run in runs)
    monitors = Monitors(observed, FAMILIES, first_only=False)
    starts: dict[int, int] = {}
    streams = []
    for run in sorted(runs, key=lambda each: each.header.started_ms):
        node = run.header.node
        starts[node] = starts.get(node, 0) + 1
        streams.append(_records(run, _RecordedNode(observed, (node, starts[node]))))
    found: list[FoundViolation] = []
    by_name = {each.name: each for each in INVARIANTS}
    deliveries = 0
    for moment[0], _, _, record, recorded, run in merge(*streams, key=lambda each: each[:3]):
        deliveries += 1
        recorded.take(record)
        for each in monitors.violations[len(found) :]:
            found.append(FoundViolation(by_name[each.invariant], each.text, each.at, run.header.run, record.n))
    lacking = {each.name: monitors.lacks(each) for each in INVARIANTS}
    return TraceCheck(tuple(found), monitors.checked(), deliveries, {name: why for name, why in lacking.items() if why})


_Taken = tuple[float, int, int, TraceRecord, "_RecordedNode", Run]


def _records(run: Run, recorded: _RecordedNode) -> Iterator[_Taken]:
    offset, process = run.header.clock_offset, recorded.process
    for record in RunRecords(run):
        if record.kind in DELIVERIES:
            yield record.taken_at + offset, *process, record, recorded, run


class _RecordedNode:
    """Reads the deliveries of one run."""

    def __init__(self, observed: ObservedCluster, process: Process) -> None:
        self.process = process
        self._observed = observed
        self._session = 0
        self._writes: dict[int, tuple[WriteOp, ...]] = {}
        self._reads: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """The paths whose data and whose children are read, by the id of the request."""
        self._channels: dict[str, int] = {}
        """Broker id by the address of the controller's channel to it."""
        self._parts: dict[object, list[Any]] = {}
        """Parts of requests and responses whose last message is still missing, by connection or channel."""

    def take(self, record: TraceRecord) -> None:
        """Process a delivery."""
        node, starts = self.process
        self._observed.started[node] = starts
        take = _HANDLERS.get(record.type)
        if take is not None:
            take(self, record)
        if record.effects or record.error is not None:
            self._observed.delivered(self.process, record.type, record.effects, record.error)

    # ---------------------------------------------------------------------------------------------------- ZooKeeper

    def _session_state(self, record: TraceRecord) -> None:
        state = decode(record.type, record.payload)
        if state.state == CONNECTED:
            self._session = state.session_id
            self._observed.sessions[state.session_id] = self.process[0]

    def _store_write(self, record: TraceRecord) -> None:
        if _ZNODES.search(bytes(record.payload)):
            request = decode(record.type, record.payload)
            self._writes[request.id] = request.ops

    def _store_read(self, record: TraceRecord) -> None:
        if _ZNODES.search(bytes(record.payload)):
            request = decode(record.type, record.payload)
            self._reads[request.id] = request.data, request.children

    def _store_reply(self, record: TraceRecord) -> None:
        reply = decode(record.type, record.payload)
        ops, (data, parents) = self._writes.pop(reply.id, None), self._reads.pop(reply.id, ((), ()))
        if reply.code != OK:
            return
        if ops is not None:
            self._observed.transaction(ops, reply.results, self._session, reply.zxid)
        for path, znode in zip(data, reply.nodes, strict=False):
            if znode.code == OK:
                self._observed.znodes.was_read(path, znode.data, znode.version, znode.czxid)
        for path, children in zip(parents, reply.children, strict=False):
            self._observed.znodes.was_listed(path, children.names)

    # ---------------------------------------------------------------------------------------------------- requests

    def _start_channel(self, record: TraceRecord) -> None:
        self._channels[record.receiver] = decode(record.type, record.payload).broker_id

    def _part(self, record: TraceRecord) -> None:
        if LISTENER in (record.sender, record.receiver) or record.receiver == NETWORK:
            message = decode(record.type, record.payload)
            key = getattr(message, "channel", None) or (record.receiver, message.connection)
            self._parts.setdefault(key, []).append(message.part)

    def _transmit(self, record: TraceRecord) -> None:
        if record.sender.startswith(_CHANNEL) and record.sender in self._channels:
            transmit = decode(record.type, record.payload)
            request = joined(self._parts.pop(transmit.channel, []), transmit.request)
            target = self._channels[record.sender]
            self._observed.request_sent(host_of(self.process[0]), host_of(target), request)

    def _requested(self, record: TraceRecord) -> None:
        if record.sender == LISTENER and record.kind == OUTSIDE and _WATCHED.search(bytes(record.payload)):
            message = decode(record.type, record.payload)
            for each in (message,) if isinstance(message, ClientRequest) else message.requests:
                request = joined(self._parts.pop((record.receiver, each.connection), []), each.request)
                self._observed.arrived((self.process, each.connection, each.correlation_id), self.process, request)

    def _responded(self, record: TraceRecord) -> None:
        if record.receiver == LISTENER and any(
            self._observed.exchanges.waits((self.process, *map(int, ids)))
            for ids in _IDS.findall(bytes(record.payload))
        ):
            message = decode(record.type, record.payload)
            for each in message.responses if hasattr(message, "responses") else (message,):
                response: AnyMessage = each.response
                if response is not None:
                    response = joined(self._parts.pop((LISTENER, each.connection), []), response)
                self._observed.responded((self.process, each.connection, each.correlation_id), response)

    def _log_state(self, record: TraceRecord) -> None:
        self._observed.take(StableOffsetSeen(self.process, decode(record.type, record.payload)))


_HANDLERS = {
    "SessionState": _RecordedNode._session_state,
    "StoreWrite": _RecordedNode._store_write,
    "StoreRead": _RecordedNode._store_read,
    "StoreReply": _RecordedNode._store_reply,
    "StartChannel": _RecordedNode._start_channel,
    "ChannelPart": _RecordedNode._part,
    "ClientPart": _RecordedNode._part,
    "Transmit": _RecordedNode._transmit,
    "ClientRequest": _RecordedNode._requested,
    "ClientRequests": _RecordedNode._requested,
    "ClientResponse": _RecordedNode._responded,
    "ClientResponses": _RecordedNode._responded,
    "LogRead": _RecordedNode._log_state,
    "LogMoved": _RecordedNode._log_state,
}
"""Message type -> what its delivery shows."""
