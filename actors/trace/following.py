"""Read the records that running nodes append to their traces, and the facts that they show."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from pathlib import Path

from actors.trace.reader import TraceDelivery, TraceRun, time_of
from messages.facts import declarations
from messages.facts.declarations import ControllerEvent, Fact, NodeRun
from messages.facts.run_facts import RunReader
from messages.facts.trace_facts import fill_event
from messages.trace.endings import RUNNING
from messages.trace.files.runs import Run, ending, find_runs, grown, slice_lines
from messages.trace.files.segments import is_held, parse_name
from messages.trace.schema import DELIVERIES
from messages.trace.text import records_of

EVENTS = 1000
"""Number of a run's last controller events that later facts can belong to."""


class TraceFollower:
    """Reads the traces below folders while they grow, each part once. A folder may not exist yet.

    Attributes:
        running: Whether a node was still recording at the last `poll`.
        runs: The runs that the last `poll` found.
    """

    def __init__(self, *folders: Path, node: int | None = None, run: str | None = None) -> None:
        self.running = True
        self.runs: list[Run] = []
        self._folders = folders
        self._node = node
        self._run = run
        self._files: list[tuple[Path, bool]] = []
        """The files of traces, and whether a process holds each of them, when `runs` were found."""
        self._runs: dict[str, TraceRun] = {}
        self._read: dict[Path, int] = {}

    def poll(self) -> Iterator[TraceDelivery]:
        """Yield the appended deliveries, merged by time within this poll.

        Raises:
            TraceError: A run is damaged.
            OSError: A file cannot be read.
        """
        now = sorted(self._trace_files())
        if now != self._files or not now:
            self.runs = [
                each
                for folder in self._folders
                if folder.is_dir()
                for each in find_runs(folder).runs
                if self._node in (None, each.header.node) and self._run in (None, each.header.run)
            ]
            self._files = now
        self.running = any(each.running for each in self.runs)
        streams = [
            self._added_deliveries(self._runs.setdefault(run.header.run, TraceRun(run)), run.paths) for run in self.runs
        ]
        return heapq.merge(*streams, key=time_of)

    def _trace_files(self) -> Iterator[tuple[Path, bool]]:
        for folder in self._folders:
            for path in folder.rglob("*"):
                name = parse_name(path.name)
                if name is not None:
                    yield path, name.segment is None and is_held(path)

    def _added_deliveries(self, run: TraceRun, paths: tuple[Path, ...]) -> Iterator[TraceDelivery]:
        for path in paths:
            if path.exists() and path.stat().st_size == self._read.get(path):
                continue
            for part in grown(path, self._read.get(path, 0)):
                for line in slice_lines(part):
                    for record in records_of(line):
                        if record.kind in DELIVERIES:
                            yield TraceDelivery(run, record)
                self._read[path] = part.end


class FactFollower:
    """Reads the facts of the traces below folders while they grow, each fact with its controller event.

    With `metadata`, also what the metadata caches of the nodes store. Each delivery is passed to `watch`.
    """

    def __init__(
        self, *folders: Path, metadata: bool = False, watch: Callable[[TraceDelivery], None] | None = None
    ) -> None:
        self._metadata = metadata
        self._watch = watch
        self._follower = TraceFollower(*folders)
        self._readers: dict[str, RunReader] = {}
        self._events: dict[str, dict[int, ControllerEvent]] = {}
        self._ended: set[str] = set()
        self._found: list[Fact] = []

    @property
    def runs(self) -> list[Run]:
        """The runs that the last `poll` found."""
        return self._follower.runs

    def poll(self) -> Iterator[Fact]:
        """Yield the facts that were appended; a run begins with a NodeRun that is RUNNING, and ends with another one.

        Raises:
            TraceError: A run is damaged.
            OSError: A file cannot be read.
        """
        for delivery in self._follower.poll():
            name, record = delivery.run.name, delivery.record
            reader = self._readers.get(name)
            if reader is None:
                reader = self._readers[name] = RunReader(delivery.run.run, self._found.append, self._metadata)
                place = declarations.TracePosition(delivery.at, delivery.node, name, 0)
                yield NodeRun(place, delivery.at, RUNNING)
            reader.take(record)
            if self._watch is not None:
                self._watch(delivery)
            yield from self._facts_with_events(name)
        for run in self.runs:
            name = run.header.run
            if not run.running and name in self._readers and name not in self._ended:
                self._ended.add(name)
                self._readers[name].end(ending(run))
                yield from self._facts_with_events(name)

    def _facts_with_events(self, run: str) -> Iterator[Fact]:
        """Yield the facts that were found, each with its event, if that is one of the last EVENTS of its run."""
        events = self._events.setdefault(run, {})
        for fact in self._found:
            if isinstance(fact, ControllerEvent):
                events[fact.place.n] = fact
                if len(events) > EVENTS:
                    del events[next(iter(events))]
            else:
                yield fill_event(fact, events)
        self._found.clear()
