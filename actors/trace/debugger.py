"""Walk a recorded run forwards and backwards, by replay.

Rule 1: the first walk stores its own snapshots in a cache folder, at intervals of about `EVERY` deliveries. A snapshot
        is stored only after a delivery that leaves the actors idle. A walk backwards begins at the last recorded or
        stored snapshot before its target.
Rule 2: a stored snapshot belongs to one run and one version of the code; another version stores its own. A file that
        cannot be read is ignored. Other processes may store snapshots of the same run meanwhile (`store_snapshots`).
Rule 3: the deliveries after the position are read from the trace. The state at the position is that of the replayed
        actors.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.code_version import code_version
from actors.runtime.trace.replayer import NotReplayable, Replay
from actors.runtime.trace.snapshots import system_pieces
from actors.trace.changes import StateChange, last_change
from actors.trace.moment import ACTORS
from actors.trace.reader import TraceDelivery, TraceRun
from actors.trace.state_path import StatePartReader, StatePath
from messages.trace.codec import MessageDecoder
from messages.trace.errors import TraceError
from messages.trace.files.frames import SNAPSHOT, START, frame, read_frames
from messages.trace.files.runs import Run, RunRecords, snapshots
from messages.trace.files.snapshots import Snapshot, SnapshotCollector, line, message_of
from messages.trace.schema import DELIVERIES

EVERY = 20_000
"""Number of deliveries between two stored snapshots."""
RETRY = 50
"""Number of deliveries until the next attempt, if the actors were busy."""
SUFFIX = ".snapshot"


def cache_folder() -> Path:
    """Return the default folder of stored snapshots."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kafka-actors" / "debug"


