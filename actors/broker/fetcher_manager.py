"""ReplicaFetcherManagerActor distributes followed partitions among the fetchers of a broker (broker.md 4.3).

Rule 1: a fetcher serves one leader and one fetcher id. Only the partition's name determines the fetcher id. A fetcher
        is created when it is needed, and stopped when it follows no partition.
Rule 2: a leader with a new endpoint gets new fetchers. The old fetchers' partitions need not be moved here: the
        LeaderAndIsr request with the new endpoint contains these partitions, or the controller sends another request
        when it processes the leader's new endpoint.
Rule 3: this actor counts the bytes that all fetchers have fetched for throttled replicas. Above the quota, all fetchers
        back off from throttled replicas until the rate has fallen (`actors.core.broker.replication_quota`).

Kafka: `ReplicaFetcherManager`.
"""

from __future__ import annotations

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.broker.replica_fetcher import ReplicaFetcherActor
from actors.core.broker.replication_quota import FOLLOWER, ReplicationQuota, metric, replication_quota
from actors.runtime import Dispatcher
from messages.cluster import Endpoint, TopicPartition
from messages.metrics import Gauge, Gauges
from messages.node import NodeSettings, StartFetcherManager
from messages.partition import (
    BackOff,
    Follow,
    FollowedPartition,
    FollowLeader,
    StartFetcher,
    ThrottledBytes,
    ThrottleReplicas,
    ThrottleReplication,
    Unfollow,
)
from messages.vocabulary import Message

RATE, RATE_SECONDS = "rate", 1.0

Key = tuple[int, int]
"""(leader, fetcher id)."""


