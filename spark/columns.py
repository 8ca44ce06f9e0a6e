"""The columns of trace records, and how they are extracted from a line of a trace.

Rule 1: the schema is written out, never inferred: an empty trace has the same columns as a full one.
Rule 2: what a message says is taken out of its payload here, once, into columns of its own (`TAKEN`), typed; no
        question picks a payload apart. A column is null where the message says nothing of the kind.
Rule 3: a line that is no record is a row of kind MALFORMED, so that it can be counted; nothing else ever sums it up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from messages.trace.runs import Run, Slice, slice_lines, slices
from messages.trace.schema import CREATED, DELIVERIES, ENDED, TraceRecord
from messages.trace.text import records_of
from spark.selection import ALL, Selection

__all__ = ["ARROW", "DELIVERIES", "MALFORMED", "batches", "planned"]

MALFORMED = "malformed"

STATE = pa.struct(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("controller_epoch", pa.int32()),
        ("isr", pa.list_(pa.int32())),
        ("adding", pa.list_(pa.int32())),
        ("removing", pa.list_(pa.int32())),
    ]
)

EXCHANGE = pa.struct([("connection", pa.int64()), ("correlation", pa.int64()), ("request", pa.string())])

COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "run": (pa.string(), "The run of a node that recorded this: a node has a new run after each start."),
    "node": (pa.int32(), "Its broker id."),
    "n": (pa.int64(), "Number of the record in its run, from 1."),
    "kind": (
        pa.string(),
        f"`{'`, `'.join(DELIVERIES)}`: a message that an actor, the world outside or a timer sent. `{CREATED}`,"
        f" `{ENDED}`: an actor was created, the run ended. `{MALFORMED}`: a line that is no record.",
    ),
    "cause": (
        pa.int64(),
        "The `n` of the delivery during which the message was sent; -k if it came from outside after delivery k.",
    ),
    "event_id": (
        pa.int64(),
        "The `n` of the delivery that began what this one serves: a client's request or other message from outside, a"
        " timer, or an event of the controller.",
    ),
    "sender": (pa.string(), "Address of the sender."),
    "receiver": (pa.string(), "Address of the receiver."),
    "actor": (pa.string(), "Class of the receiver."),
    "type": (pa.string(), "Class of the message."),
    "at": (pa.float64(), "When the message was taken from the queue, in seconds since 1970."),
    "waited": (pa.float64(), "Seconds in the queue."),
    "took": (pa.float64(), "Seconds of handling."),
    "effects": (pa.int32(), "Number of calls to the world outside the actor: clock, disk, sockets, messages sent."),
    "failed": (pa.bool_(), "Whether the handler raised an exception."),
    "error": (pa.string(), "The exception, or why a transmission failed."),
    "request": (
        pa.string(),
        "Class of what the message carries: the request of Transmit, ClientRequest and Forwarded, the response of"
        " Received and ClientResponse, the question of Ask, the result of Answer.",
    ),
    "channel": (pa.string(), "Name of the connection that the node opened."),
    "broker": (pa.int32(), "The broker to which a controller's channel leads."),
    "correlation": (pa.int64(), "Correlation id; it also ties StoreReply to its request and Answer to its Ask."),
    "epoch": (pa.int32(), "Controller epoch: of an election that was won, and of each of a controller's requests."),
    "brokers": (pa.list_(pa.int32()), "Live brokers in an Answer that lists them."),
    "states": (
        pa.list_(STATE),
        "Partition states: of a controller's request or a part of it, of a partition that gets a leader, or whose ISR"
        " changes.",
    ),
    "connection": (pa.int64(), "Number of the connection that a client opened."),
    "subject": (pa.string(), "The znode of a WatchEvent; the event of a controller's Samples."),
    "topics": (pa.list_(pa.string()), "Topics to delete; topics whose znode a StoreWrite removes."),
    "items": (
        pa.int32(),
        "Operations or paths of a request to ZooKeeper; requests to ZooKeeper of an event in Samples; records of"
        " AppendBatches; of ChangeIsr 1 if the ISR grows and -1 if it shrinks.",
    ),
    "bytes": (pa.int64(), "Bytes of the batches, or of what a LogRead found."),
    "batches": (pa.int32(), "Number of record batches."),
    "exchanges": (pa.list_(EXCHANGE), "The requests in ClientRequests, or the responses in ClientResponses."),
    "event_ms": (pa.float64(), "Milliseconds that an event of the controller took."),
    "event_queue_ms": (pa.float64(), "Milliseconds that it waited."),
}
"""The columns of a record, with type and meaning. From `request` on they are taken from the payload."""

ARROW = pa.schema([(name, type) for name, (type, _) in COLUMNS.items()])

SLICE_BYTES = 1 << 22
"""Of a task: compressed, some 150,000 records."""
ROWS = 8192
"""Of a batch."""

WRITES = ("CreatePartitionStates", "UpdatePartitionStates")
"""Questions that write partition states to ZooKeeper; WriteResults is the answer."""

_OK = 0
"""The code of `messages.store` for a write that succeeded."""
_CONTROLLERS_CHANNEL = "controller-"
_TOPIC = re.compile(r"/brokers/topics/([^/]+)")

EVENT_TIME = "kafka_actors_controller_event_ms"
EVENT_WAIT = "kafka_actors_controller_event_queue_ms"
EVENT_REQUESTS = "kafka_actors_controller_event_zookeeper_requests"
"""Samples of the controller (actors.core.controller.gauges): how long an event took and waited, and what it asked."""


class _Row(msgspec.Struct, array_like=True):
    """The fields of a trace record from which the columns are computed."""

    n: int
    kind: str
    cause: int
    event_id: int
    sender: str
    receiver: str
    actor: str
    type: str
    queued_at: float
    taken_at: float
    finished_at: float
    payload: msgspec.Raw
    effects: tuple[msgspec.Raw, ...]
    error: str | None


class _State(msgspec.Struct):
    """The fields that are read from a partition state in a controller's request."""

    partition: tuple[str, int]
    leader: int | None = None
    leader_epoch: int | None = None
    controller_epoch: int | None = None
    isr: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class _Request(msgspec.Struct):
    """The fields that are read from a controller's request to a broker."""

    controller_epoch: int | None = None
    partition_states: tuple[_State, ...] | None = None


