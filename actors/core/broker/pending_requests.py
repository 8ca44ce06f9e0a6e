"""PendingRequests are the clients' requests that wait for the results of their partitions.

Rule 1: each partition's result counts once. A request gets its response when all its partitions have a result.
Rule 2: a produce with acks=0 gets no response. If it fails, the connection is closed, which is the producer's only sign
        of the failure.

Kafka: `KafkaApis`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import attrs

from messages import errors
from messages.apis import API_BY_REQUEST
from messages.apis.declaration import PartitionError
from messages.apis.delete_records import DeletedRecords, DeleteRecordsRequest
from messages.apis.describe_producers import DescribedProducers, DescribeProducersRequest
from messages.apis.fetch import FetchedPartition, FetchRequest
from messages.apis.list_offsets import ListedOffset, ListOffsetsRequest
from messages.apis.offset_for_leader_epoch import EpochEnd, OffsetForLeaderEpochRequest
from messages.apis.produce import ProducedPartition, ProduceRequest, ProduceResponse
from messages.apis.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from messages.cluster import TopicPartition
from messages.network import ClientResponse, CloseClient, Forwarded, client_response
from messages.vocabulary import AnyMessage, Message, maker


class PartitionMarker(NamedTuple):
    """A marker that ends a transaction in one partition."""

    marker: WritableTxnMarker
    partition: TopicPartition


def partition_markers(request: WriteTxnMarkersRequest) -> tuple[PartitionMarker, ...]:
    """Split a WriteTxnMarkers request: one entry for each partition of each marker, in order (transactions.md 1.6).

    A marker with a negative producer epoch is not appended (error code -1). A partition that is not hosted here is
    unknown (error code 3), even if it exists elsewhere; a follower refuses with error code 6. After codes 3 and 6 the
    coordinator looks up the leader again. Kafka: `KafkaApis.handleWriteTxnMarkersRequest`.
    """
    return tuple([PartitionMarker(marker, each) for marker in request.markers for each in marker.partitions])


def markers_response(request: WriteTxnMarkersRequest, results: Sequence[ProducedPartition]) -> WriteTxnMarkersResponse:
    """Build the response from `results`, which have the order of `partition_markers`.

    The markers of one producer id share their results. If several markers of a producer id name the same partition, the
    last marker's result counts.
    """
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


Unanswered = list[tuple[int, TopicPartition]]
"""Partitions without a result, each with its index in the request."""


@attrs.define
class PendingRequest:
    """A pending request: the client, the results of its partitions so far, and the number of missing results."""

    forwarded: Forwarded
    results: list[AnyMessage]
    outstanding: int
    lost: list[int] = attrs.field(factory=list)
    """Indices of partitions that are not hosted here and are looked up in the metadata cache."""
    markers: tuple[PartitionMarker, ...] = ()
    """The markers of a WriteTxnMarkers request."""

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions, in the order of the results."""
        request = self.forwarded.request.request
        if isinstance(request, WriteTxnMarkersRequest):
            return [entry.partition for entry in partition_markers(request)]
        if isinstance(request, DescribeProducersRequest):
            return list(request.partitions)
        return [entry.partition for entry in request.partitions]

    def note(self, index: int, result: Message) -> bool:
        """Store the result of a partition; return False if the partition already has a result (rule 1)."""
        if self.results[index] is not None:
            return False
        self.results[index] = result
        self.outstanding -= 1
        return True

    def refusal(self, partition: TopicPartition, error_code: int) -> AnyMessage:
        """Return the result of a refused partition."""
        return _REFUSALS[type(self.forwarded.request.request)](partition, error_code)

    def found(self, partitions: Collection[TopicPartition]) -> Unanswered:
        """Remove `partitions` from `lost` after their lookup; return those of them that were in `lost`."""
        own = self.partitions
        found = [(index, own[index]) for index in self.lost if own[index] in partitions]
        self.lost = [index for index in self.lost if own[index] not in partitions]
        return found

    def response(self) -> ClientResponse | CloseClient | None:
        """Return the response; CloseClient for a failed produce with acks=0 (rule 2); None if nothing is sent."""
        asked, results = self.forwarded.request, tuple(self.results)
        request = asked.request
        response: AnyMessage = None
        if self.markers:
            response = markers_response(request, results)
        elif not isinstance(request, ProduceRequest) or request.acks != 0:
            response = _RESPONSES[type(request)](results)
        elif (failed := next((result for result in results if result.error_code != errors.NONE), None)) is not None:
            reason = f"a produce with acks=0 to {failed.partition} failed with error {failed.error_code}"
            return CloseClient(asked.connection, reason)
        return client_response(asked.connection, asked.correlation_id, response)


class PendingRequests:
    """The pending requests of a broker, each with a number as its key."""

    def __init__(self) -> None:
        self._numbers = 0
        self._pending: dict[int, PendingRequest] = {}

    def next_number(self) -> int:
        """Return a number for the next request."""
        self._numbers += 1
        return self._numbers

    def begin(self, forwarded: Forwarded, partitions: int) -> tuple[int, PendingRequest]:
        """Add a request.

        Args:
            forwarded: The request and its client.
            partitions: The number of its partitions.

        Returns:
            The request's number, and the pending request.
        """
        number = self.next_number()
        pending = self._pending[number] = PendingRequest(forwarded, [None] * partitions, partitions)
        return number, pending

    def get(self, number: int) -> PendingRequest | None:
        """Return the request; None if it has been answered already."""
        return self._pending.get(number)

    def finish(self, number: int) -> None:
        """Remove a request."""
        del self._pending[number]

    def of_partitions(self, gone: Collection[TopicPartition]) -> Iterator[tuple[int, PendingRequest, Unanswered]]:
        """Yield each pending request that has unanswered partitions in `gone`, with these partitions."""
        for number, pending in list(self._pending.items()) if gone else ():
            unanswered = [
                (index, partition)
                for index, partition in enumerate(pending.partitions)
                if partition in gone and pending.results[index] is None and index not in pending.lost
            ]
            yield number, pending, unanswered


_REFUSALS: dict[type, Callable[[TopicPartition, int], AnyMessage]] = {
    ProduceRequest: ProducedPartition,
    FetchRequest: FetchedPartition,
    ListOffsetsRequest: ListedOffset,
    OffsetForLeaderEpochRequest: EpochEnd,
    DeleteRecordsRequest: DeletedRecords,
    WriteTxnMarkersRequest: ProducedPartition,
    DescribeProducersRequest: DescribedProducers,
}
"""For each request class, a function that builds the result of a refused partition with an error code."""

_RESPONSES: dict[type, Callable[[tuple[AnyMessage, ...]], Message]] = {
    **{request: API_BY_REQUEST[request].response for request in _REFUSALS},
    ProduceRequest: maker(ProduceResponse),
}
