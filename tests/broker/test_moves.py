"""Replicas that move to another log directory (AlterReplicaLogDirs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.storage.log.log import Log
from actors.storage.log_directories import parse_name
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, ReplicaLogDir
from messages.apis.describe_log_dirs import DescribeLogDirsRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.cluster import TopicPartition
from messages.errors import (
    INVALID_TOPIC,
    KAFKA_STORAGE_ERROR,
    LOG_DIR_NOT_FOUND,
    NONE,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from tests.broker.harness import CONTROLLER, NO_SPACE, Broker, alive, known, order
from tests.broker.test_dynamic_settings import alter
from tests.broker.test_records import T0, fetch, lead, offsets_of, produce, skip
from tests.storage.batches import batch


class Moving:
    """A broker with two log directories that leads t-0 with some records."""

    def __init__(self, place: Path, count: int = 3, **fields: Any) -> None:
        self.places = [place / "a", place / "b"]
        self.broker = Broker(*self.places, **{"log_retention_ms": -1, **fields})
        self.broker.run()
        lead(self.broker)
        for _ in range(count):
            self.append()

    def append(self) -> int:
        return int(produce(self.broker, batch(bytes(1000))).base_offset)

    @property
    def home(self) -> Path:
        return next(place for place in self.places if (place / "t-0").is_dir())

    @property
    def other(self) -> Path:
        return next(place for place in self.places if place != self.home)

    def move(self, directory: Path | str, partition: TopicPartition = T0) -> int:
        request = AlterReplicaLogDirsRequest(2, (ReplicaLogDir(str(directory), (partition,)),))
        [result] = self.broker.ask(request).partitions
        return int(result.error_code)

    def described(self) -> dict[str, list[tuple[bool, int]]]:
        """Return (whether it is a future log, lag) of each log in each directory."""
        return {
            Path(each.log_dir).name: [
                (log.is_future_key, log.offset_lag) for topic in each.topics for log in topic.partitions
            ]
            for each in self.broker.ask(DescribeLogDirsRequest(1, None)).results
        }

    def names(self, kind: str) -> list[str]:
        return [path.name for place in self.places for path in place.iterdir() if path.name.endswith(kind)]


def test_a_replica_moves_with_its_records(tmp_path: Path) -> None:
    moving = Moving(tmp_path)
    old, new = moving.home, moving.other
    content = (old / "t-0" / f"{0:020d}.log").read_bytes()
    assert moving.move(new) == NONE
    skip(moving.broker, 1.0)
    assert (moving.home, moving.described()) == (new, {old.name: [], new.name: [(False, 0)]})
    assert (new / "t-0" / f"{0:020d}.log").read_bytes() == content
    assert offsets_of(fetch(moving.broker, 0)) == [0, 1, 2]
    assert moving.append() == 3
    assert len(moving.names("-delete")) == 1
    skip(moving.broker, 120.0)
    assert moving.names("-delete") == moving.names("-future") == []
    moving.broker.end()
    again = Broker(*moving.places)
    again.run()
    lead(again, epoch=1)
    assert offsets_of(fetch(again, 0, 1)) == [0, 1, 2, 3]
    again.end()


def test_a_replica_that_moves_while_it_leads_keeps_its_leader_epoch(tmp_path: Path) -> None:
    """Regression: seed 19 with logs. As a follower it would truncate the records that it appended after the move."""
    moving = Moving(tmp_path)
    lead(moving.broker, epoch=1)
    assert moving.move(moving.other) == NONE
    skip(moving.broker, 1.0)
    assert moving.append() == 3
    logs, path = moving.broker.base.ports["logs"], str(moving.home / "t-0")
    assert (logs.latest_epoch(path), logs.epoch_end(path, 0)) == (1, (0, 3))
    moving.broker.end()


SLOW = {"replica_alter_log_dirs_io_max_bytes_per_second": 1000}


def test_a_slow_move_takes_what_is_appended_and_truncated_meanwhile(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 2_000, **SLOW)
    assert moving.move(moving.other) == NONE
    skip(moving.broker, 5.0)
    ((_, lag),) = moving.described()[moving.other.name]
    assert lag > 0 and moving.home.name == "a"
    assert moving.append() == 2_000
    broker = moving.broker
    broker.update(known("t", leader=1, epoch=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("t", leader=1, epoch=1, replicas=(0, 1), isr=(0, 1), zk_version=1))
    broker.base.ports["logs"].truncate(str(moving.home / "t-0"), 10)
    alter(broker, {"replica.alter.log.dirs.io.max.bytes.per.second": "1000000000"})
    skip(broker, 60.0)
    assert moving.home.name == "b"
    assert len((moving.home / "t-0" / f"{0:020d}.log").read_bytes()) == 10 * len(batch(bytes(1000)))
    moving.broker.end()


def test_as_much_is_copied_together_as_a_fetch_may_get(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 5, replica_fetch_max_bytes=1, **SLOW)
    assert moving.move(moving.other) == NONE
    skip(moving.broker, 0.1)
    assert moving.described()[moving.other.name] == [(True, 4)]
    moving.broker.end()


def test_a_move_is_changed_and_cancelled(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 2_000, **SLOW)
    home, other = moving.home, moving.other
    assert [moving.move(other), moving.move(other)] == [NONE, NONE]
    assert [is_future for is_future, _ in moving.described()[other.name]] == [True]
    assert moving.move(home) == NONE
    assert moving.described() == {home.name: [(False, 0)], other.name: []}
    [deleted] = moving.names("-delete")
    assert parse_name(deleted) == ("t", 0, "delete"), "otherwise the next start refuses the directory"
    skip(moving.broker, 5_000.0)
    assert moving.home == home and moving.names("-future") == moving.names("-delete") == []
    assert moving.move(other) == NONE
    moving.broker.stop(("t", 0, -2, True))
    skip(moving.broker, 120.0)
    assert not [name for place in moving.places for name in place.iterdir() if name.is_dir()], "deleted with its copy"
    moving.broker.end()


def test_a_move_that_a_kill_interrupts_begins_again(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 2_000, **SLOW)
    home, other = moving.home, moving.other
    assert moving.move(other) == NONE
    skip(moving.broker, 5.0)
    moving.broker.logs.abandon()
    moving.broker.disk.unlock(f"{home}/.lock")
    moving.broker.disk.unlock(f"{other}/.lock")
    again = Broker(*moving.places)
    again.run()
    lead(again, epoch=1)
    skip(again, 5.0)
    moving.broker = again
    assert moving.home == other and moving.append() == 2_000
    assert moving.names("-future") == []
    again.end()


def test_a_failed_copy_takes_its_directory_offline_and_not_the_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = Log.append_as_follower

    def fails(log: Log, batches: memoryview, now_ms: int) -> None:
        if log.folder.endswith("-future"):
            raise OSError(NO_SPACE, "No space left on device")
        append(log, batches, now_ms)

    monkeypatch.setattr(Log, "append_as_follower", fails)
    moving = Moving(tmp_path)
    home, other = moving.home, moving.other
    assert moving.move(other) == NONE
    skip(moving.broker, 1.0)
    reported = moving.broker.ask(DescribeLogDirsRequest(1, None)).results
    assert {each.log_dir: each.error_code for each in reported} == {str(home): NONE, str(other): KAFKA_STORAGE_ERROR}
    assert (moving.home, moving.append()) == (home, 3)
    moving.broker.end()


@pytest.mark.parametrize(
    ("directory", "partition", "code"),
    [
        ("/nope", T0, LOG_DIR_NOT_FOUND),
        ("rel", T0, LOG_DIR_NOT_FOUND),
        ("home", T0, NONE),
        ("other", TopicPartition("v", 0), REPLICA_NOT_AVAILABLE),
        ("other", TopicPartition("t", 7), UNKNOWN_TOPIC_OR_PARTITION),
        ("other", TopicPartition("u", -1), UNKNOWN_TOPIC_OR_PARTITION),
        ("other", TopicPartition("u" * 249, 0), INVALID_TOPIC),
    ],
)
def test_each_impossible_move_returns_its_error_code(
    tmp_path: Path, directory: str, partition: TopicPartition, code: int
) -> None:
    moving = Moving(tmp_path, 1)
    moving.broker.update(known("v", leader=1), live=(alive(0), alive(1, 1)))
    assert moving.move(getattr(moving, directory, directory), partition) == code
    moving.broker.end()


def test_of_two_directories_for_a_replica_the_last_one_counts(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 1)
    home, other = moving.home, moving.other
    request = AlterReplicaLogDirsRequest(2, (ReplicaLogDir(str(other), (T0,)), ReplicaLogDir(str(home), (T0,))))
    [result] = moving.broker.ask(request).partitions
    skip(moving.broker, 1.0)
    assert (result.error_code, moving.home) == (NONE, home)
    moving.broker.end()


def test_a_log_is_created_in_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    moving = Moving(tmp_path, 1)
    partition = TopicPartition("u", 0)
    assert moving.move(moving.home, partition) == UNKNOWN_TOPIC_OR_PARTITION
    moving.broker.lead(order("u"))
    assert (moving.home / "u-0").is_dir()
    moving.broker.end()


@pytest.mark.parametrize("steps", range(1, 40))
def test_a_new_leader_epoch_meets_a_move_at_each_of_its_steps(tmp_path: Path, steps: int) -> None:
    """A move that was completed while the leader epoch was applied is not begun again in the log's own directory."""
    moving = Moving(tmp_path)
    broker, home, other = moving.broker, moving.home, moving.other
    broker.post(AlterReplicaLogDirsRequest(2, (ReplicaLogDir(str(other), (T0,)),)))
    broker.base.run(steps)
    broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (order("t", epoch=1),), ()))
    broker.run()
    skip(broker, 1.0)
    assert (moving.home, moving.described()) == (other, {home.name: [], other.name: [(False, 0)]})
    broker.end()
