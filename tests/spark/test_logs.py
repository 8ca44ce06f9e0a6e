# ruff: noqa: E501 (the lines of logs are as long as they are)
"""Facts that a summary reads from log lines of Apache Kafka 2.0 to 3.9. The samples have our own values."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from actors.cli.app import run
from messages.trace.files.errors import NotATrace
from spark.logs import FORMS, lines, read, text_files
from spark.report import page
from spark.results import Summary
from spark.summary import summarise_logs

OLD = """
[2018-07-01 10:00:00,000] INFO starting (kafka.server.KafkaServer)
[2018-07-01 10:00:01,000] INFO [KafkaServer id=7] started (kafka.server.KafkaServer)
[2018-07-01 10:00:02,000] INFO [Controller id=7] 7 successfully elected as the controller (kafka.controller.KafkaController)
[2018-07-01 10:00:03,000] INFO [Controller id=7] Currently active brokers in the cluster: Set(7, 8) (kafka.controller.KafkaController)
[2018-07-01 10:00:04,000] TRACE [Controller id=7 epoch=3] Changed partition a-b-1 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=8, leaderEpoch=0, isr=List(8, 7), zkVersion=0) (state.change.logger)
[2018-07-01 10:00:04,001] TRACE [Controller id=7 epoch=3] Sending become-leader LeaderAndIsr request PartitionState(controllerEpoch=3, leader=8, leaderEpoch=0, isr=8,7, zkVersion=0, replicas=8,7, isNew=true) to broker 8 for partition a-b-1 (state.change.logger)
[2018-07-01 10:00:09,500] INFO [Controller id=7] Newly added brokers: , deleted brokers: 8, all live brokers: 7 (kafka.controller.KafkaController)
[2018-07-01 10:00:09,700] TRACE [Controller id=7 epoch=3] Changed partition a-b-1 from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=7, leaderEpoch=1, isr=List(7), zkVersion=1) (state.change.logger)
[2018-07-01 10:00:09,800] INFO [Partition c-0 broker=7] Shrinking ISR from 7,8 to 7 (kafka.cluster.Partition)
[2018-07-01 10:00:20,000] INFO [Partition c-0 broker=7] Expanding ISR from 7 to 7,8 (kafka.cluster.Partition)
[2018-07-01 10:00:21,000] ERROR [ReplicaManager broker=7] Error while making broker the follower (kafka.server.ReplicaManager)
java.io.IOException: as it happens
	at kafka.server.Nowhere(Nowhere.scala:1)
