"""The requests of consumer groups to their coordinator (broker.md 6.2, 6.5): who is in a group, how far it has come.

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
    """Client to any broker: who coordinates this group, or transaction (API key 10)?"""

    version: int
    key: str
    key_type: int = GROUP_KEY


@message
class FindCoordinatorResponse:
    """Where the coordinator is; node -1 with an error."""

    error_code: int
    error_message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1
    throttle_time_ms: int = 0


@message
class JoinProtocol:
    """An assignor that a member could live with, and the subscription it would give it."""

    name: str
    metadata: bytes


@message
class JoinGroupRequest:
    """Client to coordinator: let me take part (API key 11). `protocols` in the member's order of preference."""

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
    """A member as its group's leader receives it."""

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
    """What the leader gives one member."""

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
    """The member's part."""

    error_code: int
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None
    throttle_time_ms: int = 0


@message
class HeartbeatRequest:
    """Client to coordinator: I live, in this generation (API key 12)."""

    version: int
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


@message
class HeartbeatResponse:
    """Whether the generation still holds."""

    error_code: int
    throttle_time_ms: int = 0


@message
class LeavingMember:
    """A member that goes: by its id, or by its instance id with the member id left empty."""

    member_id: str
    group_instance_id: str | None = None


@message
class LeaveGroupRequest:
    """Client to coordinator: these members leave (API key 13). Before version 3 it is always one."""

    version: int
    group_id: str
    members: tuple[LeavingMember, ...]


@message
class LeftMember:
    """What became of one LeavingMember."""

    member_id: str
    group_instance_id: str | None
    error_code: int


@message
class LeaveGroupResponse:
    """What became of them. Before version 3 the one member's code is the whole."""

    error_code: int
    members: tuple[LeftMember, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- offsets


@message
class CommittedPartition:
    """The offset from which a group would go on in a partition. `committed_metadata` is the client's own."""

    partition: TopicPartition
    committed_offset: int
    committed_leader_epoch: int = NO_EPOCH
    committed_metadata: str | None = ""


@message
class OffsetCommitRequest:
    """Client to coordinator: the group has come so far (API key 8).

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
    """What became of each."""

    partitions: tuple[PartitionError, ...]
    throttle_time_ms: int = 0


@message
class OffsetFetchTopic:
    """Partitions of one topic whose offsets are asked for."""

    name: str
    partition_indexes: tuple[int, ...]


@message
class OffsetFetchRequest:
    """Client to coordinator: how far had the group come (API key 9)? `topics` None: everywhere (version 2 and later).

    `require_stable`: not where a transaction is about to say otherwise.
    """

    version: int
    group_id: str
    topics: tuple[OffsetFetchTopic, ...] | None
    require_stable: bool = False


@message
class FetchedOffset:
    """One partition's committed offset; -1 without an error where there is none."""

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
    """A partition whose committed offset is to go."""

    partition: TopicPartition


@message
class OffsetDeleteRequest:
    """Admin to coordinator: forget these offsets (API key 47)."""

    version: int
    group_id: str
    partitions: tuple[ForgottenPartition, ...]


@message
class OffsetDeleteResponse:
    """What became of each; with an error for the whole there are none."""

    error_code: int
    partitions: tuple[PartitionError, ...] = ()
    throttle_time_ms: int = 0


# ---------------------------------------------------------------------------------------------------- admin


@message
class DescribeGroupsRequest:
    """Admin to coordinator: how do these groups stand (API key 15)?"""

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
    """Admin to any broker: which groups do you coordinate (API key 16)? No `states_filter`: all of them."""

    version: int
    states_filter: tuple[str, ...] = ()


@message
class ListedGroup:
    """One group of this broker's."""

    group_id: str
    protocol_type: str
    group_state: str = ""


@message
class ListGroupsResponse:
    """This broker's groups. With error 14 there are more: some are still being loaded."""

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
    """What became of one."""

    group_id: str
    error_code: int


@message
class DeleteGroupsResponse:
    """What became of each, in the order asked."""

    results: tuple[DeletedGroup, ...]
    throttle_time_ms: int = 0
