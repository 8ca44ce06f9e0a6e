"""The recorder: the base's observer that writes every delivery to the node's trace.

Rule 1: during a delivery it only keeps a reference; messages are frozen, so they can be encoded later, in batches:
        when a quarter of a second has passed, when many wait, and at the end. One batch is one frame, cut at 1 MiB.
Rule 2: what a kill can cost is the last batch, never more, and never the readability of what came before.
Rule 3: the trace never harms the node. A disk that is full or fails ends the recording with one loud line and
        `failed`; a message that cannot be encoded is recorded as such, with the reason in place of its payload.
"""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thespian.actors import ActorAddress

from actors.runtime.code_version import code_version
from actors.runtime.delivery import Delivery
from messages.trace.codec import Batch, TraceError, address_text
from messages.trace.frames import SEGMENT_BYTES, SegmentWriter
from messages.trace.schema import CLOSED, CREATED, NO_PAYLOAD, SCHEMA_VERSION, Effect, Header, Record, masked

_log = logging.getLogger("kafka_actors.trace")

FLUSH_SECONDS = 0.25
FLUSH_DELIVERIES = 1024
FRAME_BYTES = 1 << 20


class Recorder:
    """Writes one run of a node below `folder`; an observer for `LocalBase`.

    `now` reads the base's clock (seconds). `settings` is what the header tells of the node's settings: an attrs
    value or a mapping, secrets are masked here. Nothing here raises: a trace that cannot be written (or not even
    begun) is logged once, and `failed` says so.
    """

    def __init__(
        self,
        folder: str | Path,
        node: int,
        roles: tuple[str, ...] = (),
        settings: object = None,
        now: Callable[[], float] = time.monotonic,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        started = time.time()
        moment = time.strftime("%Y%m%dT%H%M%S", time.gmtime(started))
        self.run = f"node{node}-{moment}.{int(started % 1 * 1e6):06d}-{os.getpid()}"
        self.folder = Path(folder)
        self.failed = False
        self.recorded = 0
        """Records that are in the trace's files."""
        self._writer: SegmentWriter | None = None
        self._waiting: list[Delivery | Record] = []
        self._flush_at = now() + FLUSH_SECONDS
        self._last = 0
        self._now = now
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        header = Header(
            schema_version=SCHEMA_VERSION,
            run=self.run,
            segment=0,
            node=node,
            roles=roles,
            settings=masked({} if settings is None else settings),
            code_version=code_version(),
            started_ms=int(started * 1000),
            clock_offset=started - now(),
            python=platform.python_version(),
            platform=platform.platform(),
        )
        try:
            self._writer = SegmentWriter(self.folder, header, segment_bytes)
        except OSError as error:
            self._fail(error)

    # -------------------------------------------------------------------------------------------- the base's observer

    def delivered(self, delivery: Delivery) -> None:
        """Keep the delivery; write when enough wait or the last flush was long ago."""
        if self._writer is None:
            return
        self._waiting.append(delivery)
        self._last = delivery.n
        if len(self._waiting) >= FLUSH_DELIVERIES or delivery.finished_at >= self._flush_at:
            self.flush()

    def created(self, address: ActorAddress, actor_class: type, n: int) -> None:
        """A top-level actor was created from outside, after delivery `n`."""
        where = f"{actor_class.__module__}:{actor_class.__qualname__}"
        self._event(CREATED, n, address_text(address), actor_class.__name__, where)

    def _event(self, kind: str, n: int, receiver: str = "", actor: str = "", type_: str = "") -> None:
        now = self._now()
        if self._writer is not None:
            self._waiting.append(Record(n, kind, -n, "", receiver, actor, type_, now, now, 0.0, NO_PAYLOAD))

    # -------------------------------------------------------------------------------------------- writing

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the loop flush what waits while nothing is delivered. `close` ends it."""
        self._loop = loop
        self._timer = loop.call_later(FLUSH_SECONDS, self._tick)

    def _tick(self) -> None:
        self.flush()
        if self._loop is not None and not self.failed:
            self._timer = self._loop.call_later(FLUSH_SECONDS, self._tick)

    def flush(self) -> None:
        """Write what waits."""
        self._flush_at = self._now() + FLUSH_SECONDS
        waiting, self._waiting = self._waiting, []
        if not waiting or self._writer is None:
            return
        batch, lines, complete = Batch(), bytearray(), 0
        try:
            for entry in waiting:
                _append(batch, entry, lines)
                complete += 1
                if len(lines) >= FRAME_BYTES:
                    self._writer.write(lines)
                    self.recorded, complete = self.recorded + complete, 0
                    lines.clear()
            if lines:
                self._writer.write(lines)
                self.recorded += complete
        except Exception as error:  # whatever it is, the node goes on without a trace
            self._fail(error)

    def close(self) -> None:
        """Write what waits and that the run ends here, and close the files; a second time does nothing."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._loop = None
        if self._writer is None:
            return
        self._event(CLOSED, self._last)
        self.flush()
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except OSError as error:
                self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failed = True
        self._waiting = []
        writer, self._writer = self._writer, None
        _log.critical(
            "the trace in %s has failed and ends here; the node goes on unrecorded: %s: %s",
            self.folder,
            type(error).__name__,
            error,
        )
        if writer is not None:
            try:
                writer.close()
            except OSError:
                _log.debug("closing the failed trace failed too", exc_info=True)


def _append(batch: Batch, entry: Delivery | Record, lines: bytearray) -> None:
    """Append the entry's line: what is done for each delivery, and so without any detour."""
    if isinstance(entry, Record):
        batch.append(entry, lines)
        return
    start = len(lines)
    try:
        type_, payload = batch.payload(entry.message)
        batch.append(_record(entry, type_, payload), lines)
    except TraceError as reason:
        del lines[start:]
        batch.append(_record(entry, type(entry.message).__name__, unencodable(reason)), lines)


def _record(delivery: Delivery, type_: str, payload: Any) -> Record:
    n, kind, cause, sender, receiver, actor, _, queued_at, taken_at, finished_at, effects, error = delivery
    return Record(
        n,
        kind,
        cause,
        address_text(sender),
        address_text(receiver),
        actor,
        type_,
        queued_at,
        taken_at,
        finished_at - taken_at,
        payload,
        tuple([Effect(*effect) for effect in effects]) if effects else (),
        error,
    )


def unencodable(error: TraceError) -> Any:
    """What stands in a record in place of a payload that has no form."""
    return {"unencodable": str(error)}
