"""A whole broker under a controller's requests, on virtual time and a real directory: rows of broker.md 9.1 and 9.2."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from messages.apis.describe_log_dirs import DescribableLogDirTopic, DescribedLog, DescribeLogDirsRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaResponse
from messages.broker import PartitionsDeleted
from messages.cluster import LEADER_DURING_DELETE, TopicPartition
from messages.errors import (
    FENCED_LEADER_EPOCH,
    INVALID_TOPIC,
    KAFKA_STORAGE_ERROR,
    NONE,
    STALE_BROKER_EPOCH,
    STALE_CONTROLLER_EPOCH,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.network import Transmit
from messages.node import ReplicaManagerFailed, ReplicaManagerStarted, ShuttingDown
from messages.zookeeper import NotifyLogDirFailure
from tests.broker.harness import (
    CONTROLLER,
    DELAY_MS,
    IO_ERROR,
    MAX_EPOCH,
    NO_SPACE,
    Broker,
    FaultyDisk,
    FaultyLogs,
    alive,
    codes,
    known,
    order,
)

HEX = "0" * 31 + "1"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data: Path) -> Broker:
    made = Broker(data)
    yield made
    made.end()


def logs(data: Path) -> list[str]:
    return sorted(path.name for path in data.iterdir() if path.is_dir())


# ---------------------------------------------------------------------------------------------------- 9.1 roles


def test_row_1_a_fresh_broker_leads(broker: Broker, data: Path) -> None:
    assert codes(broker.lead(order("t", epoch=0, is_new=True))) == {"t-0": NONE}
    assert logs(data) == ["t-0"]
    assert (broker.gauges["leadercount"], broker.gauges["partitioncount"]) == (1, 1)


def test_rows_2_and_21_an_older_controller_is_refused_whole(broker: Broker, data: Path) -> None:
    broker.update(epoch=5)
    refused = broker.lead(order("t"), order("t", 1), epoch=4)
    assert refused.error_code == STALE_CONTROLLER_EPOCH
    assert {error.error_code for error in refused.partition_errors} == {STALE_CONTROLLER_EPOCH}
    assert len(refused.partition_errors) == 2
    assert broker.stop(("t", 0, 0, True), epoch=4) == StopReplicaResponse(STALE_CONTROLLER_EPOCH)
    assert broker.update(known("t"), epoch=4).error_code == STALE_CONTROLLER_EPOCH
    assert logs(data) == []
    assert broker.metadata("t").topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_row_3_a_known_leader_epoch_is_stale(broker: Broker) -> None:
    broker.update(live=(alive(9),))
    broker.lead(order("t", epoch=3, replicas=(0, 9)))
    for epoch in (2, 3):
        assert codes(broker.lead(order("t", leader=9, epoch=epoch))) == {"t-0": STALE_CONTROLLER_EPOCH}
        assert broker.gauges["leadercount"] == 1
    assert codes(broker.lead(order("t", leader=9, epoch=4))) == {"t-0": NONE}
    assert broker.gauges["leadercount"] == 0


def test_row_4_a_partition_without_a_local_replica_is_unknown(broker: Broker, data: Path) -> None:
    answer = broker.lead(order("t", leader=9, epoch=1, replicas=(8, 9)), order("u", epoch=1))
    assert codes(answer) == {"t-0": UNKNOWN_TOPIC_OR_PARTITION, "u-0": NONE}
    assert logs(data) == ["u-0"]
    assert codes(broker.lead(order("t", epoch=1))) == {"t-0": NONE}


def test_rows_5_and_22_an_offline_partition_stays_offline_and_others_continue(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.lead(*(order("t", number, is_new=True) for number in range(4)))
    assert logs(tmp_path / "a") == ["t-0", "t-2"]
    broker.disk.faults[str(tmp_path / "a")] = IO_ERROR
    assert codes(broker.stop(("t", 0, 0, True))) == {"t-0": KAFKA_STORAGE_ERROR}
    answer = broker.lead(*(order("t", number, epoch=1) for number in range(4)))
    assert codes(answer) == {"t-0": 56, "t-1": 0, "t-2": 56, "t-3": 0}
    assert codes(broker.stop(("t", 0, 1, False), ("t", 1, 1, False))) == {"t-0": 56, "t-1": 0}
    assert (broker.gauges["offlinereplicacount"], broker.gauges["leadercount"]) == (2, 2)
    broker.end()


@pytest.mark.parametrize(("epoch", "code"), [(9, STALE_BROKER_EPOCH), (10, NONE), (11, NONE), (-1, NONE)])
def test_row_6_the_broker_epoch_fences(broker: Broker, data: Path, epoch: int, code: int) -> None:
    broker.register(10)
    assert broker.lead(order("t"), broker_epoch=epoch).error_code == code
    assert logs(data) == ([] if code else ["t-0"])
    assert broker.update(known("t"), broker_epoch=epoch).error_code == code
    assert broker.stop(("t", 0, 0, True), broker_epoch=epoch).error_code == code


def test_a_stale_registration_does_not_teach_a_controller_epoch(broker: Broker) -> None:
    broker.register(10)
    assert broker.lead(order("t"), epoch=9, broker_epoch=1).error_code == STALE_BROKER_EPOCH
    assert broker.lead(order("t"), epoch=1).error_code == NONE


def test_an_epoch_without_election_is_ignored(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    broker.elected = 5
    assert broker.lead(order("t"), epoch=5).error_code == NONE
    assert broker.update(epoch=MAX_EPOCH).error_code == NONE, "accepted until it would refuse a request"
    assert broker.lead(order("t", epoch=1), epoch=5).error_code == NONE
    assert f"Ignoring controller epoch {MAX_EPOCH}, because /controller_epoch in ZooKeeper is 5" in caplog.text
    assert broker.lead(order("t", epoch=2), epoch=4).error_code == STALE_CONTROLLER_EPOCH
    assert broker.stop(("t", 0, 2, True), epoch=6).error_code == NONE


def test_while_zookeeper_is_away_every_epoch_is_believed(broker: Broker) -> None:
    broker.elected = None
    assert broker.update(epoch=MAX_EPOCH).error_code == NONE
    assert broker.lead(order("t"), epoch=5).error_code == STALE_CONTROLLER_EPOCH
    broker.elected = 5
    assert broker.lead(order("t"), epoch=5).error_code == NONE


def test_row_12_a_leader_announced_again_stays_leader(broker: Broker) -> None:
    for epoch in (1, 2, 3):
        assert codes(broker.lead(order("t", epoch=epoch))) == {"t-0": NONE}
    assert broker.gauges["leadercount"] == 1


def test_row_17_a_follower_waits_until_its_leader_is_alive(broker: Broker, data: Path) -> None:
    followed = order("t", leader=9, epoch=1)
    assert codes(broker.lead(followed)) == {"t-0": NONE}
    assert logs(data) == ["t-0"]
    assert codes(broker.lead(followed)) == {"t-0": NONE}, "the epoch was not taken over"
    broker.update(live=(alive(9),))
    assert codes(broker.lead(followed)) == {"t-0": NONE}
    assert codes(broker.lead(followed)) == {"t-0": STALE_CONTROLLER_EPOCH}


@pytest.mark.parametrize("shutting_down", [False, True])
def test_row_18_a_broker_in_shutdown_starts_no_fetchers(broker: Broker, shutting_down: bool) -> None:
    """Otherwise the new leader would add the broker to the ISR again just before the broker stops."""
    broker.update(live=(alive(0), alive(9)))
    assert codes(broker.lead(order("t"))) == {"t-0": NONE}
    if shutting_down:
        broker.base.inject(broker.manager, ShuttingDown())
    assert codes(broker.lead(order("t", leader=9, epoch=1))) == {"t-0": NONE}
    assert bool([sent for sent in broker.transmitted if isinstance(sent, Transmit)]) is not shutting_down


def test_an_order_of_an_older_znode_version_makes_no_log(broker: Broker, data: Path) -> None:
    broker.update(live=(alive(9),))
    assert codes(broker.lead(order("t", zk_version=-1), order("u", leader=9, zk_version=-1))) == {"t-0": 0, "u-0": 0}
    assert (logs(data), broker.gauges["leadercount"]) == ([], 0)
    assert codes(broker.lead(order("t", epoch=0), order("v", leader=7, zk_version=-1))) == {"t-0": 0, "v-0": 0}
    assert logs(data) == ["t-0", "v-0"], "whose leader is not alive gets its log anyway"


def test_row_20_a_log_that_may_be_in_a_lost_directory_is_not_created_again(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b", start=False)
    broker.disk.faults[str(tmp_path / "b")] = IO_ERROR
    broker.start()
    broker.run()
    assert broker.started == [ReplicaManagerStarted((str(tmp_path / "b"),))]
    answer = broker.lead(order("t", is_new=False), order("u", is_new=True))
    assert codes(answer) == {"t-0": KAFKA_STORAGE_ERROR, "u-0": NONE}
    assert logs(tmp_path / "a") == ["u-0"]
    broker.end()


@pytest.mark.parametrize("error", [IO_ERROR, NO_SPACE])
def test_a_failing_disk_fails_its_partition_and_then_its_directory(tmp_path: Path, error: int) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.lead(order("t", 0, is_new=True), order("t", 1, is_new=True))
    broker.disk.faults[str(tmp_path / "a" / "t-2")] = error
    assert codes(broker.lead(order("t", 2), order("t", 3))) == {"t-2": 0, "t-3": 0}
    assert logs(tmp_path / "b") == ["t-1", "t-2", "t-3"], "what could not be made in one is made in the other"
    assert codes(broker.lead(*(order("t", n, epoch=1) for n in range(4)))) == {"t-0": 56, "t-1": 0, "t-2": 0, "t-3": 0}
    assert codes(broker.lead(order("t", 4))) == {"t-4": 56}, "it may have its log on the lost one"
    assert broker.gauges["offlinereplicacount"] == 2
    assert broker.questions == [NotifyLogDirFailure(0)], "the controller is notified once"
    broker.end()


def test_no_directory_is_left_for_a_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.disk.faults[str(tmp_path)] = IO_ERROR
    assert codes(broker.lead(*(order("t", n, is_new=True) for n in range(5)))) == {f"t-{n}": 56 for n in range(5)}
    assert broker.gauges["offlinereplicacount"] == 5
    assert [type(message) for message in broker.started] == [ReplicaManagerStarted, ReplicaManagerFailed]
    broker.end()


def test_the_node_ends_with_its_last_log_directory(broker: Broker, data: Path) -> None:
    broker.lead(order("t"))
    broker.disk.faults[str(data)] = IO_ERROR
    assert codes(broker.lead(order("u", is_new=True))) == {"u-0": KAFKA_STORAGE_ERROR}
    assert codes(broker.lead(order("v", is_new=True))) == {"v-0": KAFKA_STORAGE_ERROR}
    assert broker.started[1:] == [ReplicaManagerFailed(f"all log directories have failed: {data}")]


def test_leaders_are_made_before_followers(broker: Broker) -> None:
    broker.update(live=(alive(9),))
    answer = broker.lead(order("t", leader=9), order("u"), order("v", leader=9), order("w"))
    assert list(codes(answer)) == ["u-0", "w-0", "t-0", "v-0"]


@pytest.mark.parametrize(
    ("topic", "number"), [("../out", 0), ("a/b", 0), ("", 0), ("a\0b", 0), ("t", -1), ("x" * 249, 1_000_000)]
)
def test_a_partition_that_can_have_no_log_is_refused_alone(broker: Broker, data: Path, topic: str, number: int) -> None:
    answer = broker.lead(order(topic, number, is_new=True), order("t"))
    assert [error.error_code for error in answer.partition_errors] == [INVALID_TOPIC, NONE]
    assert [error.error_code for error in broker.stop((topic, number, -2, True)).partition_errors] == [NONE]
    assert logs(data) == ["t-0"]
    assert sorted(path.name for path in data.parent.iterdir()) == ["data"]


def test_under_replicated_partitions_are_counted(broker: Broker) -> None:
    broker.lead(order("t", isr=(0,), replicas=(0, 1)), order("u", isr=(0, 1), replicas=(0, 1)))
    assert broker.gauges["underreplicatedpartitions"] == 1
    broker.lead(order("t", epoch=1, isr=(0, 1), replicas=(0, 1)))
    assert broker.gauges["underreplicatedpartitions"] == 0


# ---------------------------------------------------------------------------------------------------- 9.2 StopReplica


def test_row_23_a_stop_of_a_stranger_leaves_its_log(data: Path) -> None:
    (data / "t-0").mkdir(parents=True)
    broker = Broker(data)
    assert codes(broker.stop(("t", 0, 1, False))) == {"t-0": NONE}
    assert logs(data) == ["t-0"]
    broker.end()


def test_row_24_a_deletion_removes_the_log_of_an_unhosted_partition(data: Path) -> None:
    (data / "t-0").mkdir(parents=True)
    broker = Broker(data)
    assert codes(broker.stop(("t", 0, 1, True), ("never", 0, 1, True))) == {"t-0": NONE, "never-0": NONE}
    assert logs(data) == [f"t-0.{HEX}-delete"]
    broker.end()


def test_a_deletion_takes_the_log_of_a_partition_that_refused_its_role(data: Path) -> None:
    (data / "t-0").mkdir(parents=True)
    broker = Broker(data)
    assert codes(broker.lead(order("t", leader=9, replicas=(9,)))) == {"t-0": UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(broker.stop(("t", 0, -2, True))) == {"t-0": NONE}
    assert logs(data) == [f"t-0.{HEX}-delete"]
    broker.end()


def test_rows_25_and_27_a_deletion_on_a_broken_disk(tmp_path: Path) -> None:
    (tmp_path / "a" / "stray-0").mkdir(parents=True)
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.lead(order("t", is_new=True), order("u", is_new=True))
    broker.disk.faults[str(tmp_path / "a")] = IO_ERROR
    assert codes(broker.stop(("stray", 0, 1, True))) == {"stray-0": KAFKA_STORAGE_ERROR}
    assert codes(broker.stop(("stray", 0, 1, True))) == {"stray-0": NONE}, "the log is gone from the manager"
    answers = codes(broker.stop(("t", 0, 1, True), ("u", 0, 1, True)))
    assert sorted(answers.values()) == [NONE, KAFKA_STORAGE_ERROR]
    broker.end()


@pytest.mark.parametrize("delete", [False, True])
@pytest.mark.parametrize(("epoch", "code"), [(2, 0), (1, 0), (0, FENCED_LEADER_EPOCH), (-2, 0), (-1, 0)])
def test_row_26_the_leader_epoch_of_a_stop(broker: Broker, data: Path, epoch: int, code: int, delete: bool) -> None:
    broker.lead(order("t", epoch=1))
    assert codes(broker.stop(("t", 0, epoch, delete))) == {"t-0": code}
    gone = delete and not code
    assert logs(data) == ([f"t-0.{HEX}-delete"] if gone else ["t-0"])
    assert broker.gauges["partitioncount"] == (0 if gone else 1)


def test_row_29_the_name_is_free_at_once_and_the_files_go_after_the_delay(broker: Broker, data: Path) -> None:
    broker.lead(order("t"))
    (data / "t-0" / "00000000000000000000.log").write_bytes(b"records")
    broker.stop(("t", 0, -2, True))
    assert codes(broker.lead(order("t", epoch=0, is_new=True))) == {"t-0": NONE}
    assert logs(data) == ["t-0", f"t-0.{HEX}-delete"]
    broker.base.simulate(DELAY_MS / 1000 - 1)
    assert logs(data) == ["t-0", f"t-0.{HEX}-delete"]
    broker.base.simulate(DELAY_MS / 1000 + 1)
    assert logs(data) == ["t-0"]


def test_a_log_removed_by_hand_is_deleted_without_error(broker: Broker, data: Path) -> None:
    """Apache's broker takes the whole log directory offline instead, and stops if it was the last one."""
    broker.lead(order("t"), order("t", 1), order("u"))
    (data / "t-0").rmdir()
    assert codes(broker.stop(("t", 0, 0, True), ("t", 1, 0, True))) == {"t-0": NONE, "t-1": NONE}
    assert logs(data) == [f"t-1.{2:032x}-delete", "u-0"]
    assert [message for message in broker.started if isinstance(message, ReplicaManagerFailed)] == []
    assert codes(broker.lead(order("t", epoch=1))) == {"t-0": NONE}
    assert (data / "t-0").is_dir()