[2018-07-01 10:00:22,000] INFO [Controller id=7] Starting preferred replica leader election for partitions a-b-1 (kafka.controller.KafkaController)
"""
"""Lines of Kafka 2.0, all in one file."""

SERVER = """
[2024-05-01 23:59:58,000] INFO starting (kafka.server.KafkaServer)
[2024-05-01 23:59:59,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
[2024-05-02 00:00:30,000] INFO [KafkaServer id=1] shut down completed (kafka.server.KafkaServer)
[2024-05-02 00:00:40,000] INFO starting (kafka.server.KafkaServer)
[2024-05-02 00:00:41,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
"""
FIRST_HOUR = """
[2024-05-02 00:00:01,000] INFO [Controller id=1] 1 successfully elected as the controller. Epoch incremented to 4 and epoch zk version is now 4 (kafka.controller.KafkaController)
[2024-05-02 00:00:02,000] INFO [Controller id=1] Currently active brokers in the cluster: Set(1, 2) (kafka.controller.KafkaController)
[2024-05-02 00:00:03,000] INFO [Controller id=1] New topics: [Set(t)], deleted topics: [HashSet()], new partition replica assignment [Set()] (kafka.controller.KafkaController)
[2024-05-02 00:00:10,000] INFO [Controller id=1] Newly added brokers: , deleted brokers: 2, bounced brokers: , all live brokers: 1 (kafka.controller.KafkaController)
[2024-05-02 00:00:20,000] DEBUG [Controller id=1] Delete topics listener fired for topics u,v to be deleted (kafka.controller.KafkaController)
[2024-05-02 00:00:20,001] INFO [Controller id=1] Starting topic deletion for topics u,v (kafka.controller.KafkaController)
[2024-05-02 00:00:22,001] INFO [Topic Deletion Manager 1] Deletion of topic u successfully completed (kafka.controller.TopicDeletionManager)
"""
CHANGES = """
[2024-05-02 00:00:03,500] INFO [Controller id=1 epoch=4] Changed partition t-0 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=0, isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=1, brokerEpoch=25)), leaderRecoveryState=RECOVERED, partitionEpoch=0) (state.change.logger)
[2024-05-02 00:00:03,600] INFO [Controller id=1 epoch=4] Changed partition t-1 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=0, isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=0) (state.change.logger)
[2024-05-02 00:00:12,000] INFO [Controller id=1 epoch=4] Changed partition t-0 from OfflinePartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=1, isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=1) (state.change.logger)
[2024-05-02 00:00:12,100] INFO [Controller id=1 epoch=4] Partition t-1 state changed to (Leader:-1,ISR:2,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:4) after removing replica 2 from the ISR as part of transition to OfflineReplica (state.change.logger)
[2024-05-02 00:00:15,000] TRACE [Controller id=1 epoch=4] Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', partitionIndex=0, controllerEpoch=4, leader=1, leaderEpoch=2, isr=[1], partitionEpoch=2, replicas=[1, 2, 3], addingReplicas=[3], removingReplicas=[2], isNew=false, leaderRecoveryState=0) to broker 3 for partition t-0 (state.change.logger)
[2024-05-02 00:00:19,000] TRACE [Controller id=1 epoch=4] Sending become-follower LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', partitionIndex=0, controllerEpoch=4, leader=1, leaderEpoch=3, isr=[1, 3], partitionEpoch=3, replicas=[1, 3], addingReplicas=[], removingReplicas=[], isNew=false, leaderRecoveryState=0) to broker 3 for partition t-0 (state.change.logger)
"""
"""Lines of Kafka 3.9, as are SERVER and FIRST_HOUR."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the logs of brokers 1 and 2, of Kafka 3.9. One log of broker 1 is rotated and compressed."""
    folder = tmp_path_factory.mktemp("logs")
    for name in ("one", "two"):
        (folder / name).mkdir()
    (folder / "one" / "server.log").write_text(SERVER)
    with gzip.open(folder / "one" / "controller.log.2024-05-02-00.gz", "wt") as file:
        file.write(FIRST_HOUR)
    (folder / "one" / "state-change.log").write_text(CHANGES)
    (folder / "one" / "kafka-request.log").write_text(FIRST_HOUR)
    (folder / "two" / "server.log").write_text(SERVER.replace("id=1]", "id=2]").partition("[2024-05-02 00:00:30")[0])
    return folder


@pytest.fixture(scope="module")
def summary(session: SparkSession, folder: Path) -> Summary:
    asked = ("runs", "episodes", "unavailable", "elections", "leadership", "leader_elections", "events")
    return summarise_logs(folder, session, only=(*asked, "deletions", "reassignments"))


def test_a_log_is_divided_into_the_runs_of_its_broker(summary: Summary) -> None:
    found = [(row.node, row.run, row.lines, row.ending) for row in summary["runs"]]
    assert found == [
        (1, "one since 2024-05-01 23:59:58", 16, "stopped"),
        (1, "one since 2024-05-02 00:00:40", 2, None),
        (2, "two since 2024-05-01 23:59:58", 2, None),
    ]


def test_a_killed_broker_is_gone_when_the_controller_missed_it(summary: Summary) -> None:
    """Broker 2 was killed and logged nothing about it.

    It counts as gone when the controller missed it, at 10 seconds.
    """
    [gone] = summary["episodes"]
    assert (gone.broker, gone.seen_by, gone.after, gone.ending, gone.seen_s) == (2, 1, "BrokerChange", None, 0)
    assert (gone.partitions, gone.still_leaderless, round(gone.led_again_s, 3), gone.was_controller) == (
        2,
        1,
        2.0,
        False,
    )
    assert [
        (row.topic, row.partition, round(row.seconds, 3), row.still_leaderless) for row in summary["unavailable"]
    ] == [("t", 1, 0, True), ("t", 0, 2, False)]
    assert [(row.node, row.epoch) for row in summary["elections"]] == [(1, 4)]
    assert [(row.partition, row.before, row.leader, row.leader_epoch) for row in summary["leadership"]] == [
        (0, None, 2, 0),
        (1, None, 2, 0),
        (0, 2, 1, 1),
        (1, 2, -1, 1),
    ]
    assert [(row.count, row.clean, row.unclean) for row in summary["leader_elections"]] == [(1, 1, 0)]


