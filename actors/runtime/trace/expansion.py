"""Replay a run that was recorded with trace.detail=inputs, and write it with the omitted message contents.

Rule 1: a replay sends all messages again, and compares the recorded data. The written trace equals a full recording. At
        the first difference the written run ends without an end record, like the run of a killed node.
Rule 2: the written run has the name of the recorded run, so it is written to another folder. The written run begins
        where the replay began: at the beginning, or at a snapshot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from pathlib import Path

from thespian.actors import Actor

from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.replay_report import RunReplay
from actors.runtime.trace.replayer import Replay
from actors.runtime.trace.snapshots import system_pieces
from messages.trace.files.runs import Run
from messages.trace.files.writer import SEGMENT_BYTES, RunWriter
from messages.trace.schema import ENDED, TraceRecord, end_record, in_full
from messages.trace.text import FrameText

FRAME_BYTES = 4 << 20
"""Bytes of text per frame, as in a recorder."""


def expand(run: Run, actors: Collection[type[Actor]], folder: Path) -> RunReplay:
    """Write the run with all messages into `folder`, and return the result of its replay. Raises OSError."""
    writing = _Expansion(run, folder)
    try:
        result = Replay(run, actors, listener=writing).result()
        writing.flush()
    finally:
        writing.close()
    return result


class _Expansion:
    """Observes a replay and writes the run again, with the omitted message contents restored."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._header = run.header
        self._folder = folder
        self._writer: RunWriter | None = None
        self._text = FrameText()
        self._after = 0

    @property
    def _open(self) -> RunWriter:
        """The writer, which is created when the first delivery is known."""
        if self._writer is None:
            self._writer = RunWriter(self._folder, in_full(self._header, self._after), SEGMENT_BYTES)
        return self._writer

    def begins(self, base: LocalBase) -> None:
        """See ReplayListener.begins."""
        self._after = base.n
        self._snapshot(base)

    def take_record(self, record: TraceRecord) -> None:
        """See ReplayListener.take_record."""
        if record.kind == ENDED:
            self.flush()
            self._open.end(end_record(record.n, record.type, self._open.records, record.error, record.taken_at))
            return
        self._text.take(deque((record,)))
        while self._text.step():
            pass
        if self._text.size >= FRAME_BYTES:
            self.flush()

    def holds(self, base: LocalBase) -> None:
        """See ReplayListener.holds."""
        self.flush()
        self._snapshot(base)

    def flush(self) -> None:
        """Write the collected records."""
        text, self._text = self._text, FrameText()
        if text.records:
            self._open.write(text.finish(), text.records, self._after)
            self._after = text.last

    def close(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()

    def _snapshot(self, base: LocalBase) -> None:
        for content, lines in system_pieces(base):
            self._open.write_snapshot(content, lines, base.n)