class _Part(msgspec.Struct):
    """The fields that are read from a part of a large request of the controller."""

    entries: tuple[_State, ...] = ()


class _Sent(msgspec.Struct):
    """The fields that are read from a `Transmit` message: a request to another node."""

    channel: str
    correlation_id: int
    request: tuple[str, msgspec.Raw]


class _Piece(msgspec.Struct):
    """The fields that are read from a `ChannelPart` message: a part of a request to another node."""

    channel: str
    part: tuple[str, msgspec.Raw]


class _Failed(msgspec.Struct):
    """The fields that are read from a `TransmitFailed` message: a request that got no response."""

    channel: str
    correlation_id: int
    reason: str


class _Received(msgspec.Struct):
    """The fields that are read from a `Received` message: a response from another node."""

    channel: str
    correlation_id: int
    response: tuple[str, msgspec.Raw]


class _Came(msgspec.Struct):
    """The fields that are read from a `ClientRequest` message: a request of a client."""

    connection: int
    correlation_id: int
    request: tuple[str, msgspec.Raw]


class _Replied(msgspec.Struct):
    """The fields that are read from a `ClientResponse` message: a response to a client."""

    connection: int
    correlation_id: int
    response: tuple[str, msgspec.Raw] | None = None


class _ClientRequests(msgspec.Struct):
    """The fields that are read from a `ClientRequests` message: requests that arrived together on one connection."""

    requests: tuple[_Came, ...]


class _RepliedTogether(msgspec.Struct):
    """The fields that are read from a `ClientResponses` message: several responses on one connection."""

    responses: tuple[_Replied, ...]


class _Passed(msgspec.Struct):
    """The fields that are read from a `Forwarded` message, which carries a client's request to the actor that handles
    it."""

    request: _Came


class _Start(msgspec.Struct):
    """The fields that are read from a `StartChannel` message, which names the broker of a connection."""

    broker_id: int
    channel: str


class _Answer(msgspec.Struct):
    """The fields that are read from an `Answer` message: the result of a request from one actor to another."""

    result: tuple[str, msgspec.Raw]
    id: int | None = None


class _Asked(msgspec.Struct):
    """The fields that are read from an `Ask` message: a request from one actor to another."""

    question: tuple[str, msgspec.Raw]
    id: int | None = None


class _Leadership(msgspec.Struct):
    """The leader and ISR fields that are read from a partition state."""

    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[int, ...]


class _StatesToWrite(msgspec.Struct):
    """The fields that are read from a ZooKeeper request that writes partition states."""

    states: tuple[tuple[tuple[str, int], _Leadership], ...]


