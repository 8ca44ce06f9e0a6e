"""Export spans as OTLP JSON lines: one ExportTraceServiceRequest a line, as OpenTelemetry's file exporter writes it.

Rule 1: a span is a controller's event, a request that a node received, a request that a node sent to a broker, or a
        request to ZooKeeper. Other deliveries belong to the span of their cause.
Rule 2: a request's span ends with its response. An event's span ends with the event's last delivery on the node that
        handled the event. An event's span is written after QUIET seconds without such a delivery.
Rule 3: a timer or a watch event begins a new OpenTelemetry trace. If a recorded write of another node caused the watch
        event, the span of the resulting controller event has a link to the span of that write.
Rule 4: ids follow from the names of the runs and the order of the spans: exporting twice gives the same ids.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import msgspec

from actors.trace import payloads
from actors.trace.links import STORE, CauseFinder, Link
from actors.trace.reader import Trace, TraceDelivery
from messages.facts.controller_facts import CONTROLLER
from messages.trace.schema import OUTSIDE, TIMER

INTERNAL, SERVER, CLIENT = 1, 2, 3
ERROR = 2
QUIET = 60.0
"""Seconds of trace time after which an event's span is written."""
LOOK = 10_000
"""Number of deliveries between two searches for such spans."""
BATCH = 200
"""Maximum number of spans in a line."""


class LineWriter(Protocol):
    """The interface of an export's target: a binary file, or an endpoint to which each line is sent as a request."""

    def write(self, line: bytes, /) -> object:
        """Write one line."""


@dataclass(slots=True)
class _Span:
    """An OpenTelemetry span in memory: it is written to the export when it has ended."""

    serial: int
    parent: int
    run: int
    name: str
    kind: int
    start: float
    end: float
    attributes: dict[str, str | int]
    error: str = ""
    links: list[int] = field(default_factory=list)


