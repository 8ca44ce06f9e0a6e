"""Admin requests about topics, reassignments and leader elections.

The rules: broker.md 6.2, 6.4; controller.md 1.5, 7.7.

As in `messages.requests`, one class covers all versions. Every response about topics has one result per topic in
`topics`: the topic's name, the error code, and Kafka's error message.
"""

from __future__ import annotations

from messages.vocabulary import Message, message

BY_DEFAULT = -1
"""Value for a number of partitions or a replication factor: use the controller's default."""


@message
class CreatableAssignment(Message):
    """The brokers that host one partition of a new topic, preferred replica first."""

    partition_index: int
    broker_ids: tuple[int, ...]


@message
class CreatableConfig(Message):
    """A config for a new topic; a null value is an error."""

    name: str
    value: str | None


@message
class CreatableTopic(Message):
    """A topic to be created, with numbers of partitions and replicas, or with explicit assignments."""

    name: str
    num_partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: tuple[CreatableAssignment, ...] = ()
    configs: tuple[CreatableConfig, ...] = ()


@message
class CreateTopicsRequest(Message):
    """A client's request to the controller to create topics, or only to check if they can be created (API key 19)."""

    version: int
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class CreatedConfig(Message):
    """A config of a newly created topic. The numbers of config sources are those of DescribeConfigs."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@message
class CreatedTopic(Message):
    """The result of creating one topic: an error, or the topic's configs and numbers of partitions and replicas."""

    name: str
    error_code: int
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = ()


@message
class CreateTopicsResponse(Message):
    """The response to CreateTopics."""

    topics: tuple[CreatedTopic, ...]
    throttle_time_ms: int = 0


@message
class DeleteTopicsRequest(Message):
    """A client's request to the controller to delete topics (API key 20)."""

    version: int
    topics: tuple[str, ...]
    timeout_ms: int


@message
class DeletedTopic(Message):
    """The result of deleting one topic."""

    name: str
    error_code: int


@message
class DeleteTopicsResponse(Message):
    """The response to DeleteTopics."""

    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0


@message
class WantedReplicas(Message):
    """The brokers that will host one new partition, preferred replica first."""

    broker_ids: tuple[int, ...]


@message
class GrowingTopic(Message):
    """A topic that gets more partitions.

    `count` is the new total number of partitions. `assignments` has the brokers of the added partitions; if it is None,
    the brokers are assigned automatically.
    """

    name: str
    count: int
    assignments: tuple[WantedReplicas, ...] | None = None


@message
class CreatePartitionsRequest(Message):
    """A client's request to the controller to add partitions to topics (API key 37)."""

    version: int
    topics: tuple[GrowingTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class GrownTopic(Message):
    """The result of adding partitions to one topic."""

    name: str
    error_code: int
    error_message: str | None = None


@message
class CreatePartitionsResponse(Message):
    """The response to CreatePartitions."""

    topics: tuple[GrownTopic, ...]
    throttle_time_ms: int = 0


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


PREFERRED, UNCLEAN = 0, 1
"""Election types: the preferred replica; any live replica if no in-sync replica is alive."""


@message
class ElectableTopic(Message):
    """The partitions of one topic for which a client requests a leader election."""

    name: str
    partitions: tuple[int, ...]


@message
class ElectLeadersRequest(Message):
    """A client's request to the controller to elect leaders, for all or some partitions (API key 43)."""

    version: int
    topics: tuple[ElectableTopic, ...] | None
    timeout_ms: int
    election_type: int = PREFERRED


@message
class ElectedPartition(Message):
    """The result of an election for one partition; the error code is NONE if the election took place."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ElectedTopic(Message):
    """The election results for the partitions of one topic."""

    name: str
    partitions: tuple[ElectedPartition, ...]


@message
class ElectLeadersResponse(Message):
    """The response to ElectLeaders."""

    topics: tuple[ElectedTopic, ...]
    error_code: int = 0
    throttle_time_ms: int = 0
