"""Preferred elections, requested and automatic (controller.md 7.6, 1.4.18; traps T8, T11)."""

from __future__ import annotations

import logging

import pytest

from actors.core.controller import leader_balance, unclean_election
from actors.core.controller.instructions import Enqueue
from actors.core.controller.states import PartitionState
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.cluster import ConfigEntry, ReplicaAssignment, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, ConfigChangeNotification, PreferredReplicaLeaderElection
from messages.zookeeper import UpdatePartitionStates
from tests.core.controller.driver import Scene

AUTO = AutoPreferredReplicaLeaderElection()
REQUESTED = PreferredReplicaLeaderElection()


def scene_of(*leaders: int, **options: int) -> tuple[Scene, list[TopicPartition]]:
    """Return brokers 1 and 2, and partitions that prefer broker 1, led by these leaders, with both in the ISR."""
    scene = Scene(1, 2, **options)
    partitions = scene.assign("t", *[(1, 2)] * len(leaders))
    for partition, leader in zip(partitions, leaders, strict=True):
        scene.lead(partition, leader, 1, 2)
        scene.put(partition, PartitionState.ONLINE)
    return scene, partitions


def epochs(scene: Scene, partitions: list[TopicPartition]) -> list[tuple[int, int]]:
    return [(scene.znodes[tp].leader, scene.znodes[tp].leader_epoch) for tp in partitions]


def test_a_preferred_leader_is_not_changed() -> None:
    scene, partitions = scene_of(1, 2)
    scene.wanted = tuple(partitions)
    scene.run(leader_balance.elect_requested(scene.context, REQUESTED))
    assert epochs(scene, partitions) == [(1, 0), (1, 1)]
    assert scene.receivers(LeaderAndIsrRequest) == [1, 2]


def test_the_request_goes_and_is_looked_for_again() -> None:
    scene, _ = scene_of(1)
    scene.wanted = ()
    scene.run(leader_balance.elect_requested(scene.context, REQUESTED))
    assert scene.wanted is None and scene.done == [Enqueue(REQUESTED)]
    scene.forget()
    scene.run(leader_balance.elect_requested(scene.context, REQUESTED))
    assert scene.done == []


def test_what_cannot_have_a_preferred_leader_costs_the_others_nothing(caplog: pytest.LogCaptureFixture) -> None:
    scene, (imbalanced,) = scene_of(2)
    (unled,) = scene.assign("new", (1, 2))
    (deleted,) = scene.assign("deleted", (1, 2))
    scene.lead(deleted, 2, 1, 2)
    scene.context.queued = frozenset({"deleted"})
    scene.put(unled, PartitionState.NEW)
    scene.wanted = (unled, TopicPartition("unknown", 0), imbalanced, deleted)
    scene.run(leader_balance.elect_requested(scene.context, REQUESTED))
    assert epochs(scene, [imbalanced, deleted]) == [(1, 1), (2, 0)] and unled not in scene.znodes
    (line,) = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert all(name in line for name in ("new-0", "unknown-0", "deleted-0"))


@pytest.mark.parametrize(
    ("imbalanced", "percentage", "moved"), [(1, 10, False), (2, 10, True), (1, 0, True), (10, 100, False)]
)
def test_only_more_than_the_percentage_is_too_much(imbalanced: int, percentage: int, moved: bool) -> None:
    scene, partitions = scene_of(
        *[2] * imbalanced, *[1] * (10 - imbalanced), leader_imbalance_per_broker_percentage=percentage
    )
    scene.run(leader_balance.check(scene.context, AUTO))
    assert epochs(scene, partitions)[:imbalanced] == [(1, 1) if moved else (2, 0)] * imbalanced
    assert epochs(scene, partitions)[imbalanced:] == [(1, 0)] * (10 - imbalanced)


def test_the_next_look_is_arranged_before_this_one() -> None:
    scene, _ = scene_of(2, leader_imbalance_check_interval_seconds=7)
    scene.raising[UpdatePartitionStates] = RuntimeError("unforeseen")
    with pytest.raises(RuntimeError):
        scene.run(leader_balance.check(scene.context, AUTO))
    assert scene.done == [Enqueue(AUTO, 7)]


def test_no_leader_moves_to_an_ineligible_replica() -> None:
    scene, (outside, inside) = scene_of(2, 2)
    scene.lead(outside, 2, 2)
    scene.run(leader_balance.check(scene.context, AUTO))
    assert epochs(scene, [outside, inside]) == [(2, 0), (1, 1)]
    scene.lead(inside, 2, 1, 2)
    scene.context.remove_broker(1)
    scene.forget()
    scene.run(leader_balance.check(scene.context, AUTO))
    assert scene.asked == []


def test_a_reassignment_under_way_keeps_nothing_from_going_back() -> None:
    """A partition being reassigned also gets its preferred leader, as in 3.9.1 (KAFKA-10149; 2.6 waits for its end)."""
    scene, (moving, other) = scene_of(2, 2)
    scene.context.set_assignment(moving, ReplicaAssignment((1, 2, 3), (3,), ()))
    assert moving in scene.context.reassigning
    scene.run(leader_balance.check(scene.context, AUTO))
    assert epochs(scene, [moving, other]) == [(1, 1), (1, 1)]


def test_only_topics_that_wait_and_may_elect_uncleanly_are_tried_again() -> None:
    scene = Scene(2)
    partitions = {topic: scene.assign(topic, (1, 2))[0] for topic in ("may", "mayNot", "led")}
    for topic, partition in partitions.items():
        scene.lead(partition, 2 if topic == "led" else -1, 1)
        scene.put(partition, PartitionState.ONLINE if topic == "led" else PartitionState.OFFLINE)
    scene.configs = {topic: (ConfigEntry("unclean.leader.election.enable", "true"),) for topic in ("may", "led")}
    scene.run(unclean_election.handle_config_change(scene.context, ConfigChangeNotification()))
    led = {topic: (scene.znodes[tp].leader, scene.znodes[tp].isr) for topic, tp in partitions.items()}
    assert led == {"may": (2, (2,)), "mayNot": (-1, (1,)), "led": (2, (1,))}
    assert scene.context.unclean_elections == 1
