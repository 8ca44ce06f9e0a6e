"""Consumer group requests to the coordinator (broker.md 6.2, 6.5).

As in `messages.requests`: one class for all versions, partitions flat. Times are in ms; a generation or leader epoch of
-1 is none; subscriptions and assignments are bytes that only the members understand.
"""

from __future__ import annotations

from messages.cluster import NO_EPOCH, TopicPartition
from messages.requests import PartitionError
from messages.vocabulary import message

NO_GENERATION = -1
NO_MEMBER = ""
"""The member id before the first response."""

GROUP_KEY, TRANSACTION_KEY = 0, 1
"""Key types of FindCoordinator: a group id, a transactional id."""

NOT_ASKED = -(2**31)
"""The authorized operations of a group where the client did not ask for them."""


# ---------------------------------------------------------------------------------------------------- membership


@message
class FindCoordinatorRequest:
    """Client to any broker: find the coordinator of a group or transaction (API key 10)."""

    version: int
    key: str
    key_type: int = GROUP_KEY


@message
class FindCoordinatorResponse:
    """The coordinator's address; node -1 with an error."""

    error_code: int
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    throttle_time_ms: int = 0


@message
class JoinProtocol:
    """An assignor that a member supports, with its subscription."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest:
    """Client to coordinator: join the group (API key 11). `protocols` in the member's order of preference."""

    version: int
    group_id: str
    session_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[JoinProtocol, ...]
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None


@message
class JoinedMember:
    """A member in the response to the group leader."""

    member_id: str
    metadata: bytes
    group_instance_id: str | None = None


@message
class JoinGroupResponse:
    """The new generation. Only its leader receives the members: it assigns partitions."""

    error_code: int
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = ""
    leader: str = NO_MEMBER
    member_id: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    throttle_time_ms: int = 0


@message
class MemberAssignment:
    """The assignment of one member, from the group leader."""

    member_id: str
    assignment: bytes


@message
class SyncGroupRequest:
    """Client to coordinator: request an assignment. The leader sends all assignments (API key 14)."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    assignments: tuple[MemberAssignment, ...] = ()
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None


@message
class SyncGroupResponse:
    """The assignment of the member."""

    error_code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    throttle_time_ms: int = 0


@message
class HeartbeatRequest:
    """Client to coordinator: keep the membership in this generation (API key 12)."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@message
class HeartbeatResponse:
    """The error code: REBALANCE_IN_PROGRESS if the generation has ended."""

    error_code: int
    throttle_time_ms: int = 0


@message
class LeavingMember:
    """A leaving member, by its member id, or by its instance id with an empty member id."""

    member_id: str
    group_instance_id: str | None = None


@message
class LeaveGroupRequest:
    """Client to coordinator: remove members (API key 13). Before version 3 exactly one."""

    version: int
    group_id: str
    members: tuple[LeavingMember, ...]


@message
class LeftMember:
    """The result for one LeavingMember."""

    member_id: str
    group_instance_id: str | None
    error_code: int


@message
class LeaveGroupResponse:
    """The results; before version 3 the member's error is the top-level error."""

    error_code: int
    members: tuple[LeftMember, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- offsets


@message
class CommittedPartition:
    """A committed offset of a partition, with the client's metadata."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = ""


@message
class OffsetCommitRequest:
    """Client to coordinator: commit offsets (API key 8).

    Generation -1 without a member: a consumer that takes part in no group, or an admin. `retention_time_ms` (versions
    2-4): how long to keep the offsets, -1 as the broker does.
    """

    version: int
    group_id: str
    generation_id: int
    member_id: str
    partitions: tuple[CommittedPartition, ...]
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@message
class OffsetCommitResponse:
    """The result for each partition."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


@message
class OffsetFetchTopic:
    """Partitions of one topic whose committed offsets are requested."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class OffsetFetchRequest:
    """Client to coordinator: fetch committed offsets (API key 9); `topics` None requests all (version 2 and later).

    `require_stable`: not where a transaction is about to say otherwise.
    """

    version: int
    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    require_stable: bool = False


@message
class FetchedOffset:
    """The committed offset of one partition; -1 without an error if there is none."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    metadata: str | None = ""
    error_code: int = 0


@message
class OffsetFetchResponse:
    """The offsets. Before version 2 every partition has the error."""

    error_code: int
    partitions: tuple[FetchedOffset, ...] = ()
    throttle_time_ms: int = 0


@message
class ForgottenPartition:
    """A partition whose committed offset is to be deleted."""

    partition: TopicPartition


@message
class OffsetDeleteRequest:
    """Admin to coordinator: delete committed offsets (API key 47)."""

    version: int
    group_id: str
    partitions: tuple[ForgottenPartition, ...]


@message
class OffsetDeleteResponse:
    """The result for each partition; with a top-level error there are none."""

    error_code: int
    partitions: tuple[PartitionError, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- admin


@message
class DescribeGroupsRequest:
    """Admin to coordinator: describe groups (API key 15)."""

    version: int
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@message
class DescribedMember:
    """One member. Subscription and assignment are empty unless the group is stable."""

    member_id: str
    client_id: str
    client_host: str
    group_instance_id: str | None = None
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@message
class DescribedGroup:
    """One group. `protocol_data` is the assignor's name; an unknown group is "Dead"."""

    error_code: int
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = NOT_ASKED


@message
class DescribeGroupsResponse:
    """The groups, in the order asked."""

    groups: tuple[DescribedGroup, ...]
    throttle_time_ms: int = 0


@message
class ListGroupsRequest:
    """Admin to any broker: list its groups (API key 16). An empty `states_filter` lists all."""

    version: int
    states_filter: tuple[str, ...] = ()


@message
class ListedGroup:
    """A group of this broker."""

    group_id: str
    protocol_type: str
    group_state: str = ""


@message
class ListGroupsResponse:
    """The groups of this broker; error 14 means that some are still being loaded."""

    error_code: int
    groups: tuple[ListedGroup, ...] = ()
    throttle_time_ms: int = 0


@message
class DeleteGroupsRequest:
    """Admin to coordinator: delete these groups, with their offsets (API key 42)."""

    version: int
    groups: tuple[str, ...]


@message
class DeletedGroup:
    """The result for one group."""

    group_id: str
    error_code: int


@message
class DeleteGroupsResponse:
    """The result for each group, in the order of the request."""

    results: tuple[DeletedGroup, ...]
    throttle_time_ms: int = 0
