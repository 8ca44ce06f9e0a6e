"""LeaderAndIsr: lead or follow partitions (controller.md 4).

Responses of v5+ contain *only* topic ids. When such a response is read, the id's text becomes the topic name ("" for
the zero id). When it is written, topics without an id are in one group, which has the zero id.
"""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import REPLICA_MANAGER, Api, Binding, PartitionError, on_cluster
from messages.cluster import TopicId, TopicPartition
from messages.vocabulary import Message, message


@message
class LeaderAndIsrPartitionState(Message):
    """A partition in a LeaderAndIsr request, with its leader, ISR and replicas."""

    partition: TopicPartition
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = 0


@message
class LiveLeader(Message):
    """A leader named in a LeaderAndIsr request, with its inter-broker endpoint."""

    broker_id: int
    host: str
    port: int


@message
class LeaderAndIsrRequest(Message):
    """The controller's request to a broker to lead or follow partitions (API key 4).

    From version 5 on, it has the ids of their topics, if they have any.
    """

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partition_states: tuple[LeaderAndIsrPartitionState, ...]
    live_leaders: tuple[LiveLeader, ...]
    topic_ids: tuple[TopicId, ...] = ()


@message
class LeaderAndIsrResponse(Message):
    """The response to LeaderAndIsr."""

    error_code: int
    partition_errors: tuple[PartitionError, ...] = ()
    topic_ids: tuple[TopicId, ...] = ()


def _refuse(request: LeaderAndIsrRequest, code: int) -> LeaderAndIsrResponse:
    return LeaderAndIsrResponse(
        code, tuple([PartitionError(each.partition, code) for each in request.partition_states]), request.topic_ids
    )


API = Api(
    key=4,
    versions=(0, 7),
    request=LeaderAndIsrRequest,
    response=LeaderAndIsrResponse,
    answerer=REPLICA_MANAGER,
    access=(on_cluster(Operation.CLUSTER_ACTION),),
    codes="NONE STALE_BROKER_EPOCH STALE_CONTROLLER_EPOCH UNKNOWN_TOPIC_OR_PARTITION INVALID_TOPIC KAFKA_STORAGE_ERROR"
    " INCONSISTENT_TOPIC_ID",
    sample=lambda about: LeaderAndIsrRequest(
        4,
        about.controller,
        about.controller_epoch,
        about.broker_epoch,
        partition_states=(
            LeaderAndIsrPartitionState(
                about.partition, about.controller_epoch, 90, about.leader_epoch, isr=(90,), zk_version=0, replicas=(90,)
            ),
        ),
        live_leaders=(),
    ),
    odd="controller_epoch-1 broker_epoch-1 leader_epoch-1 leader_epoch+1 partition=bad/name;leader_epoch+1"
    " as=old-leader as=old-follower",
    refuse=_refuse,
    bindings={
        LeaderAndIsrRequest: Binding(
            gathered={"partition_states": ("ungrouped_partition_states", "topic_states.partition_states")},
        ),
        LeaderAndIsrPartitionState: Binding(renamed={"zk_version": ("partition_epoch",)}),
        LiveLeader: Binding(renamed={"host": ("host_name",)}),
        LeaderAndIsrResponse: Binding(gathered={"partition_errors": ("partition_errors", "topics.partition_errors")}),
    },
    control=True,
)
