"""Checks of group requests, and the responses for a group that does not exist."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.coordinator.request_checks import (
    NOBODYS,
    NOBODYS_ENTRY,
    LedPartitions,
    is_nameless_sync,
    makes_group,
    session_verdict,
    verdict,
)
from messages.apis import APIS
from messages.apis.declaration import GROUPS
from messages.apis.delete_groups import DeleteGroupsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.join_group import JoinGroupRequest
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.list_groups import ListGroupsRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.offset_delete import OffsetDeleteRequest
from messages.apis.offset_fetch import OffsetFetchRequest, OffsetFetchTopic
from messages.apis.sync_group import SyncGroupRequest
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    GROUP_ID_NOT_FOUND,
    ILLEGAL_GENERATION,
    INVALID_GROUP_ID,
    INVALID_SESSION_TIMEOUT,
    NONE,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from messages.groups import GroupSettings
from messages.placement import slot

TP = TopicPartition("t", 0)
ABOUT_ONE = (
    *(JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest),
    *(OffsetCommitRequest, OffsetFetchRequest, OffsetDeleteRequest, TxnOffsetCommitRequest),
)
ABOUT_SEVERAL = (DescribeGroupsRequest, DeleteGroupsRequest)
NAMELESS = (OffsetCommitRequest, OffsetFetchRequest, *ABOUT_SEVERAL)
OURS, LOADING, THEIRS = "a", "b", "c"


@pytest.fixture
def places() -> LedPartitions:
    """Return partitions in which OURS is led here, LOADING is being loaded and THEIRS is elsewhere.

    The group without a name is led here.
    """
    return LedPartitions(50, {slot(LOADING) % 50}, {slot(OURS) % 50, 0})


def test_every_coordinator_api_has_a_gate_and_an_empty_answer() -> None:
    of_coordinator = {api.request for api in APIS if api.answerer == GROUPS}
    assert of_coordinator == {*ABOUT_ONE, *ABOUT_SEVERAL, ListGroupsRequest}
    assert set(NOBODYS) == set(ABOUT_ONE) - {TxnOffsetCommitRequest}, "a commit in a transaction makes the group"
    assert set(NOBODYS_ENTRY) == set(ABOUT_SEVERAL)


@pytest.mark.parametrize("kind", [*ABOUT_ONE, *ABOUT_SEVERAL])
def test_groups_are_served_only_by_their_loaded_coordinator(kind: type, places: LedPartitions) -> None:
    assert verdict(kind, OURS, places) is None
    assert verdict(kind, THEIRS, places) == NOT_COORDINATOR
    loading = {SyncGroupRequest: REBALANCE_IN_PROGRESS, HeartbeatRequest: NONE}
    assert verdict(kind, LOADING, places) == loading.get(kind, COORDINATOR_LOAD_IN_PROGRESS)
    assert verdict(kind, "", places) == (None if kind in NAMELESS else INVALID_GROUP_ID)
    assert verdict(kind, OURS, LedPartitions()) == NOT_COORDINATOR, "the number of partitions is unknown yet"


def test_a_sync_that_can_name_its_protocol_does() -> None:
    assert is_nameless_sync(SyncGroupRequest(5, "g", 1, "m", (), None, "consumer", None))
    assert not is_nameless_sync(SyncGroupRequest(5, "g", 1, "m", (), None, "consumer", "range"))
    assert not is_nameless_sync(SyncGroupRequest(4, "g", 1, "m"))
    assert not is_nameless_sync(HeartbeatRequest(4, "g", 1, "m"))


@pytest.mark.parametrize(("timeout", "code"), [(5, 26), (6, None), (10, None), (11, INVALID_SESSION_TIMEOUT)])
def test_session_timeouts_outside_the_limits_are_refused(timeout: int, code: int | None) -> None:
    allowed = GroupSettings(min_session_timeout_ms=6, max_session_timeout_ms=10)
    assert session_verdict(JoinGroupRequest(5, "g", timeout, "", "consumer", ()), allowed) == code
    assert session_verdict(HeartbeatRequest(4, "g", 1, "m"), allowed) is None


@pytest.mark.parametrize(
    ("request_", "makes", "answer"),
    [
        (JoinGroupRequest(7, "g", 6, "m", "consumer", ()), False, {"error_code": UNKNOWN_MEMBER_ID, "member_id": "m"}),
        (JoinGroupRequest(7, "g", 6, "", "consumer", ()), True, {}),
        (SyncGroupRequest(5, "g", 1, "m"), False, {"error_code": UNKNOWN_MEMBER_ID}),
        (HeartbeatRequest(4, "g", 1, "m"), False, {"error_code": UNKNOWN_MEMBER_ID}),
        (LeaveGroupRequest(2, "g", (LeavingMember("m"),)), False, {"error_code": UNKNOWN_MEMBER_ID, "members": ()}),
        (OffsetCommitRequest(8, "g", -1, "", ()), True, {}),
        (OffsetDeleteRequest(0, "g", ()), False, {"error_code": GROUP_ID_NOT_FOUND}),
        (TxnOffsetCommitRequest(3, "id", "g", 1, 0, (), 5, "m"), True, None),
    ],
)
def test_responses_about_a_missing_group(request_: Any, makes: bool, answer: dict[str, Any] | None) -> None:
    assert makes_group(request_) == makes
    if answer is None:
        return
    said = NOBODYS[type(request_)](request_)
    assert {name: getattr(said, name) for name in answer} == answer


def test_entries_of_responses_about_a_missing_group() -> None:
    left = NOBODYS[LeaveGroupRequest](LeaveGroupRequest(4, "g", (LeavingMember("m"), LeavingMember("", "i"))))
    assert (left.error_code, [each.error_code for each in left.members]) == (NONE, [UNKNOWN_MEMBER_ID] * 2)
    commit = OffsetCommitRequest(8, "g", 3, "m", (CommittedPartition(TP, 1),))
    assert not makes_group(commit)
    assert [each.error_code for each in NOBODYS[OffsetCommitRequest](commit).partitions] == [ILLEGAL_GENERATION]
    fetch = NOBODYS[OffsetFetchRequest](OffsetFetchRequest(7, "g", (OffsetFetchTopic("t", (0,)),)))
    [offset] = fetch.partitions
    assert (fetch.error_code, offset.committed_offset, offset.metadata, offset.error_code) == (NONE, -1, "", NONE)
    assert NOBODYS_ENTRY[DescribeGroupsRequest]("g").group_state == "Dead"
    assert NOBODYS_ENTRY[DeleteGroupsRequest]("g").error_code == GROUP_ID_NOT_FOUND
