"""Consumer groups of librdkafka and kafka-python on three nodes: rebalances, commits, and our command."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as Place

from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.metadata import MetadataRequest
from messages.errors import NONE
from tests.cluster.group_members import MAKES, come_back, consumer, share_and_take_over
from tests.cluster.java_tools import run_tool
from tests.cluster.nodes import NODES, Nodes
from tests.cluster.processes import run_ours
from tests.waiting import until
from tests.wire_client import WireClient

GROUPS = "__consumer_offsets"
TOPIC = "numbers"
QUICK = {"offsets__topic__num__partitions": 3, "group__initial__rebalance__delay__ms": 100}
RECORDS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    with Nodes.running(tmp_path_factory.mktemp("groups"), **QUICK) as made:
        made.create(TOPIC, 3)
        producer = Producer({"bootstrap.servers": made.bootstrap})
        for number in range(RECORDS):
            producer.produce(TOPIC, f"{number}".encode(), partition=number % 3)
        assert producer.flush(30) == 0
        yield made


def read(member: Consumer, count: int) -> list[int]:
    """Read the next `count` values and return them."""
    values: list[int] = []

    def more() -> bool:
        values.extend(int(m.value()) for m in member.consume(count - len(values), 0.2) if not m.error())
        return len(values) >= count

    until(more, what=f"{count} records", timeout=40)
    return values


def committed(cluster: Nodes, group: str) -> int:
    """Return the sum of the group's committed offsets, as another consumer receives them."""
    asking = consumer(cluster, group)
    try:
        places = asking.committed([TopicPartition(TOPIC, number) for number in range(3)], timeout=30)
    finally:
        asking.close()
    return sum(max(place.offset, 0) for place in places)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("make", MAKES)
def test_members_share_partitions_and_take_over_after_a_leave(cluster: Nodes, make: str, strategy: str) -> None:
    share_and_take_over(cluster, make, TOPIC, 3, strategy)


def test_what_librdkafka_commits_kafka_python_resumes(cluster: Nodes) -> None:
    first = consumer(cluster, "both")
    first.subscribe([TOPIC])
    seen = read(first, 100)
    first.commit(asynchronous=False)
    first.close()
    second = KafkaConsumer(
        TOPIC, bootstrap_servers=cluster.bootstrap.split(","), group_id="both", auto_offset_reset="earliest"
    )
    values: list[int] = []

    def more() -> bool:
        for records in second.poll(timeout_ms=200).values():
            values.extend(int(record.value) for record in records)
        return len(values) >= RECORDS - 100

    until(more, what="the rest", timeout=40)
    second.commit()
    assert sum(second.committed(Place(TOPIC, number)) for number in range(3)) == RECORDS
    second.close()
    assert sorted(seen + values) == list(range(RECORDS)), "none twice, none left out"


@pytest.mark.parametrize("make", MAKES)
def test_a_static_member_that_comes_back_causes_no_rebalance(cluster: Nodes, make: str) -> None:
    come_back(cluster, make, TOPIC)


def test_the_first_answers_of_a_node_that_starts_have_the_cluster(cluster: Nodes) -> None:
    controller = cluster.zk.controller
    node = next(node for node in NODES if node != controller)
    assert committed(cluster, "any") == 0, "the group has a coordinator"
    cluster.nodes[node].stop()
    cluster.start(node)
    with contextlib.ExitStack() as opened:

        def connection() -> WireClient:
            return opened.enter_context(WireClient("127.0.0.1", cluster.ports[node]))

        asked = MetadataRequest(8, (TOPIC,), False), FindCoordinatorRequest(3, "any")
        clients = [until(connection, what="a connection", ignore=(OSError,)) for _ in asked]
        numbers = [client.send(request) for client, request in zip(clients, asked, strict=True)]
        answers: list[Any] = [client.receive(*each) for client, *each in zip(clients, numbers, asked, strict=True)]
    metadata, coordinator = answers
    assert (len(metadata.brokers), metadata.controller_id) == (3, controller)
    assert [(topic.error_code, len(topic.partitions)) for topic in metadata.topics] == [(NONE, 3)]
    assert coordinator.error_code == NONE


def left(cluster: Nodes, group: str, records: int, **settings: object) -> None:
    """Read and commit this number of records as the only member of the group, and leave it."""
    member = consumer(cluster, group, **settings)
    member.subscribe([TOPIC])
    read(member, records)
    member.commit(asynchronous=False)
    member.close()


