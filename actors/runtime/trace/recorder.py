"""The recorder writes each message that a node's actors handle to the node's trace.

Rule 1: during a delivery the recorder only keeps a reference to the message. Messages are frozen, so they can be
        encoded later: in slices of SLICE_SECONDS on the loop, or at once if no loop is attached. A slice is postponed,
        but only once, if actors still have undelivered messages.
Rule 2: a frame is written after FLUSH_SECONDS (0.25 s), or earlier if it is large enough, and at the end. A kill only
        loses messages that are in no frame yet; the earlier trace stays readable.
Rule 3: a failure of the trace does not affect the node. An error in writing ends the recording, with one critical log
        line; `failed` is set, and `reason` has the cause and the remedy. If possible, the trace's last record has the
        cause. A message that cannot be encoded is recorded with the reason in place of its payload.
Rule 4: a snapshot of the whole system is written every `snapshot_segments` segments, so that a run can be replayed
        after its first segments were removed. A snapshot is taken between two deliveries while no event handler is
        suspended. A clean stop also writes a snapshot; a replay compares its final state with this snapshot.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.kernel.delivery import Delivery
from actors.runtime.kernel.modules import class_name
from actors.runtime.kernel.reference import ActorRef
from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.code_version import code_version
from actors.runtime.trace.forked_work import ForkedWork
from actors.runtime.trace.snapshots import read_out, system_pieces
from messages.trace.codec import address_text
from messages.trace.errors import TraceError
from messages.trace.files.snapshots import Piece
from messages.trace.files.writer import SEGMENT_BYTES, RunWriter
from messages.trace.schema import (
    DISK_FULL,
    FULL,
    GIVEN_UP,
    INPUTS,
    SCHEMA_VERSION,
    STOPPED,
    Header,
    TraceRecord,
    creation_record,
    end_record,
    masked_settings,
)
from messages.trace.text import LEVEL, FrameText
from messages.wire.zstd import zstd

_log = logging.getLogger("kafka_actors.trace")

FLUSH_SECONDS = 0.25
FLUSH_DELIVERIES = 1024
SLICE_DELIVERIES = 64
"""Number of waiting deliveries that starts a slice on a loop; larger batches delay other work for longer."""
SLICE_SECONDS = 0.0005
MOST_SLICE_SECONDS = 0.004
"""Maximum duration of a slice, which grows with the number of waiting messages, so that the recorder keeps up."""
FRAME_BYTES = 16 << 20
"""Bytes of text per frame, a tenth of that compressed. Shared content is stored once per frame."""
MOST_WAITING = 1 << 16
"""Maximum number of waiting deliveries; above, each further one runs a slice, because waiting messages would fill the
memory.
"""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class NullRecorder:
    """A recorder that discards everything, for a node without a trace."""

    run = reason = ""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    abandon = close


def run_name(node: int, started: float, process: int) -> str:
    """Return a unique name of a run; sorted by name, a node's runs are in the order of their start."""
    moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(started))
    return f"node{node}-{moment}.{int(started % 1 * 1e6):06d}-{process}"


def header_of(
    node: int,
    roles: tuple[str, ...],
    settings: object,
    now: Callable[[], float],
    events: tuple[tuple[str, str], ...],
    detail: str,
    started: float | None = None,
    process: int | None = None,
) -> Header:
    """Return the header of a run that begins at `started` (seconds since 1970), or now if `started` is None."""
    started = time.time() if started is None else started
    clock_offset = started - now()  # computed first, because code_version() below takes hundredths of a second
    system = os.uname()  # platform.platform() would start the process `uname -p`, and wait for it
    return Header(
        schema_version=SCHEMA_VERSION,
        run=run_name(node, started, os.getpid() if process is None else process),
        segment=0,
        node=node,
        roles=roles,
        settings=masked_settings({} if settings is None else settings),
        code_version=code_version(),
        started_ms=int(started * 1000),
        clock_offset=clock_offset,
        python=platform.python_version(),
        platform=f"{system.sysname}-{system.release}-{system.machine}",
        events=events,
        columns=TraceRecord.__struct_fields__,
        detail=detail,
    )


