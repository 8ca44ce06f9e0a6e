"""PS1-PS22 of controller.md 9.6 and the whole table of 3.1: the partition state machine."""

from __future__ import annotations

import logging

import pytest

from actors.core.controller import deletion_steps, elections, partition_state_machine
from actors.core.controller.leadership import MOVES
from actors.core.controller.states import PartitionState, Transition
from actors.core.controller.validation import inconsistencies
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import ConnectionLoss, ControllerMoved, ZooKeeperRefused
from messages.cluster import ConfigEntry, TopicPartition
from messages.topic_deletion import QueueDeletions
from messages.zookeeper import CreatePartitionStates, GetPartitionStates, GetTopicConfigs, UpdatePartitionStates
from tests.core.controller import driver
from tests.core.controller.driver import EPOCH, FENCE, Scene

S = PartitionState
T0 = TopicPartition("t", 0)


def scene_with(state: PartitionState, *replicas: int, brokers: tuple[int, ...] = (5,), **options: bool) -> Scene:
    scene = Scene(*brokers, **options)
    scene.assign("t", replicas or (5,))
    scene.put(T0, state)
    return scene


def move(scene: Scene, target: PartitionState, strategy: elections.Strategy = elections.offline) -> dict:
    return scene.run(partition_state_machine.move_partitions(scene.context, [T0], target, strategy))


@pytest.mark.parametrize("target", S)
@pytest.mark.parametrize("state", S)
def test_every_pair_of_states(state: PartitionState, target: PartitionState, caplog: pytest.LogCaptureFixture) -> None:
    scene = scene_with(state)
    if state is not S.NEW:
        scene.lead(T0, 5, 5)
    move(scene, target)
    legal = state in partition_state_machine.TABLE.previous(target)
    assert scene.context.partition_state(T0) is (target if legal else state)
    refusals = [r.getMessage() for r in caplog.records if "Invalid state change" in r.getMessage()]
    assert len(refusals) == (0 if legal else 1)
    for refusal in refusals:
        assert "t-0" in refusal and target.value in refusal and state.value in refusal
    assert inconsistencies(scene.context) == []


def test_the_table_is_kafkas() -> None:
    """PS1-PS3, PS7, PS8, PS11-PS13, PS18, PS19: the legal transitions, listed one by one."""
    legal = {(previous, row.target) for row in partition_state_machine.TABLE.rows for previous in row.previous}
    assert legal == {
        (S.NON_EXISTENT, S.NEW),
        (S.NEW, S.ONLINE),
        (S.ONLINE, S.ONLINE),
        (S.OFFLINE, S.ONLINE),
        (S.NEW, S.OFFLINE),
        (S.ONLINE, S.OFFLINE),
        (S.OFFLINE, S.OFFLINE),
        (S.OFFLINE, S.NON_EXISTENT),
    }


def test_ps4_a_new_partition_is_created() -> None:
    scene = scene_with(S.NEW)
    move(scene, S.ONLINE)
    (create,) = scene.asked
    assert create == CreatePartitionStates(((T0, driver.leadership(5, 5, version=0)),), FENCE)
    (request,) = scene.requests(LeaderAndIsrRequest, 5)
    (state,) = request.partition_states
    assert (state.is_new, state.leader, state.leader_epoch, state.isr, state.zk_version) == (True, 5, 0, (5,), 0)
    assert scene.context.partition_state(T0) is S.ONLINE


def test_ps4_the_first_live_replica_leads_and_only_live_ones_receive_requests() -> None:
    scene = scene_with(S.NEW, 7, 6, 5, brokers=(5, 6))
    move(scene, S.ONLINE)
    assert scene.znodes[T0] == driver.leadership(6, 6, 5)
    assert scene.receivers(LeaderAndIsrRequest) == [6, 5]
    (state,) = scene.requests(LeaderAndIsrRequest, 6)[0].partition_states
    assert state.replicas == (7, 6, 5)
    assert scene.requests(UpdateMetadataRequest, 5)[0].partition_states[0].offline_replicas == (7,)


def test_a_new_partition_without_live_replica_stays_new() -> None:
    scene = scene_with(S.NEW, 6)
    assert list(move(scene, S.ONLINE)) == [T0]
    assert scene.context.partition_state(T0) is S.NEW
    assert scene.asked == scene.sent == []


def test_ps5_and_ps6_a_failed_creation_leaves_the_partition_new() -> None:
    refused = scene_with(S.NEW)
    refused.raising[CreatePartitionStates] = ZooKeeperRefused("no")
    existing = scene_with(S.NEW)
    existing.znodes[T0] = driver.leadership(5, 5)
    for scene in (refused, existing):
        assert list(move(scene, S.ONLINE)) == [T0]
        assert scene.context.partition_state(T0) is S.NEW
        assert scene.sent == [] and T0 not in scene.context.leadership


