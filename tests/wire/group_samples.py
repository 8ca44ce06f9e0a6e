"""Samples of the consumer group APIs: messages, their fields in kio, and the fields that versions lack."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from hypothesis import strategies as st

from messages.group_requests import (
    CommittedPartition,
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchedOffset,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinedMember,
    JoinGroupRequest,
    JoinGroupResponse,
    JoinProtocol,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    LeftMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    MemberAssignment,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeletePartition,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchTopic,
    SyncGroupRequest,
    SyncGroupResponse,
)
from messages.requests import PartitionError

MODULES = {
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    42: "delete_groups",
    47: "offset_delete",
}
"""API key -> kio's module."""

SINCE: dict[type, dict[str, int]] = {
    OffsetCommitRequest: {"group_instance_id": 7},
    CommittedPartition: {"committed_leader_epoch": 6},
    OffsetCommitResponse: {"throttle_time_ms": 3},
    OffsetFetchRequest: {"require_stable": 7},
    OffsetFetchResponse: {"error_code": 2, "throttle_time_ms": 3},
    FetchedOffset: {"committed_leader_epoch": 5},
    FindCoordinatorRequest: {"key_type": 1},
    FindCoordinatorResponse: {"error_message": 1, "throttle_time_ms": 1},
    JoinGroupRequest: {"rebalance_timeout_ms": 1, "group_instance_id": 5},
    JoinGroupResponse: {"throttle_time_ms": 2, "protocol_type": 7},
    JoinedMember: {"group_instance_id": 5},
    SyncGroupRequest: {"group_instance_id": 3, "protocol_type": 5, "protocol_name": 5},
    SyncGroupResponse: {"throttle_time_ms": 1, "protocol_type": 5, "protocol_name": 5},
    HeartbeatRequest: {"group_instance_id": 3},
    HeartbeatResponse: {"throttle_time_ms": 1},
    LeavingMember: {"group_instance_id": 3},
    LeaveGroupResponse: {"throttle_time_ms": 1, "members": 3},
    DescribeGroupsRequest: {"include_authorized_operations": 3},
    DescribeGroupsResponse: {"throttle_time_ms": 1},
    DescribedGroup: {"authorized_operations": 3},
    DescribedMember: {"group_instance_id": 4},
    ListGroupsRequest: {"states_filter": 4},
    ListGroupsResponse: {"throttle_time_ms": 1},
    ListedGroup: {"group_state": 4},
}
"""Message class -> field -> the first version that has it."""

UNTIL: dict[type, dict[str, int]] = {OffsetCommitRequest: {"retention_time_ms": 4}}
"""Message class -> field -> the last version that has it."""

RENAMED = {
    "throttle_time_ms": "throttle_time",
    "session_timeout_ms": "session_timeout",
    "rebalance_timeout_ms": "rebalance_timeout",
    "retention_time_ms": "retention_time",
    (OffsetCommitRequest, "generation_id"): "generation_id_or_member_epoch",
    (DeleteGroupsRequest, "groups"): "groups_names",
}
"""Field -> kio's name, if it differs from ours."""

READ_AS = {(LeaveGroupResponse, "members"): (), (OffsetFetchResponse, "error_code"): 0}
"""Decoded values of fields that a version lacks, if they differ from the default of the message class."""


