"""AlterPartitionReassignments: start or cancel reassignments (controller.md 7.7)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, on_cluster
from messages.vocabulary import Message, message


@message
class ReassignablePartition(Message):
    """The target replicas of one partition, preferred replica first; None cancels its reassignment."""

    partition_index: int
    replicas: tuple[int, ...] | None


@message
class ReassignableTopic(Message):
    """The partitions of one topic that a client wants to reassign."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest(Message):
    """A client's request to the controller to start or cancel reassignments (API key 45)."""

    version: int
    timeout_ms: int
    topics: tuple[ReassignableTopic, ...]


@message
class ReassignablePartitionResponse(Message):
    """The result for one partition; the error code is NONE if its reassignment was started or cancelled."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ReassignableTopicResponse(Message):
    """The results for the partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse(Message):
    """The response to AlterPartitionReassignments; it has no partitions if it has a top-level error."""

    error_code: int
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
    throttle_time_ms: int = 0


API = Api(
    key=45,
    versions=(0, 0),
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.ALTER),),
    codes="NONE NOT_CONTROLLER INVALID_REPLICA_ASSIGNMENT NO_REASSIGNMENT_IN_PROGRESS UNKNOWN_TOPIC_OR_PARTITION",
    sample=lambda about: AlterPartitionReassignmentsRequest(
        0,
        TIMEOUT_MS,
        (ReassignableTopic(about.partition.topic, (ReassignablePartition(about.partition.partition, None),)),),
    ),
    odd="name=absent;replicas=0 replicas=",
    elsewhere=errors.NOT_CONTROLLER,
)