class ReplicaFetcherManagerActor(Dispatcher):
    """This actor starts fetchers and distributes the followed partitions among them; each broker has one."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        self._network: ActorAddress
        self._fetchers: dict[Key, tuple[ActorAddress, Endpoint]] = {}
        self._made = 0
        self._followed: dict[TopicPartition, Key] = {}
        self._loads: dict[Key, int] = {}
        self._metrics: ActorAddress | None = None
        self._quota: ReplicationQuota
        self._held_until = 0.0
        self._rate = 0.0
        """The last published rate of throttled replicas, in bytes per second."""

    def receiveMsg_StartFetcherManager(self, message: StartFetcherManager, sender: ActorAddress) -> None:
        """Set the settings, the network and the metrics gateway."""
        self._settings, self._network, self._metrics = message.settings, message.network, message.metrics
        self._quota = replication_quota(message.settings)

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        """Ignore the exit of a fetcher that this actor has stopped."""

    def receiveMsg_FollowLeader(self, message: FollowLeader, sender: ActorAddress) -> None:
        """Distribute the partitions among the leader's fetchers."""
        self._unfollow(tuple(followed.partition for followed in message.partitions))
        by_fetcher: dict[int, list[FollowedPartition]] = {}
        for followed in message.partitions:
            number = fetcher_id(followed.partition, self._settings.num_replica_fetchers)
            by_fetcher.setdefault(number, []).append(followed)
        for number, partitions in by_fetcher.items():
            key = message.leader_id, number
            fetcher = self._fetcher(key, message.endpoint)
            for followed in partitions:
                self._followed[followed.partition] = key
            self._loads[key] = self._loads.get(key, 0) + len(partitions)
            self.send(fetcher, Follow(tuple(partitions)))
        self._end_idle()

    def receiveMsg_Unfollow(self, message: Unfollow, sender: ActorAddress) -> None:
        """Stop fetching the partitions that this broker now leads, or that were stopped or deleted."""
        self._unfollow(message.partitions)
        self._end_idle()

    def _unfollow(self, partitions: tuple[TopicPartition, ...]) -> None:
        by_fetcher: dict[Key, list[TopicPartition]] = {}
        for partition in partitions:
            key = self._followed.pop(partition, None)
            if key is not None:
                by_fetcher.setdefault(key, []).append(partition)
        for key, left in by_fetcher.items():
            self._loads[key] -= len(left)
            self.send(self._fetchers[key][0], Unfollow(tuple(left)))

    def _fetcher(self, key: Key, endpoint: Endpoint) -> ActorAddress:
        known = self._fetchers.get(key)
        if known is not None and known[1] == endpoint:
            return known[0]
        if known is not None:
            self._end(key)
        settings, (leader_id, number) = self._settings, key
        self._made += 1
        fetcher = self.createActor(ReplicaFetcherActor)
        self._fetchers[key] = fetcher, endpoint
        self.send(
            fetcher,
            StartFetcher(
                settings.node_id,
                leader_id,
                number,
                endpoint,
                f"fetcher-{leader_id}-{number}-{self._made}",
                self._network,
                settings.replica_socket_timeout_ms / 1000,
                settings.replica_fetch_wait_max_ms / 1000,
                settings.replica_fetch_min_bytes,
                settings.replica_fetch_response_max_bytes,
                settings.replica_fetch_max_bytes,
                settings.replica_fetch_backoff_ms / 1000,
                self._metrics,
                settings.inter_broker_protocol_version,
            ),
        )
        if self._quota.replicas:
            self.send(fetcher, ThrottleReplicas(self._quota.replicas.throttled_topics()))
            if self._held_until > self.now:
                self.send(fetcher, BackOff(self._held_until))
        return fetcher

    def receiveMsg_ThrottleReplicas(self, message: ThrottleReplicas, sender: ActorAddress) -> None:
        """Update the throttled replicas, here and in each fetcher (rule 3)."""
        self._quota.replicas.update(message.topics)
        self._send_to_fetchers(message)

    def receiveMsg_ThrottleReplication(self, message: ThrottleReplication, sender: ActorAddress) -> None:
        """Set the quota in bytes per second."""
        self._quota.rate = message.rate
        self._back_off()

    def receiveMsg_ThrottledBytes(self, message: ThrottledBytes, sender: ActorAddress) -> None:
        """Count bytes that a fetcher has fetched for throttled replicas."""
        self._quota.count(message.size, self.now)
        self._back_off()
        if not self._rate:
            self._publish_throttled_rate()

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        """Publish the rate again, one second after the last time."""
        self._publish_throttled_rate()

    def _back_off(self) -> None:
        until = self._quota.free_at(self.now)
        if until > self.now or self._held_until > self.now:
            self._held_until = until
            self._send_to_fetchers(BackOff(until))

    def _send_to_fetchers(self, message: Message) -> None:
        for fetcher, _ in self._fetchers.values():
            self.send(fetcher, message)

    def _publish_throttled_rate(self) -> None:
        """Publish the fetch rate of throttled replicas, and again each second until it no longer changes."""
        rate = self._quota.measured_rate(self.now)
        if self._metrics is not None and rate != self._rate:
            self._rate = rate
            self.send(self._metrics, Gauges((Gauge(metric(FOLLOWER), rate),)))
            self.set_timer(RATE, RATE_SECONDS)

    def _end_idle(self) -> None:
        for key, load in list(self._loads.items()):
            if not load:
                self._end(key)

    def _end(self, key: Key) -> None:
        """Stop a fetcher, and remove its partitions."""
        fetcher, _ = self._fetchers.pop(key)
        self._loads.pop(key, None)
        for partition in [partition for partition, of in self._followed.items() if of == key]:
            del self._followed[partition]
        self.send(fetcher, ActorExitRequest())


def fetcher_id(partition: TopicPartition, fetchers: int) -> int:
    """Return the fetcher id of a partition, from 0 to `fetchers` - 1; `fetchers` is the number of fetchers per leader.

    The id is computed as in Kafka, with Java's hash of the topic's name (`AbstractFetcherManager.getFetcherId`).
    """
    hashed = _as_int32(31 * java_hash(partition.topic) + partition.partition)
    return (0 if hashed == -(1 << 31) else abs(hashed)) % fetchers


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode` of `text`."""
    data = text.encode("utf-16-be")
    value = 0
    for place in range(0, len(data), 2):
        value = (31 * value + (data[place] << 8 | data[place + 1])) & 0xFFFFFFFF
    return _as_int32(value)


def _as_int32(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
