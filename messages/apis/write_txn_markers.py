"""WriteTxnMarkers: end transactions in the logs of their partitions (transactions.md 3)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, LEADERSHIP, PARTITIONS, Api, Binding, PartitionError, on_cluster
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


@message
class WritableTxnMarker(Message):
    """The end of a transaction in these partitions: commit if `transaction_result` is true, otherwise abort."""

    producer_id: int
    producer_epoch: int
    transaction_result: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int


@message
class WriteTxnMarkersRequest(Message):
    """The coordinator's request to partition leaders to write markers, which end transactions (API key 27)."""

    version: int
    markers: tuple[WritableTxnMarker, ...]


@message
class WritableTxnMarkerResult(Message):
    """The results for the markers of one producer id, by partition."""

    producer_id: int
    partitions: tuple[PartitionError, ...]


@message
class WriteTxnMarkersResponse(Message):
    """The response to WriteTxnMarkers, with results by producer id."""

    markers: tuple[WritableTxnMarkerResult, ...]


def _refuse(request: WriteTxnMarkersRequest, code: int) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        tuple(
            [
                WritableTxnMarkerResult(
                    each.producer_id, tuple([PartitionError(partition, code) for partition in each.partitions])
                )
                for each in request.markers
            ]
        )
    )


API = Api(
    key=27,
    versions=(0, 1),
    request=WriteTxnMarkersRequest,
    response=WriteTxnMarkersResponse,
    answerer=PARTITIONS,
    access=(on_cluster(Operation.CLUSTER_ACTION, or_cluster=Operation.ALTER),),
    codes=f"NONE {LEADERSHIP} INVALID_PRODUCER_EPOCH TRANSACTION_COORDINATOR_FENCED REQUEST_TIMED_OUT"
    " NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND UNKNOWN_SERVER_ERROR",
    # The simulated readers of x-2 skip markers.
    sample=lambda about: WriteTxnMarkersRequest(0, (WritableTxnMarker(901, 1, False, (TopicPartition("x", 2),), 5),)),
    odd="coordinator_epoch=4 producer_epoch=0 producer_epoch=-1 as=coordinator",
    refuse=_refuse,
    bindings={
        WritableTxnMarker: Binding(gathered={"partitions": ("topics.partition_indexes",)}),
        WritableTxnMarkerResult: BY_TOPIC,
    },
)
