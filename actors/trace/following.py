"""Read the records that running nodes append to their traces."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path

from actors.trace.reader import TraceDelivery, TraceRun, time_of
from messages.trace.files.runs import find_runs, grown, slice_lines
from messages.trace.schema import DELIVERIES
from messages.trace.text import records_of


class TraceFollower:
    """Reads the traces below a folder while they grow, each part once.

    Attributes:
        running: Whether a node was still recording at the last `poll`.
    """

    def __init__(self, folder: Path, node: int | None = None, run: str | None = None) -> None:
        self.running = True
        self._folder = folder
        self._node = node
        self._run = run
        self._runs: dict[str, TraceRun] = {}
        self._read: dict[Path, int] = {}

    def poll(self) -> Iterator[TraceDelivery]:
        """Yield the appended deliveries, merged by time within this poll.

        Raises:
            TraceError: A run is damaged.
            OSError: A file cannot be read.
        """
        found = [
            each
            for each in find_runs(self._folder).runs
            if self._node in (None, each.header.node) and self._run in (None, each.header.run)
        ]
        self.running = any(each.running for each in found)
        streams = [self._added(self._runs.setdefault(run.header.run, TraceRun(run)), run.paths) for run in found]
        return heapq.merge(*streams, key=time_of)

    def _added(self, run: TraceRun, paths: tuple[Path, ...]) -> Iterator[TraceDelivery]:
        for path in paths:
            for part in grown(path, self._read.get(path, 0)):
                for line in slice_lines(part):
                    for record in records_of(line):
                        if record.kind in DELIVERIES:
                            yield TraceDelivery(run, record)
                self._read[path] = part.end
