"""Our broker and Apache's coordinate a group in turn: each serves the members and offsets that the other wrote."""

from __future__ import annotations

import contextlib
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.find_coordinator import TRANSACTION_KEY, FindCoordinatorRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.errors import CONCURRENT_TRANSACTIONS, NONE
from tests.cluster.java_tools import run_tool
from tests.cluster.nodes import Nodes
from tests.cluster.processes import ApacheBroker, free_ports
from tests.coordinator.group_matrix import ANOTHER, LONG_MS, RECORDED, table
from tests.coordinator.group_matrix import TOPIC as T
from tests.waiting import until
from tests.wire_client import WireClient
from zk_bridge.embedded import EmbeddedZooKeeper

pytestmark = pytest.mark.apache

OURS, APACHE = BOTH = 0, 1
GROUPS, TOPIC = "__consumer_offsets", "t"
RECORDS, STEP = 600, 100


@pytest.fixture
def cluster(tmp_path: Path, apache_jars: Path) -> Iterator[Nodes]:
    """Run one node of each kind, with the group metadata replicated on both."""
    settings = {
        "offsets__topic__replication__factor": 2,
        "offsets__topic__num__partitions": 1,
        "group__initial__rebalance__delay__ms": 0,
        "replica__lag__time__max__ms": 3000,
    }
    with Nodes.running(tmp_path, {APACHE: apache_jars}, BOTH, **settings) as made:
        yield made


def consumer(cluster: Nodes, **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "both",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 500,
            "reconnect.backoff.max.ms": 500,
            "coordinator.query.interval.ms": 5_000,  # a tenth of it while the coordinator is down: 60 s by default
            **settings,
        }
    )


def read_and_commit(member: Consumer, end: int) -> None:
    """Read the next records up to this offset, and commit exactly this offset.

    The commit names the offset, and nothing is polled between its retries. A poll could return another record, and the
    position that the client stores would then be one too high.
    """
    read = end - STEP

    def reached() -> bool:
        nonlocal read
        for message in member.consume(end - read, 0.2):
            if not message.error():
                read = message.offset() + 1
        return read >= end

    def committed() -> bool:
        with contextlib.suppress(KafkaException):
            member.commit(offsets=[TopicPartition(TOPIC, 0, end)], asynchronous=False)
            return True
        return False

    until(reached, what=f"the records before {end}", timeout=60)
    until(committed, what="a commit", timeout=60)


def committed(cluster: Nodes) -> int:
    """Return the committed offset of the group, as another client receives it."""
    asking = consumer(cluster)

    def reported() -> int | None:
        with contextlib.suppress(KafkaException):
            [place] = asking.committed([TopicPartition(TOPIC, 0)], timeout=5)
            return int(place.offset)
        return None

    found = until(reported, lambda seen: seen is not None, what="what is committed", timeout=60)
    asking.close()
    assert found is not None
    return found


def test_either_kind_serves_the_groups_that_the_other_wrote(cluster: Nodes, apache_jars: Path) -> None:
    cluster.create(TOPIC, {0: BOTH})
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, f"{number}".encode())
    assert producer.flush(60) == 0
    member = consumer(cluster, **{"group.instance.id": "one"})
    member.subscribe([TOPIC])
    read_and_commit(member, STEP)
    for kills in range(2):
        until(lambda: cluster.in_sync(GROUPS) and cluster.in_sync(TOPIC), what="in sync", timeout=60)
        leader = cluster.zk.state_of(GROUPS)["leader"]
        before = committed(cluster)
        cluster.kill(leader)
        assert committed(cluster) == before == STEP * (1 + kills)
        read_and_commit(member, before + STEP)
        assert committed(cluster) == before + STEP
        assert cluster.zk.state_of(GROUPS)["leader"] != leader
        cluster.start(leader)
    member.close()
    until(lambda: len(cluster.logs(GROUPS, 0)), lambda kinds: kinds == 1, "the logs are equal", 60)
    [log] = sorted((cluster.place / f"{OURS}" / "data" / f"{GROUPS}-0").glob("*.log"))
    said = run_tool(apache_jars, "kafka.tools.DumpLogSegments", "--offsets-decoder", "--files", str(log)).stdout
    assert '"group":"both"' in said
    assert '"groupInstanceId":"one"' in said


@attrs.define
class Sockets:
    """The connections to a broker with one thread for its network and one for its requests."""

    port: int
    free: list[WireClient] = attrs.field(factory=list)
    held: list[WireClient] = attrs.field(factory=list)
    """Connections whose requests wait."""
    transaction: tuple[str, int, int] | None = None
    groups: set[str] = attrs.field(factory=set)
    """Groups whose offsets are in the transaction."""

    def ask(self, request: Any) -> Any:
        return self.answer(self.send(request))

    def send(self, request: Any) -> tuple[WireClient, int, Any]:
        client = self.free.pop() if self.free else WireClient("127.0.0.1", self.port)
        return client, client.send(request), request

    def answer(self, handle: tuple[WireClient, int, Any], may_wait: bool = False) -> Any:
        """Return the response. A request waits if the broker has answered later requests, but not this one."""
        client, number, request = handle
        if may_wait:
            for _ in range(3):
                self.ask(DescribeGroupsRequest(5, ()))
            if not select.select([client.socket], [], [], 0)[0]:
                self.held.append(client)
                return None
        response = client.receive(number, request)
        self.free.append(client)
        return response

    def producer(self, group: str) -> tuple[str, int, int]:
        if self.transaction is None:
            until(lambda: self.ask(FindCoordinatorRequest(3, "id", TRANSACTION_KEY)).error_code == NONE)
            begin = InitProducerIdRequest(3, "id", LONG_MS)
            made = until(lambda: self.ask(begin), lambda response: response.error_code == NONE)
            self.transaction = "id", made.producer_id, made.producer_epoch
        if group not in self.groups:
            add = AddOffsetsToTxnRequest(2, *self.transaction, group)
            added = until(lambda: self.ask(add), lambda response: response.error_code != CONCURRENT_TRANSACTIONS)
            assert added.error_code == NONE
            self.groups.add(group)
        return self.transaction


def test_the_recorded_codes_of_group_requests_are_those_of_apache(
    tmp_path: Path, zookeeper: EmbeddedZooKeeper, apache_jars: Path, request: pytest.FixtureRequest
) -> None:
    [port] = free_ports(1)
    settings = {
        **dict.fromkeys(("num__network__threads", "num__io__threads", "offsets__topic__num__partitions"), 1),
        **dict.fromkeys((f"transaction__state__log__{what}" for what in ("replication__factor", "min__isr")), 1),
        "transaction__state__log__num__partitions": 1,
        "group__initial__rebalance__delay__ms": 0,
    }
    node = ApacheBroker(apache_jars, tmp_path / "0", 0, port, f"127.0.0.1:{zookeeper.port}", **settings)
    wire = Sockets(port)
    try:
        topics = tuple(CreatableTopic(topic, 1, 1) for topic in (T, ANOTHER))
        until(lambda: wire.ask(FindCoordinatorRequest(3, "any")).error_code == NONE, timeout=60, ignore=(OSError,))
        assert {each.error_code for each in wire.ask(CreateTopicsRequest(5, topics, 30_000)).topics} == {NONE}
        described = DescribeGroupsRequest(5, ("any",))
        until(lambda: wire.ask(described).groups[0].error_code == NONE, what="the group's partition is loaded")
        found = table(wire)
    finally:
        for client in (*wire.free, *wire.held):
            client.close()
        node.kill()
    if request.config.getoption("rewrite_scenarios"):
        RECORDED.write_text(found)
    assert found == RECORDED.read_text()