class DeliveryKeeper:
    """The base class of recorders: it keeps references to the deliveries of a node's actor system, in order.

    Args:
        folder: The folder of the trace.
        header: The header of the run.
        now: Returns the time of the actor system's clock in seconds.
    """

    def __init__(self, folder: str | Path, header: Header, now: Callable[[], float]) -> None:
        self.folder = Path(folder)
        self.run = header.run
        self.reason = ""
        """Why the trace could not be written; "" if it could."""
        self._now = now
        self._kept: deque[tuple[Any, ...] | TraceRecord] = deque()
        self.keep: Callable[[tuple[Any, ...]], None] = self._kept.append
        self._base: LocalBase | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def failed(self) -> bool:
        """Whether the trace or the last dump failed to be written."""
        return bool(self.reason)

    def observe_delivery(self, delivery: Delivery) -> None:
        """Keep one delivery, and call `write_if_due`."""
        self.keep(delivery)
        self.write_if_due()

    def record_creation(self, address: ActorAddress, actor_class: type, n: int) -> None:
        """Record a top-level actor created after delivery `n`.

        The recorder takes snapshots of this actor's actor system.
        """
        if isinstance(address, ActorRef) and isinstance(address.base, LocalBase):
            self._base = address.base
        where = class_name(actor_class)
        self._kept.append(creation_record(n, address_text(address), actor_class.__name__, where, self._now()))

    def write_if_due(self) -> None:
        """Write kept deliveries if a write is due; subclasses implement this method."""


