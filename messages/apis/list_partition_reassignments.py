"""ListPartitionReassignments: the reassignments in progress (controller.md 7.7)."""

from __future__ import annotations

from messages import errors
from messages.acls import Operation
from messages.apis.declaration import CONTROLLER, TIMEOUT_MS, Api, on_cluster
from messages.vocabulary import Message, message


@message
class ListPartitionReassignmentsTopics(Message):
    """The partitions of one topic that a client wants to check for ongoing reassignments."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class ListPartitionReassignmentsRequest(Message):
    """A client's request to the controller to list the reassignments in progress (API key 46).

    The request is for all partitions (`topics` is None) or for some.
    """

    version: int
    timeout_ms: int
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@message
class OngoingPartitionReassignment(Message):
    """A partition that is being reassigned: all its replicas, those being added, and those being removed."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@message
class OngoingTopicReassignment(Message):
    """The partitions of one topic that are being reassigned."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse(Message):
    """The response to ListPartitionReassignments."""

    error_code: int
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
    throttle_time_ms: int = 0


API = Api(
    key=46,
    versions=(0, 0),
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    answerer=CONTROLLER,
    access=(on_cluster(Operation.DESCRIBE),),
    codes="NONE NOT_CONTROLLER",
    sample=lambda about: ListPartitionReassignmentsRequest(
        0, TIMEOUT_MS, (ListPartitionReassignmentsTopics(about.partition.topic, (about.partition.partition,)),)
    ),
    odd="topics=null",
    elsewhere=errors.NOT_CONTROLLER,
)