def test_an_unhosted_log_removed_by_hand_is_deleted_without_error(broker: Broker, data: Path) -> None:
    (data / "s-0").mkdir(parents=True)
    broker.run()
    (data / "s-0").rmdir()
    assert codes(broker.stop(("s", 0, 0, True))) == {"s-0": NONE}
    assert logs(data) == []


def test_a_removed_log_directory_has_failed_when_a_log_in_it_is_deleted(broker: Broker, data: Path) -> None:
    broker.lead(order("t"))
    shutil.rmtree(data)
    assert codes(broker.stop(("t", 0, 0, True))) == {"t-0": KAFKA_STORAGE_ERROR}
    assert isinstance(broker.started[-1], ReplicaManagerFailed)


class Sabotage(FaultyDisk):
    """Disk whose driver has a bug: it raises an error that is not an OSError."""

    def check(self, path: str) -> None:
        if path.endswith("/bad-0"):
            raise ZeroDivisionError
        super().check(path)

    def rename(self, path: str, target: str) -> bool:
        if path.endswith("/worse-0"):
            raise ZeroDivisionError
        return super().rename(path, target)


def test_a_partition_that_raises_costs_its_own_code_and_no_time(broker: Broker, data: Path) -> None:
    sabotage = Sabotage()
    broker.base.ports |= {"disk": sabotage, "logs": FaultyLogs(sabotage)}
    began = broker.clock.now()
    answer = broker.lead(order("a"), order("bad"), order("worse"), order("z"))
    assert codes(answer) == {"a-0": NONE, "bad-0": UNKNOWN_SERVER_ERROR, "worse-0": NONE, "z-0": NONE}
    answer = broker.stop(("a", 0, 0, True), ("worse", 0, 0, True))
    assert codes(answer) == {"a-0": NONE, "worse-0": UNKNOWN_SERVER_ERROR}
    assert broker.clock.now() == began
    broker.base.ports |= {"disk": broker.disk, "logs": FaultyLogs(broker.disk)}
    assert codes(broker.lead(order("bad", epoch=1))) == {"bad-0": NONE}
    assert "bad-0" in logs(data)


