"""A flight recorder keeps the last messages of a node in memory.

It writes them to a trace after a failure or on request.

Rule 1: the kept messages begin with a snapshot of the whole system (or at the node's start), so that they can be
        replayed. After the configured number of deliveries since the last snapshot, another snapshot is taken as soon
        as all actors are at rest. Messages before the second-last snapshot are discarded. If no snapshot can be taken
        for a long time, old messages and their snapshot are discarded (`_bound`); until the next snapshot, the kept
        messages then cannot be replayed.
Rule 2: a dump is written when the controller epoch grows, a handler takes too long, an actor's state is inconsistent,
        or a user requests a dump. Automatic dumps are at least DUMP_SECONDS apart. `_reason` checks the conditions.
Rule 3: a dump is a separate run with full detail. The run's end record has the reason for the dump. With an event loop,
        a forked child process writes the dump from its copy of the memory.
Rule 4: a failure of the flight recorder does not affect the node. If a dump cannot be written, the error is logged and
        stored in the recorder's `reason`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, get_args

from actors.runtime.trace.forked_work import ForkedWork
from actors.runtime.trace.recorder import FRAME_BYTES, DeliveryKeeper, header_of
from actors.runtime.trace.snapshots import read_out, system_pieces
from messages.apis.update_metadata import ControllerRequest
from messages.trace import schema
from messages.trace.codec import address_text
from messages.trace.files.snapshots import Piece
from messages.trace.files.writer import SEGMENT_BYTES, RunWriter
from messages.trace.text import FrameText

_log = logging.getLogger("kafka_actors.trace")

DELIVERIES = 100_000
SLOW_SECONDS = 1.0
DUMP_SECONDS = 60.0
"""Minimum seconds between two automatic dumps."""
REST_SECONDS = 0.25
"""Seconds between two checks for resting actors: there may be 100,000 actors."""
ASKED = "asked for"

_EPOCHED = get_args(ControllerRequest)
"""Messages with the controller's epoch. They are compared by class, because the check runs for each delivery."""
_INCONSISTENT = "Inconsistent"
"""Beginning of an actor's error after a failed check of its state (validate.state)."""


class RecordedSegment(NamedTuple):
    """A part of the flight recorder's memory: a snapshot of the actor system, and the deliveries that followed it.

    `snapshot` is empty if the part begins at the node's start, or if the actors were never at rest.
    """

    begins: int
    snapshot: tuple[Piece, ...]