class _StatesRead(msgspec.Struct):
    """The fields that are read from the result of reading partition states from ZooKeeper."""

    states: tuple[tuple[tuple[str, int], _Leadership | None, str], ...]


class _StatesWritten(msgspec.Struct):
    """The fields that are read from the results of writing partition states to ZooKeeper."""

    results: tuple[tuple[tuple[str, int], int, int], ...]


class _Topic(msgspec.Struct):
    """The fields that are read from a message that names one topic."""

    topic: str


class _Topics(msgspec.Struct):
    """The fields that are read from a message that lists topics."""

    topics: tuple[_Topic, ...] = ()


class _ToStore(msgspec.Struct):
    """The fields that are read from a request to ZooKeeper."""

    id: int
    ops: tuple[tuple[str, str, msgspec.Raw, msgspec.Raw], ...] = ()
    data: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()


class _FromStore(msgspec.Struct):
    """The fields that are read from a response from ZooKeeper."""

    id: int


class _Fired(msgspec.Struct):
    """The fields that are read from a `WatchEvent` message: a ZooKeeper watch fired."""

    path: str


class _Sampled(msgspec.Struct):
    """The fields that are read from a `Samples` message: observed values for metrics."""

    values: tuple[tuple[str, float, tuple[tuple[str, str], ...]], ...]


class _Body(msgspec.Struct):
    """The size of the bytes of record batches."""

    size: int = 0


class _Records(msgspec.Struct, array_like=True):
    """The first fields of `messages.records.Records`, without the bytes."""

    batches: tuple[tuple[msgspec.Raw, ...], ...] = ()
    body: _Body = msgspec.field(default_factory=_Body)


class _Batch(msgspec.Struct):
    """The fields that are read from the records for one partition in a Produce request."""

    partition: tuple[str, int]
    records: _Records | None = None


class _Append(msgspec.Struct, array_like=True):
    """The fields that are read from an `AppendBatch`: records to append, and the request that they came with."""

    request: int
    place: int
    part: _Batch


class _Appends(msgspec.Struct):
    """The fields that are read from an `AppendBatches` message: several batches to append."""

    batches: tuple[_Append, ...]


class _Found(msgspec.Struct):
    """The fields that are read from the result of a log read of one partition."""

    partition: tuple[str, int]
    body: _Body | None = None


class _Read(msgspec.Struct):
    """The fields that are read from a `LogRead` message: the result of reading a partition."""

    result: _Found


class _Isr(_State):
    """The fields that are read from a `ChangeIsr` message: an ISR to write to ZooKeeper."""

    grows: bool = True


class _Elected(msgspec.Struct):
    """The fields that are read from an `Elected` message: a new controller epoch."""

    epoch: int


class _Broker(msgspec.Struct):
    """The fields that are read from a live broker."""

    id: int


class _Brokers(msgspec.Struct):
    """The fields that are read from a `Brokers` message: the live brokers."""

    brokers: tuple[_Broker, ...]


_T = TypeVar("_T")
_Columns = dict[str, Any]


def _taking(form: type[_T], take: Callable[[_T], _Columns]) -> Callable[[msgspec.Raw], _Columns]:
    decode = msgspec.json.Decoder(form).decode
    return lambda payload: take(decode(payload))


def _states(states: Iterable[_State]) -> list[tuple[Any, ...]]:
    return [
        (*s.partition, s.leader, s.leader_epoch, s.controller_epoch, s.isr, s.adding_replicas, s.removing_replicas)
        for s in states
    ]


def _broker_of(channel: str) -> int | None:
    """The broker to which a controller's channel leads: it is named controller-ID-broker-ID-N."""
    if not channel.startswith(_CONTROLLERS_CHANNEL):
        return None
    _, _, rest = channel.partition("-broker-")
    return int(rest.partition("-")[0])


def _leadership(partition: tuple[str, int], state: _Leadership | None) -> tuple[Any, ...]:
    if state is None:
        return (*partition, None, None, None, (), (), ())
    return (*partition, state.leader, state.leader_epoch, state.controller_epoch, state.isr, (), ())


def _states_read(read: _StatesRead) -> _Columns:
    return {"states": [_leadership(partition, state) for partition, state, _ in read.states if state is not None]}


def _states_written(written: _StatesWritten) -> _Columns:
    return {"states": [_leadership(partition, None) for partition, code, _ in written.results if code == _OK]}