def test_row_29_a_long_name_is_cut(broker: Broker, data: Path) -> None:
    topic = "x" * 249
    broker.lead(order(topic))
    broker.stop((topic, 0, -2, True))
    (name,) = logs(data)
    assert len(name) == 255
    assert name.endswith(f"-0.{HEX}-delete")


def test_row_30_what_a_stop_left_renamed_is_removed_after_the_delay(data: Path) -> None:
    (data / f"t-0.{HEX}-delete" / "deep").mkdir(parents=True)
    broker = Broker(data)
    broker.run()
    assert logs(data) == [f"t-0.{HEX}-delete"]
    broker.base.simulate(DELAY_MS / 1000)
    assert logs(data) == []
    broker.end()


def test_many_deletions_are_removed_in_turns_each_in_its_time(broker: Broker, data: Path) -> None:
    broker.lead(*(order("t", number) for number in range(250)))
    broker.stop(*(("t", number, -2, True) for number in range(249)))
    broker.base.simulate(30)
    broker.stop(("t", 249, -2, True))
    broker.base.simulate(61)
    assert len(logs(data)) == 1
    broker.base.simulate(91)
    assert logs(data) == []


# ---------------------------------------------------------------------------------------------------- the mailbox


def test_requests_before_the_start_wait_and_keep_their_order(data: Path) -> None:
    broker = Broker(data, start=False)
    first = broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (order("t"),), ()))
    second = broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (order("t"),), ()))
    broker.run()
    assert broker.answers == []
    broker.start()
    broker.run()
    assert [(answer.correlation_id, codes(answer.response)) for answer in broker.answers] == [
        (first, {"t-0": NONE}),
        (second, {"t-0": STALE_CONTROLLER_EPOCH}),
    ]
    broker.end()