class FlightRecorder(DeliveryKeeper):
    """A recorder that keeps at least the last `deliveries` messages in memory, and can write them to `folder`.

    The other arguments are those of Recorder; a handler that takes longer than `slow_seconds` causes a dump.
    """

    def __init__(
        self,
        folder: str | Path,
        node: int,
        roles: tuple[str, ...] = (),
        settings: object = None,
        now: Callable[[], float] = time.monotonic,
        max_bytes: int = -1,
        free_bytes: int = -1,
        events: tuple[tuple[str, str], ...] = (),
        deliveries: int = DELIVERIES,
        slow_seconds: float = SLOW_SECONDS,
    ) -> None:
        self.dumps = 0
        """Number of dumps started."""
        self._header = header_of(node, roles, settings, now, events, schema.FULL)
        super().__init__(folder, self._header, now)
        self._bounds = max_bytes, free_bytes
        self._deliveries = deliveries
        self._slow = slow_seconds
        self._stretches = deque((RecordedSegment(0, ()),))
        self._looked = 0
        self._epoch = 0
        self._rest_at = -math.inf
        self._dump_at = -math.inf
        self._reading: ForkedWork | None = None
        self._writing: ForkedWork | None = None

    # -------------------------------------------------------------------------------------------- the base's observer

    def write_if_due(self) -> None:
        """Check the deliveries since the last call.

        Write a dump if there is a reason, and take a snapshot if one is due.
        """
        kept = self._kept
        if not kept:
            return
        n = _number(kept[-1])
        reason = self._reason(islice(reversed(kept), n - self._looked))
        self._looked = n
        if reason:
            self.dump(reason)
        if n - self._stretches[-1].begins >= self._deliveries:
            self._take_snapshot()

    def _reason(self, latest: Iterable[Any]) -> str:
        """Return the reason for a dump if these deliveries (latest first) give one, else ""."""
        slow, found = self._slow, ""
        for taken in latest:
            if taken.__class__ is schema.TraceRecord:
                continue
            n, _, _, _, _, receiver, _, message, _, taken_at, finished_at, _, error = taken
            if isinstance(message, _EPOCHED) and message.controller_epoch > self._epoch:
                before, self._epoch = self._epoch, message.controller_epoch
                found = found or (f"the controller's epoch is {self._epoch}, after {before}" if before else "")
            if finished_at - taken_at > slow:
                took, what = round((finished_at - taken_at) * 1000), type(message).__name__
                found = f"{address_text(receiver)} took {took} ms to handle {what} (delivery {n})"
            if error is not None and error.startswith(_INCONSISTENT):
                found = f"{address_text(receiver)} contradicts itself (delivery {n}): {error}"
        return found

    # -------------------------------------------------------------------------------------------- the beginning

    def _take_snapshot(self) -> None:
        """Take a snapshot if all actors are at rest; the snapshot starts another segment."""
        base = self._base
        if self._reading is not None or base is None or self._now() < self._rest_at:
            return
        if not base.resting:
            self._rest_at = self._now() + REST_SECONDS
            self._bound(base.n)
            return
        n, pieces = base.n, list[Piece]()
        try:
            if self._loop is None:
                pieces += system_pieces(base)
                self._begin(n, pieces, "")
            else:
                self._reading = ForkedWork(
                    partial(read_out, base), self._loop, pieces.append, partial(self._begin, n, pieces)
                )
        except Exception as error:
            self._begin(n, pieces, f"{type(error).__name__}: {error}")

    def _begin(self, n: int, pieces: list[Piece], failure: str) -> None:
        """Start a segment with the snapshot that was taken after delivery n; after a failure, start no segment."""
        self._reading = None
        if failure:
            _log.warning("Failed to take a snapshot for the flight recorder: %s", failure)
            self._rest_at = self._now() + DUMP_SECONDS
            self._bound(n)
            return
        self._stretches.append(RecordedSegment(n, tuple(pieces)))
        if len(self._stretches) > 2:
            self._stretches.popleft()
            self._drop_until(self._stretches[0].begins)

    def _bound(self, n: int) -> None:
        """Discard old deliveries if no snapshot can be taken.

        If the only remaining segment must be shortened, its snapshot is discarded, and a dump then has no snapshot.
        """
        stretches = self._stretches
        while n - stretches[0].begins > 4 * self._deliveries:
            stretches.popleft()
            if not stretches:
                stretches.append(RecordedSegment(n - self._deliveries, ()))
            self._drop_until(stretches[0].begins)

    def _drop_until(self, n: int) -> None:
        kept = self._kept
        while kept and _number(kept[0]) <= n:
            kept.popleft()

    # -------------------------------------------------------------------------------------------- dumps

    def dump(self, reason: str = ASKED) -> None:
        """Start to write the kept messages to a trace; with an event loop, return before all are written.

        Nothing is written while another dump is in progress. Within DUMP_SECONDS of the last dump, only a dump that a
        user requested is written.
        """
        if self._writing is not None or (self._now() < self._dump_at and reason != ASKED):
            return
        self._dump_at = self._now() + DUMP_SECONDS
        self.dumps += 1
        first = self._stretches[0]
        header = schema.part_of(self._header, f"{self.run}.{self.dumps}", first.begins)
        _log.warning("Dumping the flight recorder into %s with run id %s, reason: %s", self.folder, header.run, reason)
        write = partial(_write, self.folder, header, self._bounds, first.snapshot, self._kept, reason, self._now())
        try:
            if self._loop is None:
                write()
                self._end_dump("")
            else:
                self._writing = ForkedWork(lambda tell: write(), self._loop, lambda piece: None, self._end_dump)
        except Exception as error:
            self._end_dump(f"{type(error).__name__}: {error}")

    def _end_dump(self, failure: str) -> None:
        self._writing = None
        self.reason = f"the flight recorder could not be dumped into {self.folder}: {failure}" if failure else ""
        if failure:
            _log.critical("The flight recorder could not be dumped into %s: %s", self.folder, failure)

    # -------------------------------------------------------------------------------------------- life

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let child processes take snapshots and write dumps from now on, so that this loop is not blocked."""
        self._loop = loop

    def flush(self) -> None:
        """Do nothing: no data is waiting."""

    def close(self) -> None:
        """End the recording: wait for a dump in progress, and discard the kept messages."""
        if self._reading is not None:
            self._reading.close()
        if self._writing is not None:
            self._writing.close(kill=False)
        self._reading = self._writing = self._loop = None
        self._kept.clear()

    def abandon(self) -> None:
        """End the recording as a killed process does: discard the kept messages."""
        self.close()


def _write(
    folder: Path,
    header: schema.Header,
    bounds: tuple[int, int],
    snapshot: tuple[Piece, ...],
    kept: deque[Any],
    reason: str,
    now: float,
) -> None:
    """Write a dump. Raises OSError."""
    writer = RunWriter(folder, header, SEGMENT_BYTES, *bounds)
    try:
        for content, lines in snapshot:
            writer.write_snapshot(content, lines, header.begins)
        after, waiting = header.begins, kept.copy()
        while waiting:
            text = FrameText()
            while waiting and text.size < FRAME_BYTES:
                text.take(waiting)
                while text.step():
                    pass
            writer.write(text.finish(), text.records, after)
            after = text.last
        writer.end(schema.end_record(after, schema.DUMPED, writer.records, reason, now))
    finally:
        writer.close()


def _number(taken: tuple[Any, ...] | schema.TraceRecord) -> int:
    """Return the number of a kept delivery; for the creation of an actor, the number of the delivery before it."""
    number: int = taken.n if taken.__class__ is schema.TraceRecord else taken[0]  # type: ignore[union-attr, index]
    return number