def test_events_deletions_and_reassignments(summary: Summary) -> None:
    assert [(row.type, row.count) for row in summary["events"]] == [
        ("BrokerChange", 1),
        ("TopicChange", 1),
        ("TopicDeletion", 1),
    ]
    assert [(row.topic, row.seconds and round(row.seconds, 3)) for row in summary["deletions"]] == [
        ("u", 2.0),
        ("v", None),
    ]
    [moved] = summary["reassignments"]
    assert (moved.topic, moved.partition, moved.adding, moved.removing) == ("t", 0, "3", "2")
    assert (round(moved.seconds, 3), moved.epochs) == (4, 2)


def test_lines_of_kafka_2(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "server.log").write_text(OLD)
    rows = read(lines(session, [tmp_path / "server.log"]), tmp_path, "America/New_York").orderBy("n").collect()
    assert {row.node for row in rows} == {7} and rows[0].at == 1530453600, "ten in the morning is 14 o'clock UTC"
    assert [row.type for row in rows][:2] == ["Started", "Serving"]

    def reported(place: int, *columns: str) -> tuple[Any, ...]:
        return tuple(rows[place][column] for column in columns)

    assert reported(2, "request", "epoch") == ("Elected", None)
    assert reported(3, "request", "brokers") == ("Brokers", [7, 8])
    [state] = rows[4].states
    assert state[:6] == ("a-b", 1, 8, 0, 3, [8, 7])
    [state], broker = reported(5, "states", "broker")
    assert state[:6] == ("a-b", 1, 8, 0, 3, [8, 7]) and broker == 8
    assert reported(6, "type", "brokers") == ("BrokerChange", [7])
    assert [(row.type, *row.states[0][:2], row.states[0].isr) for row in rows[8:10]] == [
        ("ChangeIsr", "c", 0, [7]),
        ("ChangeIsr", "c", 0, [7, 8]),
    ]
    assert reported(10, "actor", "type")[0] == "kafka.server.ReplicaManager" and "making broker" in rows[10].error
    assert reported(11, "type") == ("ReplicaLeaderElection",) and len(rows) == 12


REFUSED = """
[2024-05-02 00:00:10,000] INFO starting (kafka.server.KafkaServer)
[2024-05-02 00:00:11,000] ERROR [KafkaServer id=2] Error while creating ephemeral at /brokers/ids/2, node already exists (kafka.zk.KafkaZkClient)
[2024-05-02 00:00:12,000] INFO [KafkaServer id=2] shut down completed (kafka.server.KafkaServer)
"""
ENLARGED = """
[2024-05-02 00:00:14,000] INFO [Partition t-0 broker=1] ISR updated to 1,2  and version updated to 2 (kafka.cluster.Partition)
"""
PREFERRED = """
[2024-05-02 00:00:20,000] INFO [Controller id=1 epoch=4] Changed partition t-0 from OnlinePartition to OnlinePartition with state LeaderAndIsr(leader=2, leaderEpoch=2, isrWithBrokerEpoch=List(BrokerState(brokerId=2, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=3) (state.change.logger)
"""


@pytest.mark.soak
@pytest.mark.long
def test_a_refused_process_and_an_isr_that_its_leader_enlarged(session: SparkSession, tmp_path: Path) -> None:
    """The controller misses broker 2 after five minutes.

    The process that was refused for its id had stopped long before.
    """
    for name in ("one", "two", "twin"):
        (tmp_path / name).mkdir()
    (tmp_path / "one" / "server.log").write_text(SERVER + ENLARGED)
    (tmp_path / "one" / "controller.log").write_text(FIRST_HOUR.replace(" 00:00:10,", " 00:05:00,"))
    (tmp_path / "one" / "state-change.log").write_text(CHANGES.partition("[2024-05-02 00:00:15")[0] + PREFERRED)
    (tmp_path / "two" / "server.log").write_text(SERVER.replace("id=1]", "id=2]").partition("[2024-05-02 00:00:30")[0])
    (tmp_path / "twin" / "server.log").write_text(REFUSED)
    summary = summarise_logs(tmp_path, session, only=("runs", "episodes", "leader_elections"))
    [gone] = summary["episodes"]
    assert (gone.broker, gone.ending, gone.seen_s) == (2, None, 0)
    assert sum(row.clean for row in summary["leader_elections"]) == 2
    assert sum(row.unclean for row in summary["leader_elections"]) == 0