@pytest.mark.parametrize("error", [ControllerMoved, ConnectionLoss])
@pytest.mark.parametrize("question", [CreatePartitionStates, UpdatePartitionStates, GetPartitionStates])
def test_what_ends_the_term_is_not_swallowed(question: type, error: type[Exception]) -> None:
    scene = scene_with(S.NEW if question is CreatePartitionStates else S.OFFLINE)
    scene.znodes.update({} if question is CreatePartitionStates else {T0: driver.leadership(-1, 5)})
    scene.raising[question] = error("over")
    with pytest.raises(error):
        move(scene, S.ONLINE)
    assert scene.sent == []


def test_ps9_an_election_that_changes_nothing_still_costs_an_epoch() -> None:
    scene = scene_with(S.ONLINE)
    scene.lead(T0, 5, 5, version=3)
    move(scene, S.ONLINE, elections.elect_preferred)
    assert scene.znodes[T0] == driver.leadership(5, 5, epoch=1, version=4)
    (state,) = scene.requests(LeaderAndIsrRequest, 5)[0].partition_states
    assert (state.is_new, state.leader_epoch, state.zk_version) == (False, 1, 4)


def test_ps10_a_controlled_shutdown_also_notifies_the_stopping_broker() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(5, 6))
    scene.lead(T0, 5, 5, 6)
    scene.context.begin_shutdown(5)
    move(scene, S.ONLINE, elections.controlled_shutdown)
    assert scene.znodes[T0] == driver.leadership(6, 6, epoch=1, version=1)
    assert scene.receivers(LeaderAndIsrRequest) == [5, 6]


def test_ps14_a_leaderless_partition_is_elected() -> None:
    scene = scene_with(S.OFFLINE)
    scene.lead(T0, -1, 5)
    move(scene, S.ONLINE)
    assert scene.znodes[T0] == driver.leadership(5, 5, epoch=1, version=1)
    assert scene.receivers(LeaderAndIsrRequest) == [5]
    assert scene.context.partition_state(T0) is S.ONLINE
    assert not any(isinstance(question, GetTopicConfigs) for question in scene.asked)


def test_ps15_an_unclean_election_allowed_by_the_caller_reads_no_configuration() -> None:
    scene = scene_with(S.OFFLINE, 6, 5)
    scene.lead(T0, -1, 6)
    scene.run(partition_state_machine.move_partitions(scene.context, [T0], S.ONLINE, allow_unclean=True))
    assert scene.znodes[T0] == driver.leadership(5, 5, epoch=1, version=1)
    assert scene.receivers(LeaderAndIsrRequest) == [5]
    assert scene.context.unclean_elections == 1
    assert not any(isinstance(question, GetTopicConfigs) for question in scene.asked)


@pytest.mark.parametrize(
    ("default", "override", "elected"),
    [(False, None, False), (True, None, True), (False, "true", True), (True, "false", False)],
)
def test_an_unclean_election_is_the_topics_choice(default: bool, override: str | None, elected: bool) -> None:
    scene = scene_with(S.OFFLINE, 6, 5, unclean_leader_election_enable=default)
    scene.lead(T0, -1, 6)
    if override is not None:
        scene.configs["t"] = (ConfigEntry("unclean.leader.election.enable", override),)
    failures = move(scene, S.ONLINE)
    assert (T0 not in failures) is elected
    assert (scene.znodes[T0].leader == 5) is elected


def test_an_unreadable_configuration_elects_no_leader() -> None:
    scene = scene_with(S.OFFLINE, 6, 5, unclean_leader_election_enable=True)
    scene.lead(T0, -1, 6)
    scene.raising[GetTopicConfigs] = ZooKeeperRefused("no")
    assert list(move(scene, S.ONLINE)) == [T0]
    assert scene.context.partition_state(T0) is S.OFFLINE


def test_ps16_and_ps17_a_state_that_cannot_be_read_leaves_it_offline() -> None:
    unreadable = scene_with(S.OFFLINE)
    unreadable.raising[GetPartitionStates] = ZooKeeperRefused("no")
    for scene in (unreadable, scene_with(S.OFFLINE)):
        assert list(move(scene, S.ONLINE)) == [T0]
        assert scene.context.partition_state(T0) is S.OFFLINE


def test_a_newer_controllers_partition_is_not_touched() -> None:
    scene = scene_with(S.OFFLINE)
    scene.znodes[T0] = driver.leadership(-1, 5, by=EPOCH + 1)
    assert list(move(scene, S.ONLINE)) == [T0]
    assert scene.znodes[T0] == driver.leadership(-1, 5, by=EPOCH + 1)


def test_t2_only_what_met_another_version_is_elected_again() -> None:
    scene = Scene(5, 6)
    partitions = scene.assign("t", *[(5, 6)] * 4)
    for partition in partitions:
        scene.lead(partition, -1, 5, 6)
        scene.put(partition, S.OFFLINE)

    def shrink() -> None:
        scene.znodes[T0] = driver.leadership(6, 6, version=1)

    scene.before_write.append(shrink)
    assert scene.run(partition_state_machine.trigger_online(scene.context)) == {}
    reads = [q.partitions for q in scene.asked if isinstance(q, GetPartitionStates)]
    assert reads == [(T0,)], "what is known is not read before it is written"
    assert scene.znodes[T0] == driver.leadership(6, 6, epoch=1, version=2)
    assert {scene.znodes[tp].leader_epoch for tp in partitions} == {1}
    assert scene.receivers(LeaderAndIsrRequest) == [5, 6]


