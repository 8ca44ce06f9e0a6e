"""Open a folder of traces, to read its runs and their deliveries in order of time.

Rule 1: a delivery is read only when its iterator reaches it, so memory does not grow with the trace.
Rule 2: all times are seconds or `datetime`s in UTC; times within a run are those of the node's own clock.
Rule 3: if a run is damaged, its deliveries before the damage are read; then TraceError is raised.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from actors.trace.explanation import FactList, TraceExplanation, explain, facts_of, html_table
from actors.trace.moment import Moment
from messages.trace.errors import TraceError
from messages.trace.files.errors import NotATrace
from messages.trace.files.runs import Run, RunRecords, ending, find_runs
from messages.trace.schema import DELIVERIES, NO_PAYLOAD, OUTSIDE, Effect, TraceRecord


class MissingExtra(TraceError, ImportError):
    """A library of an optional extra is not installed; the text names the command that installs it."""


class TraceDelivery:
    """One message that was delivered to one receiver.

    Attributes:
        record: The record as the trace stores it.
        run: The run that it belongs to.
    """

    __slots__ = ("record", "run")

    def __init__(self, run: TraceRun, record: TraceRecord) -> None:
        self.run = run
        self.record = record

    @property
    def seq(self) -> int:
        """The number of the delivery in its run, from 1."""
        return self.record.n

    @property
    def node(self) -> int:
        """The id of the node that recorded the delivery."""
        return self.run.node

    @property
    def kind(self) -> str:
        """`sent` by an actor, `outside` (from the network, ZooKeeper or the process), or `timer`."""
        return self.record.kind

    @property
    def cause(self) -> int | None:
        """The delivery during which the message was sent or the timer was armed; None for a message from outside."""
        return None if self.record.kind == OUTSIDE else self.record.cause

    @property
    def sender(self) -> str:
        """The sender's address, as in `ControllerActor.17` or `outside:network`; "" for a timer."""
        return self.record.sender

    @property
    def receiver(self) -> str:
        """The receiver's address."""
        return self.record.receiver

    @property
    def actor(self) -> str:
        """The receiver's class; "" for an external endpoint."""
        return self.record.actor

    @property
    def message(self) -> str:
        """The class name of the message."""
        return self.record.type

    @property
    def at(self) -> float:
        """The time when the receiver took the message from the queue, in seconds since 1970."""
        return self.record.taken_at + self.run.clock_offset

    @property
    def time(self) -> datetime:
        """When the receiver took the message from the queue."""
        return datetime.fromtimestamp(self.at, UTC)

    @property
    def waited_ms(self) -> float:
        """Milliseconds in the queue."""
        return (self.record.taken_at - self.record.queued_at) * 1000

    @property
    def took_ms(self) -> float:
        """Milliseconds that the handler took."""
        return (self.record.finished_at - self.record.taken_at) * 1000

    @property
    def payload(self) -> Any:
        """The message's fields as plain JSON values; None if the trace omits them (`trace.detail=inputs`)."""
        return msgspec.json.decode(self.record.payload)

    @property
    def payload_bytes(self) -> int:
        """The size of the message as JSON."""
        return len(memoryview(self.record.payload))

    @property
    def has_payload(self) -> bool:
        """Whether the trace holds the message's fields."""
        return self.record.payload != NO_PAYLOAD

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The calls that the handler made to I/O adapters, with their results."""
        return self.record.effects

    @property
    def error(self) -> str | None:
        """The exception of the handler, or None."""
        return self.record.error

    def __repr__(self) -> str:
        return f"<delivery {self.seq} of node {self.node}: {self.message} to {self.receiver}>"


class TraceRun:
    """The recording of one process of a node, from its start to its end.

    Attributes:
        run: The run's files, as `messages.trace.files.runs` finds them.
        clock_offset: Seconds to add to a record's times to get seconds since 1970.
        node: The node's id.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.clock_offset = run.header.clock_offset
        self.node = run.header.node

    @property
    def name(self) -> str:
        """The run's unique id."""
        return self.run.header.run

    @property
    def started(self) -> datetime:
        """When recording began."""
        return datetime.fromtimestamp(self.run.header.started_ms / 1000, UTC)

    @property
    def ending(self) -> str:
        """The end of the recording: `stopped`, `killed`, `still running`, `disk full`, `given up` or `dumped`."""
        return ending(self.run)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the node was started with; secrets are masked."""
        return dict(self.run.header.settings)

    @property
    def faults(self) -> tuple[str, ...]:
        """Damage that is visible in the names and first frames of the files."""
        return self.run.faults

    def deliveries(self) -> Iterator[TraceDelivery]:
        """Read the deliveries in order.

        Returns:
            An iterator, which reads the files while it is used.

        Raises:
            TraceError: The files are damaged; the text names the file and the byte. The deliveries before the damage
                have been yielded.
            OSError: A file cannot be read.
        """
        for record in RunRecords(self.run):
            if record.kind in DELIVERIES:
                yield TraceDelivery(self, record)
        if self.run.faults:
            raise TraceError("; ".join(self.run.faults))

    def delivery(self, seq: int) -> TraceDelivery:
        """Find a delivery by its number.

        Args:
            seq: The number, from 1.

        Raises:
            TraceError: The run has no such delivery, or is damaged before it.
        """
        for each in self.deliveries():
            if each.seq == seq:
                return each
            if each.seq > seq:
                break
        raise TraceError(f"run {self.name} has no delivery {seq}")

    def at(self, seq: int) -> Moment:
        """Go to the moment after a delivery. A replay computes the states of the actors when they are first used.

        Args:
            seq: The number of the delivery; the first delivery is 1, and 0 is the moment before it.
        """
        return Moment(self.run, seq)

    def __repr__(self) -> str:
        return f"<run {self.name} of node {self.node}>"


class Trace:
    """All runs below a folder.

    Attributes:
        folder: The folder.
        runs: The runs, sorted by node and start time.
        unreadable: Files that look like traces and cannot be read, with the reason.
    """

    def __init__(self, folder: Path, runs: tuple[TraceRun, ...], unreadable: tuple[str, ...] = ()) -> None:
        self.folder = folder
        self.runs = runs
        self.unreadable = unreadable

    def select(self, node: int | None = None, run: str | None = None) -> Trace:
        """Return a Trace with only the runs of one node, or only one run.

        Args:
            node: The id of a node.
            run: The name of a run.

        Raises:
            NotATrace: No run is left; the text lists those that exist.
        """
        kept = [each for each in self.runs if node in (None, each.node) and run in (None, each.name)]
        if not kept:
            wanted = f"run {run}" if run is not None else f"recorded run of node {node}"
            raise NotATrace(f"{self.folder} contains no {wanted}. It contains the runs {_runs_text(self.runs)}")
        return Trace(self.folder, tuple(kept), self.unreadable)

    def only_run(self, node: int | None = None, run: str | None = None) -> TraceRun:
        """Return the one run that remains after `select`.

        Raises:
            NotATrace: No run or several runs remain; the text lists them.
        """
        kept = self.select(node, run).runs
        if len(kept) > 1:
            raise NotATrace(
                f"{self.folder} holds {len(kept)} runs. Select one by its id (--run) or its node (--node). "
                f"The runs are {_runs_text(kept)}"
            )
        return kept[0]

    def deliveries(self) -> Iterator[TraceDelivery]:
        """Read the deliveries of all runs, merged by time.

        Returns:
            An iterator, which reads the files while it is used. Deliveries of one run keep their order.

        Raises:
            TraceError: A file is damaged.
            OSError: A file cannot be read.
        """
        if len(self.runs) == 1:
            return self.runs[0].deliveries()
        return heapq.merge(*(each.deliveries() for each in self.runs), key=time_of)

    def at(self, seq: int, *, node: int | None = None, run: str | None = None) -> Moment:
        """Go to the moment after a delivery of one run.

        Args:
            seq: The number of the delivery; the first delivery is 1, and 0 is the moment before it.
            node: The node; not needed if the trace has one run.
            run: The run's name; needed if the node has several runs.

        Raises:
            NotATrace: No run, or more than one, is selected.
        """
        return self.only_run(node, run).at(seq)

    def facts(self) -> FactList:
        """Collect what happened: state writes, terms of controllers, rejected requests, faults, ends of processes.

        Returns:
            The facts in the order of time; notebooks show them as a table.

        Raises:
            TraceError: A run is damaged, or the payloads that its trace omits cannot be restored.
        """
        return facts_of([each.run for each in self.runs])

    def why(self, about: str, name: str | int | None = None, at: float = math.inf) -> TraceExplanation:
        """Explain how a partition, topic, broker, group or another subject came to its state.

        Args:
            about: "partition", "topic", "broker", "controller", "transaction", "consumer-group", "producer" or
                "cluster".
            name: "TOPIC-NUMBER" for a partition; otherwise the topic, the broker's id, the transactional id, the group,
                or the client id of a producer. None for controller and cluster.
            at: Read the trace up to this time, in seconds since 1970.

        Returns:
            The verdict in one sentence, the chain of causes, and the questions that could be answered, each with the
            lines of its answer.

        Raises:
            ValueError: `about` or `name` is malformed.
            TraceError: A run is damaged, or the payloads that its trace omits cannot be restored.
        """
        return explain([each.run for each in self.runs], about, name, at)

    def arrow(self) -> Any:
        """Read the deliveries as Arrow record batches with the typed columns of docs/reference/trace-columns.md.

        Returns:
            A `pyarrow.RecordBatchReader`; its `read_all()` returns a `pyarrow.Table`.

        Raises:
            MissingExtra: pyarrow is not installed.
        """
        if find_spec("pyarrow") is None:
            raise MissingExtra(
                "arrow() needs pyarrow, of the extra 'spark' of kafka-actors. Install it: python -m pip install pyarrow"
            )
        import pyarrow as pa

        from spark.columns import ARROW, batches, plan_slices

        slices = plan_slices([each.run for each in self.runs])
        return pa.RecordBatchReader.from_batches(ARROW, (batch for slice in slices for batch in batches(slice)))

    def __repr__(self) -> str:
        return f"<trace {self.folder}: {_runs_text(self.runs)}>"

    def _repr_html_(self) -> str:
        """Return the runs as a table in HTML, which notebooks show."""
        rows = ((each.node, each.name, f"{each.started:%Y-%m-%d %H:%M:%S}Z", each.ending) for each in self.runs)
        return html_table(("node", "run", "started", "ended"), rows)


def time_of(delivery: TraceDelivery) -> tuple[float, int]:
    """Return the key that sorts deliveries of several nodes: (time when the message left its queue, node)."""
    return delivery.record.taken_at + delivery.run.clock_offset, delivery.run.node


def _runs_text(runs: tuple[TraceRun, ...] | list[TraceRun]) -> str:
    return ", ".join(f"{each.name} (node {each.node})" for each in runs) or "none"


def open_trace(folder: str | Path) -> Trace:
    """Open all traces below a folder.

    Args:
        folder: A node's `trace.dir`, or a folder that contains the `trace.dir` of several nodes.

    Raises:
        NotATrace: The folder does not exist, is a file, or contains no recorded run.
    """
    path = Path(folder)
    found = find_runs(path)
    if not found.runs:
        reasons = "".join(f"; {each}" for each in found.unreadable)
        raise NotATrace(f"{path} contains no {'readable' if reasons else 'recorded'} run{reasons}")
    return Trace(path, tuple(map(TraceRun, found.runs)), found.unreadable)
