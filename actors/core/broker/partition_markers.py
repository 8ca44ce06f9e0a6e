"""Split WriteTxnMarkers requests by partition, and group the results by producer id (transactions.md 1.6).

Rule 1: a marker with a negative producer epoch is not appended (error code -1). A partition that is not hosted here is
        unknown (error code 3), even if it exists elsewhere; a follower refuses with error code 6. After codes 3 and 6
        the coordinator looks up the leader again.
Rule 2: the markers of one producer id share their results. If several markers of a producer id name the same partition,
        the last marker's result counts.

Kafka: `KafkaApis.handleWriteTxnMarkersRequest`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from messages.apis.declaration import PartitionError
from messages.apis.produce import ProducedPartition
from messages.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from messages.cluster import TopicPartition


class PartitionMarker(NamedTuple):
    """A marker that ends a transaction in one partition."""

    marker: WritableTxnMarker
    partition: TopicPartition


def partition_markers(request: WriteTxnMarkersRequest) -> tuple[PartitionMarker, ...]:
    """Return one entry for each partition of each marker, in the order of the request."""
    return tuple([PartitionMarker(marker, each) for marker in request.markers for each in marker.partitions])


def markers_response(request: WriteTxnMarkersRequest, results: Sequence[ProducedPartition]) -> WriteTxnMarkersResponse:
    """Build the response from `results`, which have the order of `partition_markers` (rule 2)."""
    codes: dict[int, dict[TopicPartition, int]] = {marker.producer_id: {} for marker in request.markers}
    for (marker, partition), result in zip(partition_markers(request), results, strict=True):
        codes[marker.producer_id][partition] = result.error_code
    return WriteTxnMarkersResponse(
        tuple(
            [
                WritableTxnMarkerResult(producer_id, tuple([PartitionError(*each) for each in of_producer.items()]))
                for producer_id, of_producer in codes.items()
            ]
        )
    )