def ours(cluster: Nodes, *arguments: str) -> str:
    """Run our consumer-groups command, and return its output."""
    done = run_ours("consumer-groups", "--bootstrap-server", cluster.bootstrap, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_our_command_lists_describes_resets_and_deletes(cluster: Nodes) -> None:
    left(cluster, "reported", RECORDS)
    assert "reported" in ours(cluster, "--list").splitlines()
    assert ["reported", "Empty"] in [line.split() for line in ours(cluster, "--list", "--state", "empty").splitlines()]
    rows = [line.split() for line in ours(cluster, "--describe", "--group", "reported").splitlines()]
    assert ["reported", TOPIC, "0", "100", "100", "0", "-", "-", "-"] in rows
    every = ("--reset-offsets", "--group", "reported", "--topic", TOPIC)
    looked = ours(cluster, *every, "--to-earliest")
    assert ["reported", TOPIC, "2", "0"] in [line.split() for line in looked.splitlines()]
    assert committed(cluster, "reported") == RECORDS, "it was only looked at"
    for scenario, total in (
        (("--to-offset", "7"), 21),
        (("--shift-by", "-100"), 0),
        (("--shift-by", "30"), 90),
        (("--to-latest",), RECORDS),
        (("--to-current",), RECORDS),
        (("--by-duration", "P1D"), 0),
        (("--to-datetime", "2099-01-01T00:00:00.000"), RECORDS),
    ):
        ours(cluster, *every, *scenario, "--execute")
        assert committed(cluster, "reported") == total, scenario
    part = ours(cluster, "--reset-offsets", "--group", "reported", "--topic", f"{TOPIC}:1", "--to-earliest", "--export")
    assert part.splitlines() == [f"{TOPIC},1,0"]
    assert "('reported') was successful" in ours(cluster, "--delete", "--group", "reported")
    gone = run_ours("consumer-groups", "--bootstrap-server", cluster.bootstrap, "--describe", "--group", "reported")
    assert (gone.returncode, gone.stderr) == (1, "Error: Consumer group 'reported' does not exist.\n")


def test_an_active_group_is_described_and_left_alone(cluster: Nodes) -> None:
    member = consumer(cluster, "active", **{"client.id": "me"})
    member.subscribe([TOPIC])
    until(lambda: member.poll(0.05) or member.assignment(), what="it has a part", timeout=40)
    [row] = [line.split() for line in ours(cluster, "--describe", "--group", "active", "--members").splitlines()[2:]]
    assert (row[0], row[2:]) == ("active", ["/127.0.0.1", "me", "3"])
    [state] = [line.split() for line in ours(cluster, "--describe", "--group", "active", "--state").splitlines()[2:]]
    assert state[3:] == ["range", "Stable", "1"]
    for arguments in (("--delete",), ("--reset-offsets", "--all-topics", "--to-latest")):
        done = run_ours("consumer-groups", "--bootstrap-server", cluster.bootstrap, "--group", "active", *arguments)
        assert done.returncode == 1
        assert "'active'" in done.stderr
    member.close()


def test_kafkas_own_tool_prints_the_same(cluster: Nodes, apache_jars: Path) -> None:
    left(cluster, "compared", 100)
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

    def theirs(*arguments: str) -> list[list[str]]:
        done = run_tool(apache_jars, tool, "--timeout", "60000", "--bootstrap-server", cluster.bootstrap, *arguments)
        assert done.returncode == 0 and "Error:" not in done.stdout, "the tool's exit code is 0 then as well"
        return sorted(line.split() for line in done.stdout.splitlines() if line)

    def words(*arguments: str) -> list[list[str]]:
        said = [line for line in ours(cluster, *arguments).splitlines() if line]
        return sorted(line.split() for line in said if "no active members" not in line)

    for arguments in (("--describe", "--group", "compared"), ("--describe", "--group", "compared", "--state")):
        assert words(*arguments) == theirs(*arguments), arguments
    assert ["compared"] in theirs("--list")
    reset = ("--reset-offsets", "--group", "compared", "--topic", TOPIC, "--to-offset", "5", "--execute")
    assert theirs(*reset)
    assert committed(cluster, "compared") == 15
    assert "successful" in str(theirs("--delete", "--group", "compared"))
    assert "compared" not in ours(cluster, "--list").splitlines()
