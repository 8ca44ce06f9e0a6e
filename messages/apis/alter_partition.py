"""AlterPartition: a leader changes the ISR of its partitions through the controller (KIP-497).

Versions from 2 on, with topic ids, are not served: brokers of later releases use version 1 then.
"""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import BY_TOPIC, CONTROLLER, Api, Binding, on_cluster
from messages.cluster import NO_EPOCH, NO_LEADER, TopicPartition
from messages.vocabulary import Message, message


@message
class IsrOfPartition(Message):
    """The ISR that a leader wants for a partition; `partition_epoch` is the version of the state that it knows."""

    partition: TopicPartition
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    leader_recovery_state: int = 0


@message
class AlterPartitionRequest(Message):
    """A leader's request to the controller to change ISRs (API key 56)."""

    version: int
    broker_id: int
    broker_epoch: int
    partitions: tuple[IsrOfPartition, ...]


@message
class AlteredPartition(Message):
    """The state of a partition after the request, or an error."""

    partition: TopicPartition
    error_code: int
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_recovery_state: int = 0


@message
class AlterPartitionResponse(Message):
    """The response to AlterPartition."""

    error_code: int
    partitions: tuple[AlteredPartition, ...] = ()
    throttle_time_ms: int = 0


API = Api(
    key=56,
    versions=(0, 1),
    request=AlterPartitionRequest,
    response=AlterPartitionResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.CLUSTER_ACTION),),
    codes="NONE STALE_BROKER_EPOCH NOT_CONTROLLER UNKNOWN_TOPIC_OR_PARTITION FENCED_LEADER_EPOCH INVALID_REQUEST"
    " INVALID_UPDATE_VERSION OPERATION_NOT_ATTEMPTED",
    sample=lambda about: AlterPartitionRequest(
        1, about.node, about.broker_epoch, (IsrOfPartition(about.partition, about.leader_epoch, (about.node,), -1),)
    ),
    odd="broker_epoch-1 partition=absent leader_epoch-1 leader_epoch+1",
    bindings={
        AlterPartitionRequest: BY_TOPIC,
        IsrOfPartition: Binding(renamed={"isr": ("new_isr",)}),
        AlterPartitionResponse: BY_TOPIC,
    },
    elsewhere=errors.NOT_CONTROLLER,
    control=True,
    is_listed=True,
)