class KeptSnapshots:
    """The stored snapshots of one run in a cache folder; `found` has the deliveries after which they were taken."""

    def __init__(self, run: Run, folder: Path) -> None:
        key = blake2b(f"{run.header.run}\0{run.header.started_ms}\0{code_version()}".encode(), digest_size=12)
        self.folder = folder / key.hexdigest()
        self.found: set[int] = set()
        self.refresh()

    def refresh(self) -> None:
        """Find the snapshots that are stored now."""
        self.found = {int(path.stem) for path in self.folder.glob(f"*{SUFFIX}")}

    def _path(self, after: int) -> Path:
        return self.folder / f"{after:012d}{SUFFIX}"

    def last(self, until: int) -> Snapshot | None:
        """Return the last readable snapshot up to a delivery."""
        places = sorted((each for each in self.found if each <= until), reverse=True)
        return next(filter(None, map(self._read, places)), None)

    def all(self) -> list[Snapshot]:
        """Return all readable snapshots."""
        return [*filter(None, map(self._read, sorted(self.found)))]

    def _read(self, after: int) -> Snapshot | None:
        collector, path = SnapshotCollector(), self._path(after)
        try:
            with path.open("rb") as stream:
                for each in read_frames(stream, path):
                    collector.take(path, each)
            return collector.found[0]
        except (TraceError, OSError, IndexError):
            self.found.remove(after)
            return None

    def keep(self, base: LocalBase) -> bool:
        """Store a snapshot of a system.

        Returns:
            False if a queued message would change when it is written and read: for example, an integer in a float field
            becomes a float.

        Raises:
            OSError: The snapshot cannot be written.
            ValueError, TypeError, TraceError: A value has no stored form.
        """
        head = line(base.system_state())
        if line(message_of(head, MessageDecoder())) != head:
            return False
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self._path(base.n)
        part = path.with_suffix(f".{os.getpid()}.part")
        with part.open("wb") as out:
            for content, lines in system_pieces(base):
                out.write(frame(SNAPSHOT, content, START, lines, base.n)[0])
        part.replace(path)
        self.found.add(base.n)
        return True

    def remove_oldest(self, most: int) -> None:
        """Remove the snapshots of the runs that were looked at longest ago, until `most` bytes are left."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.utime(self.folder)
        for folder in sorted(self.folder.parent.iterdir(), key=lambda each: -each.stat().st_mtime):
            most -= sum(path.stat().st_size for path in folder.iterdir())
            if most < 0 and folder != self.folder:
                shutil.rmtree(folder, ignore_errors=True)


class Debugger:
    """Walks a recorded run forwards and backwards; its position is after delivery `n`.

    Attributes:
        run: The run.
        n: The number of the last delivery before the position; 0 before the first delivery.
        last: The last delivery of the run.
        notes: Sentences about steps that failed without ending the walk.
    """

    def __init__(self, run: TraceRun, cache: Path | None = None, every: int = EVERY) -> None:
        self.run = run
        self.n = 0
        self.notes: list[str] = []
        self._kept = KeptSnapshots(run.run, cache_folder() if cache is None else cache)
        self._every = every
        self._keeps = True
        self._recorded = [each for each in snapshots(run.run) if each.end.resting]
        self._replay: Replay | None = None
        self.last = max(
            (frame_.after + frame_.records for _, frame_ in RunRecords(run.run).frames() if frame_.records), default=0
        )
        self._ends = False

    @property
    def base(self) -> LocalBase:
        """The system at this position."""
        if self._replay is None:
            self.go(self.n)
        assert self._replay is not None
        return self._replay.base

    def go(self, n: int) -> bool:
        """Go to the moment after delivery `n`; return False if the run ends before this delivery.

        Raises:
            NotReplayable: The replay differs from the record, or the run cannot be replayed.
        """
        if n < 0:
            raise NotReplayable("there is nothing before delivery 1")
        replay = self._replay
        begins = self.begins(n)
        if replay is None or replay.base.n > n or begins > replay.base.n:
            kept = self._kept.last(n)
            replay = self._replay = Replay(self.run.run, ACTORS, begin=n + 1, kept=() if kept is None else (kept,))
        try:
            arrived = self._walk(replay, n)
        except NotReplayable:
            self._replay = None
            raise
        self.n = replay.base.n
        if not arrived:
            self.last, self._ends = self.n, True
        return arrived

    def begins(self, n: int) -> int:
        """Return the delivery from which on a replay to delivery `n` may begin: that of the last snapshot before it."""
        return max((after for after in self._beginnings() if after <= n), default=0)

    def distance(self, n: int) -> int:
        """Return the number of deliveries that `go` will replay, with the snapshots that are stored now."""
        self._kept.refresh()
        here = self._replay.base.n if self._replay is not None else 0
        return n - max(self.begins(n), here if here <= n else 0)

    def _beginnings(self) -> Iterator[int]:
        yield from self._kept.found
        yield from (each.after for each in self._recorded)

    def store_snapshots(self, most: int) -> None:
        """Walk all parts of the run that have no stored snapshots yet, as far as they can be replayed.

        Snapshots of other runs are removed first if all together have more than `most` bytes.
        """
        self._kept.remove_oldest(most)
        places = [self._first(), *sorted({each for each in self._beginnings() if each > self._first()}), self.last + 1]
        for place, following in pairwise(places):
            if following - place > 2 * self._every:
                with suppress(NotReplayable):
                    self.go(following - 1)

    def _walk(self, replay: Replay, n: int) -> bool:
        """Replay to `n`, and store snapshots on the way."""
        replay.go_to(min(n, max(replay.base.n, self._first())))
        wanted = max((after for after in self._kept.found if after <= replay.base.n), default=0) + self._every
        while replay.base.n < n:
            if not replay.go_to(min(n, max(wanted, replay.base.n + 1))):
                return False
            if replay.base.n >= wanted:
                following = (replay.base.n // self._every + 1) * self._every
                wanted = following if self._store_snapshot(replay.base) else replay.base.n + RETRY
        return True

    def _first(self) -> int:
        return self.run.run.header.begins

    def _store_snapshot(self, base: LocalBase) -> bool:
        """Store a snapshot if the actors are idle; return False if a later attempt should be made."""
        if base.n in self._kept.found or not self._keeps:
            return True
        if not base.resting:
            return False
        try:
            return self._kept.keep(base)
        except (OSError, TypeError, ValueError, TraceError) as error:
            self._keeps = False
            self.notes.append(f"no snapshots are kept in {self._kept.folder}: {error}")
        return True

    def to_end(self) -> None:
        """Go to the moment after the last delivery."""
        self.go(self.last if self._ends else max(self.last, 1))
        self.last, self._ends = self.n, True

    def deliveries(self, after: int) -> Iterator[TraceDelivery]:
        """Yield the recorded deliveries after a delivery."""
        for record in RunRecords(self.run.run, after or None):
            if record.kind in DELIVERIES and record.n > after:
                yield TraceDelivery(self.run, record)

    def delivery(self, n: int) -> TraceDelivery | None:
        """Return the record of a delivery; None if the run has no delivery with this number."""
        return next((each for each in self.deliveries(n - 1) if each.seq == n), None) if n > 0 else None

    def value(self, path: StatePath) -> Any:
        """Return a part of a state at this position."""
        return StatePartReader(path).value(self.base)

    def find_change(self, path: StatePath) -> StateChange | None:
        """Return the last delivery, up to this position, that changed the part of the state at `path`."""
        return last_change(self.run.run, path, self.n, self._kept.all())
