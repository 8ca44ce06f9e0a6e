"""KafkaCluster: the contract of clusters, the methods of clusters in memory, and remaining files and processes."""

from __future__ import annotations

import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from actors.node.node import NodeActor
from actors.public import ClusterError, KafkaCluster
from actors.public.cluster_process import ClusterProcess
from actors.runtime.trace.replayer import replay_directory
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.metadata import MetadataRequest
from messages.trace.files.runs import RunRecords, find_runs
from tests.public.contract import ClusterContract, read, send
from tests.public.process_cluster import ProcessCluster
from tests.wire_client import WireClient

API_VERSIONS = bytes.fromhex("0000000f 0012 0000 00000007 0005 636c696d65".replace(" ", ""))
"""An ApiVersions v0 request with correlation id 7."""


def commit(cluster: KafkaCluster, topic: str, value: str) -> None:
    """Send a record in its own transaction, and commit it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "id"})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, value, partition=0)
    producer.commit_transaction(20)


class TestInMemory(ClusterContract):
    @pytest.fixture
    def cluster(self) -> Iterator[KafkaCluster]:  # type: ignore[override]
        with KafkaCluster(session_timeout=0.3) as cluster:
            yield cluster


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    with ProcessCluster(tmp_path_factory.mktemp("processes")) as cluster:
        yield cluster


@pytest.mark.java
class TestProcesses(ClusterContract):
    @pytest.fixture
    def cluster(self, processes: ProcessCluster) -> ProcessCluster:
        return processes


# --------------------------------------------------------------------------------------------------- network partitions


def test_a_follower_cut_off_from_its_leader_falls_out_of_the_isr() -> None:
    with KafkaCluster(settings={"replica.lag.time.max.ms": 300}) as cluster:
        cluster.create_topic("t")
        leader = cluster.leader_of("t")
        assert leader is not None
        controller = cluster.controller_id
        follower = next(id for id in cluster.live_brokers if id not in (leader, controller))
        with cluster.partition_network(leader, follower):
            send(cluster, "t", ["while they are parted"])
            cluster.wait_for(lambda: follower not in cluster.isr_of("t"))
        cluster.wait_for(lambda: follower in cluster.isr_of("t"))
        assert read(cluster, "t", 1) == ["while they are parted"]


def test_a_follower_cut_off_from_its_leader_holds_acks_all_up_for_seconds_only() -> None:
    with KafkaCluster(session_timeout=0.3) as cluster:
        cluster.create_topic("t", replication_factor=2)
        leader = cluster.wait_for_leader("t")
        (follower,) = {*cluster.isr_of("t")} - {leader}
        with cluster.partition_network(leader, follower):
            send(cluster, "t", ["while they are parted"])
            assert cluster.isr_of("t") == [leader]


def test_a_broker_that_the_controller_cannot_reach_is_not_waited_for() -> None:
    with KafkaCluster() as cluster:
        controller = cluster.controller_id
        assert controller is not None
        cut_off = (controller + 1) % 3
        cluster.partition_network(controller, cut_off)
        cluster.create_topic("t", replication_factor=1, partitions=1)
        cluster.stop_broker(cut_off)
        cluster.start_broker(cut_off)
        cluster.heal_network()
        cluster.move_controller()


# ------------------------------------------------------------------------------------------------- a broker suspended


def test_a_paused_broker_loses_its_leaders_and_catches_up_when_it_is_resumed() -> None:
    with KafkaCluster(session_timeout=0.3) as cluster:
        cluster.create_topic("t")
        paused = cluster.wait_for_leader("t")
        cluster.pause(paused)
        with pytest.raises(ClusterError, match=f"broker {paused} is paused; resume it first"):
            cluster.stop_broker(paused)
        cluster.wait_for_leader("t", other_than=paused)
        cluster.wait_for(lambda: paused not in cluster.isr_of("t") and cluster.controller_id not in (None, paused))
        send(cluster, "t", ["meanwhile"])
        cluster.resume(paused)
        cluster.wait_for(lambda: paused in cluster.isr_of("t"))
        assert read(cluster, "t", 1) == ["meanwhile"]
        with pytest.raises(ClusterError, match="is not paused"):
            cluster.resume(paused)
        assert sorted(cluster.live_brokers) == [0, 1, 2]


def test_a_short_pause_changes_no_leader_isr_or_controller() -> None:
    with KafkaCluster(session_timeout=20) as cluster:
        cluster.create_topic("t", partitions=3)
        before = [(cluster.leader_of("t", n), cluster.isr_of("t", n)) for n in range(3)]
        controller = cluster.controller_id
        for id in range(3):
            cluster.pause(id)
            cluster.resume(id)
        send(cluster, "t", ["after"])
        assert cluster.controller_id == controller
        assert [(cluster.leader_of("t", n), cluster.isr_of("t", n)) for n in range(3)] == before


def test_a_paused_broker_accepts_connections_and_answers_nothing() -> None:
    with KafkaCluster(1) as cluster:
        cluster.pause(0)
        host, port = cluster.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), 5) as link:
            link.sendall(API_VERSIONS)
            link.settimeout(0.3)
            with pytest.raises(TimeoutError):
                link.recv(1)
            cluster.resume(0)
            link.settimeout(10)
            assert len(link.recv(4)) == 4


# ------------------------------------------------------------------------------------------------ brokers and topics


def newest_fetch(cluster: KafkaCluster, broker: int) -> int:
    """Return the highest version of Fetch that a broker offers to clients."""
    host, port = cluster.bootstrap_servers.split(",")[broker].split(":")
    with WireClient(host, int(port)) as client:
        response: Any = client.call(ApiVersionsRequest(0))
        return next(int(each.max_version) for each in response.api_keys if each.api_key == 1)


def id_of(cluster: KafkaCluster, topic: str, broker: int) -> str:
    host, port = cluster.bootstrap_servers.split(",")[broker].rsplit(":", 1)
    with WireClient(host, int(port)) as client:
        response: Any = client.call(MetadataRequest(10, (topic,)))
        return str(response.topics[0].topic_id)


def test_a_broker_is_added_and_gets_replicas() -> None:
    with KafkaCluster(2) as cluster:
        assert cluster.add_broker() == 2
        assert cluster.brokers == 3
        cluster.create_topic("t", replication_factor=3)
        cluster.wait_for(lambda: cluster.isr_of("t") and len(cluster.isr_of("t")) == 3)
        ids = cluster.wait_for(
            lambda: "" not in (seen := {id_of(cluster, "t", broker) for broker in range(3)}) and seen
        )
        assert len(ids) == 1, "at 2.8, the default, topics have ids"
        cluster.restart(2, speaks="2.4")
        cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3)
        assert [newest_fetch(cluster, broker) for broker in (1, 2)] == [17, 11]
        for leader in {0, 1, 2} - {cluster.leader_of("t")}:
            cluster.move_leader("t", leader)
            assert cluster.leader_of("t") == leader
        with pytest.raises(ClusterError, match="broker 7 is not an in-sync replica of t-0"):
            cluster.move_leader("t", 7)
        cluster.elect_preferred()
        send(cluster, "t", ["a", "b"])
        assert cluster.end_offsets("t") == [2]
        assert cluster.coordinator_of("g") in (0, 1, 2)
        with pytest.raises(ClusterError, match=r"'2\.5' must be one of 2\.1, 2\.4"):
            cluster.restart(2, speaks="2.5")
        assert len(cluster.bootstrap_servers.split(",")) == 3


def test_a_removed_broker_leaves_its_replicas_and_groups_to_others() -> None:
    with KafkaCluster(3) as cluster:
        cluster.create_topic("t", replication_factor=2)
        send(cluster, "t", ["a"])
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": "id", "log_level": 0})
        producer.init_transactions(20)
        gone = cluster.leader_of("t")
        other = (cluster.coordinator_of("g") + 1) % 3
        cluster.move_coordinator("g", other)
        assert cluster.coordinator_of("g") == other
        assert gone is not None
        cluster.remove_broker(gone)
        assert cluster.live_brokers == sorted({0, 1, 2} - {gone})
        assert cluster.brokers == len(cluster.bootstrap_servers.split(",")) == len(cluster.isr_of("t")) == 2
        producer.begin_transaction()
        producer.produce("t", "aborted", partition=0)
        producer.flush(20)
        producer.abort_transaction(20)
        producer.begin_transaction()
        producer.produce("t", "b", "key", partition=0, headers={"h": b"1"})
        producer.commit_transaction(20)
        assert [each.value for each in cluster.records("t")] == [b"a", b"aborted", b"b"]
        first, last = cluster.records("t", read_committed=True)
        assert (first.offset, first.value, first.key, first.headers) == (0, b"a", None, [])
        assert (last.partition, last.value, last.key, last.headers) == (0, b"b", b"key", [("h", b"1")])
        with pytest.raises(ClusterError, match=f"broker {gone} does not exist"):
            cluster.start_broker(gone)


def test_clients_cut_from_a_broker_time_out_while_brokers_see_each_other() -> None:
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t")
        leader = cluster.wait_for_leader("t")
        host, port = cluster.bootstrap_servers.split(",")[leader].split(":")
        with socket.create_connection((host, int(port)), 20) as old:
            old.sendall(API_VERSIONS)
            assert old.recv(1)
            with cluster.cut_clients(leader):
                old.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    while old.recv(1 << 16):
                        old.sendall(API_VERSIONS)
                with pytest.raises(TimeoutError):
                    socket.create_connection((host, int(port)), 0.2)
                cluster.create_topic("u", replication_factor=2)
                assert cluster.leader_of("t") == leader
                assert cluster._ask("sight")["in_effect"] == [f"no network between clients and broker {leader}"]
            old.settimeout(20)
            with suppress(ConnectionError):
                assert old.recv(1) == b""
        send(cluster, "t", ["after"])
        assert [each.value for each in cluster.records("t")] == [b"after"]


def test_a_deleted_topic_is_gone_and_its_name_is_free() -> None:
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t")
        cluster.delete_topic("t")
        assert cluster.topics == []
        with pytest.raises(ClusterError, match="topic t does not exist; the topics are none"):
            cluster.delete_topic("t")
        cluster.create_topic("t")
        assert cluster.topics == ["t"]


def test_clients_on_other_machines_get_an_advertised_name() -> None:
    """Brokers bind all interfaces for clients, and connect to each other on 127.0.0.1."""
    with pytest.raises(ClusterError, match="Set advertised_host"):
        KafkaCluster(host="0.0.0.0")
    with KafkaCluster(2, host="0.0.0.0", advertised_host="localhost") as cluster:
        assert {each.split(":")[0] for each in cluster.bootstrap_servers.split(",")} == {"localhost"}
        cluster.create_topic("t", replication_factor=2)
        send(cluster, "t", ["from elsewhere"])
        assert read(cluster, "t", 1) == ["from elsewhere"]
        assert cluster.add_broker() == 2
    with pytest.raises(ClusterError, match=r"this machine does not have the address 192\.0\.2\.1"):
        KafkaCluster(1, host="192.0.2.1").start()


# ---------------------------------------------------------------------------------------------------- consumer groups


@pytest.mark.parametrize("brokers", [1, 3])
def test_a_group_goes_on_where_it_was(brokers: int) -> None:
    """This works with one broker too: `__consumer_offsets` has at most as many replicas as the cluster has brokers."""

    def one(cluster: KafkaCluster) -> tuple[str, int]:
        group = {"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, **group})
        consumer.subscribe(["t"])
        message = cluster.wait_for(lambda: consumer.poll(1.0))
        consumer.commit(message, asynchronous=False)
        consumer.close()
        return message.value().decode(), message.offset()

    with KafkaCluster(brokers, session_timeout=0.3) as cluster:
        cluster.create_topic("t")
        send(cluster, "t", ["first", "second"])
        assert one(cluster) == ("first", 0)
        dead = cluster.leader_of("t")
        assert dead is not None
        cluster.kill(dead)
        if brokers == 1:
            cluster.start_broker(dead)
        else:
            cluster.wait_for(lambda: cluster.leader_of("t") not in (None, dead))
        assert one(cluster) == ("second", 1)


# ------------------------------------------------------------------------------------------------------------ waiting


def test_a_topic_that_does_not_exist_yet_is_waited_for() -> None:
    with KafkaCluster(1) as cluster:
        looks = itertools.count()

        def isr() -> list[int]:
            if next(looks) == 2:
                cluster.create_topic("t")
            return cluster.isr_of("t")

        assert cluster.wait_for(isr) == [0]
        assert cluster.wait_for_leader("t") == 0
        with pytest.raises(TimeoutError, match=r"no leader other than 0 was elected for partition t-0 within 0\.05 s"):
            cluster.wait_for_leader("t", other_than=0, timeout=0.05)
        with pytest.raises(TimeoutError, match="last value: partition u-7 does not exist"):
            cluster.wait_for(lambda: cluster.isr_of("u", 7), timeout=0.05)


# ------------------------------------------------------------------------------------------------------------- errors


def test_invalid_operations_are_errors() -> None:
    with pytest.raises(ClusterError, match="brokers=0 must be an integer from 1"):
        KafkaCluster(0)
    cluster = KafkaCluster(2)
    with pytest.raises(ClusterError, match="is not running; call start"):
        cluster.create_topic("t")
    with cluster:
        with pytest.raises(ClusterError, match="is already running"):
            cluster.start()
        with pytest.raises(ClusterError, match=r"Replication factor: 3 larger than available brokers: 2"):
            cluster.create_topic("t", replication_factor=3)
        cluster.create_topic("t", config={"retention.ms": 1000})
        with pytest.raises(ClusterError, match="already exists"):
            cluster.create_topic("t")
        with pytest.raises(ClusterError, match="partition u-7 does not exist"):
            cluster.leader_of("u", 7)
        with pytest.raises(ClusterError, match="broker 5 is not running; running brokers: 0, 1"):
            cluster.kill(5)
        with pytest.raises(ClusterError, match="broker 0 is already running"):
            cluster.start_broker(0)
        with pytest.raises(ClusterError, match="broker 2 does not exist; brokers: 0, 1"):
            cluster.start_broker(2)
        with pytest.raises(ClusterError, match="cannot be partitioned from itself"):
            cluster.partition_network(1, 1)
        cluster.stop_broker(1)
        with pytest.raises(ClusterError, match="no other running broker"):
            cluster.move_controller()
        with pytest.raises(TimeoutError, match=r"the condition was not met within 0\.05 s; last value: \[\]"):
            cluster.wait_for(list, timeout=0.05)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num.partitions": "many"}, "num.partitions=many is wrong"),
        ({"min.insync.replica": 2}, "is no known setting; did you mean min.insync.replicas?"),
        ({"broker.id": 7}, "broker.id cannot be overridden: the cluster sets it for each node"),
    ],
)
def test_wrong_settings_are_named_and_leave_nothing_behind(
    settings: dict[str, object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(ClusterError, match=words.replace("?", r"\?")):
        KafkaCluster(settings=settings).start()
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_dies_is_an_error_and_not_taken_again() -> None:
    cluster = KafkaCluster().start()
    (process,) = [child for child in psutil.Process().children() if "fixture" in child.cmdline()]
    process.send_signal(signal.SIGKILL)
    with pytest.raises(ClusterError, match="the cluster process has ended"):
        cluster.wait_for(lambda: cluster.controller_id is None)
    with pytest.raises(ClusterError):
        cluster.stop()
    assert not cluster.trace_dir.parent.exists()
    with KafkaCluster() as another:
        assert another.live_brokers == [0, 1, 2]


# ------------------------------------------------------------------------------------------------- processes and files


def test_a_process_is_warm_for_the_next_and_two_clusters_have_two() -> None:
    def processes() -> set[int]:
        return {child.pid for child in psutil.Process().children() if "fixture" in child.cmdline()}

    with KafkaCluster(1):
        first = processes()
    with KafkaCluster(1) as one:
        assert processes() == first
        with KafkaCluster(1) as other:
            assert len(processes()) == 2
            assert one.bootstrap_servers != other.bootstrap_servers
    assert len(processes()) == 2
    while ClusterProcess._free:
        ClusterProcess._free.pop().end()
    assert processes() == set()


def test_a_diagnosis_has_all_that_the_brokers_handled_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers write their traces only every 0.25 s. A reader that starts at once replaces `why`."""

    def read_types(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        [run] = find_runs(Path(command[-1])).runs
        return subprocess.CompletedProcess(command, 0, " ".join(record.type for record in RunRecords(run)), "")

    with KafkaCluster(1) as cluster:
        monkeypatch.setattr(subprocess, "run", read_types)
        recorded = []
        for n in range(5):
            cluster.create_topic(f"t{n}")
            recorded.append(cluster.diagnosis().split().count("TopicChange"))
    assert recorded == [1, 2, 3, 4, 5]


@pytest.mark.filterwarnings("ignore:these injected faults were never met")
def test_a_diagnosis_begins_with_what_is_broken_and_ends_with_the_log() -> None:
    """Faults of the requests that a report needs do not stop the report. Internal topics come last."""
    with KafkaCluster(2, session_timeout=0.3) as cluster:
        cluster.create_topic("orders", replication_factor=1)
        cluster.create_topic("unread")
        send(cluster, "orders", ["a", "b", "c"])
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 2)], asynchronous=False)
        consumer.close()
        for api in ("ListOffsets", "ListGroups", "OffsetFetch"):
            cluster.faults.blackhole(api).every_time()
        with cluster.partition_network(0, 1):
            cluster.faults.error("Produce", 6, topic="orders").once()
            sound = cluster.diagnosis()
        cluster.pause(1 - cluster.controller_id)
        with cluster.log_file.open("a") as log:
            log.writelines(f"[2026-11-29 04:00:{second},000] ERROR the same (kafka)\n" for second in range(10, 40))
        paused = cluster.diagnosis()
    begin, _, rest = sound.partition("\n  ")
    assert [line.partition(" (")[0] for line in begin.splitlines()] == [
        *(f"in effect: blackhole {api}" for api in ("ListOffsets", "ListGroups", "OffsetFetch")),
        "in effect: error Produce",
        "in effect: no network between brokers 0 and 1",
    ]
    assert "orders-0: end offset 3, group readers committed 2" in rest
    assert "unread-0: end offset 0\n" in rest
    assert "__consumer_offsets" not in rest.partition("offsets:\n")[2].partition("the last lines of")[0]
    places = [rest.index(words) for words in ("What happened?", "offsets:\n", "the last lines of", cluster.whereabouts)]
    assert places == sorted(places) and "--until" not in sound.replace(cluster.whereabouts, "")
    assert "no network" not in paused and "is paused" in paused.splitlines()[4]
    assert paused.count("ERROR the same") == 1 and "ERROR the same (kafka) (x 30)\n" in paused