class Recorder(DeliveryKeeper):
    """A recorder that writes one run of a node to a trace in `folder`.

    It never raises: an error in starting or writing the trace is logged once; `failed` is set, and `reason` has the
    cause and the remedy.

    Args:
        folder: The folder of the trace.
        node: The node's id.
        roles: The node's roles.
        settings: The node's settings for the header: an attrs value or a mapping; secrets are masked here.
        now: Returns the time of the actor system's clock in seconds.
        segment_bytes: The size at which the next segment starts.
        max_bytes: Maximum total size of the folder's files; -1: unlimited.
        free_bytes: Minimum free space of the disk; -1: ignored.
        snapshot_segments: Number of segments from one snapshot to the next; 0: no snapshots.
        detail: One of the schema's DETAILS.
        events: The controller's events for the header.
        started: Seconds since 1970; by default this machine's time. A simulation sets it.
        process: The process id; by default this process's. A simulation sets it.
    """

    def __init__(
        self,
        folder: str | Path,
        node: int,
        roles: tuple[str, ...] = (),
        settings: object = None,
        now: Callable[[], float] = time.monotonic,
        segment_bytes: int = SEGMENT_BYTES,
        max_bytes: int = -1,
        free_bytes: int = -1,
        snapshot_segments: int = 1,
        detail: str = FULL,
        events: tuple[tuple[str, str], ...] = (),
        started: float | None = None,
        process: int | None = None,
    ) -> None:
        header = header_of(node, roles, settings, now, events, detail, started, process)
        super().__init__(folder, header, now)
        self.recorded = 0
        """Number of records in the trace's files."""
        self._writer: RunWriter | None = None
        self._compressor = zstd.ZstdCompressor(level=LEVEL)
        self._inputs = detail == INPUTS
        self._text = FrameText(self._compressor, self._inputs)
        self._after = 0
        self._flush_at = now() + FLUSH_SECONDS
        self._timer: asyncio.TimerHandle | None = None
        self._slice_ahead = self._gave_way = False
        self._snapshot_segments = snapshot_segments
        self._snapshot_at = snapshot_segments
        """The segment in which the next snapshot is due."""
        self._rest_at = 0.0
        """The time of the next check for idle actors: there may be a hundred thousand."""
        self._aside: ForkedWork | None = None
        try:
            self._writer = RunWriter(self.folder, header, segment_bytes, max_bytes, free_bytes)
        except OSError as error:
            self._fail(error)

    # -------------------------------------------------------------------------------------------- the base's observer

    def write_if_due(self) -> None:
        """Write the waiting messages if there are enough of them, or if the last flush was long ago."""
        waiting = len(self._kept)
        enough = FLUSH_DELIVERIES if self._loop is None else SLICE_DELIVERIES
        if waiting >= enough or (waiting and self._now() >= self._flush_at):
            if self._writer is None:
                self._kept.clear()
            elif self._loop is None:
                self.flush()
            elif waiting >= MOST_WAITING:
                self._work(self._now() + MOST_SLICE_SECONDS)
            else:
                self._slice_soon(self._loop)
        if self._loop is None:
            self._snapshot_if_due()

    # -------------------------------------------------------------------------------------------- writing

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the loop write waiting messages in slices until `close`, even while no message is delivered."""
        self._loop = loop
        self._timer = loop.call_later(FLUSH_SECONDS, self._tick)

    def _tick(self) -> None:
        if self._loop is not None and self._writer is not None:
            self._timer = self._loop.call_later(FLUSH_SECONDS, self._tick)
            self._slice_soon(self._loop)

    def _slice_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._slice_ahead:
            self._slice_ahead = True
            loop.call_later(0, self._slice)  # in the loop's next pass, after the callbacks of ready sockets

    def _slice(self) -> None:
        self._slice_ahead = False
        if self._loop is None:
            return
        self._gave_way = not self._gave_way and self._base is not None and self._base.queued > 0
        if self._gave_way:
            self._slice_soon(self._loop)
            return
        behind = 1 + len(self._kept) / FLUSH_DELIVERIES
        if not self._work(self._now() + min(SLICE_SECONDS * behind, MOST_SLICE_SECONDS)):
            self._slice_soon(self._loop)
        elif self._now() >= self._rest_at:
            self._rest_at = self._now() + FLUSH_SECONDS
            self._snapshot_if_due()

    def flush(self) -> None:
        """Write all waiting messages."""
        self._work(math.inf)
        with self._end_on_error():
            if self._writer is not None and self._text.records:
                self._write_frame(self._writer)

    def close(self) -> None:
        """Write waiting messages and the end record, and close the files; a second call has no effect."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop = None
        self._no_aside()
        self.flush()
        if self._snapshot_segments and self._base is not None and self._writer is not None:
            self._write_snapshot(self._base)
        with self._end_on_error():
            if self._writer is not None:
                self._writer.end(self._end(STOPPED, None))
        self._close()

    def abandon(self) -> None:
        """Write all deliveries so far, and close the files without an end record, as after a kill."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop = None
        self.flush()
        self._close()

    def _work(self, until: float) -> bool:
        """Encode waiting messages and write frames until the time `until`; return True if no work is left."""
        with self._end_on_error():
            while self._writer is not None:
                text = self._text
                if not text.step():
                    if text.records and (text.size >= FRAME_BYTES or self._now() >= self._flush_at):
                        self._write_frame(self._writer)
                    elif self._kept:
                        text.take(self._kept)
                    else:
                        break
                if self._now() >= until:
                    return False
        return True

    @contextmanager
    def _end_on_error(self) -> Iterator[None]:
        """End the recording after any exception, so that the node continues without a trace."""
        try:
            yield
        except Exception as error:
            self._fail(error)

    def _write_frame(self, writer: RunWriter) -> None:
        text = self._text
        content = text.finish()  # before the next frame starts, because both frames use the same compressor
        self._text = FrameText(self._compressor, self._inputs, text)
        writer.write(content, text.records, self._after)
        self._after = text.last
        self.recorded += text.records
        self._flush_at = self._now() + FLUSH_SECONDS

    # -------------------------------------------------------------------------------------------- snapshots

    def _snapshot_if_due(self) -> None:
        """If a snapshot is due and all actors are at rest, write all waiting messages, and start the snapshot."""
        base, writer = self._base, self._writer
        if base is None or writer is None or self._aside is not None or not self._snapshot_segments:
            return
        if writer.segment < self._snapshot_at or not base.resting:
            return
        self.flush()
        if self._loop is None:
            self._write_snapshot(base)
            return
        try:
            take = partial(self._write_piece, base.n)
            self._aside = ForkedWork(partial(read_out, base), self._loop, take, self._snapshot_done)
        except OSError as error:
            self._snapshot_done(f"{type(error).__name__}: {error}")

    def _write_snapshot(self, base: LocalBase) -> None:
        """Write a snapshot in this process, without pauses."""
        failure = ""
        try:
            for piece in system_pieces(base):
                self._write_piece(base.n, piece)
        except (TypeError, ValueError, TraceError) as error:
            failure = f"{type(error).__name__}: {error}"
        self._snapshot_done(failure)

    def _write_piece(self, after: int, piece: Piece) -> None:
        with self._end_on_error():
            if self._writer is not None:
                self._writer.write_snapshot(piece.content, piece.lines, after)

    def _snapshot_done(self, failure: str) -> None:
        self._aside = None
        if failure:
            _log.warning("Failed to take a snapshot for the trace in %s: %s", self.folder, failure)
        if self._writer is not None:
            self._snapshot_at = self._writer.segment + self._snapshot_segments

    def _no_aside(self) -> None:
        aside, self._aside = self._aside, None
        if aside is not None:
            aside.close()

    def _end(self, reason: str, error: str | None) -> TraceRecord:
        return end_record(self._after, reason, self.recorded, error, self._now())

    def _close(self) -> None:
        self._no_aside()
        writer, self._writer = self._writer, None
        self._kept.clear()  # later messages are not recorded
        if writer is not None:
            try:
                writer.close()
            except OSError:
                _log.debug("Failed to close the trace", exc_info=True)

    def _fail(self, error: Exception) -> None:
        full = isinstance(error, OSError) and error.errno in _FULL
        what = f"{type(error).__name__}: {error}"
        todo = "free some space, or set trace.dir to another disk" if full else "set trace.dir to a writable folder"
        self.reason = f"recording into {self.folder} stopped: {what}. The node continues without a trace; {todo}."
        _log.critical("Recording into %s stopped: %s. The node continues without a trace; %s.", self.folder, what, todo)
        if self._writer is not None:
            try:
                self._writer.end(self._end(DISK_FULL if full else GIVEN_UP, what))
            except Exception:
                _log.debug(
                    "Failed to write the last record of the trace, which says that the node stopped", exc_info=True
                )
        self._close()
