"""The requests of consumer groups to their coordinator (broker.md 6.2, 6.5).

As in `messages.requests`, one class covers all versions, and the partitions of all topics are one flat list. Times are
in ms; -1 is a missing generation or leader epoch. Subscriptions and assignments are bytes that only the members decode.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, TopicPartition
from messages.requests import PartitionError
from messages.vocabulary import Message, message

NO_GENERATION = -1
NO_MEMBER = ""
"""The member id before the first response."""

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Key types of FindCoordinator: a group id, a transactional id."""

NOT_ASKED = -(2**31)
"""The authorized operations of a group if the client did not request them."""


# ---------------------------------------------------------------------------------------------------- membership


@message
class FindCoordinatorRequest(Message):
    """A client's request to any broker for the coordinator of a group or transaction (API key 10)."""

    version: int
    key: str
    key_type: int = GROUP_KEY


@message
class FindCoordinatorResponse(Message):
    """The response to FindCoordinator: the coordinator's address; the node id is -1 if there is an error."""

    error_code: int
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    throttle_time_ms: int = 0


@message
class JoinProtocol(Message):
    """An assignor that a member supports, with the member's subscription."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest(Message):
    """A client's request to join a consumer group (API key 11); `protocols` are in the member's order of preference."""

    version: int
    group_id: str
    session_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None


@message
class JoinedMember(Message):
    """A member in the JoinGroup response that the group leader gets."""

    member_id: str
    metadata: bytes
    group_instance_id: str | None = None


@message
class JoinGroupResponse(Message):
    """The response to JoinGroup: the new generation; only the group leader gets the list of members."""

    error_code: int
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = NO_MEMBER
    member_id: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    throttle_time_ms: int = 0


@message
class MemberAssignment(Message):
    """The assignment of one member, which the group leader has computed."""

    member_id: str
    assignment: bytes


@message
class SyncGroupRequest(Message):
    """A member's request for its assignment (API key 14); the group leader's request contains all assignments."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[MemberAssignment, ...] = ()
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


@message
class SyncGroupResponse(Message):
    """The response to SyncGroup: the assignment of the member."""

    error_code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    throttle_time_ms: int = 0


@message
class HeartbeatRequest(Message):
    """A member's request to stay in this generation of the group (API key 12)."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@message
class HeartbeatResponse(Message):
    """The response to Heartbeat: an error code, which is REBALANCE_IN_PROGRESS if the member must join again."""

    error_code: int
    throttle_time_ms: int = 0


@message
class LeavingMember(Message):
    """A member that leaves the group, identified by its member id, or by its instance id and an empty member id."""

    member_id: str
    group_instance_id: str | None = None


@message
class LeaveGroupRequest(Message):
    """A client's request to remove members from a group; before version 3 it names exactly one member (API key 13)."""

    version: int
    group_id: str
    members: tuple[LeavingMember, ...]


@message
class LeftMember(Message):
    """The result of LeaveGroup for one member."""

    member_id: str
    group_instance_id: str | None
    error_code: int


@message
class LeaveGroupResponse(Message):
    """The response to LeaveGroup; before version 3 the top-level error is the error of the only member."""

    error_code: int
    members: tuple[LeftMember, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- offsets


@message
class CommittedPartition(Message):
    """An offset that a client commits for one partition, with the client's metadata."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = ""


@message
class OffsetCommitRequest(Message):
    """A client's request to commit offsets (API key 8).

    Admin clients, and consumers that are not group members, send generation -1 and an empty member id.
    `retention_time_ms` (versions 2-4) is the retention of the offsets; -1 is the broker's default.
    """

    version: int
    group_id: str
    generation_id: int
    member_id: str
    partitions: tuple[CommittedPartition, ...]
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@message
class OffsetCommitResponse(Message):
    """The response to OffsetCommit, with a result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


@message
class OffsetFetchTopic(Message):
    """The partitions of one topic for which a client requests the committed offsets."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class OffsetFetchRequest(Message):
    """A client's request for committed offsets (API key 9). From version 2 on, `topics` may be None: all topics.

    If `require_stable` is set, a partition with a pending transactional commit gets UNSTABLE_OFFSET_COMMIT.
    """

    version: int
    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    require_stable: bool = False


@message
class FetchedOffset(Message):
    """The committed offset of one partition; -1 with error code NONE if no offset was committed."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchResponse(Message):
    """The response to OffsetFetch; before version 2 an error is repeated for every partition."""

    error_code: int
    partitions: tuple[FetchedOffset, ...] = ()
    throttle_time_ms: int = 0


@message
class OffsetDeletePartition(Message):
    """A partition whose committed offset is to be deleted."""

    partition: TopicPartition


@message
class OffsetDeleteRequest(Message):
    """A client's request to delete committed offsets (API key 47)."""

    version: int
    group_id: str
    partitions: tuple[OffsetDeletePartition, ...]


@message
class OffsetDeleteResponse(Message):
    """The response to OffsetDelete; it has no partitions if it has a top-level error."""

    error_code: int
    partitions: tuple[PartitionError, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- admin


@message
class DescribeGroupsRequest(Message):
    """A client's request to describe consumer groups (API key 15)."""

    version: int
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@message
class DescribedMember(Message):
    """A member of a described group; its subscription and assignment are empty unless the group is stable."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@message
class DescribedGroup(Message):
    """The description of one group.

    `protocol_data` is the assignor's name. The state of an unknown group is "Dead".
    """

    error_code: int
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NOT_ASKED


@message
class DescribeGroupsResponse(Message):
    """The response to DescribeGroups; the groups are in the order of the request."""

    groups: tuple[DescribedGroup, ...]
    throttle_time_ms: int = 0


@message
class ListGroupsRequest(Message):
    """A client's request for the groups that a broker coordinates (API key 16); an empty `states_filter` lists all."""

    version: int
    states_filter: tuple[str, ...] = ()


@message
class ListedGroup(Message):
    """A group that the broker coordinates."""

    group_id: str
    protocol_type: str
    group_state: str = ""


@message
class ListGroupsResponse(Message):
    """The response to ListGroups; error code 14 means that some groups are still being loaded."""

    error_code: int
    groups: tuple[ListedGroup, ...] = ()
    throttle_time_ms: int = 0


@message
class DeleteGroupsRequest(Message):
    """A client's request to delete groups and their committed offsets (API key 42)."""

    version: int
    groups: tuple[str, ...]


@message
class DeletedGroup(Message):
    """The result of deleting one group."""

    group_id: str
    error_code: int


@message
class DeleteGroupsResponse(Message):
    """The response to DeleteGroups; the results are in the order of the request."""

    results: tuple[DeletedGroup, ...]
    throttle_time_ms: int = 0
