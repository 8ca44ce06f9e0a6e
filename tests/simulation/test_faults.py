"""Faults that reach rare states: slow processes, lost responses of ZooKeeper, a raised controller epoch."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from actors.core.broker.partition import Partition
from actors.simulation.disk import Disks
from actors.simulation.run import run
from actors.simulation.schedule import parse
from actors.storage.log_directories import CLEAN_MARKER
from messages.wire.record_batch import batch_of


def reached(text: str) -> Mapping[str, int]:
    """Run a schedule on three brokers; return its coverage counts, and fail if it violates an invariant."""
    outcome = run(parse(f"brokers 3\n{text}"), covered=True)
    assert outcome.violation is None, outcome.violation
    return outcome.reached


def test_a_slow_coordinator_loads_for_some_time() -> None:
    swamped = "\n".join(f"8 swamp {node} for 20" for node in range(3))
    found = reached(f"seed 4\nduration 28\n5 join g0 0\n5 join g1 1\n{swamped}")
    loading = {name for name in found if name.endswith(" COORDINATOR_LOAD_IN_PROGRESS")}
    assert len(loading) > 3, loading


def test_messages_of_a_starved_process_take_time() -> None:
    elections = "2 create a 0,1,2\n6 kill 0 for 5"
    assert reached(f"duration 14\n{elections}\n4 starve 1 0.01 for 6\n4 starve 2 0.01 for 6") != reached(
        f"duration 14\n{elections}"
    )


def test_writes_count_although_their_responses_are_lost() -> None:
    lost = "\n".join(f"3 lose-responses {node} for 14" for node in range(3))
    found = reached(
        f"seed 1\nduration 20\n{lost}\n4 create a 0,1,2 1,2,0\n5 create b 0,1,2 1,2,0\n6 create c 2,1,0\n"
        "8 elect a 0\n9 kill 0 for 5\n9 kill 1 for 2\n12 elect a 0\n13 elect b 0"
    )
    assert found["T7 a created state counts although its response was lost"]
    assert found["a written state counts although its response was lost"]


def test_a_fenced_controller_is_replaced() -> None:
    found = reached("duration 20\n2 create a 0,1,2\n4 fence\n6 kill 0 for 4")
    assert found["controller ControllerChange"] > 3


def test_topics_stay_where_deletion_is_disabled() -> None:
    found = reached(
        "duration 20\nset delete_topic_enable 0\n2 create a 0,1\n4 delete a\n6 ask-delete a\n8 move-controller\n"
        "12 send-admin DeleteTopics:version=2 a 0 g0"
    )
    assert found["DeleteTopics TOPIC_DELETION_DISABLED"] and found["DeleteTopics INVALID_REQUEST"]


def test_a_node_responds_about_the_logs_of_a_broken_disk() -> None:
    """The handler of DescribeProducers reads the producers from memory, so a broken disk does not make it fail."""
    found = reached("duration 18\n2 create a 0,1,2 1,2,0 2,0,1\n10 break 1 0 for 8\n10 break 1 1 for 5")
    assert found["DescribeProducers NONE"]
    found = reached("seed 1\nduration 14\n2 create a 0,1,2 1,2,0\n2 create b 0,1,2 1,2,0 2,0,1\n8 break 1 0 for 5")
    assert found["DescribeLogDirs KAFKA_STORAGE_ERROR"] and found["DescribeProducers KAFKA_STORAGE_ERROR"]


FLIPS = (
    "seed 5\nrecords yes\nduration 45\n2 create a 0,1 1,0 0,1\n2 create b 0,1,2 1,2,0\n20 flip 0 for 6\n"
    "20 kill 1 for 6\n20 kill 2 for 9\n34 flip-after-stop 1 for 6"
)


def test_a_flipped_bit_costs_no_committed_record_while_another_replica_has_it() -> None:
    found = reached(FLIPS)
    assert found["a replica without committed records refuses to lead"]
    assert found["flip of a follower"] and found["flip-after-stop of a follower"]


CLEANED = "cleanup.policy=compact;segment.ms=500;min.cleanable.dirty.ratio=0.01;delete.retention.ms=100"


def test_logs_are_cleaned_expire_and_move_under_faults() -> None:
    bursts = "\n".join(f"{at} burst a 0 20 300" for at in (6, 8, 10, 12))
    buries = "\n".join(f"{at} bury a 0" for at in (7, 9, 11))
    found = reached(
        f"records yes\nduration 24\nset log_cleaner_backoff_ms 500\nset log_retention_check_interval_ms 2000\n"
        f"set log_initial_task_delay_ms 1000\n2 create a 0,1,2\n2 create b 0,1,2\n4 compact a {CLEANED}\n"
        f"4 retain b segment.ms=500;retention.ms=3000\n{bursts}\n{buries}\n7 burst b 0 20 300\n"
        "8.1 move-log a 0 1 0\n8.1 move-log a 0 1 1\n9 throttle-moves 100\n9.5 kill 2 for 3\n13 move-log b 0 0 0\n"
        "13 move-log b 0 0 1\n13.1 move-log a 0 0 0\n13.1 move-log a 0 0 1\n14 kill 0 for 2"
    )
    for name in ("a log is cleaned", "a copy replaces its log", "a copy waits because of its rate"):
        assert found[name], name
    assert found["AlterReplicaLogDirs NONE"]


def test_a_damaged_replica_that_leads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Partition, "_verdict_on_loss", lambda partition, role, order: partition.log.accept_loss() or 0)
    outcome = run(parse(f"brokers 3\n{FLIPS}"))
    assert outcome.violation is not None
    assert outcome.violation.invariant == "damaged replicas do not lead"


def test_unreadable_bytes_behind_a_logs_end_are_no_records_of_it(tmp_path: Path) -> None:
    """Regression: seed 855 with flips. They stay in the file until the next write."""
    disks = Disks(tmp_path, 1, lambda: 0, lambda seconds: None)
    batch = bytes(batch_of([(b"key", b"value")], 1).body.data)
    unreadable = bytearray(batch)
    unreadable[8] ^= 1
    log = tmp_path / "data-0" / "t-0" / f"{0:020}.log"
    log.parent.mkdir(parents=True)
    for before, end in ((b"", 0), (batch, 1)):
        log.write_bytes(before + unreadable)
        assert disks.records_of("t-0", 0, end) == before
        assert disks.records_of("t-0", 0) == before + unreadable


def test_a_power_failure_loses_nothing_of_a_directory_that_was_closed_cleanly(tmp_path: Path) -> None:
    """Regression (seed 501014): a broker could not open a directory on a full disk, and the power failed."""
    disks = Disks(tmp_path, 2, lambda: 0, lambda seconds: None)
    logs = [Path(disks.path(f"{name}/t-0/{0:020}.log")) for name in disks.names]
    for log in logs:
        log.parent.mkdir(parents=True)
        log.write_bytes(bytes(1000))
    Path(disks.path(f"{disks.names[0]}/{CLEAN_MARKER}")).touch()
    disks.tear(random.Random(1))
    whole, torn = (log.stat().st_size for log in logs)
    assert whole == 1000 > torn