_REQUESTS = {
    name: msgspec.json.Decoder(_Request).decode
    for name in ("LeaderAndIsrRequest", "StopReplicaRequest", "UpdateMetadataRequest")
}
_PARTS = {name.removesuffix("Request") + "Part": name for name in _REQUESTS}
_RESULTS: dict[str, Callable[[msgspec.Raw], _Columns]] = {
    "Elected": _taking(_Elected, lambda won: {"epoch": won.epoch}),
    "PartitionStates": _taking(_StatesRead, _states_read),
    "WriteResults": _taking(_StatesWritten, _states_written),
    "Brokers": _taking(_Brokers, lambda alive: {"brokers": sorted(broker.id for broker in alive.brokers)}),
}
_to_write = msgspec.json.Decoder(_StatesToWrite).decode
_topics = msgspec.json.Decoder(_Topics).decode
_part = msgspec.json.Decoder(_Part).decode


def _sent(sent: _Sent) -> _Columns:
    name, body = sent.request
    columns: _Columns = {
        "channel": sent.channel,
        "correlation": sent.correlation_id,
        "request": name,
        "broker": _broker_of(sent.channel),
    }
    if name in _REQUESTS:
        request = _REQUESTS[name](body)
        columns |= {"epoch": request.controller_epoch, "states": _states(request.partition_states or ())}
    return columns


def _piece(piece: _Piece) -> _Columns:
    name, body = piece.part
    columns: _Columns = {"channel": piece.channel, "broker": _broker_of(piece.channel)}
    if name in _PARTS:
        columns |= {"request": _PARTS[name], "states": _states(_part(body).entries)}
    return columns


def _came(came: _Came) -> _Columns:
    return {"connection": came.connection, "correlation": came.correlation_id, "request": came.request[0]}


def _replied(replied: _Replied) -> _Columns:
    request = None if replied.response is None else replied.response[0]
    return {"connection": replied.connection, "correlation": replied.correlation_id, "request": request}


def _exchange(columns: _Columns) -> tuple[Any, ...]:
    return tuple(columns[field.name] for field in EXCHANGE)


def _appended(appends: _Appends) -> _Columns:
    items = size = 0
    for append in appends.batches:
        records = append.part.records or _Records()
        items += sum(int(bytes(header[-1])) for header in records.batches)
        size += records.body.size
    states = _states([_State(appends.batches[0].part.partition)])
    return {"states": states, "items": items, "bytes": size, "batches": len(appends.batches)}


def _read(read: _Read) -> _Columns:
    body = read.result.body
    return {"states": _states([_State(read.result.partition)]), "bytes": 0 if body is None else body.size}


def _to_store(asked: _ToStore) -> _Columns:
    gone = [found[1] for op, path, *_ in asked.ops if op == "delete" and (found := _TOPIC.fullmatch(path))]
    count = len(asked.ops) + len(asked.data) + len(asked.children) + len(asked.exists)
    return {"correlation": asked.id, "items": count, "topics": gone or None}


def _question(asked: _Asked) -> _Columns:
    name, body = asked.question
    columns: _Columns = {"request": name, "correlation": asked.id}
    if name == "QueueDeletions":
        columns["topics"] = _deleted(body)
    elif name in WRITES:
        columns["states"] = [_leadership(*each) for each in _to_write(body).states]
    return columns


def _deleted(body: msgspec.Raw) -> list[str]:
    return [each.topic for each in _topics(body).topics]


def _sampled(sampled: _Sampled) -> _Columns:
    found = {name: (value, labels) for name, value, labels in sampled.values}
    if EVENT_TIME not in found:
        return {}
    took, ((_, event),) = found[EVENT_TIME]
    waited, requests = found[EVENT_WAIT][0], found[EVENT_REQUESTS][0]
    return {"subject": event, "event_ms": took, "event_queue_ms": waited, "items": int(requests)}


def _answered(answer: _Answer) -> _Columns:
    name, body = answer.result
    return {"request": name, "correlation": answer.id, **(_RESULTS[name](body) if name in _RESULTS else {})}


