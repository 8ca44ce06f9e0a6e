"""The rules of a consumer group: every cell of the state tables, timers, static members, offsets and the log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.core.coordinator.group import Group
from actors.core.coordinator.group_states import (
    COMPLETING,
    DEAD,
    EMPTY,
    PREPARING,
    PREVIOUS,
    STABLE,
    TABLES,
    GroupState,
)
from actors.core.illegal_transition import IllegalTransition
from messages import errors
from messages.apis.join_group import JoinProtocol
from messages.apis.offset_commit import CommittedPartition
from messages.groups import GroupRecord, GroupSettings, LoadedGroup, OffsetEntry, OffsetRecord
from tests.core.coordinator.life import RANGE, REBALANCE_MS, SESSION_MS, START_MS, T0, T1, Life

STATES = [EMPTY, PREPARING, COMPLETING, STABLE, DEAD]
OTHER = (JoinProtocol("range", b"another subscription"),)
DELAY_MS = 3000
DAY_MS = 86_400_000

# ------------------------------------------------------------------------------------------------ every cell


def test_the_tables_have_every_cell() -> None:
    for table in (*TABLES.values(), PREVIOUS):
        assert set(table) == set(GroupState)


@pytest.mark.parametrize(
    ("state", "code", "after"),
    [
        (EMPTY, None, PREPARING),
        (PREPARING, None, PREPARING),
        (COMPLETING, None, PREPARING),
        (STABLE, None, PREPARING),
        (DEAD, errors.COORDINATOR_NOT_AVAILABLE, DEAD),
    ],
)
def test_a_new_member_joins(state: GroupState, code: int | None, after: GroupState) -> None:
    life = Life.at(state)
    answer = life.answer(life.join())
    assert (None if answer is None else answer.error_code) == code
    assert life.group.state is after


@pytest.mark.parametrize(
    ("state", "member", "news", "code", "after"),
    [
        (EMPTY, "m1", False, errors.UNKNOWN_MEMBER_ID, EMPTY),
        (PREPARING, "m2", False, errors.NONE, COMPLETING),
        (COMPLETING, "m1", False, errors.NONE, COMPLETING),
        (COMPLETING, "m2", True, None, PREPARING),
        (STABLE, "m1", False, None, PREPARING),
        (STABLE, "m2", False, errors.NONE, STABLE),
        (STABLE, "m2", True, None, PREPARING),
        (DEAD, "m1", False, errors.COORDINATOR_NOT_AVAILABLE, DEAD),
    ],
)
def test_a_member_joins_again(state: GroupState, member: str, news: bool, code: int | None, after: GroupState) -> None:
    life = Life.at(state)
    answer = life.answer(life.join(member, protocols=OTHER if news else RANGE))
    assert (None if answer is None else answer.error_code) == code
    assert life.group.state is after


def test_only_the_leader_receives_the_members_again() -> None:
    life = Life.at(COMPLETING)
    leader, follower = life.joined(life.join("m1")), life.joined(life.join("m2"))
    assert [member.member_id for member in leader.members] == ["m1", "m2"]
    assert follower.members == ()
    assert (follower.generation_id, follower.leader, follower.member_id) == (1, "m1", "m2")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (EMPTY, errors.UNKNOWN_MEMBER_ID),
        (PREPARING, errors.REBALANCE_IN_PROGRESS),
        (COMPLETING, None),
        (STABLE, errors.NONE),
        (DEAD, errors.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_sync_is_answered_by_the_state_of_the_group(state: GroupState, code: int | None) -> None:
    life = Life.at(state)
    answer = life.answer(life.sync("m2"))
    assert (None if answer is None else answer.error_code) == code
    if code == errors.NONE:
        assert (answer.assignment, answer.protocol_type, answer.protocol_name) == (b"m2", "consumer", "range")


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (EMPTY, errors.UNKNOWN_MEMBER_ID),
        (PREPARING, errors.NONE),
        (COMPLETING, errors.REBALANCE_IN_PROGRESS),
        (STABLE, errors.NONE),
        (DEAD, errors.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_a_commit_is_answered_by_the_state_of_the_group(state: GroupState, code: int) -> None:
    life = Life.at(state)
    [result] = life.answer(life.commit("m2", generation=None)).partitions
    assert result.error_code == code
    assert life.fetch() == ({T0: 7} if code == errors.NONE else {})


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [("m2", 0, errors.ILLEGAL_GENERATION), ("m2", 2, errors.ILLEGAL_GENERATION), ("m9", 1, errors.UNKNOWN_MEMBER_ID)],
)
def test_a_commit_of_another_generation_or_of_a_stranger_changes_nothing(
    member: str, generation: int, code: int
) -> None:
    life = Life.at(STABLE)
    [result] = life.answer(life.commit(member, generation)).partitions
    assert (result.error_code, life.fetch()) == (code, {})


@pytest.mark.parametrize(
    ("state", "code", "after"),
    [
        (EMPTY, errors.UNKNOWN_MEMBER_ID, EMPTY),
        (PREPARING, errors.NONE, COMPLETING),
        (COMPLETING, errors.NONE, PREPARING),
        (STABLE, errors.NONE, PREPARING),
    ],
)
def test_a_departure_changes_the_state_of_the_group(state: GroupState, code: int, after: GroupState) -> None:
    life = Life.at(state)
    [left] = life.leave("m2").members
    assert left.error_code == code
    assert life.group.state is after


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (lambda life: life.join(reason="new"), "Adding new member m3 with group instance id None; client reason: new"),
        (
            lambda life: life.join("m1", reason=""),
            "Leader m1 re-joining group during Stable; client reason: not provided",
        ),
        (lambda life: life.leave(("m2", None, "closed")), "Removing member m2 on LeaveGroup; client reason: closed"),
        (lambda life: life.wait(SESSION_MS), "Removing member m1 on heartbeat expiration"),
    ],
)
def test_a_rebalance_has_the_reason_of_the_client(cause: Callable[[Life], object], reason: str) -> None:
    life = Life.at(STABLE)
    before = len(life.reasons)
    cause(life)
    assert life.reasons[before] == reason


@pytest.mark.parametrize(
    ("state", "reported"), [(EMPTY, False), (PREPARING, False), (COMPLETING, False), (STABLE, True), (DEAD, False)]
)
def test_how_a_group_is_described(state: GroupState, reported: bool) -> None:
    described = Life.at(state).group.describe()
    assert described.group_state == state.value
    assert described.protocol_data == ("range" if reported else "")
    assert {member.member_assignment for member in described.members} <= ({b"m1", b"m2"} if reported else {b""})


@pytest.mark.parametrize("state", STATES)
def test_a_move_from_elsewhere_is_illegal(state: GroupState) -> None:
    for target in STATES:
        group = Group("g", GroupSettings())
        group.state = state
        if state in PREVIOUS[target]:
            group._enter(target, 0)
            assert group.state is target
        else:
            with pytest.raises(IllegalTransition, match=f"from {state.value} to {target.value}"):
                group._enter(target, 0)


# ------------------------------------------------------------------------------------------------ membership checks


def test_protocols_that_do_not_fit() -> None:
    life = Life()
    assert life.joined(life.join(protocols=())).error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    assert life.joined(life.join(protocol_type="")).error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    life.stable()
    assert life.joined(life.join(protocol_type="connect")).error_code == errors.INCONSISTENT_GROUP_PROTOCOL
    alien = (JoinProtocol("alien", b""),)
    refused = life.joined(life.join(protocols=alien, version=7))
    assert (refused.error_code, refused.protocol_name) == (errors.INCONSISTENT_GROUP_PROTOCOL, None)
    for said in ({"protocol_type": "connect"}, {"protocol_name": "alien"}):
        assert (
            life.answer(life.sync(next(iter(life.group.members)), **said)).error_code
            == errors.INCONSISTENT_GROUP_PROTOCOL
        )


def test_a_group_that_is_full() -> None:
    life = Life(max_size=2)
    life.stable()
    assert life.joined(life.join()).error_code == errors.GROUP_MAX_SIZE_REACHED
    assert set(life.group.members) == {"m1", "m2"}
    life.join("m1")
    assert life.answer(life.join()) is None, "while they join, those count who have joined"
    assert life.joined(life.join("m2")).error_code == errors.GROUP_MAX_SIZE_REACHED


# ------------------------------------------------------------------------------------------------ timers


def test_each_new_member_restarts_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    life = Life()
    first = life.join(rebalance_timeout_ms=8000)
    for _ in range(2):
        life.wait(DELAY_MS - 1)
        life.join(rebalance_timeout_ms=8000)
        life.wait(1)
        assert life.answer(first) is None
    life.wait(1999)
    assert life.answer(first) is None
    life.wait(1)
    assert len(life.joined(first).members) == 3


def test_a_rebalance_ends_when_all_have_joined() -> None:
    life = Life.at(STABLE)
    third = life.join()
    assert life.answer(third) is None
    life.join("m1")
    second = life.join("m2")
    assert life.joined(second).generation_id == 2
    assert life.joined(third).leader == "m1"


def test_a_member_that_does_not_rejoin_within_the_longest_timeout_is_removed() -> None:
    life = Life(max_session_timeout_ms=2 * REBALANCE_MS)
    life.stable(2, session_timeout_ms=2 * REBALANCE_MS)
    third = life.join(rebalance_timeout_ms=1000)
    life.wait(REBALANCE_MS - 1)
    assert life.answer(third) is None
    life.wait(1)
    assert [member.member_id for member in life.joined(third).members] == ["m3"]
    assert life.joined(third).leader == "m3"


def test_a_rebalance_without_joins_lasts_until_the_sessions_expire() -> None:
    life = Life()
    life.join(instance="a", version=5, session_timeout_ms=100_000)
    life.wait(2 * DELAY_MS)
    life.assign("m1")
    life.join(instance="b", version=5, session_timeout_ms=100_000)
    life.leave("m2")
    life.wait(REBALANCE_MS)
    assert life.group.state is PREPARING
    assert "m1" in life.group.members, "a static member stays as long as its session"
    life.wait(100_000 - REBALANCE_MS)
    assert (life.group.state, life.group.generation) == (EMPTY, 2)


@pytest.mark.parametrize("sign", ["heartbeat", "commit", "sync"])
def test_requests_that_restart_the_session_timeout(sign: str) -> None:
    life = Life.at(STABLE)
    life.wait(SESSION_MS - 1)
    if sign == "heartbeat":
        life.heartbeat("m2")
    elif sign == "commit":
        life.commit("m2", generation=None)
    else:
        life.sync("m2")
    life.wait(1)
    assert set(life.group.members) == {"m2"}


def test_a_member_that_waits_for_a_response_needs_no_heartbeat() -> None:
    life = Life(initial_rebalance_delay_ms=0)
    life.stable(2, session_timeout_ms=SESSION_MS)
    joining = life.join("m1")
    life.wait(SESSION_MS - 1)
    life.heartbeat("m2")
    life.wait(SESSION_MS - 1)
    assert life.answer(joining) is None
    assert set(life.group.members) == {"m1", "m2"}


def test_an_id_that_was_given_is_kept_for_the_session_timeout() -> None:
    life = Life.at(STABLE)
    given = life.joined(life.join(version=4))
    assert (given.error_code, given.member_id) == (errors.MEMBER_ID_REQUIRED, "m3")
    assert life.group.state is STABLE
    life.join("m1")
    second = life.join("m2")
    assert life.answer(second) is None, "the rebalance waits for members with an id"
    life.wait(SESSION_MS)
    assert life.joined(second).generation_id == 2
    assert life.joined(life.join("m3", version=4)).error_code == errors.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_is_used_or_given_back() -> None:
    life = Life.at(STABLE)
    life.join(version=4)
    life.join(version=4)
    assert life.answer(life.join("m3", version=4)) is None
    assert "m3" in life.group.members
    [left] = life.leave("m4").members
    assert (left.error_code, life.group.pending) == (errors.NONE, {})


def test_a_member_without_sync_group_in_time_is_removed() -> None:
    life = Life()
    life.completing(2, session_timeout_ms=300_000)
    leader = life.sync("m1", given={"m1": b"all"})
    assert life.answer(leader).assignment == b"all"
    assert life.group.state is STABLE
    life.wait(REBALANCE_MS - 1)
    assert set(life.group.members) == {"m1", "m2"}
    life.wait(1)
    assert (set(life.group.members), life.group.state) == ({"m1"}, PREPARING)


def test_the_sync_timeout_ends_with_the_last_sync_group() -> None:
    assert "sync" not in Life.at(STABLE).timers
    life = Life()
    life.completing(2, session_timeout_ms=300_000)
    life.join("m2", protocols=OTHER, session_timeout_ms=300_000)
    assert "sync" not in life.timers, "a rebalance makes it moot"


def test_a_sync_that_comes_due_for_another_generation_means_nothing() -> None:
    life = Life.at(COMPLETING)
    life.group.sync_due(0, life.now)
    assert set(life.group.members) == {"m1", "m2"}


# ------------------------------------------------------------------------------------------------ choosing, assigning


def test_the_protocol_is_what_most_like_best_of_what_all_know() -> None:
    def known(*names: str) -> tuple[JoinProtocol, ...]:
        return tuple(JoinProtocol(name, name.encode()) for name in names)

    life = Life()
    for names in (("a", "b", "c"), ("b", "a"), ("x", "b", "a")):
        number = life.join(protocols=known(*names))
    life.wait(3 * DELAY_MS)
    assert life.joined(number).protocol_name == "b"


def test_a_cooperative_rebalance_is_two_generations_in_which_parts_are_kept() -> None:
    """A member keeps its partitions while it rejoins and names them in its subscription, so it joins twice."""
    life = Life()
    mine = (JoinProtocol("cooperative-sticky", b"owns nothing"),)
    life.stable(1, protocols=mine)
    assert life.answer(life.sync("m1")).assignment == b"m1"
    new = life.join(protocols=mine)
    assert life.heartbeat("m1") == errors.REBALANCE_IN_PROGRESS
    assert life.answer(life.commit("m1", generation=None)).partitions[0].error_code == errors.NONE, (
        "it goes on meanwhile"
    )
    owning = (JoinProtocol("cooperative-sticky", b"owns t-0 and t-1"),)
    leader = life.joined(life.join("m1", protocols=owning))
    assert [each.metadata for each in leader.members] == [b"owns t-0 and t-1", b"owns nothing"]
    assert life.joined(new).generation_id == 2
    life.sync("m2")
    life.sync("m1", given={"m1": b"t-0", "m2": b""})
    revoked = (JoinProtocol("cooperative-sticky", b"owns t-0"),)
    life.join("m1", protocols=revoked)
    assert life.joined(life.join("m2", protocols=mine)).generation_id == 3
    second = life.sync("m2")
    life.sync("m1", given={"m1": b"t-0", "m2": b"t-1"})
    assert life.answer(second).assignment == b"t-1"


def test_a_part_is_answered_when_the_log_has_it() -> None:
    life = Life.at(COMPLETING)
    life.log = None
    follower, leader = life.sync("m2"), life.sync("m1", given={"m2": b"all"})
    assert (life.answer(follower), life.answer(leader)) == (None, None)
    life.stored()
    assert (life.answer(follower).assignment, life.answer(leader).assignment) == (b"all", b"")
    [record] = life.stores[-1].records
    assert isinstance(record, GroupRecord)
    assert record.value is not None
    assert (record.value.generation, record.value.leader, record.value.protocol) == (1, "m1", "range")
    assert [(each.member_id, each.assignment) for each in record.value.members] == [("m1", b""), ("m2", b"all")]


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (errors.NOT_ENOUGH_REPLICAS, errors.COORDINATOR_NOT_AVAILABLE),
        (errors.UNKNOWN_TOPIC_OR_PARTITION, errors.COORDINATOR_NOT_AVAILABLE),
        (errors.NOT_LEADER_OR_FOLLOWER, errors.NOT_COORDINATOR),
        (errors.REQUEST_TIMED_OUT, errors.REBALANCE_IN_PROGRESS),
        (errors.MESSAGE_TOO_LARGE, errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_generation_that_the_log_does_not_take(said: int, reported: int) -> None:
    life = Life.at(COMPLETING)
    life.log = said
    follower, leader = life.sync("m2"), life.sync("m1")
    assert (life.answer(follower).error_code, life.answer(leader).error_code) == (reported, reported)
    assert life.group.state is PREPARING


def test_an_answer_of_the_log_to_an_older_generation_counts_for_nothing() -> None:
    life = Life.at(COMPLETING)
    life.log = None
    old = life.sync("m1", given={"m1": b"old"})
    life.leave("m2")
    assert life.answer(old).error_code == errors.REBALANCE_IN_PROGRESS
    life.stored()
    assert life.group.state is PREPARING
    assert life.group.members["m1"].assignment == b""


# ------------------------------------------------------------------------------------------------ static members


def static(**settings: int) -> Life:
    life = Life(**settings)
    life.join(instance="a", version=5)
    life.join(instance="b", version=5)
    life.wait(2 * DELAY_MS)
    life.assign("m1", "m2")
    life.stores.clear()
    return life


@pytest.mark.parametrize("instance", ["a", "b"])
def test_a_static_member_that_comes_back_takes_its_part_without_a_rebalance(instance: str) -> None:
    life = static()
    before = {"a": "m1", "b": "m2"}[instance]
    again = life.joined(life.join(instance=instance, version=5))
    assert (again.error_code, again.generation_id, again.leader, again.members) == (errors.NONE, 1, "m1", ())
    assert (again.member_id, life.group.state) == ("m3", STABLE)
    assert life.answer(life.sync("m3", group_instance_id=instance)).assignment == before.encode()
    assert life.heartbeat(before, instance=instance) == errors.FENCED_INSTANCE_ID
    assert life.heartbeat(before) == errors.UNKNOWN_MEMBER_ID
    [record] = life.stores[0].records
    assert isinstance(record, GroupRecord)
    assert record.value is not None
    assert {each.instance_id: each.member_id for each in record.value.members}[instance] == "m3"
    assert life.group.leader == ("m3" if instance == "a" else "m1")


def test_a_static_leader_that_comes_back_learns_from_version_9_on_that_it_leads() -> None:
    life = static()
    again = life.joined(life.join(instance="a", version=9))
    assert (again.leader, again.skip_assignment, again.generation_id) == ("m3", True, 1)
    assert [each.member_id for each in again.members] == ["m3", "m2"]
    assert life.answer(life.sync("m3", group_instance_id="a")).assignment == b"m1"
    other = life.joined(life.join(instance="b", version=9))
    assert (other.leader, other.skip_assignment, other.members) == ("m3", False, ())


@pytest.mark.parametrize(
    ("state", "code"), [(EMPTY, errors.UNKNOWN_MEMBER_ID), (DEAD, errors.COORDINATOR_NOT_AVAILABLE)]
)
def test_a_static_member_does_not_join_a_full_group(state: GroupState, code: int) -> None:
    """An empty or dead group has no members in practice; the test checks the cells of the tables nevertheless."""
    life = static()
    life.group.state = state
    assert life.joined(life.join(instance="a", version=5)).error_code == code
    assert (list(life.group.members), life.stores) == (["m1", "m2"], [])


def test_a_static_member_keeps_its_id_if_the_append_fails() -> None:
    life = static()
    life.log = errors.NOT_ENOUGH_REPLICAS
    assert life.joined(life.join(instance="a", version=5)).error_code == errors.COORDINATOR_NOT_AVAILABLE
    assert life.heartbeat("m1", instance="a") == errors.NONE
    assert (life.group.leader, list(life.group.members)) == ("m1", ["m1", "m2"])


def test_a_static_member_that_wants_another_protocol_causes_a_rebalance() -> None:
    life = Life()
    both = (JoinProtocol("x", b""), JoinProtocol("y", b""))
    life.join(instance="a", version=5, protocols=both)
    life.wait(2 * DELAY_MS)
    life.assign("m1")
    again = life.join(instance="a", version=5, protocols=both[::-1])
    assert life.joined(again).generation_id == 2
    assert life.joined(again).protocol_name == "y"


@pytest.mark.parametrize("state", [PREPARING, COMPLETING])
def test_a_static_member_comes_back_in_the_middle_of_a_rebalance(state: GroupState) -> None:
    life = Life()
    life.join(instance="a", version=5)
    life.join(instance="b", version=5)
    life.wait(2 * DELAY_MS)
    waiting = life.sync("m2")
    if state is PREPARING:
        life.assign("m1", "m2")
        waiting = life.join("m1", instance="a", version=5)
        again = life.join(instance="a", version=5)
    else:
        again = life.join(instance="b", version=5)
    fenced = life.answer(waiting)
    assert fenced.error_code == errors.FENCED_INSTANCE_ID
    assert life.answer(again) is None
    assert life.group.state is PREPARING


def test_a_static_member_stays_through_a_rebalance_it_takes_no_part_in() -> None:
    life = Life(max_session_timeout_ms=1_000_000)
    life.join(instance="a", version=5, session_timeout_ms=200_000)
    life.join(session_timeout_ms=200_000)
    life.wait(2 * DELAY_MS)
    life.assign("m1", "m2")
    again = life.join("m2", protocols=OTHER, session_timeout_ms=200_000)
    life.wait(REBALANCE_MS)
    assert life.joined(again).leader == "m2"
    assert {each.member_id for each in life.joined(again).members} == {"m1", "m2"}


def test_an_admin_removes_static_members_by_instance() -> None:
    life = static()
    answer = life.leave(("", "a"), ("", "missing"), ("m1", "b"))
    assert [each.error_code for each in answer.members] == [
        errors.NONE,
        errors.UNKNOWN_MEMBER_ID,
        errors.FENCED_INSTANCE_ID,
    ]
    assert list(life.group.static) == ["b"]


def test_before_version_3_the_one_members_code_is_the_whole() -> None:
    life = Life.at(STABLE)
    unknown, known = life.leave("m9", version=2), life.leave("m1", version=0)
    assert (unknown.error_code, unknown.members) == (errors.UNKNOWN_MEMBER_ID, ())
    assert (known.error_code, known.members) == (errors.NONE, ())


# ------------------------------------------------------------------------------------------------ offsets


def test_an_offset_counts_when_the_log_has_it() -> None:
    life = Life()
    life.log = None
    number = life.commit(offset=5)
    assert (life.answer(number), life.fetch()) == (None, {})
    life.stored()
    assert life.answer(number).partitions[0].error_code == errors.NONE
    assert life.fetch() == {T0: 5}
    [record] = life.stores[-1].records
    assert isinstance(record, OffsetRecord)
    assert record.value is not None
    assert (record.value.leader_epoch, record.value.metadata) == (3, "note")
    assert record.value.committed_at_ms == START_MS


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (errors.NOT_ENOUGH_REPLICAS, errors.COORDINATOR_NOT_AVAILABLE),
        (errors.NOT_LEADER_OR_FOLLOWER, errors.NOT_COORDINATOR),
        (errors.REQUEST_TIMED_OUT, errors.REQUEST_TIMED_OUT),
        (errors.MESSAGE_TOO_LARGE, errors.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_an_offset_that_the_log_does_not_take(said: int, reported: int) -> None:
    life = Life()
    life.commit(offset=5)
    life.log = said
    assert life.answer(life.commit(offset=6)).partitions[0].error_code == reported
    assert life.fetch() == {T0: 5}


def test_each_partition_of_a_commit_has_its_own_code() -> None:
    life = Life(metadata_max_bytes=4)
    partitions = (CommittedPartition(T0, 1, -1, "12345"), CommittedPartition(T1, 2, -1, None))
    nowhere = T0._replace(topic="nowhere")
    number = life.commit(partitions=(*partitions, CommittedPartition(nowhere, 3)), unknown=(nowhere,))
    codes = [each.error_code for each in life.answer(number).partitions]
    assert codes == [errors.OFFSET_METADATA_TOO_LARGE, errors.NONE, errors.UNKNOWN_TOPIC_OR_PARTITION]
    assert life.fetch() == {T1: 2}
    only = life.commit(partitions=(CommittedPartition(nowhere, 3),), unknown=(nowhere,))
    assert life.answer(only).partitions[0].error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def test_offsets_of_a_simple_group_expire_by_commit_time() -> None:
    life = Life(retention_ms=DAY_MS)
    life.commit()
    life.wait(DAY_MS - 1)
    life.commit(partitions=(CommittedPartition(T1, 1),))
    life.expire_offsets()
    assert life.fetch() == {T0: 7, T1: 1}
    life.wait(1)
    life.expire_offsets()
    assert life.fetch() == {T1: 1}
    assert life.written[-1] == OffsetRecord("g", T0, None)
    life.wait(DAY_MS - 1)
    life.expire_offsets()
    assert life.group.state is DEAD
    assert life.written[-1] == OffsetRecord("g", T1, None), "of the group itself nothing was ever written"


def test_offsets_of_an_empty_group_are_over_when_it_has_been_empty_for_long() -> None:
    life = Life(retention_ms=DAY_MS)
    life.stable(1)
    life.commit("m1", generation=None)
    life.wait(SESSION_MS)
    assert life.group.state is EMPTY
    life.wait(DAY_MS - 1)
    life.expire_offsets()
    assert life.fetch() == {T0: 7}
    life.wait(1)
    life.expire_offsets()
    assert life.written[-2:] == [OffsetRecord("g", T0, None), GroupRecord("g", None)]
    assert life.group.state is DEAD


def test_a_stable_group_expires_offsets_of_unsubscribed_topics() -> None:
    life = Life(retention_ms=DAY_MS, max_session_timeout_ms=3 * DAY_MS)
    life.stable(1, session_timeout_ms=3 * DAY_MS)
    other = T0._replace(topic="u")
    life.commit("m1", generation=None, partitions=(CommittedPartition(T0, 1), CommittedPartition(other, 2)))
    life.wait(DAY_MS)
    life.expire_offsets()
    assert life.fetch() == {T0: 1}
    assert life.group.state is STABLE


def test_nothing_expires_while_a_commit_of_it_is_under_way() -> None:
    life = Life(retention_ms=DAY_MS)
    life.commit(offset=1)
    life.wait(DAY_MS)
    life.log = None
    life.commit(offset=2)
    life.expire_offsets()
    assert life.fetch() == {T0: 1}
    life.stored(which=1)
    assert life.fetch() == {T0: 2}


def test_offsets_of_partitions_that_are_gone_are_forgotten() -> None:
    life = Life()
    life.commit()
    life.group.forget([T1, T0], life.now)
    assert life.fetch() == {}


def test_offsets_are_not_deleted_in_a_group_of_others_than_consumers() -> None:
    life = Life()
    life.stable(1, protocol_type="connect")
    assert life.delete_offsets(T0).error_code == errors.NON_EMPTY_GROUP


def test_a_deleted_group_leaves_nothing_in_its_log() -> None:
    life = Life.at(EMPTY)
    life.commit()
    assert life.group.delete(life.now) == errors.NONE
    life.leave("missing")
    assert life.written[-2:] == [OffsetRecord("g", T0, None), GroupRecord("g", None)]
    assert life.fetch() == {}


# ------------------------------------------------------------------------------------------------ loading and unloading


def test_a_group_that_is_loaded_goes_on_where_it_was() -> None:
    life = static()
    life.commit("m1", generation=None)
    record = life.group._record({each.id: each.assignment for each in life.group.members.values()})
    again = Life(Group.from_log(LoadedGroup("g", record.value, _entries(life)), life.settings))
    assert (again.group.state, again.group.generation, again.fetch()) == (STABLE, 1, {T0: 7})
    assert again.heartbeat("m2", instance="b") == errors.NONE
    assert again.answer(again.sync("m1")).assignment == b"m1"
    again.wait(SESSION_MS)
    assert again.group.state is EMPTY, "sessions begin with the load"


def _entries(life: Life) -> tuple[OffsetEntry, ...]:
    return tuple(OffsetEntry(*entry) for entry in life.group.offsets.committed.items())


def test_waiting_members_are_answered_when_the_group_is_unloaded() -> None:
    life = Life.at(PREPARING)
    life.log = None
    joining, committing = life.join(), life.commit("m2", generation=None)
    life.unload()
    assert life.joined(joining).error_code == errors.NOT_COORDINATOR
    assert life.answer(committing).partitions[0].error_code == errors.NOT_COORDINATOR
    life.stored(errors.NOT_LEADER_OR_FOLLOWER)
    completing = Life.at(COMPLETING)
    syncing = completing.sync("m2")
    completing.unload()
    assert completing.answer(syncing).error_code == errors.NOT_COORDINATOR