class OtlpWriter:
    """Writes a trace as OTLP spans.

    Attributes:
        spans: Number of spans written.
    """

    def __init__(self, trace: Trace, out: LineWriter) -> None:
        self.spans = 0
        self._trace = trace
        self._out = out
        self._serials = 0
        self._roots = array("q", [0])
        """The first span of the trace of each span, by serial number."""
        self._carried = [array("q", [0]) for _ in trace.runs]
        """The span that each delivery carries on, by its number in the run since the first one."""
        self._first = [0] * len(trace.runs)
        self._events: dict[int, _Span] = {}
        self._served: dict[tuple[int, int, int], _Span] = {}
        self._sent: dict[tuple[int, str], _Span] = {}
        self._stored: dict[tuple[int, int], _Span] = {}
        self._origins: dict[tuple[int, int], int] = {}
        """The span of the write that caused a watch event, for the controller event that follows."""
        self._batches: list[list[_Span]] = [[] for _ in trace.runs]
        self._kinds = [frozenset(name for name, _ in run.run.header.events) for run in trace.runs]
        names = ",".join(run.name for run in trace.runs)
        self._prefix = blake2b(names.encode(), digest_size=8).hexdigest()
        self._resources = [
            _attributes({"service.name": "kafka-actors", "service.instance.id": f"node-{run.node}", "run": run.name})
            for run in trace.runs
        ]

    def write(self) -> None:
        """Write all spans.

        Raises:
            TraceError: A run is damaged.
            OSError: A file cannot be read or written.
        """
        links = CauseFinder(self._trace.runs)
        at = 0.0
        try:
            for count, delivery in enumerate(self._trace.deliveries()):
                at = delivery.at
                self._take(delivery, links.index[id(delivery.run)], links.link(delivery))
                if count % LOOK == 0:
                    self._write_quiet(at - QUIET)
        finally:
            self._write_rest(at)

    # ------------------------------------------------------------------------------------------------ deliveries

    def _take(self, delivery: TraceDelivery, run: int, link: Link | None) -> None:
        record = delivery.record
        self._first[run] = self._first[run] or record.n
        carried = 0 if link is None or record.kind == TIMER else self._span_of(link)
        if record.kind == OUTSIDE:
            carried = self._enter(delivery, run, link, carried)
        elif record.actor == "":
            carried = self._leave(delivery, run, carried)
        elif record.actor == CONTROLLER and record.type in self._kinds[run]:
            carried = self._event(delivery, run, link, carried)
        self._carried[run].append(carried)
        event = self._events.get(carried)
        if event is not None and event.run == run:
            event.end = max(event.end, record.finished_at + delivery.run.clock_offset)

    def _span_of(self, link: Link) -> int:
        run, seq = link.cause
        index = seq - self._first[run] + 1
        return self._carried[run][index] if 0 < index < len(self._carried[run]) else 0

    def _event(self, delivery: TraceDelivery, run: int, link: Link | None, carried: int) -> int:
        span = self._span(delivery, run, carried, delivery.message, INTERNAL)
        origin = 0 if link is None else self._origins.pop(link.cause, 0)
        if origin:
            span.links.append(origin)
        self._events[span.serial] = span
        return span.serial

    def _enter(self, delivery: TraceDelivery, run: int, link: Link | None, carried: int) -> int:
        """Process a message from outside: a response, a request or a watch event.

        `carried` is the span of the cause. Return the span to which the delivery belongs; 0 if none.
        """
        read, name = payloads.read(delivery.record.payload), delivery.message
        if read is None:
            return carried
        match name:
            case "StoreReply":
                span = self._stored.pop((run, read.id), None)
                if span is not None and read.code:
                    span.attributes["zookeeper.code"] = read.code
                return self._close(span, delivery)
            case "Received" | "TransmitFailed":
                span = self._sent.pop((run, read.channel), None)
                if span is not None and name == "TransmitFailed":
                    span.error = str(delivery.payload.get("reason", "")) or name
                return self._close(span, delivery)
            case "ClientRequest" | "ClientRequests":
                first = 0
                for each in read.exchanges:
                    api = each.request[0].removesuffix("Request")
                    span = self._span(delivery, run, carried, api, SERVER)
                    span.attributes["messaging.client_id"] = each.client_id
                    span.attributes["correlation_id"] = each.correlation_id
                    self._served[run, each.connection, each.correlation_id] = span
                    first = first or span.serial
                return first
            case "WatchEvent":
                if carried:
                    self._origins[run, delivery.seq] = carried
                return 0
        return carried

    def _leave(self, delivery: TraceDelivery, run: int, carried: int) -> int:
        """Process a message to an external endpoint: a request or a response. The result is as for `_enter`."""
        read, name = payloads.read(delivery.record.payload), delivery.message
        if read is None:
            return carried
        if name in STORE:
            span = self._span(delivery, run, carried, f"ZooKeeper {name.removeprefix('Store').lower()}", CLIENT)
            self._stored[run, read.id] = span
            return span.serial
        if name == "Transmit":
            span = self._span(delivery, run, carried, read.request[0].removesuffix("Request"), CLIENT)
            span.attributes |= {"server.address": read.endpoint.host, "server.port": read.endpoint.port}
            span.attributes |= {"correlation_id": read.correlation_id, "channel": read.channel}
            before = self._sent.pop((run, read.channel), None)
            if before is not None:
                before.error = "no response"
                self._finish(before, delivery.at)
            self._sent[run, read.channel] = span
            return span.serial
        if name in ("ClientResponse", "ClientResponses"):
            for each in read.exchanges:
                self._close(self._served.pop((run, each.connection, each.correlation_id), None), delivery)
        return carried

    # ------------------------------------------------------------------------------------------------ spans

    def _span(self, delivery: TraceDelivery, run: int, parent: int, name: str, kind: int) -> _Span:
        self._serials += 1
        self._roots.append(self._roots[parent] if parent else self._serials)
        start = delivery.record.queued_at + delivery.run.clock_offset
        return _Span(self._serials, parent, run, name, kind, start, start, {"delivery": delivery.seq})

    def _close(self, span: _Span | None, delivery: TraceDelivery) -> int:
        """End a request's span, and return its parent, to which later deliveries belong; 0 without a span."""
        if span is None:
            return 0
        self._finish(span, delivery.at)
        return span.parent

    def _finish(self, span: _Span, end: float) -> None:
        span.end = max(span.start, end)
        batch = self._batches[span.run]
        batch.append(span)
        if len(batch) >= BATCH:
            self._flush(span.run)

    def _write_quiet(self, before: float) -> None:
        for serial in [serial for serial, span in self._events.items() if span.end < before]:
            span = self._events.pop(serial)
            self._finish(span, span.end)

    def _write_rest(self, at: float) -> None:
        for span in [*self._events.values()]:
            self._finish(span, span.end)
        for span in (*self._served.values(), *self._sent.values(), *self._stored.values()):
            span.attributes["unanswered"] = "true"
            self._finish(span, at)
        for run in range(len(self._batches)):
            self._flush(run)

    def _flush(self, run: int) -> None:
        batch, self._batches[run] = self._batches[run], []
        if not batch:
            return
        scope = {"scope": {"name": "kafka_actors"}, "spans": [self._plain(span) for span in batch]}
        request = {"resourceSpans": [{"resource": {"attributes": self._resources[run]}, "scopeSpans": [scope]}]}
        self._out.write(msgspec.json.encode(request) + b"\n")
        self.spans += len(batch)

    def _plain(self, span: _Span) -> dict[str, Any]:
        made: dict[str, Any] = {
            **self._ids(span.serial),
            "name": span.name,
            "kind": span.kind,
            "startTimeUnixNano": str(round(span.start * 1e9)),
            "endTimeUnixNano": str(round(span.end * 1e9)),
            "attributes": _attributes(span.attributes),
        }
        if span.parent:
            made["parentSpanId"] = f"{span.parent:016x}"
        if span.links:
            made["links"] = [self._ids(serial) for serial in span.links]
        if span.error:
            made["status"] = {"code": ERROR, "message": span.error}
        return made

    def _ids(self, serial: int) -> dict[str, str]:
        return {"traceId": f"{self._prefix}{self._roots[serial]:016x}", "spanId": f"{serial:016x}"}


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": name, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}
        for name, value in values.items()
    ]
