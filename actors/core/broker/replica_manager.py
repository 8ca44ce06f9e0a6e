"""Check LeaderAndIsr, StopReplica and UpdateMetadata requests, and build the responses (broker.md 1.1, 1.2, 2.1).

Rule 1: a request for an earlier registration of this broker is refused whole with code 77. A broker epoch of -1 is not
        checked. A newer epoch is accepted: the controller may see a registration before the broker does.
Rule 2: a request of an earlier controller is refused whole with code 11. A newer controller's epoch is stored. A stored
        epoch above the epoch in ZooKeeper is invalid: the broker lowers it to the epoch in ZooKeeper.
Rule 3: a partition whose log cannot have a name on disk (an invalid topic, a negative number, a name beyond 255
        characters) is refused alone, with code 17: a name from the network must not become a path outside the log
        directory.
Rule 4: a refused request changes nothing. The response to a refused LeaderAndIsr names each partition of the request.
        The responses to other refused requests name no partition.
Rule 5: a LeaderAndIsr is applied first to the partitions that this broker will lead, then to the partitions that it
        will follow.

Kafka: `ReplicaManager`.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from actors.core.broker.replica_role import TROUBLES
from actors.core.topic.topic_name import InvalidTopic, check_name
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import ControllerRequest, UpdateMetadataResponse
from messages.cluster import MAX_LOG_NAME, UNKNOWN_BROKER_EPOCH, TopicPartition
from messages.errors import INVALID_TOPIC, NONE, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from messages.metrics import Gauge

ControllerResponse = LeaderAndIsrResponse | StopReplicaResponse | UpdateMetadataResponse

INITIAL_CONTROLLER_EPOCH = 0


@attrs.frozen
class Epochs:
    """The epochs by which a broker rejects outdated requests: its broker epoch and the latest controller epoch."""

    broker: int = UNKNOWN_BROKER_EPOCH
    controller: int = INITIAL_CONTROLLER_EPOCH

    def verdict(self, request: ControllerRequest) -> int:
        """Return NONE, or the code that refuses the whole request (rules 1 and 2, in this order)."""
        if request.broker_epoch != UNKNOWN_BROKER_EPOCH and request.broker_epoch < self.broker:
            return STALE_BROKER_EPOCH
        if request.controller_epoch < self.controller:
            return STALE_CONTROLLER_EPOCH
        return NONE

    def limit_controller_epoch(self, controller_epoch: int) -> Epochs:
        """Return the epochs, with the stored controller epoch limited to at most `controller_epoch` (rule 2)."""
        return attrs.evolve(self, controller=min(self.controller, controller_epoch))

    def with_broker_epoch(self, broker_epoch: int) -> Epochs:
        """Return the epochs after a new registration."""
        return attrs.evolve(self, broker=broker_epoch)

    def obeying(self, request: ControllerRequest) -> Epochs:
        """Return the epochs after an accepted request."""
        return attrs.evolve(self, controller=request.controller_epoch)


def name_verdict(partition: TopicPartition) -> int:
    """Return NONE, or 17 if the partition cannot have a log (rule 3)."""
    try:
        check_name(partition.topic)
    except InvalidTopic:
        return INVALID_TOPIC
    topic, number = partition
    return NONE if number >= 0 and len(f"{topic}-{number}") <= MAX_LOG_NAME else INVALID_TOPIC


def answer(request: ControllerRequest, error_code: int, errors: Iterable[PartitionError] = ()) -> ControllerResponse:
    """Return the response to a request."""
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(error_code, tuple(errors), request.topic_ids)
        case StopReplicaRequest():
            return StopReplicaResponse(error_code, tuple(errors))
    return UpdateMetadataResponse(error_code)


def errors_for(orders: Iterable[LeaderAndIsrPartitionState], error_code: int) -> list[PartitionError]:
    """Return an error for each of these partitions of a refused LeaderAndIsr (rule 4)."""
    return [PartitionError(order.partition, error_code) for order in orders]


@attrs.define
class PartitionsByRole:
    """The partitions of a LeaderAndIsr request, divided into partitions to lead and partitions to follow.

    If a partition occurs several times (no controller sends such a request), its last state counts.
    """

    broker_id: int
    leading: dict[TopicPartition, LeaderAndIsrPartitionState] = attrs.field(factory=dict)
    following: dict[TopicPartition, LeaderAndIsrPartitionState] = attrs.field(factory=dict)

    def clear(self) -> None:
        """Remove all partitions."""
        self.leading.clear()
        self.following.clear()

    def take(self, orders: Iterable[LeaderAndIsrPartitionState]) -> None:
        """Add the next partition states of the request."""
        leading, following, broker_id = self.leading, self.following, self.broker_id
        for order in orders:
            role, other = (leading, following) if order.leader == broker_id else (following, leading)
            if other:
                other.pop(order.partition, None)
            role[order.partition] = order


SUMMED = {
    "kafka_cluster_partition_underminisr": "underminisrpartitioncount",
    "kafka_cluster_partition_atminisr": "atminisrpartitioncount",
}
"""Gauges of all partitions together, with the health flag that each counts."""


@attrs.define
class PartitionCounts:
    """The partitions that this broker leads, counted by topic and by health flag.

    The health flags, such as under-replicated, are the names in TROUBLES.
    """

    leading: dict[TopicPartition, tuple[str, ...]] = attrs.field(factory=dict)
    """Each partition led here, with its health flags."""
    led: dict[str, int] = attrs.field(factory=dict)
    """The number of partitions led here, by topic."""
    troubled: dict[str, int] = attrs.field(factory=lambda: dict.fromkeys(TROUBLES, 0))
    """The number of partitions led here that have a health flag, by health flag."""

    def count(self, partition: TopicPartition, leads: bool, health_flags: tuple[str, ...]) -> None:
        """Update the counts for a partition: subtract its previous state and add its current state."""
        leading, led, topic = self.leading, self.led, partition.topic
        previous = leading.get(partition)
        if previous == (health_flags if leads else None):
            return
        for trouble in previous or ():
            self.troubled[trouble] -= 1
        if leads:
            if previous is None:
                led[topic] = led.get(topic, 0) + 1
            leading[partition] = health_flags
            for trouble in health_flags:
                self.troubled[trouble] += 1
        else:
            del leading[partition]
            led[topic] -= 1
            if not led[topic]:
                del led[topic]

    def remove(self, partition: TopicPartition) -> None:
        """Remove a partition that is no longer led here, or no longer hosted."""
        self.count(partition, leads=False, health_flags=())

    def gauges(self, hosted: int, offline: int, lost_directories: int) -> tuple[Gauge, ...]:
        """Return the metrics.

        The metrics in SUMMED are totals of this broker; Kafka has these metrics for each partition.

        Args:
            hosted: The number of hosted partitions.
            offline: How many of them have lost their log directory.
            lost_directories: The number of offline log directories.
        """
        prefix = "kafka_server_replicamanager_"
        return (
            Gauge(prefix + "partitioncount", hosted),
            Gauge(prefix + "leadercount", len(self.leading)),
            Gauge(prefix + "offlinereplicacount", offline),
            Gauge("kafka_log_logmanager_offlinelogdirectorycount", lost_directories),
            *(Gauge(prefix + trouble, count) for trouble, count in self.troubled.items()),
            *(Gauge(name, self.troubled[trouble]) for name, trouble in SUMMED.items()),
        )