def test_ps20_the_offline_partitions_are_counted() -> None:
    scene = Scene(5)
    partitions = scene.assign("t", *[(5,)] * 4)
    for partition in partitions:
        scene.put(partition, S.NEW)
        scene.lead(partition, -1, 5)
    scene.run(partition_state_machine.move_partitions(scene.context, partitions, S.OFFLINE))
    assert scene.context.offline_count == 4
    scene.run(partition_state_machine.trigger_online(scene.context))
    assert scene.context.offline_count == 0


def test_ps21_and_ps22_partitions_of_a_topic_being_deleted_are_not_counted() -> None:
    scene = Scene(5)
    partitions = scene.assign("t", *[(5,)] * 4)
    for partition in partitions:
        scene.put(partition, S.OFFLINE)
    assert scene.context.offline_count == 4
    scene.run(deletion_steps.queue(scene.context, ["t"]))
    assert scene.context.offline_count == 0
    assert scene.context.started == {"t"} and isinstance(scene.asked[0], QueueDeletions)
    for partition in partitions:
        scene.put(partition, S.NEW)
    scene.run(partition_state_machine.move_partitions(scene.context, partitions, S.OFFLINE))
    assert scene.context.offline_count == 0


def test_at_the_start_of_a_term_states_follow_from_leadership() -> None:
    scene = Scene(5)
    led, dead, unknown = scene.assign("t", (5,), (6,), (5,))
    scene.lead(led, 5, 5)
    scene.lead(dead, 6, 6)
    scene.run(partition_state_machine.start(scene.context))
    states = [scene.context.partition_state(tp) for tp in (led, dead, unknown)]
    assert states == [S.ONLINE, S.OFFLINE, S.ONLINE]
    assert scene.znodes[unknown] == driver.leadership(5, 5)


def test_many_failures_are_logged_in_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    partitions = scene.assign("t", *[(5,)] * 500)
    for partition in partitions:
        scene.put(partition, S.NEW)
    with caplog.at_level(logging.ERROR):
        assert len(scene.run(partition_state_machine.trigger_online(scene.context))) == 500
    assert len(caplog.records) < 30
    assert "480 more" in caplog.records[-1].getMessage()
    assert {each.partition for each in scene.refused} == set(partitions), "the trace names all of them"


def test_an_illegal_move_shows_the_last_moves_of_its_subject(caplog: pytest.LogCaptureFixture) -> None:
    scene = scene_with(S.NON_EXISTENT)
    other = TopicPartition("other", 0)
    scene.context.set_assignment(other, scene.context.assignments[T0])
    for target in (S.NEW, S.ONLINE, S.OFFLINE, S.ONLINE):
        scene.run(partition_state_machine.move_partitions(scene.context, [T0], target))
        scene.run(partition_state_machine.move_partitions(scene.context, [other], S.NEW))
    (refusal,) = {r.getMessage() for r in caplog.records if "partition other-0" in r.getMessage()}
    assert "partition other-0 cannot move from NewPartition to NewPartition: " in refusal
    assert refusal.endswith("; its last state changes: NewPartition")
    caplog.clear()
    move(scene, S.NON_EXISTENT)
    (refusal,) = [r.getMessage() for r in caplog.records]
    assert "its last state changes: NewPartition -> OnlinePartition -> OfflinePartition -> OnlinePartition" in refusal


def test_of_many_illegal_moves_the_first_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(5)
    partitions = scene.assign("t", *[(5,)] * 50)
    scene.run(partition_state_machine.move_partitions(scene.context, partitions, S.ONLINE))
    last_sent = [r.getMessage() for r in caplog.records]
    assert {each.partition for each in scene.refused} == set(partitions)
    assert len(last_sent) == 21 and "30 more invalid state changes to OnlinePartition (not listed)" in last_sent[-1]
    assert "its last state changes: none among the last 0 state changes" in last_sent[0]


def test_many_partitions_are_moved_in_slices() -> None:
    """5,000 partitions are created by one write for each MOVES partitions, with pauses, and one LeaderAndIsr."""
    scene = Scene(5)
    partitions = scene.assign("t", *[(5,)] * 5_000)
    for target in (S.NEW, S.ONLINE):
        scene.worked = 0.0
        scene.run(partition_state_machine.move_partitions(scene.context, partitions, target))
        assert scene.worked >= 5_000 / MOVES
    assert [len(question.states) for question in scene.asked] == [MOVES] * (5_000 // MOVES)
    assert scene.receivers(LeaderAndIsrRequest) == [5]


KINDS = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


@pytest.mark.parametrize("row", partition_state_machine.TABLE.rows, ids=lambda row: f"to {row.target.value}")
def test_a_move_causes_the_requests_that_its_row_names(row: Transition) -> None:
    for state in row.previous:
        scene = scene_with(state)
        if state is not S.NEW:
            scene.lead(T0, 5, 5)
        move(scene, row.target)
        assert {type(request).__name__ for _, request in scene.sent} == {
            kind.__name__ for kind in KINDS if kind.__name__.removesuffix("Request") in row.requests
        }
