"""Kill a process at every step of its writes; acknowledged records must exist at the next start.

The operations on a log are repeated once for each step at which the process can be killed. Each call that changes a
file or a folder is a step. Within a write, some bytes are steps too; in the soak, each byte is. Changes before the kill
are on the disk, later ones are not.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from actors.storage.disk import DiskAdapter
from actors.storage.log_directories import CLEAN_MARKER, CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from actors.storage.log_manager import NONE, LogManager
from tests.storage.test_cleaner import Compacted, last_of_each_key
from tests.storage.test_damage import CONFIG, append, offsets, port
from tests.storage.test_transactions import SMALL, Partition

BATCHES, CUT = 9, 14
"""Number of batches of two records, which fill two segments, and the offset to which the log is truncated."""
PLACES = 2
"""Number of evenly spaced kills within one write. Two more come after its first byte and before its last byte."""


class Killed(BaseException):
    """The simulated kill: a BaseException, so that no handler of the code under test catches it."""


class Reaper:
    """Raise Killed after `steps` steps: a step is a call that changes the disk, or one of `places` within a write."""

    WRITES = ("write", "pwrite", "pwritev")
    CHANGES = ("replace", "rename", "unlink", "truncate", "ftruncate", "mkdir", "fsync")

    def __init__(self, patch: pytest.MonkeyPatch, steps: int, places: int) -> None:
        self.left = steps
        self.places = places
        self.died_in = ""
        for name in self.CHANGES:
            patch.setattr(os, name, self._changing(name, getattr(os, name)))
        for name in self.WRITES:
            patch.setattr(os, name, self._writing(name, getattr(os, name)))
        patch.setattr(os, "open", self._opening(os.open))

    def _step(self, what: object) -> None:
        if not self.left:
            self.died_in = Path(str(what)).name
            raise Killed
        self.left -= 1

    def _changing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def changing(path: Any, *args: Any, **kwargs: Any) -> Any:
            self._step(self._name(path))
            return call(path, *args, **kwargs)

        return changing

    def _opening(self, call: Callable[..., int]) -> Callable[..., int]:
        def opening(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & os.O_CREAT and not os.path.exists(path):  # noqa: PTH110  (as the calls around it)
                self._step(path)
            return call(path, flags, *args, **kwargs)

        return opening

    def _writing(self, name: str, call: Callable[..., int]) -> Callable[..., int]:
        def writing(descriptor: int, data: Any, *place: int) -> int:
            whole = b"".join(data) if name == "pwritev" else bytes(data)
            parts = min(self.places, len(whole))
            places = sorted({len(whole) * part // parts for part in range(parts)} | {1, len(whole) - 1})
            if self.left < len(places):
                part = whole[: places[self.left]]
                call(descriptor, [part] if name == "pwritev" else part, *place)
                self.left = 0
                self._step(self._name(descriptor))
            self.left -= len(places)
            return call(descriptor, data, *place)

        return writing

    @staticmethod
    def _name(file: Any) -> str:
        return str(Path(f"/proc/self/fd/{file}").readlink()) if isinstance(file, int) else str(file)


class Life:
    """Operations on a log: appends in two leader epochs, a truncation and a clean close, with their allowed results."""

    def __init__(self, path: Path) -> None:
        self.logs, self.path = port(), str(path)
        self.ends = {0}
        """Possible log end offsets after a kill: before and after the operation in progress."""
        self.repeated: int | None = None
        """The producer's last acknowledged batch."""
        self.starts = {0}
        self.high_watermarks = {0}

    def live(self) -> None:
        """Run all operations that write to a file of the log or to a checkpoint."""
        logs, path = self.logs, self.path
        logs.open(path, True, CONFIG)
        for number in range(BATCHES):
            self._append(number)
            if number == 4:
                logs.advance_start(path, 2)
                self.starts = {0, 2}
            if number % 3 == 2:
                logs.checkpoint()
                self.starts = {max(self.starts)}
                logs.checkpoint_high_watermarks()
                self.high_watermarks = {2 * number + 2}
        self.ends, self.repeated = set(range(CUT, 2 * BATCHES + 1, 2)), None
        self.high_watermarks.add(CUT)
        logs.truncate(path, CUT)
        self.ends = {CUT}
        self._append(CUT // 2)
        logs.close_all()

    def _append(self, number: int) -> None:
        self.ends.add(2 * number + 2)
        if number % 5 == 0:
            self.logs.begin_epoch(self.path, 1 + number // 5)
        assert append(self.logs, self.path, number) == NONE
        self.ends, self.repeated = {2 * number + 2}, number
        self.logs.note_high_watermark(self.path, 2 * number + 2)
        self.high_watermarks.add(2 * number + 2)

    def look(self) -> None:
        """Open the log in a new process: no acknowledged record is lost, none is duplicated, and appends work."""
        logs = port()
        exists = Path(self.path).exists()
        start, end, epoch, high_watermark, _ = logs.open(self.path, not exists, CONFIG)
        assert end in self.ends
        assert start in self.starts
        assert high_watermark in self.high_watermarks
        assert offsets(logs, self.path, start, end) == list(range(start, end, 2))
        if end > 10:
            assert epoch == 2
            assert logs.epoch_end(self.path, 1) == (1, 10)
        elif end:
            assert epoch in (1, 2)
        if self.repeated is not None:
            assert append(logs, self.path, self.repeated) == NONE
            assert logs.open(self.path, False, CONFIG)[1] == end, "the producer's last batch exists already"
        assert append(logs, self.path, end // 2) == NONE
        assert logs.open(self.path, False, CONFIG)[1] == end + 2
        logs.close_all()
        again = port()
        assert again.open(self.path, False, CONFIG)[1] == end + 2
        again.abandon()


class Recreation:
    """Deletion of a log with a moved log start offset, and creation of a log of the same name (broker.md 2.2)."""

    OLD, NEW = 3, 2
    """Number of batches of two records in the deleted log and in the new log."""

    def __init__(self, path: Path) -> None:
        self.logs, self.path = port(), str(path)
        self.made_again = False
        self.acknowledged = 0
        """Batches of the new log."""

    def live(self) -> None:
        """Append, advance the log start offset, delete the log, create it again, and append."""
        logs, path = self.logs, self.path
        logs.open(path, True, CONFIG)
        for number in range(self.OLD):
            assert append(logs, path, number) == NONE
        logs.note_high_watermark(path, 2 * self.OLD)
        logs.advance_start(path, 3)
        logs.checkpoint()
        logs.checkpoint_high_watermarks()
        self._delete(logs)
        self._make_again(logs)

    def _delete(self, logs: LogManager) -> None:
        logs.close(self.path, True)
        deleted = Path(f"{self.path}.{'0' * 32}-delete")
        shutil.rmtree(deleted, ignore_errors=True)
        DiskAdapter().rename(self.path, str(deleted))
        logs.checkpoint_deletions()

    def _make_again(self, logs: LogManager) -> None:
        self.made_again = True
        if not Path(self.path).exists():
            logs.open(self.path, True, CONFIG)
        while self.acknowledged < self.NEW:
            assert append(logs, self.path, self.acknowledged) == NONE
            self.acknowledged += 1

    def look(self) -> None:
        """Complete the operations in the next two processes: the controller repeats requests without a response."""
        for _ in range(2):
            logs = port()
            if Path(self.path).exists():
                start, end, _, high_watermark, _ = logs.open(self.path, False, CONFIG)
                if self.made_again:
                    assert (start, high_watermark) == (0, 0)
                    assert end in (2 * self.acknowledged, 2 * self.acknowledged + 2)
                    assert offsets(logs, self.path, start, end) == list(range(0, end, 2))
                    self.acknowledged = end // 2
                else:
                    assert start in (0, 3)
                    self._delete(logs)
            self._make_again(logs)
            logs.abandon()
        assert port().open(self.path, False, CONFIG)[:2] == (0, 2 * self.NEW)


class TransactionLife:
    """Transactions of two producers over several segments, and a clean close, compared with a log without a kill."""

    STEPS: tuple[Callable[[Partition], object], ...] = (
        lambda log: log.send(6, b"a"),
        lambda log: log.send(7, b"b"),
        lambda log: log.mark(6, committed=False),
        lambda log: log.plain(b"p"),
        lambda log: log.send(6, b"c"),
        lambda log: log.logs.checkpoint(),
        lambda log: log.mark(7, committed=True),
        lambda log: log.mark(6, committed=False),
        lambda log: log.send(7, b"d"),
    )
    expected: ClassVar[dict[int, tuple[object, ...]]] = {}
    """Log end offset -> (first unstable offset, transaction indexes, values for a read_committed consumer)."""

    def __init__(self, path: Path) -> None:
        self.path, self.done = path, {0}
        if not self.expected:
            self.expected[0] = (-1, b"", [])
            (path.parent / "whole").mkdir()
            log = Partition(path.parent / "whole", SMALL)
            for step in self.STEPS:
                step(log)
                self.expected[log.end] = self._seen(log)
        self.log = Partition(path.parent, SMALL, is_open=False)

    @property
    def logs(self) -> LogManager:
        """The LogManager of the process."""
        return self.log.logs

    def live(self) -> None:
        """Run each step, then close the log cleanly."""
        self.log.open()
        for step in self.STEPS:
            self.done = {self.log.end, self.log.end + 1}
            step(self.log)
            self.done = {self.log.end}
        self.log.logs.close_all()

    def look(self) -> None:
        """Check in the next two processes that acknowledged records exist and transactions are as without a kill."""
        log = Partition(self.path.parent, SMALL, is_open=False)
        for clean in (False, True):
            log.reopen(clean) if self.path.exists() else log.open()
            assert log.end in self.done
            assert self._seen(log) == self.expected[log.end]
        log.logs.abandon()

    @staticmethod
    def _seen(log: Partition) -> tuple[object, ...]:
        return log.unstable, log.index(), log.committed()


class CleanedLife:
    """Two cleanings of a compacted log; the second one removes a tombstone, a marker and a batch of a live producer."""

    def __init__(self, path: Path) -> None:
        self.log = log = Compacted(path.parent, index_interval_bytes=200)
        log.put((b"a", b"1" * 20), (b"b", b"1"), (b"gone", b"1"))
        log.put((b"a", None), producer=5)
        log.put((b"t", b"0"), producer=6, transactional=True)
        log.mark(6, committed=False)
        log.put((b"gone", None), codec="gzip")
        log.roll()

    @property
    def logs(self) -> LogManager:
        """The LogManager of the process."""
        return self.log.logs

    def live(self) -> None:
        """Clean the log, write, and clean it again after the time of the tombstones."""
        log = self.log
        log.clean(steps=50)
        log.now += 30
        log.put((b"a", b"2"), producer=5)
        log.roll()
        log.clean(steps=50)

    def look(self) -> None:
        """Check in the next two processes that the last values exist, and no removed one does; then clean the log."""
        log = self.log
        del log.written[b"t"]
        for clean in (False, True):
            log.reopen(clean)
            rows = log.rows()
            values = {key: row[2] for key, row in last_of_each_key(rows).items() if row[2] is not None}
            assert values in [
                {key: value for key, value in written.items() if value is not None}
                for written in (log.written, log.written | log.sent)
            ]
            assert [row[0] for row in rows] == sorted({row[0] for row in rows})
            log.clean(steps=50)
            assert not [*Path(log.path).glob("*.cleaned"), *Path(log.path).glob("*.swap")]
            assert {row[1]: row[2] for row in log.rows() if row[2] is not None} == values
        log.logs.abandon()


def test_a_process_that_is_killed_at_any_step_finds_its_log_again(tmp_path: Path) -> None:
    survive_kills(tmp_path, PLACES)


def test_a_recreated_log_keeps_nothing_of_the_deleted_one_at_any_kill(tmp_path: Path) -> None:
    died_in = kill_each(Recreation, tmp_path, PLACES)
    assert died_in >= {".log", "t-0", RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS}


def survive_kills(place: Path, places: int) -> None:
    """Kill the process at each step of `Life`, below `place`, and check the log after each kill."""
    died_in = kill_each(Life, place, places)
    files = {".log", ".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"}
    assert died_in >= files | {RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEAN_MARKER}, "each of them was written"


def kill_each(kind: type[Life | Recreation | TransactionLife | CleanedLife], place: Path, places: int) -> set[str]:
    """Repeat the operations with a kill at each step in turn, check each result, and return the files of the kills."""
    died_in: set[str] = set()
    for steps in itertools.count():
        folder = place / f"{steps}"
        folder.mkdir()
        life = kind(folder / "t-0")
        with pytest.MonkeyPatch.context() as patch:
            reaper = Reaper(patch, steps, places)
            try:
                life.live()
            except Killed:
                life.logs.abandon()
        try:
            life.look()
        except AssertionError as error:
            raise AssertionError(f"killed in {reaper.died_in} (step {steps})") from error
        shutil.rmtree(folder)
        died_in.add(re.sub("^[0-9]{20}", "", reaper.died_in.removesuffix(".tmp")))
        if not reaper.died_in:
            return died_in
    raise AssertionError("there is no end")


def test_transactions_are_as_before_wherever_the_kill_comes(tmp_path: Path) -> None:
    """The kills include those between a marker and its entry in the transaction index, and within that entry."""
    died_in = kill_each(TransactionLife, tmp_path, 2)
    assert died_in >= {".log", ".txnindex", ".snapshot", RECOVERY_POINTS, CLEAN_MARKER}


def test_a_cleaned_log_has_the_last_values_wherever_the_kill_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # what was written survives a kill
    clean_under_kills(tmp_path, 1)


def clean_under_kills(place: Path, places: int) -> None:
    """Kill the process at each step of `CleanedLife`: between the renames, and within the writes of the new files."""
    died_in = kill_each(CleanedLife, place, places)
    assert died_in >= {".log.cleaned", ".index.cleaned", ".timeindex.cleaned", ".log.swap", CLEANED_OFFSETS}
