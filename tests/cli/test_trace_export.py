"""`kafka-actors trace export`: each format is parsed with its own project's library and compared with the deliveries.

Perfetto's trace_processor is a binary that its package downloads; these tests use only the package's protos.
"""

from __future__ import annotations

import base64
import http.server
import itertools
import json
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

from actors.cli.trace import command
from actors.public.simulated import SimulatedCluster
from actors.trace import otlp
from actors.trace.filters import linked_effects
from actors.trace.links import CauseFinder, DeliveryId
from actors.trace.mermaid import sequence_diagram
from actors.trace.reader import Trace, TraceDelivery, open_trace
from messages.trace.errors import TraceError

Event = perfetto.TrackEvent


def export(folder: Path, target: Path | str, *arguments: object) -> Result:
    return CliRunner().invoke(command, ["export", str(folder), str(target), *map(str, arguments)])


class Parsed:
    """A Perfetto trace; earlier packets define the names in a packet, as for Perfetto's importer."""

    def __init__(self, file: Path) -> None:
        trace = perfetto.Trace()
        trace.ParseFromString(file.read_bytes())
        self.tracks = {
            packet.track_descriptor.uuid: packet.track_descriptor
            for packet in trace.packet
            if packet.HasField("track_descriptor")
        }
        names: dict[int, str] = {}
        self.slices: list[dict[str, Any]] = []
        self.instants: list[dict[str, Any]] = []
        self.counters: list[tuple[int, int, int]] = []
        self.depth: dict[int, int] = defaultdict(int)
        for packet in trace.packet:
            interned = packet.interned_data
            for kind in (interned.event_names, interned.event_categories, interned.debug_annotation_names):
                names |= {each.iid: each.name for each in kind}
            names |= {each.iid: each.str.decode() for each in interned.debug_annotation_string_values}
            if packet.HasField("track_event"):
                self._take(packet, packet.track_event, names)

    def _take(self, packet: Any, event: Any, names: dict[int, str]) -> None:
        track = self.tracks[event.track_uuid]
        if event.type == Event.TYPE_COUNTER:
            self.counters.append((track.parent_uuid, packet.timestamp, event.counter_value))
            return
        if event.type == Event.TYPE_SLICE_END:
            self.depth[track.uuid] -= 1
            assert self.depth[track.uuid] == 0
            self.slices[self.open.pop(track.uuid)]["end"] = packet.timestamp
            return
        notes = {
            names[note.name_iid]: names[note.string_value_iid]
            if note.string_value_iid
            else getattr(note, note.WhichOneof("value"))
            for note in event.debug_annotations
        }
        row = {
            "name": names[event.name_iid],
            "process": self.tracks[track.parent_uuid].process.process_name,
            "thread": track.thread.thread_name,
            "at": packet.timestamp,
            "order": len(self.slices) + len(self.instants),
            "flows": [*event.flow_ids, *event.terminating_flow_ids],
            "notes": notes,
        }
        if event.type == Event.TYPE_INSTANT:
            self.instants.append(row)
            return
        assert self.depth[track.uuid] == 0, "handlers of one actor do not overlap"
        self.depth[track.uuid] += 1
        self.open[track.uuid] = len(self.slices)
        self.slices.append(row)

    open: dict[int, int] = {}

    def arrows(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the flows as pairs of slices or instants."""
        rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in sorted((*self.slices, *self.instants), key=lambda row: (row["at"], row["order"])):
            for flow in row["flows"]:
                rows[flow].append(row)
        return [pair for each in rows.values() for pair in itertools.pairwise(each)]


@pytest.fixture(scope="module")
def parsed(lived: Path, tmp_path_factory: pytest.TempPathFactory) -> Parsed:
    target = tmp_path_factory.mktemp("perfetto") / "trace.pftrace"
    result = export(lived, target, "--perfetto")
    assert result.exit_code == 0, result.output
    assert re.fullmatch(rf"\d+ deliveries, \d+ messages and \d+ facts written to {target}\n", result.output)
    return Parsed(target)


def linked(trace: Trace) -> list[tuple[TraceDelivery, TraceDelivery]]:
    """Return each delivery whose cause is in the trace, as (cause, delivery)."""
    links, seen, pairs = CauseFinder(trace.runs), {}, []
    for each in trace.deliveries():
        link = links.link(each)
        seen[links.index[id(each.run)], each.seq] = each
        if link is not None:
            pairs.append((seen[tuple(link.cause)], each))
    return pairs


def test_slices_are_the_deliveries(lived: Path, parsed: Parsed) -> None:
    deliveries = list(open_trace(lived).deliveries())
    assert len(parsed.slices) == len(deliveries)
    expected = Counter((f"node {each.node}", each.receiver, each.seq) for each in deliveries)
    assert Counter((row["process"], row["thread"], row["notes"]["delivery"]) for row in parsed.slices) == expected
    named = Counter((f"node {each.node}", each.seq, each.message, each.sender) for each in deliveries)
    assert named == Counter(
        (row["process"], row["notes"]["delivery"], row["name"].split()[0], row["notes"].get("sender", ""))
        for row in parsed.slices
    )
    times = sorted(each.at for each in deliveries)
    assert all(
        abs(at - row / 1e9) < 1e-5 for at, row in zip(times, sorted(row["at"] for row in parsed.slices), strict=True)
    )
    assert all(row["at"] <= row["end"] for row in parsed.slices)
    assert {row["name"] for row in parsed.slices} >= {"Ask GetBrokers", "Transmit LeaderAndIsrRequest", "StoreReply"}


def test_flows_are_the_messages(lived: Path, parsed: Parsed) -> None:
    """Each message is one flow, from the slice of its cause (or an instant in it) to the slice of its receiver."""

    def key(delivery: TraceDelivery) -> tuple[object, ...]:
        return f"node {delivery.node}", delivery.receiver, delivery.seq

    expected = Counter((key(cause), key(effect)) for cause, effect in linked(open_trace(lived)))
    found = Counter(
        tuple((row["process"], row["thread"], row["notes"]["delivery"]) for row in arrow) for arrow in parsed.arrows()
    )
    assert found == expected
    assert sum(found.values()) > 2700
    assert any(first["process"] != second["process"] for first, second in parsed.arrows())


def test_queues_and_facts_are_there(lived: Path, parsed: Parsed) -> None:
    facts = Counter(fact.kind for fact in open_trace(lived).facts())
    assert Counter(row["name"] for row in parsed.instants if row["thread"] == "facts") == facts
    assert {value for _, _, value in parsed.counters} >= {0, 1, 2}
    processes = {
        track.process.process_name
        for uuid, track in parsed.tracks.items()
        if uuid in {process for process, _, _ in parsed.counters}
    }
    assert processes == {"node 0", "node 1", "node 2"}


def test_the_queue_s_length_is_that_of_the_messages_waiting(lived: Path, tmp_path: Path) -> None:
    target = tmp_path / "one.pftrace"
    assert export(lived, target, "--perfetto", "--node", 2, "--no-facts").exit_code == 0
    records = [each.record for each in open_trace(lived).select(node=2).deliveries()]
    waiting = [
        sum(later.kind != "timer" and abs(later.cause) < record.n for later in records[record.n :])
        for record in records
    ]
    changes = [waiting[0], *(after for before, after in itertools.pairwise(waiting) if before != after)]
    assert [value for _, _, value in Parsed(target).counters] == changes
    assert max(changes) > 20


def test_a_kill_is_one_connected_flow(tmp_path: Path) -> None:
    with SimulatedCluster(3, seed=3, directory=tmp_path / "trace") as cluster:
        controller = cluster.controller_id
        cluster.create_topic("t", partitions=6, replication_factor=3)
        dead = next(broker for broker in range(3) if broker != controller)
        cluster.kill(dead)
        cluster.wait_for(lambda: all(cluster.leader_of("t", number) != dead for number in range(6)))
        cluster.run(2.0)
    assert export(tmp_path / "trace", tmp_path / "kill.pftrace", "--perfetto").exit_code == 0
    parsed = Parsed(tmp_path / "kill.pftrace")
    killed = max(row["at"] for row in parsed.slices if row["process"] == f"node {dead}")
    leads_to: dict[tuple[object, ...], set[tuple[object, ...]]] = defaultdict(set)

    def key(row: dict[str, Any]) -> tuple[object, ...]:
        return row["process"], row["thread"], row["notes"].get("delivery", row["at"])

    for first, second in parsed.arrows():
        leads_to[key(first)].add(key(second))
    later = [row for row in parsed.slices if row["at"] > killed]
    change = next(row for row in later if row["name"] == "BrokerChange" and row["process"] == f"node {controller}")
    start = next(first for first, second in parsed.arrows() if second is change)
    assert start["name"] == "WatchEvent"
    taken = [row for row in later if row["name"] == "Answer RoleTaken" and row["at"] > change["at"]]
    last = max((row for row in taken if row["process"] != f"node {controller}"), key=lambda row: row["at"])
    reached, waiting = set(), [key(start)]
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            waiting += leads_to[at]
    assert key(last) in reached
    assert {key(row) for row in taken} <= reached


def spans_of(file: Path) -> list[tuple[str, Any]]:
    """Return the spans of all lines as (service instance, span), parsed with OpenTelemetry's protos.

    Ids are hexadecimal in OTLP's JSON, and base64 in protobuf's JSON.
    """
    found = []
    for line in file.read_text().splitlines():
        plain = json.loads(line, object_hook=_with_base64)
        data = json_format.ParseDict(plain, TracesData())
        for resource in data.resource_spans:
            attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert attributes["service.name"] == "kafka-actors"
            for scope in resource.scope_spans:
                found += [(attributes["service.instance.id"], span) for span in scope.spans]
    return found


def _with_base64(values: dict[str, Any]) -> dict[str, Any]:
    for name in ("traceId", "spanId", "parentSpanId"):
        if name in values:
            values[name] = base64.b64encode(bytes.fromhex(values[name])).decode()
    return values


def test_spans_are_events_and_requests(lived: Path, tmp_path: Path) -> None:
    target = tmp_path / "spans.jsonl"
    result = export(lived, target, "--otlp")
    assert result.exit_code == 0, result.output
    spans = spans_of(target)
    deliveries = list(open_trace(lived).deliveries())
    kinds = Counter(span.kind for _, span in spans)
    events = {name for name, _ in open_trace(lived).runs[0].run.header.events}
    assert kinds[otlp.INTERNAL] == sum(
        each.actor == "ControllerActor" and each.message in events for each in deliveries
    )
    together = sum(len(each.payload["requests"]) for each in deliveries if each.message == "ClientRequests")
    assert kinds[otlp.SERVER] == together + sum(each.message == "ClientRequest" for each in deliveries)
    asked = sum(each.message in (*otlp.STORE, "Transmit") and each.actor == "" for each in deliveries)
    assert kinds[otlp.CLIENT] == asked
    ids = {span.span_id: (node, span) for node, span in spans}
    assert len(ids) == len(spans) and all(len(span.trace_id) == 16 and len(span.span_id) == 8 for _, span in spans)
    crossing = 0
    for node, span in spans:
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        if span.parent_span_id:
            parent_node, parent = ids[span.parent_span_id]
            assert parent.trace_id == span.trace_id
            assert parent.start_time_unix_nano <= span.start_time_unix_nano
            if parent_node != node:
                crossing += 1
                assert (parent.kind, span.kind, parent.name) == (otlp.CLIENT, otlp.SERVER, span.name)
    assert crossing > 30
    changes = [span for _, span in spans if span.name == "BrokerChange"]
    assert any(span.links for span in changes)
    assert all(link.span_id in ids for span in changes for link in span.links)
    failed = [span for _, span in spans if span.status.code == otlp.ERROR]
    assert len(failed) == sum(each.message == "TransmitFailed" for each in deliveries)


class Collector(http.server.BaseHTTPRequestHandler):
    """An OTLP/HTTP endpoint that responds with `answers`, then with 200, and stores the bodies that it accepts."""

    answers: ClassVar[list[tuple[int, bytes]]] = []
    bodies: ClassVar[list[bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        code, answer = self.answers.pop(0) if self.answers else (200, b"{}")
        if code == 200 and self.headers["Content-Type"] == "application/json":
            self.bodies.append(body)
        self.send_response(code)
        self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.answers, Collector.bodies = [], []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces"
        server.shutdown()
        thread.join()


def test_spans_are_sent_to_an_endpoint(lived: Path, tmp_path: Path, collector: str) -> None:
    """The endpoint receives the same spans as the file. After a 503, the request is sent again."""
    Collector.answers = [(503, b"")]
    result = export(lived, collector, "--otlp")
    assert (result.exit_code, f"spans written to {collector}" in result.output) == (0, True), result.output
    export(lived, tmp_path / "spans.jsonl", "--otlp")
    (tmp_path / "sent.jsonl").write_bytes(b"".join(Collector.bodies))
    assert spans_of(tmp_path / "sent.jsonl") == spans_of(tmp_path / "spans.jsonl")


def test_an_endpoint_that_rejects_spans_is_named(lived: Path, collector: str) -> None:
    Collector.answers = [(404, b"")]
    result = export(lived, collector, "--otlp")
    assert result.exit_code == 1 and f"{collector}: HTTP status 404 Not Found. Name an OTLP" in result.output
    Collector.answers = [(200, b'{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}')]
    result = export(lived, collector, "--otlp")
    assert result.exit_code == 1 and f"{collector} rejected 3 spans: too old" in result.output
    result = export(lived, "http://127.0.0.1:1/v1/traces", "--otlp")
    assert result.exit_code == 1 and "Connection refused" in result.output
    assert export(lived, collector, "--ndjson").exit_code == 2


def test_a_request_s_span_lasts_from_sending_to_its_response(lived: Path, tmp_path: Path) -> None:
    target = tmp_path / "spans.jsonl"
    export(lived, target, "--otlp", "--node", 2)
    by_delivery = {
        next(each.value.int_value for each in span.attributes if each.key == "delivery"): span
        for _, span in spans_of(target)
        if span.kind == otlp.CLIENT and not span.name.startswith("ZooKeeper")
    }
    sent: dict[str, TraceDelivery] = {}
    compared = 0
    for each in open_trace(lived).select(node=2).deliveries():
        if each.message == "Transmit":
            sent[each.payload["channel"]] = each
        elif each.message == "Received":
            began = sent.pop(each.payload["channel"])
            span = by_delivery[began.seq]
            assert abs(span.start_time_unix_nano / 1e9 - began.at) < 1e-3
            assert abs(span.end_time_unix_nano / 1e9 - each.at) < 1e-6
            compared += 1
    assert compared > 50


def test_quiet_events_are_written_on_the_way(lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(lived, tmp_path / "all", "--otlp")
    monkeypatch.setattr(otlp, "QUIET", 0.5)
    monkeypatch.setattr(otlp, "LOOK", 50)
    monkeypatch.setattr(otlp, "BATCH", 7)
    export(lived, tmp_path / "parts", "--otlp")
    whole, parts = ({span.span_id for _, span in spans_of(tmp_path / name)} for name in ("all", "parts"))
    assert whole == parts


def test_a_diagram_has_the_messages_of_an_event(lived: Path) -> None:
    trace = open_trace(lived)
    event = next(each for each in trace.deliveries() if each.message == "BrokerChange" and each.node == 2)
    result = export(lived, "-", "--mermaid", "--node", 2, "--delivery", event.seq)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0 and lines[0] == "sequenceDiagram"
    participants = dict(re.findall(r"participant (p\d+) as (.*)", result.stdout))
    messages = re.findall(r"    (p\d+)-\)(p\d+): (\d+) (.*)", result.stdout)
    assert f"{event.seq} BrokerChange" in result.stdout
    assert {each for row in messages for each in row[:2]} <= set(participants)
    crossing = [(participants[a], participants[b], what) for a, b, _, what in messages if "Request" in what]
    assert any(
        (sender, what) == ("network (node 2)", "ClientRequest UpdateMetadataRequest")
        and re.fullmatch(r"RequestHandlerActor\.\d+ \(node 0\)", receiver)
        for sender, receiver, what in crossing
    )
    statement = r"    (participant p\d+ as [^#;]+|Note over p\d+: [\d:.]+|p\d+-\)p\d+: \d+ [^;]+)"
    assert all(re.fullmatch(statement, line) for line in lines[1:])


def test_a_diagram_of_too_many_messages_is_refused(lived: Path) -> None:
    trace = open_trace(lived)
    with pytest.raises(TraceError, match="led to more than 5 messages, too many for a diagram"):
        sequence_diagram(trace, linked_effects(trace, [DeliveryId(4, 1)], "BrokerChange"), 5)


def test_lines_are_the_deliveries_in_full(lived: Path, tmp_path: Path) -> None:
    export(lived, tmp_path / "all.ndjson", "--ndjson")
    with (tmp_path / "all.ndjson").open() as lines:
        for line, each in zip(lines, open_trace(lived).deliveries(), strict=True):
            row = json.loads(line)
            assert (row["run"], row["seq"], row["message"]) == (each.run.name, each.seq, each.message)
            assert row["payload"] == each.payload
            assert len(row["effects"]) == len(each.effects)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "expected one of --perfetto, --otlp, --mermaid, --ndjson"),
        (("--mermaid",), 2, "--mermaid needs --delivery"),
        (("--otlp", "--delivery", 3), 2, "--delivery is an option of --mermaid"),
        (("--mermaid", "--delivery", 3), 1, "holds 5 runs. Select one"),
        (("--mermaid", "--delivery", 99999, "--node", 2), 1, "has no delivery 99999"),
        (("--ndjson", "--node", 8), 1, "no recorded run of node 8"),
    ],
)
def test_wrong_use_is_named(lived: Path, tmp_path: Path, arguments: tuple[object, ...], code: int, words: str) -> None:
    result = export(lived, tmp_path / "x", *arguments)
    assert (result.exit_code, words in result.output) == (code, True), result.output


def test_a_file_that_cannot_be_written_is_named(lived: Path, tmp_path: Path) -> None:
    result = export(lived, tmp_path / "missing" / "x", "--ndjson")
    assert (result.exit_code, result.stderr) == (1, f"Error: {tmp_path}/missing/x: No such file or directory\n")
