"""What admin clients ask about topics, about where their replicas are, and about who leads.

The rules: broker.md 6.2, 6.4; controller.md 1.5, 7.7.

As in `messages.requests`: one class for all versions. Every response about topics lists one result per topic under
`topics`, with its name, its code, and Kafka's words where there is an error.
"""

from __future__ import annotations

from messages.vocabulary import message

BY_DEFAULT = -1
"""In place of a number of partitions or a replication factor: the controller's default."""


@message
class CreatableAssignment:
    """The brokers of one partition, preferred first, as the client wants them."""

    partition_index: int
    broker_ids: tuple[int, ...]


@message
class CreatableConfig:
    """An override as the client wants it; no value is an error."""

    name: str
    value: str | None


@message
class CreatableTopic:
    """A topic to create: a number of partitions and replicas, or explicit assignments."""

    name: str
    num_partitions: int = BY_DEFAULT
    replication_factor: int = BY_DEFAULT
    assignments: tuple[CreatableAssignment, ...] = ()
    configs: tuple[CreatableConfig, ...] = ()


@message
class CreateTopicsRequest:
    """Client to controller: make these topics (API key 19). `validate_only`: only say whether it could be done."""

    version: int
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class CreatedConfig:
    """One setting of a topic that was made, and where it comes from (`config_source`, as DescribeConfigs names it)."""

    name: str
    value: str | None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@message
class CreatedTopic:
    """What became of one topic: its size and settings, unless there is an error."""

    name: str
    error_code: int
    error_message: str | None = None
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatedConfig, ...] | None = ()


@message
class CreateTopicsResponse:
    """The answer to CreateTopics."""

    topics: tuple[CreatedTopic, ...]
    throttle_time_ms: int = 0


@message
class DeleteTopicsRequest:
    """Client to controller: delete these topics (API key 20)."""

    version: int
    topics: tuple[str, ...]
    timeout_ms: int


@message
class DeletedTopic:
    """What became of one topic."""

    name: str
    error_code: int


@message
class DeleteTopicsResponse:
    """The answer to DeleteTopics."""

    topics: tuple[DeletedTopic, ...]
    throttle_time_ms: int = 0


@message
class WantedReplicas:
    """The brokers of one partition that is to be added, preferred first."""

    broker_ids: tuple[int, ...]


@message
class GrowingTopic:
    """A topic that is to have `count` partitions, the new ones on these brokers (None: wherever)."""

    name: str
    count: int
    assignments: tuple[WantedReplicas, ...] | None = None


@message
class CreatePartitionsRequest:
    """Client to controller: add partitions to these topics (API key 37)."""

    version: int
    topics: tuple[GrowingTopic, ...]
    timeout_ms: int
    validate_only: bool = False


@message
class GrownTopic:
    """What became of one topic."""

    name: str
    error_code: int
    error_message: str | None = None


@message
class CreatePartitionsResponse:
    """The answer to CreatePartitions."""

    topics: tuple[GrownTopic, ...]
    throttle_time_ms: int = 0


@message
class ReassignablePartition:
    """The replicas that a partition shall have, preferred first; None: no other than before any reassignment."""

    partition_index: int
    replicas: tuple[int, ...] | None


@message
class ReassignableTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


@message
class AlterPartitionReassignmentsRequest:
    """Client to controller: give partitions other replicas, or leave it (API key 45)."""

    version: int
    timeout_ms: int
    topics: tuple[ReassignableTopic, ...]


@message
class ReassignablePartitionResponse:
    """The result for one partition: NONE if its reassignment has started."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ReassignableTopicResponse:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ReassignablePartitionResponse, ...]


@message
class AlterPartitionReassignmentsResponse:
    """The answer to AlterPartitionReassignments; an error of the whole has no partitions."""

    error_code: int
    error_message: str | None = None
    responses: tuple[ReassignableTopicResponse, ...] = ()
    throttle_time_ms: int = 0


@message
class ListPartitionReassignmentsTopics:
    """Partitions of one topic."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class ListPartitionReassignmentsRequest:
    """Client to controller: which of these partitions (None: of all) are being reassigned (API key 46)?"""

    version: int
    timeout_ms: int
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = None


@message
class OngoingPartitionReassignment:
    """A partition on its way: all its replicas, those being added, those that will go."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@message
class OngoingTopicReassignment:
    """Partitions of one topic."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


@message
class ListPartitionReassignmentsResponse:
    """The answer to ListPartitionReassignments."""

    error_code: int
    error_message: str | None = None
    topics: tuple[OngoingTopicReassignment, ...] = ()
    throttle_time_ms: int = 0


PREFERRED, UNCLEAN = 0, 1
"""Election types: the preferred replica; any live replica if no in-sync replica is alive."""


@message
class ElectableTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[int, ...]


@message
class ElectLeadersRequest:
    """Client to controller: elect leaders for these partitions (None: for all) (API key 43)."""

    version: int
    topics: tuple[ElectableTopic, ...] | None
    timeout_ms: int
    election_type: int = PREFERRED


@message
class ElectedPartition:
    """The result for one partition: NONE if it has the requested leader."""

    partition_index: int
    error_code: int
    error_message: str | None = None


@message
class ElectedTopic:
    """Partitions of one topic."""

    name: str
    partitions: tuple[ElectedPartition, ...]


@message
class ElectLeadersResponse:
    """The answer to ElectLeaders."""

    topics: tuple[ElectedTopic, ...]
    error_code: int = 0
    throttle_time_ms: int = 0
