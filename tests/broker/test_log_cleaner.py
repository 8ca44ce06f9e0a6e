"""The log cleaner's actors: which log is next, at which speed, and what a failure stops; runs replay exactly."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.broker.log_cleaner import LogCleanerManagerActor
from actors.core.broker.log_cleaner import DirtyLog, LogCleaner, pause
from actors.core.config.broker_config import apply_overrides, check_broker_config
from actors.core.refusal import Refused
from actors.runtime import LocalBase, VirtualClock, local_system
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from actors.storage.log import LogConfig
from actors.storage.log_manager import LogManager
from messages.broker import BrokerConfigured
from messages.cluster import ConfigEntry
from messages.log_cleaner import ABORTED, CLEANED, UNCLEANABLE, CompactedLog, CompactTopic, LogCleaned
from messages.node import StartLogCleaner
from messages.wire.record_batch import batch_of
from tests.broker.harness import settings

COMPACTED = attrs.astuple(LogConfig(segment_bytes=400, compacted=1))


class Cleaner:
    """A log cleaner with the dirty logs `t-0`, `t-1`, ..."""

    def __init__(
        self,
        place: Path,
        count: int,
        observer: Any = None,
        clock: Any = None,
        usage: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
        **fields: Any,
    ) -> None:
        self.settings = settings(place, log_cleaner_backoff_ms=1000, **fields)
        self.failures: list[Any] = []
        self.logs = LogManager(lambda: 5000, usage=usage)
        self.calls: list[tuple[str, Any]] = []
        self.broken: dict[str, int] = {}
        self.base = LocalBase(clock=clock or VirtualClock(), observer=observer, ports={"logs": self})
        replica_manager = self.base.external_endpoint("manager", lambda message, sender: self.failures.append(message))
        self.paths = [f"{place}/t-{number}" for number in range(count)]
        place.mkdir(exist_ok=True)
        for path in self.paths:
            self.logs.open(path, True, COMPACTED)
            self.dirty(path, 3)
        self.actor = local_system(self.base).createActor(LogCleanerManagerActor)
        self.base.inject(self.actor, StartLogCleaner(self.settings, replica_manager))

    def dirty(self, path: str, batches: int) -> None:
        """Append batches of one key, and begin a new segment."""
        for _ in range(batches):
            self.logs.append(path, 0, False, True, batch_of([(b"k", b"v" * 50)], 1000).body)
        self.logs.append(path, 0, False, True, batch_of([(b"z", b"v" * 350)], 1000).body)

    def dirt(self, *args: Any) -> Any:
        return self.logs.dirt(*args)

    def roll_compacted(self, *args: Any) -> Any:
        return self.logs.roll_compacted(*args)

    def last_stable(self, *args: Any) -> Any:
        return self.logs.last_stable(*args)

    def clean(self, path: str, *args: Any) -> Any:
        """Record the call, and fail where the disk of the log is broken."""
        self.calls.append((path[-1], args[0]))
        if path in self.broken:
            raise OSError(self.broken[path], "broken")
        return self.logs.clean(path, *args)

    def begun(self) -> list[str]:
        """Return the numbers of the logs of which a cleaning began, in order."""
        return [name for name, begins in self.calls if begins]


def test_the_dirtiest_log_is_first_and_the_next_follows_at_once(tmp_path: Path) -> None:
    cleaner = Cleaner(tmp_path / "data", 3)
    cleaner.base.simulate(0.9)
    assert cleaner.begun() == []
    cleaner.base.simulate(1.5)
    assert sorted(cleaner.begun()) == ["0", "1", "2"], "all are dirty as a whole"
    for path, batches in zip(cleaner.paths, (9, 19, 0), strict=True):
        cleaner.dirty(path, batches)
    cleaner.base.simulate(3)
    assert cleaner.begun()[3:] == ["1", "0", "2"]
    assert cleaner.logs.dirt(0, 10) == (-1, ())


def test_a_disabled_cleaner_does_nothing(tmp_path: Path) -> None:
    cleaner = Cleaner(tmp_path / "data", 1, log_cleaner_enable=False)
    cleaner.base.simulate(60)
    assert cleaner.begun() == []


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE])
def test_a_disk_error_fails_the_directory_and_too_many_files_are_tried_again(tmp_path: Path, number: int) -> None:
    cleaner = Cleaner(tmp_path / "data", 2)
    cleaner.broken[cleaner.paths[1]] = number
    cleaner.base.simulate(3.5)
    assert [failed.path for failed in cleaner.failures] == ([f"{cleaner.paths[1]}/"] if number == errno.EIO else [])
    assert cleaner.begun().count("1") == (1 if number == errno.EIO else 3)
    assert "0" in cleaner.begun()


def test_other_settings_act_from_the_next_cleaning(tmp_path: Path) -> None:
    cleaner = Cleaner(tmp_path / "data", 1)
    cleaner.base.simulate(1.5)
    slow = attrs.evolve(cleaner.settings, log_cleaner_io_max_bytes_per_second=100.0, log_cleaner_backoff_ms=10)
    cleaner.base.inject(cleaner.actor, BrokerConfigured(slow))
    cleaner.dirty(cleaner.paths[0], 20)
    cleaner.base.simulate(3)
    assert cleaner.begun() == ["0", "0"]
    before = len(cleaner.calls)
    cleaner.base.simulate(6)
    assert cleaner.logs.dirt(0, 10)[1] == (), "it is in progress"
    assert len(cleaner.calls) == before, "the first slice was of more than 1,000 bytes, at 100 bytes per second"


def test_a_topic_is_cleaned_on_request_whatever_its_ratio_is(tmp_path: Path) -> None:
    """Also what the active segment has, once it is stable. A log that is not stable in time is not cleaned."""
    cleaner = Cleaner(tmp_path / "data", 2, log_cleaner_enable=False)
    path = cleaner.paths[1]
    cleaner.logs.append(path, 0, False, False, batch_of([(b"z", b"last")], 1000).body)
    replies: list[Any] = []
    asker = cleaner.base.external_endpoint("asker", lambda message, sender: replies.append(message.logs))
    cleaner.base.inject(cleaner.actor, CompactTopic("t", 5.0), asker)
    cleaner.base.simulate(1)
    assert cleaner.begun() == ["0"]
    cleaner.logs.note_high_watermark(path, 5)
    cleaner.base.simulate(2)
    assert replies == [(CompactedLog("t-0", True, 4, 4), CompactedLog("t-1", True, 5, 5))]
    cleaner.logs.append(path, 0, False, False, batch_of([(b"z", b"more")], 1000).body)
    cleaner.base.inject(cleaner.actor, CompactTopic("t", 5.0), asker)
    cleaner.base.simulate(9)
    assert replies[1] == (CompactedLog("t-0", True, 4, 4), CompactedLog("t-1", True, 0, 6))


def test_a_cleaning_replays_without_the_log(tmp_path: Path) -> None:
    clock = VirtualClock()
    recorder = Recorder(str(tmp_path / "trace"), 0, ("broker",), settings(tmp_path / "data"), now=clock.now)
    cleaner = Cleaner(tmp_path / "data", 2, recorder, clock)
    cleaner.base.simulate(2)
    assert len(cleaner.begun()) == 2
    recorder.close()
    (run,) = replay_directory(tmp_path / "trace", (LogCleanerManagerActor,)).runs
    assert run.ok, run.divergence
    assert not any(b"vvvvv" in file.read_bytes() for file in (tmp_path / "trace").rglob("*") if file.is_file())


@pytest.mark.parametrize(
    ("clean_bytes", "cleanable", "millionths", "overdue", "due"),
    [(50, 50, 500_000, 0, False), (49, 50, 500_000, 0, True), (90, 10, 500_000, 1, True), (90, 0, 0, 1, False)],
)
def test_a_log_is_due_by_its_ratio_or_its_lag(
    clean_bytes: int, cleanable: int, millionths: int, overdue: int, due: bool
) -> None:
    assert DirtyLog("/d/t-0", clean_bytes, cleanable, millionths, overdue).is_due == due


def test_each_cleaner_gets_one_log_and_a_damaged_log_none() -> None:
    cleaner = LogCleaner(settings("/d", log_cleaner_threads=2, log_cleaner_dedupe_buffer_size=4800))
    logs = [DirtyLog(f"/d/t-{number}", number, 10, 0, 0) for number in range(4)]
    assert [(job.path[-1], job.slots) for job in cleaner.assign(logs[::-1])] == [("0", 100), ("1", 100)]
    assert cleaner.assign(logs) == []
    cleaner.note_end(LogCleaned("/d/t-0", UNCLEANABLE, (), "damaged", 1.0))
    cleaner.note_end(LogCleaned("/d/t-1", ABORTED, (), "truncated", 1.0))
    assert [job.path[-1] for job in cleaner.assign(logs)] == ["1", "2"]
    cleaner.note_end(LogCleaned("/d/t-1", CLEANED, (0,) * 7, "", 1.0))
    assert [job.path[-1] for job in cleaner.assign(logs)] == ["1"]
    cleaner.note_end(LogCleaned("/d/t-2", CLEANED, (0,) * 7, "", 1.0))
    assert [job.path[-1] for job in cleaner.assign(logs[2:])] == ["2"], "the damaged log was deleted"
    cleaner.note_end(LogCleaned("/d/t-2", CLEANED, (0,) * 7, "", 1.0))
    assert [job.path[-1] for job in cleaner.assign(logs)] == ["0"], "and created again"


def test_the_gauges_are_those_of_the_last_cleanings_and_of_the_dirtiest_log() -> None:
    cleaner = LogCleaner(settings("/d", "/e", log_cleaner_threads=2))
    logs = [DirtyLog(f"/d/t-{number}", 60, 40 + number, 0, 2_500 * number) for number in range(2)]
    before = {gauge.value for gauge in cleaner.changed_gauges(())}
    cleaner.assign(logs)
    for seconds, written, used in ((9.0, 900, 99), (2.5, 100, 7), (3.9, 200, 5)):
        cleaner.note_end(LogCleaned("/d/t-0", CLEANED, (0, 9, 1000, written, 50, 3, used), "", seconds))
    cleaner.note_end(LogCleaned("/d/t-1", UNCLEANABLE, (), "damaged", 1.0))
    changed = {
        (gauge.name.removeprefix("kafka_log_"), *gauge.labels): gauge.value for gauge in cleaner.changed_gauges(logs)
    }
    uncleanable, directory = "logcleanermanager_uncleanable_", ("logdirectory", "/d")
    assert (before, changed) == (
        {0},
        {
            ("logcleaner_max_buffer_utilization_percent",): 7,
            ("logcleaner_cleaner_recopy_percent",): 15,
            ("logcleaner_max_clean_time_secs",): 3,
            ("logcleaner_max_compaction_delay_secs",): 2,
            ("logcleanermanager_max_dirty_percent",): 40,
            (f"{uncleanable}partitions_count", directory): 1,
            (f"{uncleanable}bytes", directory): 41,
        },
    )
    assert cleaner.changed_gauges(logs) == ()


def test_a_busy_node_gives_the_cleaner_a_ninth_of_its_time() -> None:
    fastest = 1e300
    assert pause(4, 1000, 0, False, fastest) == 0.001
    assert pause(4, 1000, 5, False, fastest) == 0.008
    assert pause(4, 1000, 20, False, fastest) == pause(4, 1000, 100, False, fastest) == 0.032
    assert pause(4, 1000, 0, True, fastest) == 0.005
    assert pause(4, 1000, 100, False, 10_000) == 0.1


@pytest.mark.parametrize(("work", "slices"), [(0.0, 200), (0.02, 200), (0.1, 50), (1.0, 25)])
def test_a_node_that_works_between_the_slices_is_busy(tmp_path: Path, work: float, slices: int) -> None:
    clock = VirtualClock()
    cleaner = Cleaner(tmp_path / "data", 1, clock=clock, usage=lambda: (clock.now(), clock.now() * work))
    cleaner.dirty(cleaner.paths[0], 2_000)
    cleaner.base.simulate(1.2)
    assert len(cleaner.calls) == pytest.approx(slices, rel=0.1)


def test_cleaners_in_one_thread_are_no_other_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used = [0.0, 0.0]

    def clean_for_a_second(self: LogManager, *arguments: object) -> tuple[int, int, int, tuple[int, ...], str]:
        used[:] = used[0] + 1, used[1] + 1
        return 0, 0, 1000, (), ""

    monkeypatch.setattr(LogManager, "_clean", clean_for_a_second)
    one, other = (LogManager(lambda: 5000, usage=lambda: (used[0], used[1])) for _ in range(2))
    busy = []
    for logs, work in ((one, 0.0), (other, 0.0), (one, 0.0), (other, 0.5), (one, 0.0)):
        used[:] = used[0] + 1, used[1] + work
        busy.append(logs.clean("t-0", False, 1, 1, 1, 1)[5])
    assert busy == [0, 0, 0, 25, 25], "of the time in which neither cleaned"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("log.cleaner.threads", "0", "at least 1"),
        ("log.cleaner.threads", "1", "less than half the current value 4"),
        ("log.cleaner.threads", "9", "more than double the current value 4"),
        ("log.cleaner.dedupe.buffer.size", "4194304", "at least 1MB per cleaner thread"),
        ("log.cleaner.enable", "false", "Cannot update these configs dynamically"),
        ("log.cleaner.threads", "2", ""),
        ("log.cleaner.io.buffer.load.factor", "0.5", ""),
        ("log.cleaner.min.cleanable.ratio", "2", "no more than 1"),
    ],
)
def test_dynamic_settings_are_checked_as_by_kafka(name: str, value: str, reason: str) -> None:
    node = settings("/d", log_cleaner_threads=4)
    if reason:
        with pytest.raises(Refused, match=reason):
            check_broker_config(ConfigEntry(name, value), False, node)
    else:
        check_broker_config(ConfigEntry(name, value), False, node)
        assert getattr(apply_overrides(node, {name: value}, {}), name.replace(".", "_")) == float(value)
