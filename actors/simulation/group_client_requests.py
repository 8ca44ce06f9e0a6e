"""The consumer-group requests that `client_requests` sends, as a table; simulated members send the remaining ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actors.simulation import request_target
from actors.simulation.members import instance_of
from messages.apis import (
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.vocabulary import AnyMessage, Message


def _commit(
    group: str = request_target.OWN_GROUP,
    partition: Callable[[request_target.RequestTarget], TopicPartition] = lambda about: about.partition,
    generation: int = join_group.NO_GENERATION,
    member: str = join_group.NO_MEMBER,
    metadata: str = "",
) -> request_target.Make:
    return lambda about: offset_commit.OffsetCommitRequest(
        *(7, group or about.group, generation, member),
        (offset_commit.CommittedPartition(partition(about), 1, committed_metadata=metadata),),
    )


def _commit_in_transaction(
    group: str = request_target.OWN_GROUP,
    partition: Callable[[request_target.RequestTarget], TopicPartition] = lambda about: about.partition,
    member: str = join_group.NO_MEMBER,
    metadata: str = "",
) -> request_target.Make:
    """Return a function that makes a transactional commit, which is refused before its append.

    It must be refused, because nothing would end the transaction of an accepted commit.
    """
    generation = join_group.NO_GENERATION if member == join_group.NO_MEMBER else 1
    return lambda about: TxnOffsetCommitRequest(
        *(3, "transaction", group, 1, 0),
        (offset_commit.CommittedPartition(partition(about), 1, committed_metadata=metadata),),
        *(generation, member),
    )


def _join(
    session_ms: int = 6000,
    member: str = join_group.NO_MEMBER,
    protocol: str = "range",
    group: str | None = None,
    version: int = 5,
    kind: str = "consumer",
) -> request_target.Make:
    return lambda about: join_group.JoinGroupRequest(
        *(version, about.group if group is None else group, session_ms, member, kind),
        (join_group.JoinProtocol(protocol, b""),),
        5000,
    )


def _forget(
    group: str, partition: Callable[[request_target.RequestTarget], TopicPartition] = lambda about: about.partition
) -> request_target.Make:
    return lambda about: offset_delete.OffsetDeleteRequest(
        0, group or about.group, (offset_delete.OffsetDeletePartition(partition(about)),)
    )


def as_member(
    make: Callable[[request_target.RequestTarget, str, int], AnyMessage], leads: bool = True
) -> request_target.Wanted:
    """Return a function that makes a request as some group member; `leads`: whether the member may be the leader."""

    def made(about: request_target.RequestTarget) -> AnyMessage | None:
        group = about.cluster.members.groups.get(about.group)
        members = [] if group is None else [each for _, each in sorted(group.living.items()) if each.id]
        members = [each for each in members if leads or not each.leads]
        return make(about, members[0].id, members[0].generation) if members else None

    return made


def _commit_as(about: request_target.RequestTarget, member: str, generation: int) -> AnyMessage:
    committed = (offset_commit.CommittedPartition(about.partition, 1),)
    return offset_commit.OffsetCommitRequest(7, about.group, generation, member, committed)


def commit_as_in_transaction(
    about: request_target.RequestTarget,
    member: str,
    generation: int,
    instance: str | None = None,
    group: str | None = None,
) -> Message:
    """Return a TxnOffsetCommit request of a group member."""
    return TxnOffsetCommitRequest(
        *(
            3,
            request_target.UNKNOWN_ID,
            about.group if group is None else group,
            1,
            0,
            (offset_commit.CommittedPartition(about.partition, 1),),
        ),
        *(generation, member, instance),
    )


def _join_static(about: request_target.RequestTarget) -> AnyMessage | None:
    """Return a JoinGroup request of a new static member, which replaces the member with the same instance id."""
    group = about.cluster.members.groups.get(about.group)
    if group is None:
        return None
    group.has_static = True
    protocols = (join_group.JoinProtocol("range", b""),)
    return join_group.JoinGroupRequest(
        5, about.group, 6000, join_group.NO_MEMBER, "consumer", protocols, 5000, "another"
    )


def _own_group(about: request_target.RequestTarget) -> list[request_target.Step]:
    """Return requests that delete a group while other requests about it are in flight."""
    deletion = delete_groups.DeleteGroupsRequest(2, (request_target.OWN_GROUP,))
    return [
        _commit()(about),
        (
            _commit()(about),
            _commit_in_transaction(metadata="x" * 5000)(about),
            _forget(request_target.OWN_GROUP)(about),
            deletion,
            deletion,
            heartbeat.HeartbeatRequest(3, request_target.OWN_GROUP, 0, "stranger"),
            sync_group.SyncGroupRequest(3, request_target.OWN_GROUP, 1, "stranger"),
            leave_group.LeaveGroupRequest(3, request_target.OWN_GROUP, (leave_group.LeavingMember("stranger"),)),
            _join(group=request_target.OWN_GROUP)(about),
        ),
    ]


STUCK_GROUP = "stuck"
"""A group whose only member never sends the assignment of its generation."""

STUCK_INSTANCE = "stuck-0"


def _join_stuck_group(about: request_target.RequestTarget) -> Message:
    protocols = (join_group.JoinProtocol("range", b""),)
    return join_group.JoinGroupRequest(
        5, STUCK_GROUP, 6000, join_group.NO_MEMBER, "consumer", protocols, 5000, STUCK_INSTANCE
    )


def to_stuck_group(about: request_target.RequestTarget, member: str, generation: int) -> list[request_target.Step]:
    """Return requests to a group that waits for its leader's assignment; the last one replaces the leader."""
    return [
        (
            _commit(STUCK_GROUP, generation=generation, member=member)(about),
            commit_as_in_transaction(about, member, generation, group=STUCK_GROUP),
            commit_as_in_transaction(about, member, generation - 1, group=STUCK_GROUP),
            commit_as_in_transaction(about, "stranger", generation, STUCK_INSTANCE, STUCK_GROUP),
            _forget(STUCK_GROUP)(about),
            delete_groups.DeleteGroupsRequest(2, (STUCK_GROUP,)),
            _join(member=member, group=STUCK_GROUP)(about),
        ),
        _join_stuck_group(about),
    ]


