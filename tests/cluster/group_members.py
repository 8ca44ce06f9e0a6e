"""Group members of librdkafka and kafka-python, and test scenarios that run with either client in any cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Any, Protocol

from confluent_kafka import Consumer
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.cluster.nodes import Nodes
from tests.waiting import until

SESSION_MS, HEARTBEAT_MS, A_POLL_MS = 6000, 500, 1000
ASSIGNORS: dict[str, Any] = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def consumer(cluster: Nodes, group: str, **settings: object) -> Consumer:
    """Return a consumer of librdkafka with these additional settings."""
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            **settings,
        }
    )


class Member(Protocol):
    """A member of a group. `revoked` has the number of revoked partitions of each revocation."""

    revoked: list[int]

    def poll(self) -> None:
        """Poll once, if the member does not poll by itself."""

    @property
    def has(self) -> set[int]:
        """The partitions that are assigned to the member now."""

    def close(self) -> None:
        """Close the client. A dynamic member leaves the group; a static one stays in it until its session times out."""


class Librdkafka:
    def __init__(
        self, cluster: Nodes, group: str, topic: str, strategy: str = "range", instance: str | None = None
    ) -> None:
        self.revoked: list[int] = []
        static = {} if instance is None else {"group.instance.id": instance, "session.timeout.ms": 5 * SESSION_MS}
        self._consumer = consumer(cluster, group, **{"partition.assignment.strategy": strategy, **static})
        self._consumer.subscribe([topic], on_revoke=lambda _, places: self.revoked.append(len(places)))

    def poll(self) -> None:
        self._consumer.poll(0.05)

    @property
    def has(self) -> set[int]:
        return {place.partition for place in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(ConsumerRebalanceListener):  # type: ignore[misc]
    """A member of kafka-python, which polls in its own thread.

    Its polls are long, because a poll that ends before the rebalance is complete makes the member join again.
    """

    def __init__(
        self, cluster: Nodes, group: str, topic: str, strategy: str = "range", instance: str | None = None
    ) -> None:
        self.revoked: list[int] = []
        self.has: set[int] = set()
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_MS if instance is None else 5 * SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            partition_assignment_strategy=(ASSIGNORS[strategy],),
            group_instance_id=instance,
        )
        consumer.subscribe([topic], listener=self)
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(consumer,), daemon=True)
        self._thread.start()

    def _live(self, consumer: KafkaConsumer) -> None:
        with contextlib.closing(consumer):
            while not self._leaves.is_set():
                consumer.poll(timeout_ms=A_POLL_MS)
                self.has = {place.partition for place in consumer.assignment()}

    def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        self.revoked.append(len(revoked))

    def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        """Do nothing, because the thread reads the assignment after each poll."""

    def poll(self) -> None:
        """Do nothing, because the thread polls."""

    def close(self) -> None:
        self._leaves.set()
        self._thread.join(30)


MAKES: dict[str, Callable[..., Member]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}


def polled(members: Collection[Member], good: Callable[[], object], what: str) -> None:
    """Poll all members until the condition `good` is true."""

    def look() -> object:
        for each in members:
            each.poll()
        return good()

    until(look, what=what, timeout=60)


def share_and_take_over(cluster: Nodes, make: str, topic: str, partitions: int, strategy: str) -> None:
    """Let three members share a topic's partitions and one leave; the other two must take over its partitions.

    With cooperative-sticky, the first member must give up only the partitions that move to the other two.
    """
    group = f"{make} {strategy}"
    members = [MAKES[make](cluster, group, topic, strategy)]
    polled(members, lambda: len(members[0].has) == partitions, "alone it has all")
    members += [MAKES[make](cluster, group, topic, strategy) for _ in range(2)]

    def shared() -> bool:
        has = [each.has for each in members]
        return min(map(len, has)) >= 1 and sorted(n for each in has for n in each) == list(range(partitions))

    polled(members, shared, "each has some")
    if strategy == "cooperative-sticky":
        assert sum(members[0].revoked) == partitions - len(members[0].has), "it kept the others all the time"
    members.pop(0).close()
    polled(members, shared, "theirs is all")
    for member in members:
        member.close()


def come_back(cluster: Nodes, make: str, topic: str) -> None:
    """Close a static member, and start it again within its session timeout.

    It must get its partitions back, and the other member must keep its own.
    """
    group = f"{make} static"
    members = [MAKES[make](cluster, group, topic, instance=name) for name in ("a", "b")]
    polled(members, lambda: all(each.has for each in members), "each has some")
    had = members[1].has
    members[0].revoked.clear()
    members.pop().close()
    members.append(MAKES[make](cluster, group, topic, instance="b"))
    polled(members, lambda: members[1].has, "it has some again")
    assert members[1].has == had
    assert members[0].revoked == []
    for member in members:
        member.close()
