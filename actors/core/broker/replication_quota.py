"""Replication throttles (KIP-73): limit the bytes per second of replicas that are not in sync, or move (KIP-113).

Rule 1: a broker has two throttles, one as leader and one as follower. The rate of each throttle comes from the brokers'
        dynamic configuration. The throttled replicas come from the topics' configuration: all replicas, or a list of
        pairs of partition and broker id.
Rule 2: all record bytes of throttled replicas are counted in samples; by default the last eleven samples of one second
        are kept (`replication.quota.window.num` and `.size.seconds`, for moves `alter.log.dirs.replication.quota.*`).
        The measured rate is the sum of these samples divided by the time since the oldest of them began. This time
        counts as at least one sample. The quota is exceeded if the measured rate is above the configured rate.
Rule 3: while the quota is exceeded, a throttled replica that is not in sync gets no records; an in-sync replica gets
        all records. Bytes are counted after they were moved, so the quota limits the average, not each response.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from messages.cluster import ConfigEntry, TopicPartition
from messages.node_settings import NodeSettings
from messages.partition import ThrottledTopic

LEADER, FOLLOWER = "leader", "follower"
SIDES = (LEADER, FOLLOWER)

ALL = "*"


def metric(side: str) -> str:
    """Return the name of the gauge for the rate in bytes per second."""
    return f"kafka_server_{side}replication_byte_rate"


def replicas_setting(side: str) -> str:
    """Return the topic setting that lists the throttled replicas."""
    return f"{side}.replication.throttled.replicas"


def rate_setting(side: str) -> str:
    """Return the broker setting of the rate in bytes per second."""
    return f"{side}.replication.throttled.rate"


def replication_quota(settings: NodeSettings) -> ReplicationQuota:
    """Return a quota without a rate, with the configured samples (rule 2)."""
    samples, seconds = settings.replication_quota_window_num, settings.replication_quota_window_size_seconds
    return ReplicationQuota(samples=samples, sample_seconds=seconds)


def throttled_topic(topic: str, entries: Iterable[ConfigEntry], side: str, broker_id: int) -> ThrottledTopic:
    """Return the partitions of a topic whose replicas here are throttled, according to its overrides.

    `partitions` is None if all partitions are throttled (rule 1).
    """
    text = dict(entries).get(replicas_setting(side), "").strip()
    if text == ALL:
        return ThrottledTopic(topic, None)
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    return ThrottledTopic(topic, tuple(int(partition) for partition, broker in pairs if int(broker) == broker_id))


def rate_of(side: str, own: Mapping[str, str], of_all: Mapping[str, str]) -> int | None:
    """Return the broker's configured rate in bytes per second, or else the cluster-wide default.

    None if unlimited.
    """
    name = rate_setting(side)
    text = own.get(name, of_all.get(name))
    return None if text is None else int(text)


class ThrottledReplicas:
    """The replicas on this broker that are throttled, as leaders or as followers."""

    def __init__(self) -> None:
        self._topics: dict[str, frozenset[int] | None] = {}
        """Throttled partitions by topic; None for all."""

    def __contains__(self, partition: TopicPartition) -> bool:
        throttled: Collection[int] | None = self._topics.get(partition.topic, ())
        return throttled is None or partition.partition in throttled

    def __bool__(self) -> bool:
        return bool(self._topics)

    def update(self, topics: Iterable[ThrottledTopic]) -> None:
        """Set the throttled partitions of these topics."""
        for topic, partitions in topics:
            if partitions == ():
                self._topics.pop(topic, None)
            else:
                self._topics[topic] = None if partitions is None else frozenset(partitions)

    def throttled_topics(self) -> tuple[ThrottledTopic, ...]:
        """Return the throttled partitions of all topics, for a new fetcher."""
        return tuple(
            ThrottledTopic(topic, None if partitions is None else tuple(sorted(partitions)))
            for topic, partitions in self._topics.items()
        )


@attrs.define
class ReplicationQuota:
    """The replication quota of leaders or of followers; times are in seconds, rates in bytes per second."""

    rate: int | None = None
    replicas: ThrottledReplicas = attrs.field(factory=ThrottledReplicas)
    samples: int = 11
    """Maximum number of samples that are kept."""
    sample_seconds: int = 1
    _kept: list[tuple[float, int]] = attrs.field(factory=list)
    """(start time, bytes) of each sample, the oldest first."""

    def count(self, size: int, now: float) -> None:
        """Count bytes of throttled replicas."""
        samples = self._kept
        if samples and now - samples[-1][0] < self.sample_seconds:
            samples[-1] = samples[-1][0], samples[-1][1] + size
        else:
            samples.append((now, size))
            del samples[: -self.samples]

    def measured_rate(self, now: float) -> float:
        """Return the measured rate in bytes per second (rule 2). Nothing changes, so any thread may call this."""
        return self._rate(self._valid(now), now)

    def _valid(self, now: float) -> list[tuple[float, int]]:
        return [sample for sample in self._kept if sample[0] + self.samples * self.sample_seconds > now]

    def is_exceeded(self, now: float) -> bool:
        """Return whether the current rate exceeds the quota."""
        return self.rate is not None and bool(self._kept) and self.measured_rate(now) > self.rate

    def free_at(self, now: float) -> float:
        """Return the time at which the quota is no longer exceeded, if no bytes are counted until then."""
        left, moment = self._valid(now), now
        while left and self.rate is not None and self._rate(left, moment) > self.rate:
            first, expires = left[0][0], left[0][0] + self.samples * self.sample_seconds
            enough = first + sum(size for _, size in left) / self.rate if self.rate else expires
            if enough < expires:
                return max(enough, moment)
            left, moment = left[1:], max(expires, moment)
        return moment

    def _rate(self, samples: list[tuple[float, int]], now: float) -> float:
        return sum(size for _, size in samples) / max(now - samples[0][0], self.sample_seconds) if samples else 0.0
