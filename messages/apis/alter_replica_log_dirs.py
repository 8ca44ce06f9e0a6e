"""AlterReplicaLogDirs: move replicas of a broker to other log directories (KIP-113)."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, REPLICA_MANAGER, Api, Binding, PartitionError, on_cluster
from messages.cluster import TopicPartition
from messages.vocabulary import Message, message


@message
class ReplicaLogDir(Message):
    """The log directory `path` for these partitions."""

    path: str
    partitions: tuple[TopicPartition, ...]


@message
class AlterReplicaLogDirsRequest(Message):
    """A client's request to move a broker's replicas (API key 34)."""

    version: int
    dirs: tuple[ReplicaLogDir, ...]


@message
class AlterReplicaLogDirsResponse(Message):
    """The response to AlterReplicaLogDirs; a move begins with it, and ends later."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


API = Api(
    key=34,
    versions=(0, 2),
    request=AlterReplicaLogDirsRequest,
    response=AlterReplicaLogDirsResponse,
    answerer=REPLICA_MANAGER,
    codes="NONE UNKNOWN_TOPIC_OR_PARTITION REPLICA_NOT_AVAILABLE INVALID_TOPIC KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND",
    access=(on_cluster(Operation.ALTER),),
    sample=lambda about: AlterReplicaLogDirsRequest(2, (ReplicaLogDir("/absent", (about.partition,)),)),
    refuse=lambda request, code: AlterReplicaLogDirsResponse(
        tuple([PartitionError(partition, code) for each in request.dirs for partition in each.partitions])
    ),
    bindings={
        ReplicaLogDir: BY_TOPIC,
        AlterReplicaLogDirsResponse: Binding(gathered={"partitions": ("results.partitions",)}),
    },
)