def samples(int32: Any, int64: Any, texts: Any, ids: Any, codes: Any, partitions: Any, several: Any) -> tuple[Any, Any]:
    """Return strategies for (requests by key and version, responses by key), made of the given strategies."""
    spans, maybe, blobs = st.integers(0, 2**31 - 1), st.none() | texts, st.binary(max_size=6)
    when = st.integers(0, 2**40)
    int8 = st.integers(-128, 127)
    committed = st.builds(CommittedPartition, partitions, int64, int32, maybe)
    leaving = st.builds(LeavingMember, texts, maybe)

    def requests(version: int) -> dict[int, Any]:
        this = st.just(version)
        topics = several(st.builds(OffsetFetchTopic, texts, ids))
        one = st.builds(LeavingMember, texts).map(lambda member: (member,))
        return {
            8: st.builds(OffsetCommitRequest, this, texts, int32, texts, several(committed), maybe, when),
            9: st.builds(OffsetFetchRequest, this, texts, topics if version < 2 else st.none() | topics, st.booleans()),
            10: st.builds(FindCoordinatorRequest, this, texts, int8),
            11: st.builds(
                *(JoinGroupRequest, this, texts, spans, texts, texts),
                *(several(st.builds(JoinProtocol, texts, blobs)), spans, maybe),
            ),
            12: st.builds(HeartbeatRequest, this, texts, int32, texts, maybe),
            13: st.builds(LeaveGroupRequest, this, texts, one if version < 3 else several(leaving)),
            14: st.builds(
                *(SyncGroupRequest, this, texts, int32, texts, several(st.builds(MemberAssignment, texts, blobs))),
                *(maybe, maybe, maybe),
            ),
            15: st.builds(DescribeGroupsRequest, this, several(texts), st.booleans()),
            16: st.builds(ListGroupsRequest, this, several(texts)),
            42: st.builds(DeleteGroupsRequest, this, several(texts)),
            47: st.builds(OffsetDeleteRequest, this, texts, several(st.builds(OffsetDeletePartition, partitions))),
        }

    errors = several(st.builds(PartitionError, partitions, codes))
    member = st.builds(DescribedMember, texts, texts, texts, maybe, blobs, blobs)
    group = st.builds(DescribedGroup, codes, texts, texts, texts, texts, several(member), int32)
    responses = {
        8: st.builds(OffsetCommitResponse, errors, spans),
        9: st.builds(
            OffsetFetchResponse, codes, several(st.builds(FetchedOffset, partitions, int64, int32, maybe, codes)), spans
        ),
        10: st.builds(FindCoordinatorResponse, codes, maybe, int32, texts, int32, spans),
        11: st.builds(
            *(JoinGroupResponse, codes, int32, maybe, texts, texts, texts),
            *(several(st.builds(JoinedMember, texts, blobs, maybe)), spans),
        ),
        12: st.builds(HeartbeatResponse, codes, spans),
        13: st.builds(LeaveGroupResponse, codes, several(st.builds(LeftMember, texts, maybe, codes)), spans),
        14: st.builds(SyncGroupResponse, codes, blobs, maybe, maybe, spans),
        15: st.builds(DescribeGroupsResponse, several(group), spans),
        16: st.builds(ListGroupsResponse, codes, several(st.builds(ListedGroup, texts, texts, texts)), spans),
        42: st.builds(DeleteGroupsResponse, several(st.builds(DeletedGroup, texts, codes)), spans),
        47: st.builds(OffsetDeleteResponse, codes, errors, spans),
    }
    by_key: dict[int, Callable[[int], Any]] = {key: lambda v, key=key: requests(v)[key] for key in MODULES}
    return by_key, responses


def is_mine(message: Any) -> bool:
    """Return whether a message belongs to these APIs."""
    return type(message).__module__ == "messages.group_requests"


def words(message: Any) -> dict[str, Any]:
    """Return kio's fields of a message, including those that the version lacks."""
    kind = type(message)
    said: dict[str, Any] = {}
    if isinstance(message, LeaveGroupRequest) and message.members:
        said["member_id"] = message.members[0].member_id
    for field in attrs.fields(kind):
        value = getattr(message, field.name)
        if field.name == "partitions":
            said["topics"] = _topics(value)
            continue
        name = RENAMED.get((kind, field.name), RENAMED.get(field.name, field.name))
        said[name] = [words(each) if is_mine(each) else each for each in value] if isinstance(value, tuple) else value
    return said


def _topics(entries: Iterable[Any]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        said = {field.name: getattr(entry, field.name) for field in attrs.fields(type(entry))}
        topic, said["partition_index"] = said.pop("partition")
        topics.setdefault(topic, []).append(said)
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


def as_read(message: Any, version: int, by_topic: Callable[[Iterable[Any]], tuple[Any, ...]]) -> Any:
    """Return a message as its receiver decodes it: without the fields that the version lacks, partitions by topic."""
    kind = type(message)
    changes: dict[str, Any] = {}
    for field in attrs.fields(kind):
        value = getattr(message, field.name)
        lacks = version < SINCE.get(kind, {}).get(field.name, 0) or version > UNTIL.get(kind, {}).get(field.name, 99)
        if lacks:
            changes[field.name] = READ_AS.get((kind, field.name), field.default)
        elif isinstance(value, tuple):
            entries = by_topic(value) if field.name == "partitions" else value
            changes[field.name] = tuple(as_read(each, version, by_topic) if is_mine(each) else each for each in entries)
    return attrs.evolve(message, **changes)
