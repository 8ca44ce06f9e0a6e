"""The consumer-group requests that `client_requests` sends, as a table; simulated members send the remaining ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.simulation.members import instance_of
from actors.simulation.request_target import OWN_GROUP, UNKNOWN_ID, Make, RequestTarget, Step, Wanted, absent
from messages.cluster import TopicPartition
from messages.group_requests import (
    NO_GENERATION,
    NO_MEMBER,
    TRANSACTION_KEY,
    CommittedPartition,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupRequest,
    LeavingMember,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchTopic,
    SyncGroupRequest,
)
from messages.transaction_requests import (
    TxnOffsetCommitRequest,
)
from messages.vocabulary import AnyMessage, Message


def _commit(
    group: str = OWN_GROUP,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    generation: int = NO_GENERATION,
    member: str = NO_MEMBER,
    metadata: str = "",
) -> Make:
    return lambda about: OffsetCommitRequest(
        *(7, group or about.group, generation, member),
        (CommittedPartition(partition(about), 1, committed_metadata=metadata),),
    )


def _commit_in_transaction(
    group: str = OWN_GROUP,
    partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition,
    member: str = NO_MEMBER,
    metadata: str = "",
) -> Make:
    """Return a function that makes a transactional commit, which is refused before its append.

    It must be refused, because nothing would end the transaction of an accepted commit.
    """
    generation = NO_GENERATION if member == NO_MEMBER else 1
    return lambda about: TxnOffsetCommitRequest(
        *(3, "transaction", group, 1, 0),
        (CommittedPartition(partition(about), 1, committed_metadata=metadata),),
        *(generation, member),
    )


def _join(
    session_ms: int = 6000,
    member: str = NO_MEMBER,
    protocol: str = "range",
    group: str | None = None,
    version: int = 5,
    kind: str = "consumer",
) -> Make:
    return lambda about: JoinGroupRequest(
        *(version, about.group if group is None else group, session_ms, member, kind),
        (JoinProtocol(protocol, b""),),
        5000,
    )


def _forget(group: str, partition: Callable[[RequestTarget], TopicPartition] = lambda about: about.partition) -> Make:
    return lambda about: OffsetDeleteRequest(0, group or about.group, (OffsetDeletePartition(partition(about)),))


def as_member(make: Callable[[RequestTarget, str, int], AnyMessage], leads: bool = True) -> Wanted:
    """Return a function that makes a request as some group member; `leads`: whether the member may be the leader."""

    def made(about: RequestTarget) -> AnyMessage | None:
        group = about.cluster.members.groups.get(about.group)
        members = [] if group is None else [each for _, each in sorted(group.living.items()) if each.id]
        members = [each for each in members if leads or not each.leads]
        return make(about, members[0].id, members[0].generation) if members else None

    return made


def _commit_as(about: RequestTarget, member: str, generation: int) -> AnyMessage:
    committed = (CommittedPartition(about.partition, 1),)
    return OffsetCommitRequest(7, about.group, generation, member, committed)


def commit_as_in_transaction(
    about: RequestTarget, member: str, generation: int, instance: str | None = None, group: str | None = None
) -> Message:
    """Return a TxnOffsetCommit request of a group member."""
    return TxnOffsetCommitRequest(
        *(3, UNKNOWN_ID, about.group if group is None else group, 1, 0, (CommittedPartition(about.partition, 1),)),
        *(generation, member, instance),
    )


def _join_static(about: RequestTarget) -> AnyMessage | None:
    """Return a JoinGroup request of a new static member, which replaces the member with the same instance id."""
    group = about.cluster.members.groups.get(about.group)
    if group is None:
        return None
    group.has_static = True
    protocols = (JoinProtocol("range", b""),)
    return JoinGroupRequest(5, about.group, 6000, NO_MEMBER, "consumer", protocols, 5000, "another")


def _own_group(about: RequestTarget) -> list[Step]:
    """Return requests that delete a group while other requests about it are in flight."""
    deletion = DeleteGroupsRequest(2, (OWN_GROUP,))
    return [
        _commit()(about),
        (
            _commit()(about),
            _commit_in_transaction(metadata="x" * 5000)(about),
            _forget(OWN_GROUP)(about),
            deletion,
            deletion,
            HeartbeatRequest(3, OWN_GROUP, 0, "stranger"),
            SyncGroupRequest(3, OWN_GROUP, 1, "stranger"),
            LeaveGroupRequest(3, OWN_GROUP, (LeavingMember("stranger"),)),
            _join(group=OWN_GROUP)(about),
        ),
    ]


STUCK_GROUP = "stuck"
"""A group whose only member never sends the assignment of its generation."""

STUCK_INSTANCE = "stuck-0"


def _join_stuck_group(about: RequestTarget) -> Message:
    protocols = (JoinProtocol("range", b""),)
    return JoinGroupRequest(5, STUCK_GROUP, 6000, NO_MEMBER, "consumer", protocols, 5000, STUCK_INSTANCE)


def to_stuck_group(about: RequestTarget, member: str, generation: int) -> list[Step]:
    """Return requests to a group that waits for its leader's assignment; the last one replaces the leader."""
    return [
        (
            _commit(STUCK_GROUP, generation=generation, member=member)(about),
            commit_as_in_transaction(about, member, generation, group=STUCK_GROUP),
            commit_as_in_transaction(about, member, generation - 1, group=STUCK_GROUP),
            commit_as_in_transaction(about, "stranger", generation, STUCK_INSTANCE, STUCK_GROUP),
            _forget(STUCK_GROUP)(about),
            DeleteGroupsRequest(2, (STUCK_GROUP,)),
            _join(member=member, group=STUCK_GROUP)(about),
        ),
        _join_stuck_group(about),
    ]


