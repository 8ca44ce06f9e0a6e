"""Other values of inter.broker.protocol.version, with brokers of Apache's: topic ids and ISR changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from messages.apis.metadata import MetadataRequest
from tests.cluster.nodes import NODES, Nodes
from tests.cluster.processes import run_ours
from tests.waiting import until
from tests.wire_client import WireClient

APACHE = 2
PARTITIONS = 3

pytestmark = [pytest.mark.apache, pytest.mark.soak, pytest.mark.long]


def ids(three: Nodes, topic: str) -> set[str]:
    """Return the topic's ids in ZooKeeper, in the metadata of each node, and in the folders of its partitions."""
    found = {three.zk.value(f"/brokers/topics/{topic}")["topic_id"]}
    for node in NODES:
        with WireClient("127.0.0.1", three.ports[node]) as client:
            found |= {each.topic_id for each in client.call(MetadataRequest(10, (topic,))).topics}  # type: ignore[attr-defined]
        for folder in (three.place / f"{node}" / "data").glob(f"{topic}-*"):
            found.add((folder / "partition.metadata").read_text().split()[-1])
    return found


def write(three: Nodes, topic: str) -> None:
    """Write ten records to each partition, each acknowledged by all replicas."""
    producer = Producer({"bootstrap.servers": three.bootstrap, "acks": "all"})
    errors: list[object] = []
    for number in range(10 * PARTITIONS):
        producer.produce(topic, str(number), partition=number % PARTITIONS, on_delivery=lambda e, _: errors.append(e))
    assert producer.flush(60) == 0
    assert errors == [None] * 10 * PARTITIONS


@pytest.mark.parametrize("controller", [0, APACHE])
def test_topic_ids_and_isr_changes_at_2_8(tmp_path: Path, apache_jars: Path, controller: int) -> None:
    settings = {"inter__broker__protocol__version": "2.8", "replica__lag__time__max__ms": 3000}
    with Nodes.running(tmp_path, {APACHE: apache_jars}, **settings) as three:

        def is_controller() -> bool:
            if three.zk.controller == controller:
                return True
            three.zk.delete("/controller")
            return False

        until(is_controller, what="the controller is moved", ignore=(Exception,))
        three.create("by-znode", PARTITIONS)
        admin = AdminClient({"bootstrap.servers": three.bootstrap})
        for created in admin.create_topics([NewTopic("by-request", PARTITIONS, 3)]).values():
            created.result(30)
        until(lambda: three.in_sync("by-request"), what="in sync", ignore=(Exception,))
        assert {*three.zk.leaders("by-request").values()} == {*NODES}
        before = until(  # Apache's broker writes partition.metadata in the background
            lambda: [ids(three, topic) for topic in ("by-znode", "by-request")],
            lambda seen: [len(each) for each in seen] == [1, 1],
            "one id of each topic",
            ignore=(FileNotFoundError,),
        )
        write(three, "by-request")

        for node in sorted({*NODES} - {controller}):
            others = sorted({*NODES} - {node})
            three.kill(node)

            def isrs() -> list[list[int]]:
                return [sorted(state["isr"]) for state in three.zk.states("by-request").values()]

            until(isrs, lambda seen, others=others: seen == [others] * PARTITIONS, "the killed node is out")
            write(three, "by-request")
            three.start(node)
            until(isrs, lambda seen: seen == [[*NODES]] * PARTITIONS, "and in again", 60)
        write(three, "by-request")
        assert [ids(three, topic) for topic in ("by-znode", "by-request")] == before
        until(
            lambda: [len(three.logs("by-request", number)) for number in range(PARTITIONS)],
            lambda seen: seen == [1] * PARTITIONS,
            "equal logs",
        )
        assert three.zk.controller == controller


GROWN_BY_TOOL, GROWN, MOVED, DELETED = "grown-by-tool", "grown", "moved", "deleted"


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "apache"])
def test_a_tree_of_3_9_keeps_its_ids_at_2_6(tmp_path: Path, apache_jars: Path, ours: bool) -> None:
    """Apache's brokers at 3.9 write the tree and the logs; then nodes of ours, or Apache's again, continue at 2.6."""
    apache = dict.fromkeys(NODES, apache_jars)
    with Nodes.running(tmp_path, apache, inter__broker__protocol__version="3.9") as three:

        def topic_nodes() -> dict[str, dict[str, object]]:
            names = sorted(name for name in three.zk.get_children("/brokers/topics") if not name.startswith("_"))
            return {name: three.zk.value(f"/brokers/topics/{name}") for name in names}

        admin = AdminClient({"bootstrap.servers": three.bootstrap})
        topics = [NewTopic(name, 1, replica_assignment=[[0, 1]]) for name in (GROWN_BY_TOOL, GROWN, MOVED, DELETED)]
        for created in admin.create_topics(topics, request_timeout=60).values():
            created.result(60)
        before = topic_nodes()
        assert {each["version"] for each in before.values()} == {3}
        for node in NODES:
            three.nodes[node].stop()
        three.apache = {} if ours else apache
        three.settings = {"inter__broker__protocol__version": "2.6"}
        for node in NODES:
            three.start(node)
        until(lambda: three.zk.state_of(MOVED), lambda state: len(state["isr"]) == 2, "the replicas are in sync", 60)

        options = ("--zookeeper", three.connect, "--alter", "--topic", GROWN_BY_TOOL, "--partitions", "2")
        assert run_ours("topics", *options).returncode == 0
        admin = AdminClient({"bootstrap.servers": three.bootstrap})
        admin.create_partitions([NewPartitions(GROWN, 2, [[1, 2]])])[GROWN].result(60)
        moves = {"version": 1, "partitions": [{"topic": MOVED, "partition": 0, "replicas": [1, 2]}]}
        three.zk.create("/admin/reassign_partitions", json.dumps(moves).encode())
        admin.delete_topics([DELETED])[DELETED].result(60)
        expected = {
            name: before[name] | {"partitions": {"0": [0, 1]} | added}
            for name, added in ((GROWN, {"1": [1, 2]}), (MOVED, {"0": [1, 2]}))
        }

        def reached(seen: dict[str, dict[str, object]]) -> bool:
            grown = seen.pop(GROWN_BY_TOOL)
            same = {key: grown[key] == before[GROWN_BY_TOOL][key] for key in ("version", "topic_id")}
            return seen == expected and all(same.values()) and len(grown["partitions"]) == 2  # type: ignore[arg-type]

        until(topic_nodes, reached, "grown, moved and deleted, with their ids", 60)
        assert not list(tmp_path.rglob(f"{MOVED}-0/partition.metadata")), "a later upgrade would meet an old id"
