"""Groups of the Java client: a killed coordinator, static members, and cooperative rebalances.

Two of the three nodes are ours, and one is Apache's. All three replicate the group metadata and the records. The
scenarios of other clients in `test_groups`, which run on our nodes only, run here on both kinds.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from actors.core.topic.topic_name import GROUP_METADATA
from tests.cluster.group_members import MAKES, come_back, share_and_take_over
from tests.cluster.java_member import JavaMember
from tests.cluster.nodes import Nodes
from tests.waiting import until

pytestmark = pytest.mark.apache

TOPIC, PARTITIONS, RECORDS = "read", 4, 2000
APACHE = 2
SETTINGS = {
    "offsets__topic__num__partitions": 1,
    "offsets__topic__replication__factor": 3,
    "group__initial__rebalance__delay__ms": 0,
    "replica__lag__time__max__ms": 3000,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Iterator[Nodes]:
    with Nodes.running(tmp_path_factory.mktemp("java"), {APACHE: apache_jars}, **SETTINGS) as three:
        three.create(TOPIC, PARTITIONS)
        produce(three)
        yield three


def produce(cluster: Nodes, count: int = RECORDS) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(count):
        producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def together(offsets: list[dict[int, int]]) -> int:
    """Return the sum over all partitions of the highest offset of any member."""
    return sum(max(each.get(number, 0) for each in offsets) for number in range(PARTITIONS))


def continued(read: list[dict[str, int]]) -> Iterator[tuple[dict[str, int], int]]:
    """Yield each range that was read from a partition, except the first, with the end of the range before."""
    upto: dict[int, int] = {}
    for part in read:
        if part["partition"] in upto:
            yield part, upto[part["partition"]]
        upto[part["partition"]] = part["maxOffset"] + 1


def test_members_go_on_from_what_is_committed_when_their_coordinator_is_killed(
    cluster: Nodes, apache_jars: Path, tmp_path: Path
) -> None:
    """After a kill of the coordinator, two static members read on without a gap or a repeated record.

    Before that, one of them restarts with its instance id, which must not cause a rebalance.
    """

    def member(place: str, instance: str) -> JavaMember:
        return JavaMember(
            *(apache_jars, tmp_path / place, cluster.bootstrap, "java", TOPIC),
            assignor="CooperativeStickyAssignor",
            instance=instance,
            session_timeout_ms=30_000,
        )

    members = [member("first", "a"), member("second", "b")]
    try:
        until(lambda: [len(each.assigned) for each in members] == [2, 2], what="shared", timeout=60)
        until(lambda: together([each.read_to for each in members]) == RECORDS, what="all is read", timeout=60)
        rebalances = len(list(members[0].events("partitions_assigned")))
        members[1].kill()
        members.append(member("second-again", "b"))
        until(lambda: members[2].assigned, what="the static member has its own again", timeout=60)
        assert members[2].assigned == members[1].assigned
        assert len(list(members[0].events("partitions_assigned"))) == rebalances

        until(lambda: cluster.in_sync(GROUP_METADATA), what="in sync", timeout=60, ignore=(Exception,))
        coordinator = cluster.zk.state_of(GROUP_METADATA)["leader"]
        cluster.kill(coordinator)
        produce(cluster)
        until(lambda: together([each.read_to for each in members]) == 2 * RECORDS, what="all is read", timeout=60)

        def committed() -> bool:
            produce(cluster, PARTITIONS)
            return together([each.reported for each in members]) >= 2 * RECORDS

        until(committed, what="all is committed", timeout=60)
        for each in members[::2]:
            read = [part for event in each.events("records_consumed") for part in event["partitions"]]
            assert all(part["minOffset"] == upto for part, upto in continued(read)), "none twice, none left out"
        cluster.start(coordinator)
    finally:
        for each in members:
            each.kill()


def test_a_joining_member_does_not_stop_the_others(cluster: Nodes, apache_jars: Path, tmp_path: Path) -> None:
    """In a cooperative rebalance, a member with four partitions that keeps two revokes the other two only."""

    def member(place: str) -> JavaMember:
        return JavaMember(
            *(apache_jars, tmp_path / place, cluster.bootstrap, "cooperative", TOPIC),
            assignor="CooperativeStickyAssignor",
        )

    members = [member("first")]
    try:
        until(lambda: len(members[0].assigned) == PARTITIONS, what="alone it has all", timeout=60)
        members.append(member("second"))
        until(lambda: [len(each.assigned) for each in members] == [2, 2], what="shared", timeout=60)
        revoked = [len(event["partitions"]) for event in members[0].events("partitions_revoked")]
        assert sum(revoked) == 2, "it kept the other two all the time"
        assert members[1].stop() == 128 + signal.SIGTERM
        until(lambda: len(members[0].assigned) == PARTITIONS, what="alone again", timeout=60)
    finally:
        for each in members:
            each.kill()


@pytest.mark.parametrize("make", MAKES)
def test_other_clients_members_do_so_too(cluster: Nodes, make: str) -> None:
    share_and_take_over(cluster, make, TOPIC, PARTITIONS, "cooperative-sticky")
    come_back(cluster, make, TOPIC)