def test_the_record_is_kept_where_something_failed_and_replays() -> None:
    with KafkaCluster() as good:
        pass
    assert not good.trace_dir.parent.exists()
    with pytest.raises(ZeroDivisionError) as caught, KafkaCluster(session_timeout=0.1) as bad:
        bad.create_topic("t", partitions=3)
        bad.kill(0)
        bad.wait_for(lambda: bad.leader_of("t", 0) != 0)
        bad.start_broker(0)
        bad.move_controller()
        commit(bad, "t", "in a transaction")
        raise ZeroDivisionError
    (note,) = caught.value.__notes__
    assert note.endswith(bad.whereabouts)
    for command in (f"replay {bad.trace_dir}", f"trace show {bad.trace_dir} --ui"):
        assert f"  kafka-actors {command} " in bad.whereabouts
    runs = replay_directory(bad.trace_dir, (NodeActor,)).runs
    assert sorted(run.node for run in runs) == [0, 0, 1, 2]
    assert [run.divergence or run.problem for run in runs if not run.ok] == []
    assert sum(not run.complete for run in runs) == 1, "the killed one has no end"
    assert "started as broker" not in bad.log_file.read_text()
    assert sorted(path.name for path in bad.trace_dir.parent.iterdir()) == ["cluster.log", "trace"]