def _delete_busy_group(about: RequestTarget) -> AnyMessage | None:
    """Return a request to delete a group that has members.

    If the members leave before the request arrives, the group is deleted. So its commits are no longer expected to
    exist.
    """
    group = about.cluster.members.groups.get(about.group)
    if group is not None:
        group.is_deleted = True
    return DeleteGroupsRequest(2, (about.group,))


GROUPS: Mapping[str, Wanted] = {
    "find-coordinator": lambda about: FindCoordinatorRequest(2, OWN_GROUP),
    "find-transactions": lambda about: FindCoordinatorRequest(2, "transaction", TRANSACTION_KEY),
    "find-other": lambda about: FindCoordinatorRequest(2, OWN_GROUP, 7),
    "commit": _commit(),
    "commit-absent": _commit(partition=absent),
    "commit-long": _commit(metadata="x" * 5000),
    "commit-stranger": _commit("", generation=1, member="stranger"),
    "commit-outside": _commit(""),
    "commit-in-transaction-absent": _commit_in_transaction(partition=absent),
    "commit-in-transaction-long": _commit_in_transaction(metadata="x" * 5000),
    "commit-in-transaction-stranger": _commit_in_transaction(member="stranger"),
    "commit-in-transaction-nameless": _commit_in_transaction(""),
    "fetch-offsets": lambda about: OffsetFetchRequest(7, OWN_GROUP, None),
    "fetch-one-offset": lambda about: OffsetFetchRequest(
        1, about.group, (OffsetFetchTopic(about.topic, (about.number,)),)
    ),
    "forget-offsets": _forget(OWN_GROUP),
    "forget-absent": _forget(OWN_GROUP, absent),
    "forget-of-unknown": _forget("unknown"),
    "forget-of-nameless": lambda about: OffsetDeleteRequest(0, "", ()),
    "forget-passing": _forget("passing"),
    "forget-subscribed": _forget(""),
    "join-short-session": _join(1),
    "join-stranger": _join(member="stranger"),
    "join-other-protocol": _join(protocol="no other member has it"),
    "join-nameless": _join(group=""),
    "join-and-go": _join(group="passing", kind="connect"),
    "join-at-once": _join(group="passing", kind="connect", version=3),
    "join-as-well": _join(version=3),
    "sync-stranger": lambda about: SyncGroupRequest(3, about.group, 1, "stranger"),
    "sync-nameless": lambda about: SyncGroupRequest(3, "", 1, "stranger"),
    "sync-without-protocol": lambda about: SyncGroupRequest(5, about.group, 1, "stranger"),
    "beat-stranger": lambda about: HeartbeatRequest(3, about.group, 1, "stranger"),
    "beat-nameless": lambda about: HeartbeatRequest(3, "", 1, "stranger"),
    "leave-stranger": lambda about: LeaveGroupRequest(3, about.group, (LeavingMember("stranger"),)),
    "leave-nameless": lambda about: LeaveGroupRequest(3, "", (LeavingMember("stranger"),)),
    "describe-groups": lambda about: DescribeGroupsRequest(4, (about.group, OWN_GROUP, "unknown")),
    "list-groups": lambda about: ListGroupsRequest(4),
    "list-stable-groups": lambda about: ListGroupsRequest(4, ("Stable",)),
    "own-group": _own_group,
    "stuck-group": _join_stuck_group,
    "delete-busy-group": _delete_busy_group,
    "beat-as-member": as_member(lambda about, id, generation: HeartbeatRequest(3, about.group, generation, id)),
    "beat-of-old": as_member(lambda about, id, generation: HeartbeatRequest(3, about.group, generation - 1, id)),
    "sync-as-member": as_member(
        lambda about, id, generation: SyncGroupRequest(3, about.group, generation, id), leads=False
    ),
    "sync-of-old": as_member(lambda about, id, generation: SyncGroupRequest(3, about.group, generation - 1, id)),
    "join-as-member": as_member(lambda about, id, generation: _join(member=id)(about)),
    "leave-as-member": as_member(lambda about, id, _: LeaveGroupRequest(3, about.group, (LeavingMember(id),))),
    "commit-as-member": as_member(_commit_as),
    "join-static": _join_static,
    "sync-other-protocol": as_member(
        lambda about, id, generation: SyncGroupRequest(5, about.group, generation, id, (), None, "consumer", "other"),
        leads=False,
    ),
    "delete-of-unknown": lambda about: DeleteGroupsRequest(2, ("unknown", OWN_GROUP)),
    "beat-fenced": lambda about: HeartbeatRequest(3, about.group, 1, "stranger", instance_of(about.group)),
    "sync-fenced": lambda about: SyncGroupRequest(
        3, about.group, 1, "stranger", group_instance_id=instance_of(about.group)
    ),
    "commit-fenced": lambda about: OffsetCommitRequest(
        *(7, about.group, 1, "stranger", (CommittedPartition(about.partition, 1),)), instance_of(about.group)
    ),
    "join-fenced": lambda about: JoinGroupRequest(
        *(5, about.group, 6000, "stranger", "consumer", (JoinProtocol("range", b""),), 5000, instance_of(about.group))
    ),
    "leave-fenced": lambda about: LeaveGroupRequest(
        3, about.group, (LeavingMember("stranger", instance_of(about.group)),)
    ),
    "commit-of-stranger": _commit("", generation=0, member="stranger"),
    "delete-own-group": lambda about: DeleteGroupsRequest(2, (OWN_GROUP, "unknown", "passing")),
}
"""Requests of consumers and their admin clients that simulated members do not send."""