def test_summary_of_logs_refuses_sections_that_need_traces(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["summary", str(folder), "--logs", "--only", "queue"]) == 2
    assert "supports only these sections: runs, episodes" in capsys.readouterr().err
    assert run(["summary", str(folder), "--logs", "--zone", "Nowhere/At_All"]) == 2
    assert "Nowhere/At_All is not a known time zone" in capsys.readouterr().err


TWO_BROKERS = """
[2024-05-02 00:00:00,000] INFO starting (kafka.server.KafkaServer)
[2024-05-02 00:00:00,500] INFO starting (kafka.server.KafkaServer)
[2024-05-02 00:00:01,000] INFO [KafkaServer id=1] started (kafka.server.KafkaServer)
[2024-05-02 00:00:02,000] INFO [Controller id=1] 1 successfully elected as the controller. Epoch incremented to 4 and epoch zk version is now 4 (kafka.controller.KafkaController)
[2024-05-02 00:00:02,100] INFO [Controller id=1] Currently active brokers in the cluster: Set(1, 2) (kafka.controller.KafkaController)
[2024-05-02 00:00:02,500] INFO [KafkaServer id=2] started (kafka.server.KafkaServer)
[2024-05-02 00:00:05,000] ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Error due to a test (kafka.server.ReplicaFetcherThread)
[2024-05-02 00:00:05,000] ERROR [ReplicaFetcher replicaId=2, leaderId=1, fetcherId=0] Error due to a test (kafka.server.ReplicaFetcherThread)
[2024-05-02 00:00:06,000] ERROR Disk error (kafka.log.LogManager)
[2024-05-02 00:00:09,000] INFO [KafkaServer id=1] shut down completed (kafka.server.KafkaServer)
[2024-05-02 00:00:09,500] INFO [Controller id=2] 2 successfully elected as the controller. Epoch incremented to 5 and epoch zk version is now 5 (kafka.controller.KafkaController)
[2024-05-02 00:00:09,600] INFO [Controller id=2] Currently active brokers in the cluster: Set(2) (kafka.controller.KafkaController)
"""
"""Lines of brokers 1 and 2 in one stream."""
OF_1 = (0, 2, 3, 4, 9)
"""The indices of the lines of broker 1."""


def _strimzi(line: str) -> str:
    return re.sub(r"^\[(.*?)\]", r"\1", line) + " [controller-event-thread]"


def _cloudera(line: str) -> str:
    return re.sub(r"^\[(.*?)\] ([A-Z]+) (.*) \((\S+)\)$", r"\1 \2 \4: \3", line)


def _composed(line: str, number: int) -> str:
    return f"kafka_{1 if number in OF_1 else 2}  | {line}"


STREAMS = {
    "one stream": lambda line, number: line,
    "Strimzi": lambda line, number: _strimzi(line),
    "Cloudera": lambda line, number: _cloudera(line),
    "with the time of docker": lambda line, number: f"2024-05-02T00:00:0{number % 10}.123456789Z {line}",
    "line numbers": lambda line, number: line[:-1] + ":66)",
    "two containers": _composed,
    "two pods": lambda line, number: _composed(f"2024-05-02T00:00:09.1Z {_strimzi(line)}\r", number),
}


