"""StopReplica: stop replicas, and delete some of them (controller.md 4).

Before v3 one flag applies to all partitions, and leader epochs are not on the wire. A request with different flags
cannot be encoded, so the controller sends two requests.
"""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import REPLICA_MANAGER, Api, Binding, PartitionError, on_cluster
from messages.cluster import NO_EPOCH, TopicPartition
from messages.vocabulary import Message, message


@message
class StopReplicaPartitionState(Message):
    """A partition in a StopReplica request; its leader epoch is sent only from version 3 on."""

    partition: TopicPartition
    leader_epoch: int = NO_EPOCH
    delete_partition: bool = False


@message
class StopReplicaRequest(Message):
    """The controller's request to a broker to stop replicas, and to delete some of them (API key 5).

    Below v3 all partitions of one request must have the same `delete_partition`.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[StopReplicaPartitionState, ...]


@message
class StopReplicaResponse(Message):
    """The response to StopReplica."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()


def _delete_partitions(request: StopReplicaRequest) -> bool:
    flags = {state.delete_partition for state in request.partition_states}
    if len(flags) > 1:
        raise ValueError("StopReplica before version 3 can only delete all its partitions or none")
    return True in flags


def _refuse(request: StopReplicaRequest, code: int) -> StopReplicaResponse:
    """Return the response that rejects a request.

    The response has no partitions if `code` means a stale epoch; otherwise it has all partitions of the request.
    """
    states = () if code in (errors.STALE_BROKER_EPOCH, errors.STALE_CONTROLLER_EPOCH) else request.partition_states
    return StopReplicaResponse(code, tuple([PartitionError(state.partition, code) for state in states]))


API = Api(
    key=5,
    versions=(0, 4),
    request=StopReplicaRequest,
    response=StopReplicaResponse,
    answerer=REPLICA_MANAGER,
    access=(on_cluster(Operation.CLUSTER_ACTION),),
    codes="NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH FENCED_LEADER_EPOCH KAFKA_STORAGE_ERROR",
    sample=lambda about: StopReplicaRequest(
        3,
        about.controller,
        about.controller_epoch,
        about.broker_epoch,
        partition_states=(StopReplicaPartitionState(TopicPartition("bad/name", 0), about.leader_epoch),),
    ),
    odd="controller_epoch-1 broker_epoch-1 partition=@partition;leader_epoch-1",
    refuse=_refuse,
    bindings={
        StopReplicaRequest: Binding(
            gathered={
                "partition_states": (
                    "ungrouped_partitions",
                    "topics.partition_indexes",
                    "topic_states.partition_states",
                )
            },
            written={"delete_partitions": _delete_partitions},
        ),
        StopReplicaPartitionState: Binding(renamed={"delete_partition": ("delete_partition", "delete_partitions")}),
    },
    control=True,
)
