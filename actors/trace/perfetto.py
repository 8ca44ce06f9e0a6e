"""Export a trace in Perfetto's protobuf format, for ui.perfetto.dev.

Rule 1: a node is shown as a process. An actor or an external endpoint is shown as a thread, and the handling of a
        delivery as a slice.
Rule 2: a message is a flow from the slice of its cause to the slice of its receiver, also across nodes. A flow's id is
        that of the delivery to the receiver. If this delivery is a response from outside, the flow's id is that of the
        request.
Rule 3: a slice is written when the export has read all messages that its handler sent. The queue is a FIFO, so an
        earlier handler's messages all come before the first message of a later handler. But timers, watch events and
        repeated polls may arrive when the slice of their cause is already written. Then their flow begins at an instant
        event, at the start of this slice.
Rule 4: a counter shows how many messages wait in the node's queue, each time a message is taken from the queue. The
        time when a message entered the queue is known from its cause; timers are not counted. Facts are instant events
        of a thread with the name "facts".
Rule 5: names are interned: written once.

Field numbers are those of Perfetto's trace_packet.proto, track_event.proto and track_descriptor.proto.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from actors.trace import protobuf
from actors.trace.delivery_text import calls, title
from actors.trace.explanation import TraceFact
from actors.trace.links import CauseFinder, DeliveryId, Link
from actors.trace.reader import Trace, TraceDelivery, TraceRun
from messages.trace.schema import OUTSIDE, SENT, TIMER

SEQUENCE = 1
"""The id of the only packet sequence."""
BUFFER = 1 << 20
"""Number of bytes per write."""
FIRST_TID = 1000
REQUESTS = frozenset(("StoreRead", "StoreWrite", "Transmit", "ClientResponse"))
"""Messages to external endpoints that are answered from outside; each is a flow of its own."""

_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_CLEARED, _NEEDED = 1, 2
_REALTIME, _BOOTTIME = 1, 6

_PACKET = protobuf.key(1, 2)
_TIMESTAMP = protobuf.key(8, 0)
_TAIL = protobuf.number(10, SEQUENCE) + protobuf.number(13, _NEEDED)
_EVENT = protobuf.key(11, 2)
_TYPE = {kind: protobuf.number(9, kind) for kind in (_BEGIN, _END, _INSTANT, _COUNTER)}
_NAME, _CATEGORY, _TRACK, _VALUE = protobuf.key(10, 0), protobuf.key(3, 0), protobuf.key(11, 0), protobuf.key(30, 0)
_ANNOTATION = protobuf.key(4, 2)


class ExportCounts(NamedTuple):
    """The numbers of slices, complete flows (arrows) and facts in an exported Perfetto trace."""

    slices: int
    flows: int
    facts: int


@dataclass(slots=True)
class _PendingSlice:
    """A delivery whose Perfetto slice is not yet written, and the ids of the arrows that begin or end in it."""

    delivery: TraceDelivery
    ends: int | None
    begins: list[int] = field(default_factory=list)


class _Lane:
    """The state of a Perfetto export for one run: its threads and the slices that are not yet written."""

    def __init__(self, place: int, process: int, offset_ns: int) -> None:
        self.place = place
        self.process = process
        self.offset_ns = offset_ns
        self.threads: dict[str, int] = {}
        self.window: deque[_PendingSlice] = deque()
        self.ahead = 0
        """Number of messages and timers in the window that were queued when its first one was taken."""
        self.waiting = 0
        """The number of messages among them."""
        self.counter = 0
        self.depth = -1
        self.first = 0
        self.taken = array("d")
        self.tracks = array("q")


class PerfettoWriter:
    """Writes a trace in Perfetto's format."""

    def __init__(self, trace: Trace, out: BinaryIO) -> None:
        self._trace = trace
        self._out = out
        self._waiting: list[bytes] = []
        self._size = 0
        self._ids = 0
        self._interned: dict[tuple[int, str], int] = {}
        self._new_names: list[bytes] = []
        self._processes: dict[int, int] = {}
        self._lanes: list[_Lane] = []
        self._slices = self._flows = 0

    def write(self, facts: Iterable[TraceFact] = ()) -> ExportCounts:
        """Write all runs, with these facts as instants.

        Raises:
            TraceError: A file is damaged. Records before the damage have been written.
            OSError: A file cannot be read or written.
        """
        links = CauseFinder(self._trace.runs)
        try:
            for place, run in enumerate(self._trace.runs):
                self._begin_run(place, run)
            for delivery in self._trace.deliveries():
                self._take(delivery, links.index[id(delivery.run)], links.link(delivery))
        finally:
            for lane in self._lanes:
                while lane.window:
                    self._release(lane)
        shown = self._write_facts(facts)
        self._flush()
        return ExportCounts(self._slices, self._flows, shown)

    # ------------------------------------------------------------------------------------------------ tracks

    def _begin_run(self, place: int, run: TraceRun) -> None:
        offset_ns = round(run.clock_offset * 1e9)
        if not place:
            self._packet(
                protobuf.number(8, offset_ns),
                protobuf.number(13, _CLEARED) + _snapshot(run.run.header.started_ms * 1_000_000),
            )
        process = self._processes.get(run.node)
        if process is None:
            process = self._processes[run.node] = self._id()
            described = protobuf.number(1, run.node + 1) + protobuf.text(6, f"node {run.node}")
            self._describe(process, protobuf.block(3, described))
        lane = _Lane(place, process, offset_ns)
        lane.counter = self._id()
        unit = protobuf.block(8, protobuf.text(6, "messages"))
        self._describe(lane.counter, protobuf.number(5, process), protobuf.text(2, f"queue of {run.name}"), unit)
        self._lanes.append(lane)

    def _thread(self, lane: _Lane, node: int, address: str) -> int:
        """Return the track of an actor; write its description at its first use."""
        known = lane.threads.get(address)
        if known is None:
            known = lane.threads[address] = self._id()
            thread = protobuf.number(1, node + 1) + protobuf.number(2, FIRST_TID + known) + protobuf.text(5, address)
            self._describe(known, protobuf.number(5, lane.process), protobuf.block(4, thread))
        return known

    def _describe(self, track: int, *fields: bytes) -> None:
        """Write the description of a track."""
        self._packet(b"", protobuf.block(60, protobuf.number(1, track) + b"".join(fields)))

    def _id(self) -> int:
        self._ids += 1
        return self._ids

    # ------------------------------------------------------------------------------------------------ deliveries

    def _take(self, delivery: TraceDelivery, place: int, link: Link | None) -> None:
        lane, record = self._lanes[place], delivery.record
        if not lane.first:
            lane.first = record.n
        track = self._thread(lane, delivery.node, record.receiver)
        lane.taken.append(record.taken_at)
        lane.tracks.append(track)
        if record.kind == SENT:
            self._release_before(lane, record.cause)
        elif record.kind == OUTSIDE:
            self._release_before(lane, -record.cause + 1)
        lane.window.append(_PendingSlice(delivery, None if link is None else self._flow(delivery, place, link)))

    def _flow(self, delivery: TraceDelivery, place: int, link: Link) -> int | None:
        """Begin the flow from the cause to this delivery, and return its id; None if the trace lacks the cause."""
        cause, lane = link.cause, self._lanes[link.cause.run]
        if delivery.record.kind == OUTSIDE and not link.shared:
            self._flows += 1
            return _flow_id(cause, of_request=True)
        id_ = _flow_id(DeliveryId(place, delivery.seq))
        if lane.window and cause.seq >= lane.window[0].delivery.seq:
            lane.window[cause.seq - lane.window[0].delivery.seq].begins.append(id_)
        elif lane.first and cause.seq >= lane.first:
            index = cause.seq - lane.first
            at = lane.offset_ns + int(lane.taken[index] * 1e9)
            notes = self._note("delivery", protobuf.number(3, cause.seq))
            self._instant(at, lane.tracks[index], f"-> {delivery.message}", notes, begins=id_)
        else:
            return None  # the cause is not in the trace
        self._flows += 1
        return id_

    def _release_before(self, lane: _Lane, seq: int) -> None:
        while lane.window and lane.window[0].delivery.seq < seq:
            self._release(lane)

    def _release(self, lane: _Lane) -> None:
        """Write the oldest slice that is not yet written, and the counter of waiting messages if it changed."""
        window = lane.window
        first = window[0]
        record = first.delivery.record
        while lane.ahead < len(window):
            other = window[lane.ahead].delivery.record
            if other is not record and other.kind != TIMER and abs(other.cause) >= record.n:
                break
            lane.ahead += 1
            lane.waiting += other.kind != TIMER
        lane.waiting -= record.kind != TIMER
        lane.ahead -= 1
        window.popleft()
        at = lane.offset_ns + int(record.taken_at * 1e9)
        if lane.waiting != lane.depth:
            lane.depth = lane.waiting
            self._event(
                at, _TYPE[_COUNTER] + _TRACK + protobuf.varint(lane.counter) + _VALUE + protobuf.varint(lane.depth)
            )
        track = _TRACK + protobuf.varint(lane.threads[record.receiver])
        self._event(at, self._slice(first, lane.place, track))
        self._event(max(at, lane.offset_ns + int(record.finished_at * 1e9)), _TYPE[_END] + track)
        self._slices += 1

    def _slice(self, pending: _PendingSlice, place: int, track: bytes) -> bytes:
        """Return the event that begins a slice."""
        record = pending.delivery.record
        parts = [
            _TYPE[_BEGIN],
            track,
            _NAME,
            protobuf.varint(self._name(2, title(record))),
            _CATEGORY,
            protobuf.varint(self._name(1, record.actor or "external endpoint")),
            self._note("delivery", protobuf.number(3, record.n)),
        ]
        if record.sender:
            parts.append(self._note("sender", protobuf.number(17, self._name(29, record.sender))))
        if record.taken_at > record.queued_at:
            parts.append(self._note("waited ms", protobuf.double(5, (record.taken_at - record.queued_at) * 1000)))
        if record.effects:
            parts.append(self._note("I/O", protobuf.text(6, calls(pending.delivery))))
        if record.error is not None:
            parts.append(self._note("error", protobuf.text(6, record.error)))
        if record.type in REQUESTS and record.actor == "":
            parts.append(protobuf.fixed64_field(47, _flow_id(DeliveryId(place, record.n), of_request=True)))
        parts += [protobuf.fixed64_field(47, each) for each in pending.begins]
        if pending.ends is not None:
            parts.append(protobuf.fixed64_field(48, pending.ends))
        return b"".join(parts)

    def _note(self, name: str, value: bytes) -> bytes:
        content = protobuf.number(1, self._name(3, name)) + value
        return _ANNOTATION + protobuf.varint(len(content)) + content

    def _instant(self, at: int, track: int, name: str, notes: bytes, begins: int | None = None) -> None:
        flow = b"" if begins is None else protobuf.fixed64_field(47, begins)
        named = _NAME + protobuf.varint(self._name(2, name))
        self._event(at, _TYPE[_INSTANT] + _TRACK + protobuf.varint(track) + named + flow + notes)

    def _write_facts(self, facts: Iterable[TraceFact]) -> int:
        shown = 0
        lanes = {run.name: lane for run, lane in zip(self._trace.runs, self._lanes, strict=True)}
        for fact in facts:
            track = self._thread(lanes[fact.run], fact.node, "facts")
            notes = [self._note("delivery", protobuf.number(3, fact.seq))]
            for name, value in fact.fields.items():
                shown_value = protobuf.int64_field(4, value) if type(value) is int else protobuf.text(6, str(value))
                notes.append(self._note(name, shown_value))
            self._instant(round(fact.at * 1e9), track, fact.kind, b"".join(notes))
            shown += 1
        return shown

    # ------------------------------------------------------------------------------------------------ packets

    def _name(self, field: int, name: str) -> int:
        """Return the id of an interned name of this field of InternedData."""
        known = self._interned.get((field, name))
        if known is None:
            known = self._interned[field, name] = len(self._interned) + 1
            self._new_names.append(protobuf.block(field, protobuf.number(1, known) + protobuf.text(2, name)))
        return known

    def _event(self, at: int, event: bytes) -> None:
        content = [_TIMESTAMP, protobuf.varint(at), _TAIL, _EVENT, protobuf.varint(len(event)), event]
        if self._new_names:
            content.append(protobuf.block(12, b"".join(self._new_names)))
            self._new_names.clear()
        self._put(b"".join(content))

    def _packet(self, timestamp: bytes, content: bytes) -> None:
        self._put(timestamp + protobuf.number(10, SEQUENCE) + content)

    def _put(self, packet: bytes) -> None:
        made = b"%b%b%b" % (_PACKET, protobuf.varint(len(packet)), packet)
        self._waiting.append(made)
        self._size += len(made)
        if self._size >= BUFFER:
            self._flush()

    def _flush(self) -> None:
        self._out.write(b"".join(self._waiting))
        self._waiting.clear()
        self._size = 0


def _snapshot(now: int) -> bytes:
    """Return the ClockSnapshot packet, which declares that timestamps are wall-clock time."""
    clocks = [
        protobuf.block(1, protobuf.number(1, clock) + protobuf.number(2, now)) for clock in (_BOOTTIME, _REALTIME)
    ]
    return protobuf.block(6, b"".join(clocks) + protobuf.number(2, _BOOTTIME))


def _flow_id(place: DeliveryId, of_request: bool = False) -> int:
    return (place.run + 1) << 42 | place.seq << 1 | of_request