def test_a_foreign_directory_refuses_the_start(data: Path) -> None:
    data.mkdir()
    (data / "meta.properties").write_text("version=0\nbroker.id=7\n")
    broker = Broker(data)
    broker.run()
    (started,) = broker.started
    assert "broker.id=7" in started.refused
    broker.end()


def test_no_usable_directory_refuses_the_start(data: Path) -> None:
    broker = Broker(data, start=False)
    broker.disk.faults[str(data)] = IO_ERROR
    broker.start()
    broker.run()
    (started,) = broker.started
    assert str(data) in started.refused
    broker.end()


def test_the_first_request_after_a_restart_finds_the_logs(data: Path) -> None:
    broker = Broker(data)
    broker.lead(order("t"), order("t", 1))
    broker.end()
    again = Broker(data)
    assert codes(again.lead(order("t", epoch=0), order("t", 1, epoch=0))) == {"t-0": NONE, "t-1": NONE}
    assert logs(data) == ["t-0", "t-1"]
    again.end()


steps = st.one_of(
    st.tuples(
        st.just("lead"),
        st.lists(
            st.builds(
                order,
                st.sampled_from("tu"),
                st.integers(0, 1),
                leader=st.sampled_from([0, 9, -1]),
                epoch=st.integers(0, 5),
                is_new=st.booleans(),
            ),
            max_size=4,
        ),
    ),
    st.tuples(
        st.just("stop"),
        st.lists(
            st.tuples(st.sampled_from("tu"), st.integers(0, 1), st.integers(-2, 5), st.booleans()),
            max_size=3,
            unique_by=lambda stop: stop[:2],
        ),
    ),
    st.tuples(st.just("fault"), st.sampled_from("ab")),
    st.tuples(st.just("live"), st.sets(st.sampled_from([0, 9]))),
)


