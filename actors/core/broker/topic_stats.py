"""Count produce and fetch requests, bytes and failures by topic (Kafka's BrokerTopicStats; conventions.md 7).

Rule 1: counts are collected here, and published as differences since the last publication: by topic, and of all topics
        together. Bytes between brokers are counted of all topics only; those of replicas that a reassignment adds also
        separately, by their leader and their followers.
Rule 2: a produce that is refused for what Kafka foresees is no failed one. A batch that is too large counts by its
        bytes as rejected.
Rule 3: a topic that is followed here, and led nowhere here, has no figures of leaders any more. Those of followers are
        of all topics together, and stay.
Rule 4: a topic that is nowhere is not counted: names that clients make up would be figures for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from messages.data_requests import CONSUMER, FetchedPartition, FetchRequest, ProducedPartition, ProducePartition
from messages.error_codes import (
    CORRUPT_MESSAGE,
    KAFKA_STORAGE_ERROR,
    MESSAGE_TOO_LARGE,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    RECORD_LIST_TOO_LARGE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.metrics import Count, DropMetrics

FIGURES, FIGURES_SECONDS = "figures", 1.0
"""The timer and the interval of their publication."""

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
"""Figures of all topics together, which are there from the start."""

OF_LEADERS = (MESSAGES_IN, BYTES_IN, BYTES_REJECTED, PRODUCES, FAILED_PRODUCES)
"""Figures that a topic has only where it is led (rule 3). Conversions are not counted: there are none."""

FORESEEN = frozenset(
    {
        *(NOT_LEADER_OR_FOLLOWER, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR),
    }
)
"""Codes of a produce that is refused, and did not fail (rule 2). Of a fetch it is so with all."""


def metric(figure: str) -> str:
    """The name of a published figure."""
    return f"{PREFIX}{figure}_total"


class TopicStats:
    """The counts of one actor that are not published yet."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        """(figure, topic) -> by how much it has grown."""

    def __bool__(self) -> bool:
        return bool(self._counts)

    def count(self, figure: str, topic: str, by: int = 1) -> None:
        """Add to the count."""
        counts, place = self._counts, (figure, topic)
        counts[place] = counts.get(place, 0) + by

    def produced(self, answered: Iterable[tuple[ProducePartition, ProducedPartition]]) -> None:
        """What became of partitions of produces that are answered."""
        taken: dict[str, list[int]] = {}
        for part, result in answered:
            topic, code = part.partition.topic, result.error_code
            if code == NONE:
                sums = taken.get(topic)
                if sums is None:
                    sums = taken[topic] = [0, 0, 0]
                sums[0] += 1
                sums[1] += part.records.body.size
                for header in part.records.batches:
                    sums[2] += header.record_count
            elif code != UNKNOWN_TOPIC_OR_PARTITION:
                self.count(PRODUCES, topic)
                if code in (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE):
                    self.count(BYTES_REJECTED, topic, part.records.body.size)
                elif code not in FORESEEN:
                    self.count(FAILED_PRODUCES, topic)
        for topic, (produces, size, records) in taken.items():
            self.count(PRODUCES, topic, produces)
            self.count(BYTES_IN, topic, size)
            self.count(MESSAGES_IN, topic, records)

    def fetched(self, request: FetchRequest, results: Iterable[FetchedPartition]) -> None:
        """A fetch is answered."""
        for result in results:
            topic, size = result.partition.topic, result.body.size
            if result.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                continue
            self.count(FETCHES, topic)
            if size:
                self.count(BYTES_OUT if request.replica_id == CONSUMER else REPLICATION_OUT, topic, size)

    def followed(self, topic: str, size: int, adding: bool) -> None:
        """Count bytes fetched from a leader; `adding`: a reassignment adds our replica."""
        self.count(REPLICATION_IN, topic, size)
        if adding:
            self.count(REASSIGNMENT_IN, topic, size)

    def take(self) -> tuple[Count, ...]:
        """What has been added since it was last asked (rule 1)."""
        counts, self._counts = self._counts, {}
        totals: dict[str, int] = {}
        per_topic = []
        for (figure, topic), by in counts.items():
            totals[figure] = totals.get(figure, 0) + by
            if figure not in OF_ALL_TOPICS_ONLY:
                per_topic.append(Count(metric(figure), by, (("topic", topic),)))
        return (*(Count(metric(figure), by) for figure, by in totals.items()), *per_topic)


def outdated(followed: Iterable[str], led: Collection[str]) -> DropMetrics | None:
    """What is to be forgotten of topics that are followed now and not `led` any more (rule 3); None: nothing."""
    topics = tuple((("topic", topic),) for topic in dict.fromkeys(followed) if topic not in led)
    return DropMetrics(tuple(map(metric, OF_LEADERS)), topics) if topics else None
