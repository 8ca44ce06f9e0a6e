"""Check a recorded trace: read its deliveries in the order of time, as facts of one cluster, and pass them to monitors.

Rule 1: deliveries of several nodes are ordered by time, so the differences between their clocks are subtracted before.
Rule 2: writes to ZooKeeper take effect in the order of their transactions (zxid), each when the first node receives a
        reply that shows this or a later transaction. A read takes effect when its reader receives the reply.
Rule 3: a monitor sees a trace as it sees a simulated cluster. An invariant that needs more than the trace shows, or the
        start of a run whose first segments were removed, is not checked.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import attrs

from actors.controller.channel import BrokerChannelActor
from actors.simulation.exchanges import WATCHED
from actors.simulation.monitors.families import FAMILIES, INVARIANTS
from actors.simulation.monitors.monitor import Invariant, Monitors
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import Process, StableOffsetSeen
from actors.simulation.simulated_cluster import host_of
from messages.network import ClientRequest
from messages.parts import join_parts
from messages.store import CONNECTED, OK, WriteOp, Written
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


def check(runs: Sequence[Run], shifts: Mapping[str, float] = MappingProxyType({})) -> TraceCheck:
    """Check all monitors on these runs; `shifts` has the seconds to subtract from the times of a run, by its name.

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
    writes = deque(
        sorted(chain.from_iterable(_written(run, observed.sessions) for run in runs), key=lambda each: each.zxid)
    )
    for run in sorted(runs, key=lambda each: each.header.started_ms):
        node = run.header.node
        starts[node] = starts.get(node, 0) + 1
        offset = run.header.clock_offset - shifts.get(run.header.run, 0.0)
        streams.append(_records(run, offset, _RecordedNode(observed, (node, starts[node]), writes)))
    found: list[FoundViolation] = []
    by_name = {each.name: each for each in INVARIANTS}
    deliveries = 0
    for moment[0], _, _, record, recorded, run in merge(*streams, key=lambda each: each[:3]):
        deliveries += 1
        recorded.take(record)
        for each in monitors.violations[len(found) :]:
            found.append(FoundViolation(by_name[each.invariant], each.text, each.at, run.header.run, record.n))
    lacking = {each.name: monitors.lacks(each) for each in INVARIANTS}
    return TraceCheck(
        tuple(found), monitors.check_counts(), deliveries, {name: why for name, why in lacking.items() if why}
    )


_Taken = tuple[float, int, int, TraceRecord, "_RecordedNode", Run]


def _records(run: Run, offset: float, recorded: _RecordedNode) -> Iterator[_Taken]:
    for record in RunRecords(run):
        if record.kind in DELIVERIES:
            yield record.taken_at + offset, *recorded.process, record, recorded, run


class _Write(NamedTuple):
    """A ZooKeeper transaction: its operations with their results, and the session that wrote it."""

    ops: tuple[WriteOp, ...]
    results: tuple[Written, ...]
    session: int
    zxid: int


def _written(run: Run, sessions: dict[int, int]) -> Iterator[_Write]:
    """Yield the transactions that a run wrote, and put its sessions into `sessions`."""
    session, asked = 0, dict[int, tuple[WriteOp, ...]]()
    for record in RunRecords(run):
        if record.type == "SessionState":
            state = decode(record.type, record.payload)
            if state.state == CONNECTED:
                session = state.session_id
                sessions[session] = run.header.node
        elif record.type == "StoreWrite" and _ZNODES.search(bytes(record.payload)):
            request = decode(record.type, record.payload)
            asked[request.id] = request.ops
        elif record.type == "StoreReply" and asked:
            reply = decode(record.type, record.payload)
            ops = asked.pop(reply.id, None)
            if ops is not None and reply.code == OK:
                yield _Write(ops, reply.results, session, reply.zxid)


class _RecordedNode:
    """Reads the deliveries of one run; `writes` are the writes of all runs that have not taken effect yet."""

    def __init__(self, observed: ObservedCluster, process: Process, writes: deque[_Write]) -> None:
        self.process = process
        self._observed = observed
        self._writes = writes
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
            self._observed.handle_delivery(self.process, record.type, record.effects, record.error)

    # ---------------------------------------------------------------------------------------------------- ZooKeeper

    def _store_read(self, record: TraceRecord) -> None:
        if _ZNODES.search(bytes(record.payload)):
            request = decode(record.type, record.payload)
            self._reads[request.id] = request.data, request.children

    def _store_reply(self, record: TraceRecord) -> None:
        reply = decode(record.type, record.payload)
        while self._writes and self._writes[0].zxid <= reply.zxid:
            self._observed.transaction(*self._writes.popleft())
        data, parents = self._reads.pop(reply.id, ((), ()))
        if reply.code != OK:
            return
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
            request = join_parts(self._parts.pop(transmit.channel, []), transmit.request)
            target = self._channels[record.sender]
            self._observed.request_sent(host_of(self.process[0]), host_of(target), request)

    def _read_request(self, record: TraceRecord) -> None:
        if record.sender == LISTENER and record.kind == OUTSIDE and _WATCHED.search(bytes(record.payload)):
            message = decode(record.type, record.payload)
            for each in (message,) if isinstance(message, ClientRequest) else message.requests:
                request = join_parts(self._parts.pop((record.receiver, each.connection), []), each.request)
                self._observed.handle_request(
                    (self.process, each.connection, each.correlation_id), self.process, request
                )

    def _read_response(self, record: TraceRecord) -> None:
        if record.receiver == LISTENER and any(
            self._observed.exchanges.waits((self.process, *map(int, ids)))
            for ids in _IDS.findall(bytes(record.payload))
        ):
            message = decode(record.type, record.payload)
            for each in message.responses if hasattr(message, "responses") else (message,):
                response: AnyMessage = each.response
                if response is not None:
                    response = join_parts(self._parts.pop((LISTENER, each.connection), []), response)
                self._observed.handle_response((self.process, each.connection, each.correlation_id), response)

    def _log_state(self, record: TraceRecord) -> None:
        self._observed.take(StableOffsetSeen(self.process, decode(record.type, record.payload)))


_HANDLERS = {
    "StoreRead": _RecordedNode._store_read,
    "StoreReply": _RecordedNode._store_reply,
    "StartChannel": _RecordedNode._start_channel,
    "ChannelPart": _RecordedNode._part,
    "ClientPart": _RecordedNode._part,
    "Transmit": _RecordedNode._transmit,
    "ClientRequest": _RecordedNode._read_request,
    "ClientRequests": _RecordedNode._read_request,
    "ClientResponse": _RecordedNode._read_response,
    "ClientResponses": _RecordedNode._read_response,
    "LogRead": _RecordedNode._log_state,
    "LogMoved": _RecordedNode._log_state,
}
"""Message type -> what its delivery shows."""