def _delete_busy_group(about: request_target.RequestTarget) -> AnyMessage | None:
    """Return a request to delete a group that has members.

    If the members leave before the request arrives, the group is deleted. So its commits are no longer expected to
    exist.
    """
    group = about.cluster.members.groups.get(about.group)
    if group is not None:
        group.is_deleted = True
    return delete_groups.DeleteGroupsRequest(2, (about.group,))


GROUPS: Mapping[str, request_target.Wanted] = {
    "find-coordinator": lambda about: find_coordinator.FindCoordinatorRequest(2, request_target.OWN_GROUP),
    "find-transactions": lambda about: find_coordinator.FindCoordinatorRequest(
        2, "transaction", find_coordinator.TRANSACTION_KEY
    ),
    "find-other": lambda about: find_coordinator.FindCoordinatorRequest(2, request_target.OWN_GROUP, 7),
    "commit": _commit(),
    "commit-absent": _commit(partition=request_target.absent),
    "commit-long": _commit(metadata="x" * 5000),
    "commit-stranger": _commit("", generation=1, member="stranger"),
    "commit-outside": _commit(""),
    "commit-in-transaction-absent": _commit_in_transaction(partition=request_target.absent),
    "commit-in-transaction-long": _commit_in_transaction(metadata="x" * 5000),
    "commit-in-transaction-stranger": _commit_in_transaction(member="stranger"),
    "commit-in-transaction-nameless": _commit_in_transaction(""),
    "fetch-offsets": lambda about: offset_fetch.OffsetFetchRequest(7, request_target.OWN_GROUP, None),
    "fetch-one-offset": lambda about: offset_fetch.OffsetFetchRequest(
        1, about.group, (offset_fetch.OffsetFetchTopic(about.topic, (about.number,)),)
    ),
    "forget-offsets": _forget(request_target.OWN_GROUP),
    "forget-absent": _forget(request_target.OWN_GROUP, request_target.absent),
    "forget-of-unknown": _forget("unknown"),
    "forget-of-nameless": lambda about: offset_delete.OffsetDeleteRequest(0, "", ()),
    "forget-passing": _forget("passing"),
    "forget-subscribed": _forget(""),
    "join-short-session": _join(1),
    "join-stranger": _join(member="stranger"),
    "join-other-protocol": _join(protocol="no other member has it"),
    "join-nameless": _join(group=""),
    "join-and-go": _join(group="passing", kind="connect"),
    "join-at-once": _join(group="passing", kind="connect", version=3),
    "join-as-well": _join(version=3),
    "sync-stranger": lambda about: sync_group.SyncGroupRequest(3, about.group, 1, "stranger"),
    "sync-nameless": lambda about: sync_group.SyncGroupRequest(3, "", 1, "stranger"),
    "sync-without-protocol": lambda about: sync_group.SyncGroupRequest(5, about.group, 1, "stranger"),
    "beat-stranger": lambda about: heartbeat.HeartbeatRequest(3, about.group, 1, "stranger"),
    "beat-nameless": lambda about: heartbeat.HeartbeatRequest(3, "", 1, "stranger"),
    "leave-stranger": lambda about: leave_group.LeaveGroupRequest(
        3, about.group, (leave_group.LeavingMember("stranger"),)
    ),
    "leave-nameless": lambda about: leave_group.LeaveGroupRequest(3, "", (leave_group.LeavingMember("stranger"),)),
    "describe-groups": lambda about: describe_groups.DescribeGroupsRequest(
        4, (about.group, request_target.OWN_GROUP, "unknown")
    ),
    "list-groups": lambda about: list_groups.ListGroupsRequest(4),
    "list-stable-groups": lambda about: list_groups.ListGroupsRequest(4, ("Stable",)),
    "own-group": _own_group,
    "stuck-group": _join_stuck_group,
    "delete-busy-group": _delete_busy_group,
    "beat-as-member": as_member(
        lambda about, id, generation: heartbeat.HeartbeatRequest(3, about.group, generation, id)
    ),
    "beat-of-old": as_member(
        lambda about, id, generation: heartbeat.HeartbeatRequest(3, about.group, generation - 1, id)
    ),
    "sync-as-member": as_member(
        lambda about, id, generation: sync_group.SyncGroupRequest(3, about.group, generation, id), leads=False
    ),
    "sync-of-old": as_member(
        lambda about, id, generation: sync_group.SyncGroupRequest(3, about.group, generation - 1, id)
    ),
    "join-as-member": as_member(lambda about, id, generation: _join(member=id)(about)),
    "leave-as-member": as_member(
        lambda about, id, _: leave_group.LeaveGroupRequest(3, about.group, (leave_group.LeavingMember(id),))
    ),
    "commit-as-member": as_member(_commit_as),
    "join-static": _join_static,
    "sync-other-protocol": as_member(
        lambda about, id, generation: sync_group.SyncGroupRequest(
            5, about.group, generation, id, (), None, "consumer", "other"
        ),
        leads=False,
    ),
    "delete-of-unknown": lambda about: delete_groups.DeleteGroupsRequest(2, ("unknown", request_target.OWN_GROUP)),
    "beat-fenced": lambda about: heartbeat.HeartbeatRequest(3, about.group, 1, "stranger", instance_of(about.group)),
    "sync-fenced": lambda about: sync_group.SyncGroupRequest(
        3, about.group, 1, "stranger", group_instance_id=instance_of(about.group)
    ),
    "commit-fenced": lambda about: offset_commit.OffsetCommitRequest(
        *(7, about.group, 1, "stranger", (offset_commit.CommittedPartition(about.partition, 1),)),
        instance_of(about.group),
    ),
    "join-fenced": lambda about: join_group.JoinGroupRequest(
        *(
            5,
            about.group,
            6000,
            "stranger",
            "consumer",
            (join_group.JoinProtocol("range", b""),),
            5000,
            instance_of(about.group),
        )
    ),
    "leave-fenced": lambda about: leave_group.LeaveGroupRequest(
        3, about.group, (leave_group.LeavingMember("stranger", instance_of(about.group)),)
    ),
    "commit-of-stranger": _commit("", generation=0, member="stranger"),
    "delete-own-group": lambda about: delete_groups.DeleteGroupsRequest(
        2, (request_target.OWN_GROUP, "unknown", "passing")
    ),
}
"""Requests of consumers and their admin clients that simulated members do not send."""
