"""RS1-RS7 of controller.md 9.7 and the whole table of 3.3: the replica state machine."""

from __future__ import annotations

import pytest

from actors.core.controller import replica_state_machine
from actors.core.controller.states import ReplicaState, Transition
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import ControllerMoved
from messages.cluster import EPOCH_DURING_DELETE, ReplicaAssignment, TopicPartition
from messages.topic_deletion import DeletionSets
from messages.zookeeper import GetPartitionStates, UpdatePartitionStates
from tests.core.controller import driver
from tests.core.controller.driver import EPOCH, Scene

S = ReplicaState
T0 = TopicPartition("t", 0)

VALID = {
    S.NON_EXISTENT: (S.NEW,),
    S.NEW: (S.ONLINE, S.OFFLINE),
    S.ONLINE: (S.ONLINE, S.OFFLINE),
    S.OFFLINE: (S.ONLINE, S.OFFLINE, S.DELETION_STARTED, S.DELETION_INELIGIBLE),
    S.DELETION_STARTED: (S.DELETION_SUCCESSFUL, S.DELETION_INELIGIBLE),
    S.DELETION_SUCCESSFUL: (S.NON_EXISTENT,),
    S.DELETION_INELIGIBLE: (S.ONLINE, S.OFFLINE),
}
"""Legal transitions of 9.7: from -> to."""


def scene_with(state: ReplicaState, *assigned: int, brokers: tuple[int, ...] = (5,)) -> Scene:
    scene = Scene(*brokers)
    scene.assign("t", assigned or (5,))
    if state is not S.NON_EXISTENT:
        scene.put_replica(T0, 5, state)
    return scene


def move(scene: Scene, target: ReplicaState, broker_id: int = 5) -> None:
    scene.run(replica_state_machine.move_replicas(scene.context, {broker_id: [T0]}, target))


@pytest.mark.parametrize("target", S)
@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("led", [False, True])
def test_every_pair_of_states(
    state: ReplicaState, target: ReplicaState, led: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scene = scene_with(state, 6, 5)
    if led:
        scene.lead(T0, 6, 6, 5)
    move(scene, target)
    legal = target in VALID[state]
    assert legal is (state in replica_state_machine.TABLE.previous(target))
    assert scene.context.replica_state(5, T0) is (target if legal else state)
    refusals = [r.getMessage() for r in caplog.records if "Invalid state change" in r.getMessage()]
    assert len(refusals) == (0 if legal else 1)
    assert legal or scene.sent == scene.asked == []


def test_rs1_and_rs2_states_at_the_start_of_a_term() -> None:
    for brokers, state in (((5,), S.ONLINE), ((), S.OFFLINE), ((6,), S.OFFLINE)):
        scene = Scene(*brokers)
        scene.assign("t", (5,))
        scene.run(replica_state_machine.start(scene.context))
        assert scene.context.replica_state(5, T0) is state


def test_rs3_offline_without_leadership_notifies_all_brokers() -> None:
    scene = scene_with(S.NEW, brokers=(5, 6))
    move(scene, S.OFFLINE)
    (stop,) = scene.requests(StopReplicaRequest, 5)
    assert [(s.partition, s.delete_partition) for s in stop.partition_states] == [(T0, False)]
    assert scene.receivers(UpdateMetadataRequest) == [5, 6]
    assert scene.requests(UpdateMetadataRequest)[0].partition_states == ()


@pytest.mark.parametrize("state", [S.ONLINE, S.OFFLINE, S.DELETION_INELIGIBLE])
def test_rs4_online_with_leadership_notifies_the_replica(state: ReplicaState) -> None:
    scene = scene_with(state)
    scene.lead(T0, 5, 5)
    move(scene, S.ONLINE)
    (request,) = scene.requests(LeaderAndIsrRequest, 5)
    assert [s.is_new for s in request.partition_states] == [False]


def test_rs5_the_leader_goes_offline() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(5, 6))
    scene.lead(T0, 5, 5, 6)
    move(scene, S.OFFLINE)
    assert scene.znodes[T0] == driver.leadership(-1, 6, epoch=1, version=1)
    assert scene.context.leadership[T0] == scene.znodes[T0]
    assert scene.receivers(StopReplicaRequest) == [5]
    assert scene.receivers(LeaderAndIsrRequest) == [6]
    (state,) = scene.requests(LeaderAndIsrRequest)[0].partition_states
    assert (state.leader, state.isr, state.replicas, state.is_new) == (-1, (6,), (5, 6), False)


def test_rs6_deletion_started_deletes() -> None:
    scene = scene_with(S.OFFLINE)
    move(scene, S.DELETION_STARTED)
    (stop,) = scene.requests(StopReplicaRequest, 5)
    assert [s.delete_partition for s in stop.partition_states] == [True]


def test_rs7_a_deleted_replica_is_forgotten() -> None:
    scene = scene_with(S.DELETION_SUCCESSFUL)
    move(scene, S.NON_EXISTENT)
    assert scene.context.assignment(T0) == ReplicaAssignment(())
    assert T0 not in scene.context.replica_states[5]


def test_a_new_replica_that_leads_is_refused() -> None:
    scene = scene_with(S.NON_EXISTENT)
    scene.lead(T0, 5, 5)
    move(scene, S.NEW)
    assert scene.context.replica_state(5, T0) is S.NON_EXISTENT
    assert scene.sent == []