def test_streams_of_several_brokers(session: SparkSession, tmp_path: Path) -> None:
    """A line without a broker is placed if its container has only one. If not, a run begins with "started"."""
    for stream, form in STREAMS.items():
        (tmp_path / stream).mkdir()
        written = [form(*each) for each in zip(TWO_BROKERS.strip().splitlines(), range(20), strict=False)]
        file = tmp_path / stream / "what [the] cluster+said.txt"
        file.write_text("\n".join(["Attaching to kafka_1, kafka_2", *written]))
        (tmp_path / stream / "00000000000000000000.log").write_bytes(bytes(40) + "\n".join(written).encode())
    found: dict[str, dict[tuple[str, int | None], list[str]]] = {stream: {} for stream in STREAMS}
    for row in read(lines(session, list(text_files(tmp_path))), tmp_path).orderBy("at").collect():
        stream, _, run = re.split("( broker |/)", row.run, maxsplit=1)
        found[stream].setdefault((run, row.node), []).append(row.request or row.type)
    of_1, of_2 = ["Serving", "Elected", "Brokers", "ShutDown"], ["Serving", "ERROR", "ERROR", "Elected", "Brokers"]
    for stream, runs in found.items():
        if stream.startswith("two"):
            assert runs == {
                ("1 since 2024-05-02 00:00:00", 1): ["Started", *of_1],
                ("2 since 2024-05-02 00:00:00.5", 2): ["Started", *of_2[:2], *of_2[1:]],
            }, stream
        else:
            assert runs == {
                ("1 since 2024-05-02 00:00:01", 1): of_1,
                ("2 since 2024-05-02 00:00:02.5", 2): of_2,
                (file.name, None): ["Started", "Started", "ERROR"],
            }, stream


@pytest.mark.soak
@pytest.mark.long
def test_the_summary_of_one_stream(session: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "kafka.txt"
    file.write_text(TWO_BROKERS)
    summary = summarise_logs(file, session, only=("runs", "episodes", "elections"))
    assert [(row.node, row.epoch) for row in summary["elections"]] == [(1, 4), (2, 5)]
    assert [(row.node, row.lines, row.ending) for row in summary["runs"]] == [(1, 4, "stopped"), (2, 5, None)]
    [gone] = summary["episodes"]
    assert (gone.broker, gone.seen_by, gone.ending) == (1, 2, "stopped")
    [unplaced] = summary.unplaced
    assert "3 lines of kafka.txt" in unplaced and unplaced in page(summary, "One stream")


def test_a_line_in_two_files_is_counted_once(session: SparkSession, tmp_path: Path) -> None:
    """Several brokers' files are in one folder. Rotated files are one stream, and Kafka's own files are of one broker."""
    of_1 = [line for number, line in enumerate(TWO_BROKERS.strip().splitlines()) if number in OF_1]
    error = "[2024-05-02 00:00:07,000] ERROR Disk error (kafka.log.LogManager)"
    for name in ("one.out", "kafkaServer-1.out"):
        (tmp_path / name).write_text("\n".join(of_1))
    (tmp_path / "one.out.1").write_text(error)
    (tmp_path / "two.out").write_text("\n".join(of_1).replace("id=1]", "id=2]").replace("] 1 s", "] 2 s"))
    single = tmp_path / "single"
    single.mkdir()
    (single / "server.log").write_text(error)
    (single / "connect.log").write_text(error.replace("Disk", "Worker"))
    (single / "controller.log.2024-05-01-10").write_text(of_1[2].replace("id=1]", "id=3]"))
    summary = summarise_logs(tmp_path, session, only=("runs", "failures"))
    assert [(row.node, row.lines) for row in summary["runs"]] == [(1, 6), (2, 5), (3, 2)]
    assert ["single/connect.log" in words for words in summary.unplaced] == [True]
    assert {(row.node, row.error, row.count) for row in summary["failures"]} == {
        (None, "Worker error", 1),
        (1, "Disk error", 1),
        (3, "Disk error", 1),
    }


@pytest.mark.soak
@pytest.mark.long
def test_a_folder_without_known_lines_names_what_was_looked_for(session: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "segment").write_bytes(bytes(9))
    with pytest.raises(NotATrace, match="no text file"):
        summarise_logs(tmp_path, session, only=("runs",))
    (tmp_path / "other.txt").write_text('{"level": "INFO", "message": "starting"}')
    with pytest.raises(NotATrace) as unknown:
        summarise_logs(tmp_path, session, only=("runs",))
    assert all(form in str(unknown.value) for form in FORMS)
    (tmp_path / "other.txt").write_text("[2024-05-02 00:00:00,000] INFO Kafka version: 2.6 (AppInfoParser)")
    with pytest.raises(NotATrace, match="known form"):
        summarise_logs(tmp_path, session, only=("runs",))