@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=12))
def test_every_request_is_answered_for_each_partition_and_the_books_agree(
    tmp_path_factory: pytest.TempPathFactory, script: list
) -> None:
    root = tmp_path_factory.mktemp("fuzz")
    broker = Broker(root / "a", root / "b")
    broker.run()
    for what, how in script:
        if what == "fault":
            broker.disk.faults[str(root / how)] = IO_ERROR
        elif what == "live":
            broker.update(live=tuple(alive(id) for id in how))
        else:
            answer = getattr(broker, what)(*how)
            asked = sorted({str(one.partition if what == "lead" else TopicPartition(*one[:2])) for one in how})
            assert sorted(str(error.partition) for error in answer.partition_errors) == asked
            assert {error.error_code for error in answer.partition_errors} <= {0, 3, 11, 56, 74}
    gauges = broker.gauges
    assert 0 <= gauges["leadercount"] <= gauges["partitioncount"] - gauges["offlinereplicacount"]
    assert gauges["underreplicatedpartitions"] <= gauges["leadercount"]
    broker.end()


int32 = st.integers(-(2**31), 2**31 - 1)
topics = st.one_of(st.sampled_from(["t", "..", ".", "../x", "a/b", "", "x" * 250]), st.text(max_size=300))
wild_orders = st.builds(
    order, topics, int32, leader=st.one_of(st.just(0), int32), epoch=int32, zk_version=int32, is_new=st.booleans()
)
wild_stops = st.tuples(topics, int32, int32, st.booleans())


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.lists(st.one_of(st.lists(wild_orders, max_size=4), st.lists(wild_stops, max_size=4)), max_size=4))
def test_every_controller_request_is_answered_and_stays_in_the_log_directory(
    tmp_path_factory: pytest.TempPathFactory, script: list
) -> None:
    root = tmp_path_factory.mktemp("wild")
    broker = Broker(root / "data")
    broker.update()
    for request in script:
        stops = bool(request) and isinstance(request[0], tuple)
        answer = broker.stop(*request) if stops else broker.lead(*request)
        assert answer.error_code == NONE
        assert broker.metadata(*(one[0] for one in request if stops)).controller_id == CONTROLLER
    assert broker.lead(order("sane", epoch=1)).partition_errors[0].error_code == NONE
    assert [path.name for path in root.iterdir()] == ["data"]
    broker.end()
    again = Broker(root / "data")
    again.run()
    assert again.started == [ReplicaManagerStarted()], "what it left behind can be loaded"
    again.end()


