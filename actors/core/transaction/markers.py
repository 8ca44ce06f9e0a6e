"""Build the WriteTxnMarkers requests to one broker, and evaluate the responses.

Rule 1: A request contains the queued markers of up to MARKERS_AT_ONCE transactions. Brokers keep one result per
        producer id, so a request has markers of at most one transaction of each producer.
Rule 2: DONE codes: the partition has the marker or needs none. RETRIED codes: the marker is sent again to the
        current leader. CANCELLING codes: a newer producer or coordinator exists, and all markers of the transaction are
        cancelled. Any other code ends the attempts for this partition.

Kafka: `TransactionMarkerChannelManager`, `TransactionMarkerRequestCompletionHandler`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from actors.core.transaction.request_queue import take_fitting
from messages import errors
from messages.apis.write_txn_markers import WritableTxnMarker, WriteTxnMarkersRequest, WriteTxnMarkersResponse
from messages.cluster import TopicPartition
from messages.transactions import Marker

REQUEST_VERSION = 0
MARKERS_AT_ONCE = 1000

DONE = frozenset({errors.NONE, errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, errors.UNSUPPORTED_VERSION})
"""Codes of partitions that have the marker or whose record format has no markers."""
RETRIED = frozenset(
    {
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.NOT_ENOUGH_REPLICAS,
        errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        errors.REQUEST_TIMED_OUT,
        errors.KAFKA_STORAGE_ERROR,
    }
)
CANCELLING = frozenset({errors.INVALID_PRODUCER_EPOCH, errors.TRANSACTION_COORDINATOR_FENCED})


class Outcome(NamedTuple):
    """The result of sending a marker to its partitions.

    `done` are the partitions that have the marker, or whose record format has no markers. `again` are the partitions to
    try again. `failed` are the partitions with unexpected error codes, and these codes. If a partition's error code
    shows that a newer producer epoch or coordinator exists, `cancelled` is this code; otherwise it is NONE.
    """

    marker: Marker
    done: tuple[TopicPartition, ...]
    again: tuple[TopicPartition, ...]
    cancelled: int
    failed: tuple[tuple[TopicPartition, int], ...]


def take(queue: deque[Marker]) -> list[Marker]:
    """Remove the markers of the next request from the queue (rule 1) and return them."""
    producers: set[int] = set()

    def is_first(marker: Marker) -> bool:
        is_new = marker.producer_id not in producers
        producers.add(marker.producer_id)
        return is_new

    return take_fitting(queue, MARKERS_AT_ONCE, is_first)


def request_of(markers: Iterable[Marker]) -> WriteTxnMarkersRequest:
    """Return the request that sends these markers."""
    return WriteTxnMarkersRequest(
        REQUEST_VERSION,
        tuple(
            [
                WritableTxnMarker(
                    each.producer_id, each.producer_epoch, each.commit, each.partitions, each.coordinator_epoch
                )
                for each in markers
            ]
        ),
    )


def outcomes(markers: Iterable[Marker], response: WriteTxnMarkersResponse) -> list[Outcome]:
    """Return the outcome of each marker; partitions that are not in the response are tried again."""
    codes = {
        (result.producer_id, each.partition): each.error_code
        for result in response.markers
        for each in result.partitions
    }
    return [_outcome(marker, codes) for marker in markers]


def _outcome(marker: Marker, codes: dict[tuple[int, TopicPartition], int]) -> Outcome:
    done, again, failed, cancelled = [], [], [], errors.NONE
    for partition in marker.partitions:
        code = codes.get((marker.producer_id, partition), errors.REQUEST_TIMED_OUT)
        if code in DONE:
            done.append(partition)
        elif code in RETRIED:
            again.append(partition)
        elif code in CANCELLING:
            cancelled = code
        else:
            failed.append((partition, code))
    return Outcome(marker, tuple(done), tuple(again), cancelled, tuple(failed))