TAKEN: dict[str, Callable[[msgspec.Raw], _Columns]] = {
    "Transmit": _taking(_Sent, _sent),
    "ChannelPart": _taking(_Piece, _piece),
    "TransmitFailed": _taking(
        _Failed,
        lambda f: {
            "channel": f.channel,
            "correlation": f.correlation_id,
            "error": f.reason,
            "broker": _broker_of(f.channel),
        },
    ),
    "Received": _taking(
        _Received,
        lambda r: {
            "channel": r.channel,
            "correlation": r.correlation_id,
            "request": r.response[0],
            "broker": _broker_of(r.channel),
        },
    ),
    "ClientRequest": _taking(_Came, _came),
    "Forwarded": _taking(_Passed, lambda passed: _came(passed.request)),
    "ClientRequests": _taking(
        _ClientRequests, lambda came: {"exchanges": [_exchange(_came(r)) for r in came.requests]}
    ),
    "ClientResponse": _taking(_Replied, _replied),
    "ClientResponses": _taking(
        _RepliedTogether, lambda replied: {"exchanges": [_exchange(_replied(r)) for r in replied.responses]}
    ),
    "StartChannel": _taking(_Start, lambda s: {"channel": s.channel, "broker": s.broker_id}),
    "Answer": _taking(_Answer, _answered),
    "LeaderAndIsrRequest": _taking(_Request, lambda order: {"states": _states(order.partition_states or ())}),
    "LeaderAndIsrPart": _taking(_Part, lambda part: {"states": _states(part.entries)}),
    "Ask": _taking(_Asked, _question),
    "StoreRead": _taking(_ToStore, _to_store),
    "StoreArm": _taking(_ToStore, _to_store),
    "StoreWrite": _taking(_ToStore, _to_store),
    "StoreReply": _taking(_FromStore, lambda reply: {"correlation": reply.id}),
    "WatchEvent": _taking(_Fired, lambda event: {"subject": event.path}),
    "Samples": _taking(_Sampled, _sampled),
    "AppendBatches": _taking(_Appends, _appended),
    "LogRead": _taking(_Read, _read),
    "ChangeIsr": _taking(_Isr, lambda isr: {"states": _states([isr]), "items": 1 if isr.grows else -1}),
}
"""What is taken out of the payload of a message, by its type."""

_TAKEN_NAMES = ARROW.names[ARROW.get_field_index("request") :]
"""The columns of payloads; `error` may come from one, too."""
_NOTHING: tuple[Any, ...] = (None,) * len(_TAKEN_NAMES)
_decode = msgspec.json.Decoder(_Row).decode


def planned(runs: Sequence[Run], selection: Selection = ALL, most: int = SLICE_BYTES) -> list[Slice]:
    """Slices of the selected runs; of two copies of a run one is read."""
    once = {run.header.run: run for run in reversed(runs) if selection.has_run(run.header.run, run.header.node)}
    return [each for run in once.values() for each in slices(run, most)]


def batches(slice: Slice, selection: Selection = ALL) -> Iterator[pa.RecordBatch]:
    """The selected rows of a slice."""
    rows: list[tuple[Any, ...]] = []
    offset, has_record = slice.header.clock_offset, None if selection.has_all_records else selection.has_record
    for line in slice_lines(slice):
        try:
            records = (_decode(line),) if line.startswith(b"[") else records_of(line)
        except ValueError:  # msgspec's errors are
            if has_record is None or has_record("", 0.0):
                rows.append(_malformed(slice, line))
        else:
            rows += [
                _row(slice, record)
                for record in records
                if has_record is None or has_record(record.actor, record.taken_at + offset)
            ]
        if len(rows) >= ROWS:
            yield _batch(rows)
            rows = []
    if rows:
        yield _batch(rows)


def _batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, ARROW, strict=True)], schema=ARROW
    )


def _malformed(slice: Slice, line: bytes) -> tuple[Any, ...]:
    blank = (0, "", "", "", "", 0.0, 0.0, 0.0, 0, False, line.decode(errors="replace"))
    return (slice.header.run, slice.header.node, 0, MALFORMED, 0, *blank, *_NOTHING)


def _row(slice: Slice, row: _Row | TraceRecord) -> tuple[Any, ...]:
    header, taken = slice.header, _NOTHING
    error = row.error
    take = TAKEN.get(row.type)
    if take is not None:
        try:
            found = take(row.payload)
        except msgspec.MsgspecError:  # a payload that could not be encoded says so instead
            found = {}
        error = found.get("error", error)
        taken = tuple([found.get(name) for name in _TAKEN_NAMES])
    return (
        header.run,
        header.node,
        row.n,
        row.kind,
        row.cause,
        row.event_id,
        row.sender,
        row.receiver,
        row.actor,
        row.type,
        row.taken_at + header.clock_offset,
        row.taken_at - row.queued_at,
        row.finished_at - row.taken_at,
        len(row.effects),
        row.error is not None,
        error,
        *taken,
    )
