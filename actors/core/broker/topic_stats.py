"""Counts of requests, bytes and failures for each topic (Kafka's BrokerTopicStats; conventions.md 7).

Rule 1: counts are collected here. A publication contains the increases since the last publication, by topic and for all
        topics together. Bytes between brokers are only counted for all topics together. Bytes to replicas that a
        reassignment adds are also counted separately, by the leader and by the follower.
Rule 2: a produce that Kafka refuses with an expected error does not count as failed. A batch that is too large adds its
        bytes to the rejected bytes.
Rule 3: if this broker leads no partition of a topic any more, but follows some, the leader metrics of the topic are
        dropped. Follower counts are not dropped, because they are for all topics together.
Rule 4: an unknown topic is not counted: otherwise names that clients make up would stay in the metrics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from messages import errors
from messages.apis.fetch import CONSUMER, FetchedPartition, FetchRequest
from messages.apis.produce import ProducedPartition, ProducePartition
from messages.metrics import Count, DropMetrics

FIGURES, FIGURES_SECONDS = "figures", 1.0
"""The timer and the interval in seconds of publications."""

PREFIX = "kafka_server_brokertopicmetrics_"

MESSAGES_IN, BYTES_IN, BYTES_OUT, BYTES_REJECTED = "messagesin", "bytesin", "bytesout", "bytesrejected"
PRODUCES, FAILED_PRODUCES = "totalproducerequests", "failedproducerequests"
FETCHES, FAILED_FETCHES = "totalfetchrequests", "failedfetchrequests"
REPLICATION_IN, REPLICATION_OUT = "replicationbytesin", "replicationbytesout"
REASSIGNMENT_IN, REASSIGNMENT_OUT = "reassignmentbytesin", "reassignmentbytesout"

OF_ALL_TOPICS_ONLY = (REPLICATION_IN, REPLICATION_OUT, REASSIGNMENT_IN, REASSIGNMENT_OUT)

OF_ALL_TOPICS = (
    *(MESSAGES_IN, BYTES_IN, BYTES_OUT, BYTES_REJECTED, PRODUCES, FAILED_PRODUCES, FETCHES, FAILED_FETCHES),
    *OF_ALL_TOPICS_ONLY,
)
"""Counters of all topics together, which exist from the start."""

OF_LEADERS = (MESSAGES_IN, BYTES_IN, BYTES_REJECTED, PRODUCES, FAILED_PRODUCES)
"""Counters that a topic has only where it is led (rule 3). Conversions are not counted, because none happen."""

FORESEEN = frozenset(
    {
        *(
            errors.NOT_LEADER_OR_FOLLOWER,
            errors.MESSAGE_TOO_LARGE,
            errors.RECORD_LIST_TOO_LARGE,
            errors.CORRUPT_MESSAGE,
            errors.KAFKA_STORAGE_ERROR,
        ),
    }
)
"""Error codes with which a produce is refused, but not failed (rule 2). Every fetch error counts as expected."""


def metric(figure: str) -> str:
    """Return the name of a published counter."""
    return f"{PREFIX}{figure}_total"


class TopicStats:
    """How much the counters of each topic have increased since an actor last published them as metrics."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        """The increase by (counter, topic)."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def count(self, figure: str, topic: str, by: int = 1) -> None:
        """Add to a count."""
        counts, place = self._counts, (figure, topic)
        counts[place] = counts.get(place, 0) + by

    def count_produce(self, answered: Iterable[tuple[ProducePartition, ProducedPartition]]) -> None:
        """Count each partition of some Produce requests by the partition's result (rules 2 and 4)."""
        taken: dict[str, list[int]] = {}
        for part, result in answered:
            topic, code = part.partition.topic, result.error_code
            if code == errors.NONE:
                sums = taken.get(topic)
                if sums is None:
                    sums = taken[topic] = [0, 0, 0]
                sums[0] += 1
                sums[1] += part.records.body.size
                for header in part.records.batches:
                    sums[2] += header.record_count
            elif code != errors.UNKNOWN_TOPIC_OR_PARTITION:
                self.count(PRODUCES, topic)
                if code in (errors.MESSAGE_TOO_LARGE, errors.RECORD_LIST_TOO_LARGE):
                    self.count(BYTES_REJECTED, topic, part.records.body.size)
                elif code not in FORESEEN:
                    self.count(FAILED_PRODUCES, topic)
        for topic, (produces, size, records) in taken.items():
            self.count(PRODUCES, topic, produces)
            self.count(BYTES_IN, topic, size)
            self.count(MESSAGES_IN, topic, records)

    def count_fetch(self, request: FetchRequest, results: Iterable[FetchedPartition]) -> None:
        """Count a fetch with its response."""
        for result in results:
            topic, size = result.partition.topic, result.body.size
            if result.error_code == errors.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            self.count(FETCHES, topic)
            if size:
                self.count(BYTES_OUT if request.replica_id == CONSUMER else REPLICATION_OUT, topic, size)

    def count_followed(self, topic: str, size: int, adding: bool) -> None:
        """Count bytes fetched from a leader. `adding` is whether a reassignment adds this replica."""
        self.count(REPLICATION_IN, topic, size)
        if adding:
            self.count(REASSIGNMENT_IN, topic, size)

    def take(self) -> tuple[Count, ...]:
        """Return the counts since the last call (rule 1)."""
        counts, self._counts = self._counts, {}
        totals: dict[str, int] = {}
        per_topic = []
        for (figure, topic), by in counts.items():
            totals[figure] = totals.get(figure, 0) + by
            if figure not in OF_ALL_TOPICS_ONLY:
                per_topic.append(Count(metric(figure), by, (("topic", topic),)))
        return (*(Count(metric(figure), by) for figure, by in totals.items()), *per_topic)


def metrics_to_drop(followed: Iterable[str], led: Collection[str]) -> DropMetrics | None:
    """Return the metrics to drop: those of followed topics that are not in `led` (rule 3); None if there are none."""
    topics = tuple((("topic", topic),) for topic in dict.fromkeys(followed) if topic not in led)
    return DropMetrics(tuple(map(metric, OF_LEADERS)), topics) if topics else None
