"""Test every timer of groups in frozen time: nothing happens a moment before it is due, and then it fires.

Each case starts something at a coordinator, and returns a function that observes it without changing it.
`tests/core/coordinator` tests which timer is started when. Here each timer runs on the base's clock, and offsets age by
the wall clock.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from actors.core.topic.topic_name import GROUP_METADATA
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.errors import MEMBER_ID_REQUIRED, NONE, REBALANCE_IN_PROGRESS, REQUEST_TIMED_OUT, UNKNOWN_MEMBER_ID
from tests.broker.harness import order
from tests.coordinator.world import T0, World
from tests.frozen_time import FrozenTime, frozen

__all__ = ["frozen"]

A_MOMENT = 2**-10
LONG_MS = 500_000

Look = Callable[[], Any]


class Timer(NamedTuple):
    """A case: the function that starts it, the seconds until the timer fires, and the values seen before and then."""

    begin: Callable[[World], Look]
    seconds: float
    before: Any
    then: Any
    settings: dict[str, Any] = {}


def stands(world: World) -> Look:
    """Return a function that returns the group's state and its number of members."""

    def look() -> Any:
        (group,) = world.ask(DescribeGroupsRequest(5, ("g",))).groups
        return group.group_state, len(group.members)

    return look


def code(world: World, request: int) -> Look:
    """Return a function that returns the error code of a response; None while the request waits."""
    return lambda: getattr(world.answer(request), "error_code", None)


def member(world: World) -> Look:
    world.member()
    return stands(world)


def static_member(world: World) -> Look:
    world.member(version=5, group_instance_id="a")
    return stands(world)


def loaded_member(world: World) -> Look:
    world.member()
    world.pass_time(9)
    world.coordinate(*range(4), leader=1)
    world.coordinate(*range(4))
    return stands(world)


def given_id(world: World) -> Look:
    """Start a rebalance that waits for a client that was given a member id and does not use it."""
    known = world.member()
    assert world.answer(world.join(version=4)).error_code == MEMBER_ID_REQUIRED
    return code(world, world.join(member=known))


def new_member(world: World) -> Look:
    """Add a new member, which waits for a member that does not rejoin and has a long rebalance timeout."""
    world.member(session_timeout_ms=LONG_MS, rebalance_timeout_ms=LONG_MS)
    return code(world, world.join())


def rebalance(world: World) -> Look:
    world.member(session_timeout_ms=LONG_MS)
    return code(world, world.join())


def first_rebalance(world: World) -> Look:
    return code(world, world.join())


def first_rebalance_with_a_newcomer(world: World) -> Look:
    joining = world.join()
    world.pass_time(2)
    world.join()
    return code(world, joining)


def sync(world: World) -> Look:
    """Let a member join without sending a SyncGroup request."""
    joining = world.join(session_timeout_ms=LONG_MS)
    world.pass_time(3)
    assert world.answer(joining).error_code == NONE
    return stands(world)


def replicated(world: World) -> None:
    """Give the group's log a second in-sync replica, which does not fetch."""
    place = {"epoch": 9, "isr": (0, 1), "replicas": (0, 1)}
    world.lead(order(GROUP_METADATA, world.partition_of("g"), **place))


def commit(world: World) -> Look:
    replicated(world)
    request = world.post(OffsetCommitRequest(8, "g", -1, "", (CommittedPartition(T0, 3),)))

    def look() -> Any:
        answer = world.answer(request)
        return answer and answer.partitions[0].error_code

    return look


def generation(world: World) -> Look:
    joining = world.join()
    world.pass_time(3)
    joined = world.answer(joining)
    replicated(world)
    given = (MemberAssignment(joined.member_id, b"all"),)
    return code(world, world.post(SyncGroupRequest(3, "g", joined.generation_id, joined.member_id, given)))


def offset(world: World) -> Look:
    world.commit()
    return world.fetch


def offset_with_a_time(world: World) -> Look:
    part = (CommittedPartition(T0, 7),)
    world.ask(OffsetCommitRequest(4, "g", -1, "", part, retention_time_ms=1_200_000))
    return world.fetch


TIMERS = {
    "session": Timer(member, 10, ("Stable", 1), ("Empty", 0)),
    "session of a static member": Timer(static_member, 10, ("Stable", 1), ("Empty", 0)),
    "session after a load": Timer(loaded_member, 10, ("Stable", 1), ("Empty", 0)),
    "id that was given": Timer(given_id, 10, None, NONE),
    "new member that waits": Timer(new_member, 300, None, UNKNOWN_MEMBER_ID),
    "rebalance": Timer(rebalance, 60, None, NONE),
    "initial delay": Timer(first_rebalance, 3, None, NONE),
    "initial delay, once more": Timer(first_rebalance_with_a_newcomer, 4, None, NONE),
    "sync": Timer(sync, 60, ("CompletingRebalance", 1), ("Empty", 0)),
    "commit": Timer(commit, 5, None, REQUEST_TIMED_OUT),
    "generation on its way to the log": Timer(generation, 5, None, REBALANCE_IN_PROGRESS),
    "offset": Timer(offset, 1200, {T0: 7}, {}, {"offsets_retention_minutes": 20}),
    "offset with a time of its own": Timer(offset_with_a_time, 1200, {T0: 7}, {}),
}


@pytest.mark.parametrize("timer", TIMERS.values(), ids=TIMERS)
def test_it_is_over_when_it_is_due(timer: Timer, frozen: FrozenTime, tmp_path: Path) -> None:
    world = World(tmp_path, clock=frozen.clock, **timer.settings)
    world.coordinate(*range(4))
    look = timer.begin(world)
    world.pass_time(timer.seconds - A_MOMENT)
    assert look() == timer.before
    world.pass_time(A_MOMENT)
    assert look() == timer.then
    assert world.base.failures == 0
    world.base.shutdown()