# ---------------------------------------------------------------------------------------- the coordinator (1.6, 3.9)


def coordinated(broker: Broker) -> tuple[list[tuple[str, int]], list[str]]:
    """Return and clear what the coordinator received:

    partitions led with their epochs, and partitions no longer led.
    """
    reported, broker.coordinated[:] = list(broker.coordinated), []
    led = [(str(each.partition), each.leader_epoch) for news in reported for each in news.led]
    return led, [str(each) for news in reported for each in news.lost]


def test_row_19_the_coordinator_is_notified_of_led_internal_partitions(broker: Broker) -> None:
    broker.update(live=(alive(0), alive(1)))
    offsets, offsets_1 = "__consumer_offsets-0", "__consumer_offsets-1"
    broker.lead(order("__consumer_offsets", epoch=3), order("__consumer_offsets", 1, leader=1), order("t"))
    assert coordinated(broker) == ([(offsets, 3)], [offsets_1])
    broker.lead(order("__consumer_offsets", epoch=4, zk_version=1))  # still leader in a newer epoch: not reported again
    assert coordinated(broker) == ([], [])
    broker.lead(order("__consumer_offsets", leader=1, epoch=5, zk_version=2), order("t", epoch=1, zk_version=1))
    assert coordinated(broker) == ([], [offsets])
    broker.lead(order("__consumer_offsets", epoch=6, zk_version=3))
    assert coordinated(broker) == ([(offsets, 6)], [])
    broker.stop(("__consumer_offsets", 0, 6, False))
    assert coordinated(broker) == ([], [])
    broker.stop(("__consumer_offsets", 0, -2, True), ("t", 0, -2, True))
    assert coordinated(broker) == ([], [offsets])