def test_a_new_replica_receives_the_flag_is_new() -> None:
    scene = scene_with(S.NON_EXISTENT, 6, 5, brokers=(5, 6))
    scene.lead(T0, 6, 6)
    move(scene, S.NEW)
    (request,) = scene.requests(LeaderAndIsrRequest)
    assert [s.is_new for s in request.partition_states] == [True]


def test_a_new_replica_outside_the_assignment_is_added_to_it() -> None:
    scene = scene_with(S.NEW, 6)
    move(scene, S.ONLINE)
    assert scene.context.assignment(T0).replicas == (6, 5)


def test_the_last_member_stays_in_the_isr_but_leads_no_more() -> None:
    scene = scene_with(S.ONLINE)
    scene.lead(T0, 5, 5)
    move(scene, S.OFFLINE)
    assert scene.znodes[T0] == driver.leadership(-1, 5, epoch=1, version=1)


def test_an_out_of_sync_replica_costs_no_epoch_and_others_are_notified() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(6,))
    scene.lead(T0, 6, 6, epoch=4)
    scene.context.lead(T0, driver.leadership(6, 6, epoch=4, by=EPOCH - 1))
    move(scene, S.OFFLINE)
    assert not any(isinstance(question, UpdatePartitionStates) for question in scene.asked)
    (request,) = scene.requests(LeaderAndIsrRequest, 6)
    assert [(s.leader_epoch, s.controller_epoch) for s in request.partition_states] == [(4, EPOCH)]
    assert scene.context.replica_state(5, T0) is S.OFFLINE


def test_a_partition_without_znode_stays_where_it_is() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(5, 6))
    scene.lead(T0, 6, 6, 5)
    scene.znodes.clear()
    move(scene, S.OFFLINE)
    assert scene.context.replica_state(5, T0) is S.ONLINE


def test_a_shrink_that_met_another_version_is_made_again() -> None:
    scene = scene_with(S.ONLINE, 5, 6, 7, brokers=(5, 6, 7))
    scene.lead(T0, 6, 5, 6, 7)
    scene.before_write.append(lambda: scene.znodes.update({T0: driver.leadership(6, 5, 6, version=1)}))
    move(scene, S.OFFLINE)
    assert scene.znodes[T0] == driver.leadership(6, 6, epoch=1, version=2)
    assert sum(isinstance(question, GetPartitionStates) for question in scene.asked) == 1


def test_a_topic_being_deleted_is_shrunk_without_new_followers() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(5, 6))
    scene.lead(T0, 5, 5, 6)
    scene.context.set_deletions(DeletionSets(queued=("t",)))
    move(scene, S.OFFLINE)
    assert scene.znodes[T0] == driver.leadership(-1, 6, epoch=1, version=1)
    assert scene.requests(LeaderAndIsrRequest) == []
    (stop,) = scene.requests(StopReplicaRequest)
    assert [s.leader_epoch for s in stop.partition_states] == [EPOCH_DURING_DELETE]


def test_another_controllers_election_ends_the_move() -> None:
    scene = scene_with(S.ONLINE, 5, 6)
    scene.lead(T0, 5, 5, 6)
    scene.raising[UpdatePartitionStates] = ControllerMoved("moved")
    with pytest.raises(ControllerMoved):
        move(scene, S.OFFLINE)
    assert scene.sent == []


def test_t4_a_failed_step_leaves_no_requests_for_the_next() -> None:
    scene = scene_with(S.ONLINE, 5, 6, brokers=(5, 6))
    scene.lead(T0, 5, 5, 6)
    scene.raising[UpdatePartitionStates] = ControllerMoved("moved")
    with pytest.raises(ControllerMoved):
        move(scene, S.OFFLINE)
    scene.raising.clear()
    scene.run(replica_state_machine.move_replicas(scene.context, {6: [T0]}, S.ONLINE))
    assert scene.requests(StopReplicaRequest) == []


KINDS = (LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


@pytest.mark.parametrize("row", replica_state_machine.TABLE.rows, ids=lambda row: f"to {row.target.value}")
def test_a_move_causes_the_requests_that_its_row_names(row: Transition) -> None:
    for state in row.previous:
        scene = scene_with(state, 6, 5, brokers=(5, 6))
        scene.lead(T0, 6, 6, 5)
        move(scene, row.target)
        assert {type(request).__name__ for _, request in scene.sent} == {
            kind.__name__ for kind in KINDS if kind.__name__.removesuffix("Request") in row.requests
        }


def test_an_illegal_move_shows_the_last_moves_of_the_replica(caplog: pytest.LogCaptureFixture) -> None:
    scene = scene_with(S.NON_EXISTENT, 6, 5, brokers=(5, 6))
    for target in (S.NEW, S.ONLINE, S.OFFLINE):
        move(scene, target)
    move(scene, S.NEW, broker_id=6)
    move(scene, S.DELETION_SUCCESSFUL)
    (refusal,) = [r.getMessage() for r in caplog.records if "Invalid" in r.getMessage()]
    assert "replica 5 of partition t-0 cannot move from OfflineReplica to ReplicaDeletionSuccessful: " in refusal
    assert refusal.endswith("its last state changes: NewReplica -> OnlineReplica -> OfflineReplica")
