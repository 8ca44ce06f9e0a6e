"""Replication throttles (KIP-73): limit the bytes per second of replicas that are not in sync.

Rule 1: a broker has two, one as leader and one as follower, each with a rate, of which brokers' dynamic configuration
        tells, and with the replicas that it is for, of which topics' configuration tells: all, or pairs of partition
        and broker, of which those of this broker are its.
Rule 2: all bytes of records of those replicas are counted. They go into samples of a second, eleven of which are kept;
        their sum is divided by the time since the first began, a second at least. More than the rate is too much.
Rule 3: while it is too much, a replica that is not in sync gets no records, and an in-sync one all. Bytes that are
        counted have been moved, so the rate is kept on the average, not by each answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import attrs

from messages.cluster import ConfigEntry, TopicPartition
from messages.partition import ThrottledTopic

LEADER, FOLLOWER = "leader", "follower"
SIDES = (LEADER, FOLLOWER)

SAMPLES = 11
SAMPLE_SECONDS = 1.0
"""`replication.quota.window.num` and `replication.quota.window.size.seconds`, as Kafka's defaults are."""

ALL = "*"


def metric(side: str) -> str:
    """The name of the gauge that tells how many bytes a second are moved."""
    return f"kafka_server_{side}replication_byte_rate"


def replicas_setting(side: str) -> str:
    """The topics' setting that says which replicas are throttled."""
    return f"{side}.replication.throttled.replicas"


def rate_setting(side: str) -> str:
    """The brokers' setting that says to how many bytes a second."""
    return f"{side}.replication.throttled.rate"


def throttled_topic(topic: str, entries: Iterable[ConfigEntry], side: str, broker_id: int) -> ThrottledTopic:
    """The partitions of a topic whose replicas here are throttled, by its overrides; None is all (rule 1)."""
    text = dict(entries).get(replicas_setting(side), "").strip()
    if text == ALL:
        return ThrottledTopic(topic, None)
    pairs = [pair.split(":") for pair in text.split(",") if pair]
    return ThrottledTopic(topic, tuple(int(partition) for partition, broker in pairs if int(broker) == broker_id))


def rate_of(side: str, own: Mapping[str, str], of_all: Mapping[str, str]) -> int | None:
    """Bytes a second, by the broker's own configuration, or by that of all brokers; None: as many as there are."""
    name = rate_setting(side)
    text = own.get(name, of_all.get(name))
    return None if text is None else int(text)


class ThrottledReplicas:
    """The replicas on this broker that are throttled, as leaders or as followers."""

    def __init__(self) -> None:
        self._topics: dict[str, frozenset[int] | None] = {}
        """None: all partitions."""

    def __contains__(self, partition: TopicPartition) -> bool:
        throttled: Collection[int] | None = self._topics.get(partition.topic, ())
        return throttled is None or partition.partition in throttled

    def __bool__(self) -> bool:
        return bool(self._topics)

    def update(self, topics: Iterable[ThrottledTopic]) -> None:
        """Of these topics it is so from now on."""
        for topic, partitions in topics:
            if partitions == ():
                self._topics.pop(topic, None)
            else:
                self._topics[topic] = None if partitions is None else frozenset(partitions)

    def throttled_topics(self) -> tuple[ThrottledTopic, ...]:
        """The full state, for a new receiver."""
        return tuple(
            ThrottledTopic(topic, None if partitions is None else tuple(sorted(partitions)))
            for topic, partitions in self._topics.items()
        )


@attrs.define
class ReplicationQuota:
    """The replication quota of leaders or of followers; times are in seconds, rates in bytes per second."""

    rate: int | None = None
    replicas: ThrottledReplicas = attrs.field(factory=ThrottledReplicas)
    _samples: list[tuple[float, int]] = attrs.field(factory=list)
    """(when it began, its bytes), the oldest first."""

    def count(self, size: int, now: float) -> None:
        """Count bytes of throttled replicas."""
        samples = self._samples
        if samples and now - samples[-1][0] < SAMPLE_SECONDS:
            samples[-1] = samples[-1][0], samples[-1][1] + size
        else:
            samples.append((now, size))
            del samples[:-SAMPLES]

    def moved(self, now: float) -> float:
        """How many bytes a second were moved of late (rule 2)."""
        self._samples = [sample for sample in self._samples if sample[0] + SAMPLES * SAMPLE_SECONDS > now]
        return _rate(self._samples, now)

    def is_exceeded(self, now: float) -> bool:
        """Whether that is too much."""
        return self.rate is not None and bool(self._samples) and self.moved(now) > self.rate

    def free_at(self, now: float) -> float:
        """When it will not be too much any more, if nothing is moved until then."""
        left, moment = self._samples, now
        while left and self.rate is not None and _rate(left, moment) > self.rate:
            first, expires = left[0][0], left[0][0] + SAMPLES * SAMPLE_SECONDS
            enough = first + sum(size for _, size in left) / self.rate if self.rate else expires
            if enough < expires:
                return max(enough, moment)
            left, moment = left[1:], max(expires, moment)
        return moment


def _rate(samples: list[tuple[float, int]], now: float) -> float:
    if not samples:
        return 0.0
    return sum(size for _, size in samples) / max(now - samples[0][0], SAMPLE_SECONDS)