def test_the_coordinator_is_notified_of_failed_disks_and_deleted_topics(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "a", tmp_path / "b")
    broker.run()
    broker.lead(order("__transaction_state"), order("t"))
    assert coordinated(broker) == ([("__transaction_state-0", 0)], [])
    home = next(each for each in ("a", "b") if (tmp_path / each / "__transaction_state-0").exists())
    broker.disk.faults[str(tmp_path / home)] = IO_ERROR
    broker.stop(("__transaction_state", 0, -2, True))
    assert coordinated(broker) == ([], ["__transaction_state-0"])
    broker.update(known("t"), known("u"))
    broker.update(known("u", leader=LEADER_DURING_DELETE))
    assert broker.coordinated == [PartitionsDeleted((TopicPartition("u", 0),))]
    broker.end()


# ------------------------------------------------------------------------------------------------ DescribeLogDirs


def test_describe_log_dirs_has_places_and_sizes(tmp_path: Path) -> None:
    places = [tmp_path / "a", tmp_path / "b"]
    for name in ("t-0", "u-5", f"t-0.{'f' * 32}-future"):
        (places[0] / name).mkdir(parents=True)
        (places[0] / name / f"{0:020d}.log").write_bytes(bytes(7))
    broker = Broker(*places)
    broker.run()
    broker.lead(order("v"))  # its log is created in b, which has fewer logs

    def reported(*topics: DescribableLogDirTopic) -> list[tuple[int, str, list[tuple[str, DescribedLog]]]]:
        results = broker.ask(DescribeLogDirsRequest(1, topics or None)).results
        return [
            (each.error_code, each.log_dir, [(topic.name, log) for topic in each.topics for log in topic.partitions])
            for each in results
        ]

    in_a = [("t", DescribedLog(0, 7)), ("t", DescribedLog(0, 7, is_future_key=True)), ("u", DescribedLog(5, 7))]
    in_b = [("v", DescribedLog(0, 0, offset_lag=0))]
    assert reported() == [(NONE, str(places[0]), in_a), (NONE, str(places[1]), in_b)]
    assert reported(DescribableLogDirTopic("u", (5, 6))) == [
        (NONE, str(places[0]), in_a[2:]),
        (NONE, str(places[1]), []),
    ]
    broker.stop(("t", 0, -2, True))
    assert not [path for path in places[0].iterdir() if path.name.endswith("-future")], "it is deleted with the log"
    broker.disk.faults[str(places[0])] = IO_ERROR
    broker.stop(("u", 5, -2, True))
    assert reported() == [(KAFKA_STORAGE_ERROR, str(places[0]), []), (NONE, str(places[1]), in_b)]
    broker.end()


def test_ignored_states_are_logged_with_the_reason(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "state.change.logger")
    broker.lead(order("t", epoch=3), order("u", epoch=3))
    caplog.clear()
    broker.lead(order("t", epoch=2), order("u", epoch=3), order("v", replicas=(1, 2)))
    broker.stop(("t", 0, 1, False))
    broker.lead(order("t", epoch=4), epoch=0)
    words = [record.getMessage().partition(" epoch 1 for partition ")[2] for record in caplog.records]
    assert [each for each in words if each] == [
        "t-0 since its associated leader epoch 2 is smaller than the current leader epoch 3",
        "u-0 since its associated leader epoch 3 matches the current leader epoch",
        "v-0 as itself is not in assigned replica list 1,2",
        "t-0 since its associated leader epoch 1 is smaller than the current leader epoch 3",
    ]
    assert caplog.records[-1].getMessage().endswith("controller epoch 0 is old. Latest known controller epoch is 1")
