"""Members of consumer groups, of librdkafka and of kafka-python, and what members of either do in any cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from typing import Any, Protocol

from confluent_kafka import Consumer
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.cluster.three import Three
from tests.waiting import until

SESSION_MS, HEARTBEAT_MS, A_POLL_MS = 6000, 500, 1000
ASSIGNORS: dict[str, Any] = {"range": RangePartitionAssignor, "cooperative-sticky": CooperativeStickyAssignor}


def consumer(cluster: Three, group: str, **settings: object) -> Consumer:
    """librdkafka's, with these settings of its own, too."""
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
    """A member of a group; `revoked` says how many partitions it had to give up, one number each time."""

    revoked: list[int]

    def poll(self) -> None:
        """Give it a turn."""

    @property
    def has(self) -> set[int]:
        """The partitions that it has now."""

    def close(self) -> None:
        """Leave, or be away for a while, if it is static."""


class Librdkafka:
    def __init__(
        self, cluster: Three, group: str, topic: str, strategy: str = "range", instance: str | None = None
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
    """It has a thread of its own: a poll that ends before its group has gathered makes it join anew."""

    def __init__(
        self, cluster: Three, group: str, topic: str, strategy: str = "range", instance: str | None = None
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
        """What it has is asked, not noted."""

    def poll(self) -> None:
        """It does so by itself."""

    def close(self) -> None:
        self._leaves.set()
        self._thread.join(30)


MAKES: dict[str, Callable[..., Member]] = {"librdkafka": Librdkafka, "kafka-python": KafkaPython}


def polled(members: Collection[Member], good: Callable[[], object], what: str) -> None:
    """Give all members their turns until something holds."""

    def look() -> object:
        for each in members:
            each.poll()
        return good()

    until(look, what=what, timeout=60)


def share_and_take_over(cluster: Three, make: str, topic: str, partitions: int, strategy: str) -> None:
    """Three members share a topic's partitions; two take over those of the third, and keep theirs if possible."""
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


def come_back(cluster: Three, make: str, topic: str) -> None:
    """A static member that was away for less than its session has its own again, and the others do not notice."""
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