def test_a_named_directory_stays_with_all_that_is_in_it(tmp_path: Path) -> None:
    with KafkaCluster(1, directory=tmp_path / "here") as cluster:
        cluster.create_topic("t")
    assert (tmp_path / "here" / "node-0" / "data" / "t-0").is_dir()
    with pytest.raises(ClusterError, match="here contains the data of a cluster"):
        KafkaCluster(1, directory=tmp_path / "here").start()


def test_the_process_ends_with_the_program_even_if_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, signal, sys\n"
        "from actors.public import KafkaCluster\n"
        "cluster = KafkaCluster(1).start()\n"
        "print(cluster._process._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL if sys.argv[1:] else 0)\n"
    )
    for arguments in ([], ["killed"]):
        done = subprocess.run(
            [sys.executable, str(program), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": os.getcwd()},  # noqa: PTH109
        )
        process = int(done.stdout)
        with pytest.raises(psutil.NoSuchProcess):
            psutil.Process(process).wait(20)
            psutil.Process(process)


# ------------------------------------------------------------------------------------------------ cleaning, retention


def test_a_topic_is_compacted_and_old_segments_are_deleted_on_request() -> None:
    """The states of all replicas are read from their files. A cleaning that is not possible names its reason."""
    with KafkaCluster(session_timeout=0.3, settings={"log.cleaner.backoff.ms": 60_000}) as cluster:
        cluster.create_topic("c", config={"cleanup.policy": "compact", "delete.retention.ms": 0})
        cluster.create_topic("d", config={"retention.ms": 600_000, "segment.bytes": 300})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        for number in range(50):
            producer.produce("c", b"value-%02d" % number, b"key-%d" % (number % 2))
            producer.produce("d", b"old" * 20, timestamp=1000)
            producer.flush(20)
        producer.produce("c", None, b"key-0")
        producer.produce("d", b"new")
        assert producer.flush(20) == 0

        def values(topic: str) -> set[frozenset[bytes]]:
            """Return the texts of the records in the files of each replica."""
            folders = Path(cluster.trace_dir).parent.glob(f"node-*/data/{topic}-0")
            texts = (b"".join(file.read_bytes() for file in folder.glob("*.log")) for folder in folders)
            return {frozenset(re.findall(rb"value-[0-9]+|key-[0-9]|old|new", text)) for text in texts}

        cluster.compact("c")
        assert values("c") == {frozenset((b"value-49", b"key-1", b"key-0"))}
        cluster.compact("c")
        assert values("c") == {frozenset((b"value-49", b"key-1"))}
        cluster.apply_retention("d")
        assert values("d") == {frozenset((b"new",))}
        with pytest.raises(ClusterError, match="topic d is not compacted"):
            cluster.compact("d")
        with pytest.raises(ClusterError, match="topic x does not exist"):
            cluster.apply_retention("x")
        cluster.create_topic("e", replication_factor=1, config={"cleanup.policy": "compact"})
        cluster.kill(cluster.wait_for_leader("e"))
        with pytest.raises(ClusterError, match="partition e-0 has no live leader"):
            cluster.compact("e")


def test_a_replica_moves_between_the_log_directories_of_its_broker() -> None:
    with KafkaCluster(1, log_dirs=2) as cluster:
        cluster.create_topic("t")
        send(cluster, "t", ["a", "b"])
        home, other = sorted(map(Path, cluster.log_dirs_of(0)), key=lambda place: not (place / "t-0").is_dir())
        cluster.move_replica("t", 0, other)
        assert ((home / "t-0").is_dir(), (other / "t-0").is_dir()) == (False, True)
        send(cluster, "t", ["c"])
        assert read(cluster, "t", 3) == ["a", "b", "c"]
        for topic, directory, reason in (
            ("t", "/absent", "no running broker has"),
            ("x", str(home), "UNKNOWN_TOPIC_OR_PARTITION"),
        ):
            with pytest.raises(ClusterError, match=reason):
                cluster.move_replica(topic, 0, directory)
