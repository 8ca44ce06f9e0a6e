"""HostedPartitions holds the partitions that a broker hosts, and notifies other actors of changes.

Rule 1: a hosted partition is either online and has an actor, or offline because its log directory failed. An offline
        partition responds to each request with error code 56.
Rule 2: the coordinators are notified of leadership changes before the broker responds to the controller. The
        notification lists the partitions of internal topics that the broker now leads or no longer leads
        (broker.md 1.6).

Kafka: `ReplicaManager.allPartitions`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest

from actors.broker.partition import PartitionActor
from actors.core.broker.replica_manager import PartitionCounts
from actors.core.broker.topic_stats import outdated
from actors.core.broker.validation import replica_disagreements
from actors.core.topic.topic_name import INTERNAL_TOPICS
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.broker import InternalTopicLeadership, LedPartition, RoleTaken
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE
from messages.metrics import Gauge, Gauges, ReplicasCounts
from messages.node import StartReplicaManager
from messages.partition import Hosting, PartitionsHosted, Unfollow

state_log = logging.getLogger("state.change.logger")

Taken = tuple[ActorAddress, LeaderAndIsrPartitionState, RoleTaken]
"""The partition's actor, the order, and the partition's reply."""


class HostedPartitions:
    """The hosted partitions of a broker with their actors, and the changes that were not yet sent to other actors."""

    def __init__(
        self,
        start: StartReplicaManager,
        send: Callable[[ActorAddress, Any], None],
        create: Callable[[type], ActorAddress],
    ) -> None:
        self.start = start
        self.send = send
        self._create = create
        self.actors: dict[TopicPartition, ActorAddress | None] = {}
        """Online partitions with their actors, offline ones with None."""
        self.counts = PartitionCounts()
        self._offline = 0
        self._published: tuple[Gauge, ...] = ()
        self._replicas: list[tuple[TopicPartition, int | None]] = []
        self._news: list[Hosting] = []
        self._led: dict[TopicPartition, LedPartition] = {}
        self._no_longer_led: dict[TopicPartition, None] = {}

    @property
    def broker_id(self) -> int:
        """This broker's id."""
        return self.start.settings.node_id

    def host(self, partition: TopicPartition) -> ActorAddress:
        """Create the actor of a partition."""
        actor = self.actors[partition] = self._create(PartitionActor)
        self._news.append(Hosting(partition, actor))
        return actor

    def remove(self, partition: TopicPartition) -> None:
        """Stop the actor of a partition that is deleted."""
        self._dismiss(partition, gone=True)
        del self.actors[partition]

    def take_offline(self, partition: TopicPartition) -> None:
        """Stop the actor of a partition whose log directory failed."""
        if self.actors.get(partition) is not None:
            self._dismiss(partition)
            self.actors[partition] = None
            self._offline += 1

    def take_all_offline(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Stop the actors of these partitions; each pair is (topic, partition number)."""
        for topic, number in partitions:
            self.take_offline(TopicPartition(topic, number))

    def _dismiss(self, partition: TopicPartition, gone: bool = False) -> None:
        self.send(self.actors[partition], ActorExitRequest())
        self.counts.remove(partition)
        self.count_replicas(partition, None)
        self._news.append(Hosting(partition, None, gone))
        if partition.topic in INTERNAL_TOPICS:
            self._led.pop(partition, None)
            self._no_longer_led[partition] = None

    def count_replicas(self, partition: TopicPartition, replicas: int | None) -> None:
        """Publish the number of replicas of a led partition, 0 for other partitions, None to drop the metric."""
        self._replicas.append((partition, replicas))
        if len(self._replicas) == SLICE:
            self._publish_replicas()

    def _publish_replicas(self) -> None:
        counts, self._replicas = tuple(self._replicas), []
        if counts:
            self.send(self.start.metrics, ReplicasCounts(counts))

    def note_leaderships(self, taken: Iterable[Taken]) -> None:
        """Record which partitions of internal topics have changed their role, for the coordinators (rule 2)."""
        for actor, order, result in taken:
            if result.changed and order.partition.topic in INTERNAL_TOPICS:
                self._led.pop(order.partition, None)
                self._no_longer_led.pop(order.partition, None)
                if result.leads:
                    self._led[order.partition] = LedPartition(order.partition, order.leader_epoch, actor)
                else:
                    self._no_longer_led[order.partition] = None

    def unfollow(self, partitions: Sequence[TopicPartition]) -> int:
        """Stop fetching these partitions; return how many were followed."""
        if partitions:
            self.send(self.start.fetcher_manager, Unfollow(tuple(partitions)))
        return len(partitions)

    def notify(self) -> None:
        """Send the changes to the coordinators, the fetchers and the request handlers."""
        if self._led or self._no_longer_led:
            leadership = InternalTopicLeadership(tuple(self._led.values()), tuple(self._no_longer_led))
            for coordinator in self.start.coordinators:
                self.send(coordinator, leadership)
        self._led, self._no_longer_led = {}, {}
        news, self._news = tuple(self._news), []
        self.unfollow([partition for partition, actor, _ in news if actor is None])
        if news:
            self.send(self.start.partition_requests, PartitionsHosted(news))

    def publish(self, offline_directories: int) -> None:
        """Send changed metrics."""
        self._publish_replicas()
        gauges = self.counts.gauges(len(self.actors), self._offline, offline_directories)
        changed = tuple(gauge for gauge in gauges if gauge not in self._published)
        if changed:
            self._published = gauges
            self.send(self.start.metrics, Gauges(changed))

    def drop_producer_counts(self, followed: Sequence[TopicPartition]) -> None:
        """Drop the producer counts of topics without a local leader."""
        dropped = outdated((partition.topic for partition in followed), self.counts.led)
        if dropped is not None:
            self.send(self.start.metrics, dropped)

    def offline(self) -> list[TopicPartition]:
        """The offline partitions."""
        return [partition for partition, actor in self.actors.items() if actor is None]

    def disagreements(self) -> list[str]:
        """Return the contradictions in this object's state; empty if consistent."""
        offline = self.offline()
        return replica_disagreements(self.actors.keys() - offline, offline, self._offline, self.counts)

    def log_change(self, level: int, text: str) -> None:
        """Write to the state change log."""
        state_log.log(level, "[Broker id=%d] %s", self.broker_id, text)
