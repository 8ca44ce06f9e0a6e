"""Terms of controllers: their election, start and end (controller.md 7.1-7.3; cases CI1, CI22, CH7, LE1, SE1)."""

from __future__ import annotations

import pytest

from messages.apis.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.elect_leaders import ElectLeadersRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import Broker, Endpoint
from messages.errors import NOT_CONTROLLER, STALE_CONTROLLER_EPOCH
from messages.events import BrokerChange, ControllerChange, Reelect, TopicChange
from messages.network import ClientRequest, Forwarded
from messages.store import CREATE_EPHEMERAL, CREATE_SEQUENTIAL, DELETE, SET, WriteOp
from tests.controller.world import World
from zk_bridge import paths
from zk_bridge.brokers import encode_broker
from zk_bridge.controller import encode_controller, encode_controller_epoch
from zk_bridge.notifications import encode_log_dir_event, encode_partitions


def take_over(world: World, epoch: int) -> None:
    """Replace /controller and its epoch in one transaction, as another process can."""
    ops = (
        WriteOp(DELETE, paths.CONTROLLER),
        WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch)),
        WriteOp(CREATE_EPHEMERAL, paths.CONTROLLER, encode_controller(99, 0)),
    )
    world.zk.write(ops, 0)


def odd_broker(broker_id: int) -> Broker:
    """Return a broker that listens only to clients."""
    return Broker(broker_id, (Endpoint("CLIENTS", "127.0.0.1", 1),))


def test_ci1_the_first_controller_has_epoch_1(world: World) -> None:
    node = world.node(0)
    assert world.controller() == (0, 1)
    assert (node.context.epoch, node.context.epoch_zk_version) == (1, 1)
    assert node.gauge("activecontrollercount") == 1


def test_le1_the_death_of_leader_and_controller_in_one_costs_two_epochs(world: World) -> None:
    first, second = world.node(0), world.node(1)
    (partition,) = world.topic("t", (0, 1))
    first.kill()
    assert world.led(partition) == (1, 2, (1,))
    assert world.controller() == (1, 2) and second.context.active
    state = world.state(partition)
    assert state is not None and state.controller_epoch == 2


def test_ch7_what_a_broker_sees_of_a_failover(world: World) -> None:
    first, second = world.node(0), world.node(1)
    world.broker(9)
    partitions = world.topic("t", (1, 9), (9, 1))
    for prefix in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
        assert world.zk.children(prefix).names == ()
    first.store.disconnect()  # it receives no events, and cannot write
    before = len(world.wire)
    isr = encode_partitions(())
    log_dir = encode_log_dir_event(1)
    world.zk.write((WriteOp(CREATE_SEQUENTIAL, f"{paths.ISR_CHANGES}/isr_change_", isr),), 0)
    world.zk.write((WriteOp(CREATE_SEQUENTIAL, f"{paths.LOG_DIR_EVENTS}/log_dir_event_", log_dir),), 0)
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    assert second.context.active and world.controller() == (1, 2)
    heard = [request for to, request in world.wire[before:] if to == 9 and request.controller_epoch == 2]
    assert [type(request) for request in heard[:3]] == [
        UpdateMetadataRequest,
        LeaderAndIsrRequest,
        UpdateMetadataRequest,
    ]
    empty, roles, full = heard[:3]
    assert empty.partition_states == () and [b.id for b in empty.live_brokers] == [0, 1, 9]
    assert [s.partition for s in roles.partition_states] == partitions
    assert {s.is_new for s in roles.partition_states} == {False}
    assert {s.controller_epoch for s in roles.partition_states} == {1}
    assert [(s.leader, s.leader_epoch) for s in full.partition_states] == [(1, 0), (9, 0)]
    assert [world.led(tp) for tp in partitions] == [(1, 0, (1, 9)), (9, 0, (9, 1))]
    for prefix in (paths.ISR_CHANGES, paths.LOG_DIR_EVENTS):
        assert world.zk.children(prefix).names == ()
    first.store.reconnect()
    world.run()
    assert not first.context.active


def test_ci22_a_deposed_controller_writes_nothing(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    node.store.disconnect()
    (partition,) = world.topic("t", (0, 1), run=False)
    take_over(world, 2)
    node.store.reconnect()
    world.run()
    assert not node.context.active
    assert world.state(partition) is None
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    assert world.controller() == (0, 3) and node.context.active
    state = world.state(partition)
    assert state is not None and (state.leader, state.controller_epoch) == (0, 3)


def test_a_failed_fence_resigns_before_any_other_check(world: World) -> None:
    """After ControllerMoved in the middle of an event, the queued events find an inactive controller."""
    node = world.node(0)
    world.broker(1)
    world.zk.write((WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(7)),), 0)
    world.expected_failures = 1
    (partition,) = world.topic("t", (0, 1), run=False)
    node.send(BrokerChange())
    world.run()
    assert len(world.closed) == 2, "it resigned"
    state = world.state(partition)
    assert state is not None and state.controller_epoch == 8, "the old term wrote nothing"


def test_a_controller_deposed_by_a_raised_epoch_lets_another_be_elected_above_it(world: World) -> None:
    """Only the epoch was raised; /controller still names this node.

    Apache's cluster has no controller from then on.
    """
    nodes = [world.node(n) for n in range(2)]
    world.zk.write((WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(41)),), 0)
    world.expected_failures = 1
    (partition,) = world.topic("t", (0, 1))
    assert world.controller()[1] == 42
    assert sum(node.context.active for node in nodes) == 1
    assert world.led(partition) == (0, 0, (0, 1))


def test_a_raised_epoch_seen_by_the_watch_begins_another_term(world: World) -> None:
    node = world.node(0)
    ops = (
        WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(41)),
        WriteOp(SET, paths.CONTROLLER, encode_controller(0, 5)),
    )
    world.zk.write(ops, 0)
    world.run()
    assert node.context.active and world.controller() == (0, 42)


def test_t4_a_controller_deposed_in_mid_event_and_elected_again_works(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    world.topic("old", (0, 1))
    world.expected_failures = 1
    world.zk.write((WriteOp(SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(7)),), 0)
    world.wire.clear()
    world.delete("old")
    assert node.context.active and world.controller() == (0, 8)
    assert world.topics() == () and world.deletions() == ()
    assert world.sent(1, LeaderAndIsrRequest)


def test_se1_an_expired_session_resigns_and_the_next_one_elects(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    (partition,) = world.topic("t", (1, 0))
    node.store.expire()
    world.run()
    assert world.controller() == (0, 2) and node.context.active
    assert node.context.brokers[0].epoch > 2
    assert world.led(partition)[0] == 1


def test_t13_queued_requests_of_an_expired_session_are_answered(world: World) -> None:
    """Kafka responds to elections and controlled shutdowns, but drops requests for reassignments without a response."""
    node = world.node(0)
    world.topic("t", (0,))
    node.store.disconnect()
    asked = (
        CreateTopicsRequest(5, (CreatableTopic("n", 1, 1),), 1000),
        AlterPartitionReassignmentsRequest(0, 1000, ()),
        ListPartitionReassignmentsRequest(0, 1000),
        ElectLeadersRequest(2, None, 1000),
        ControlledShutdownRequest(3, 0, -1),
    )
    for number, request in enumerate(asked):
        mail = ClientRequest(7, number, "client", "PLAINTEXT", request)
        world.base.inject(node.controller, Forwarded(world.client, mail), world.client)
    world.run()
    assert world.responses == []
    node.store.expire()
    world.run(0.1)
    answered = {response.correlation_id: response.response for response in world.responses}
    assert sorted(answered) == list(range(len(asked)))
    assert answered[0].topics[0].error_code == NOT_CONTROLLER
    assert {answered[number].error_code for number in (1, 2, 3)} == {NOT_CONTROLLER}
    assert answered[4].error_code == STALE_CONTROLLER_EPOCH


def test_an_expired_session_of_the_controller_lets_another_be_elected(world: World) -> None:
    first, second = world.node(0), world.node(1)
    first.store.expire(reconnect=False)
    world.run()
    assert second.context.active and not first.context.active
    first.store.reconnect()
    world.run()
    assert world.controller() == (1, 2) and not first.context.active
    assert set(second.context.brokers) == {0, 1}


@pytest.mark.parametrize("event", [BrokerChange, TopicChange, ControllerChange, Reelect])
def test_events_of_an_expired_session_are_ignored(world: World, event: type) -> None:
    """The same event of the current session makes the controller send a request to ZooKeeper."""
    node = world.node(0)
    node.store.expire()
    world.run()
    for generation, looked_at in ((1, False), (2, True)):
        world.base.inject(node.controller, event(generation))
        more_waits = world.base.run(limit=1) == 0.0
        assert (more_waits, node.actor.busy) == (looked_at, looked_at)
    world.run()
    (partition,) = world.topic("t", (0,))
    assert world.led(partition) == (0, 0, (0,))


def test_a_clean_stop_resigns_and_takes_no_more_events(world: World) -> None:
    node = world.node(0)
    world.topic("t", (0,))
    world.stop(node)
    assert not node.context.active and len(world.closed) == 1
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    assert world.controller()[0] == -1


def test_a_term_that_cannot_begin_is_given_up(world: World) -> None:
    """No node can be controller while a broker lacks the inter-broker listener; nodes retry with a back-off."""
    world.zk.write((WriteOp(CREATE_EPHEMERAL, f"{paths.BROKER_IDS}/7", encode_broker(odd_broker(7), 0, "2.6")),), 77)
    node = world.node(0)
    world.run(3.5)
    assert not node.context.active
    assert 3 <= world.controller()[1] <= 6
    world.zk.end_session(77)
    world.run(2.0)
    assert node.context.active and set(node.context.brokers) == {0}


def test_a_controller_that_cannot_be_read_is_waited_for(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The owner of /controller is unknown. The current controller stays, because its fence holds.

    No other node is elected until the znode is deleted.
    """
    world.expected_failures = 2
    first, second = world.node(0), world.node(1)
    world.zk.write((WriteOp(SET, paths.CONTROLLER, b"{torn"),), 0)
    world.run()
    assert "/controller: no valid JSON" in caplog.text
    assert [node.context.active for node in (first, second)] == [True, False]
    (partition,) = world.topic("t", (1, 0))
    assert world.led(partition) == (1, 0, (1, 0))
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    assert sum(node.context.active for node in (first, second)) == 1
    assert world.controller()[1] == 2


def test_a_lost_answer_costs_the_connection_but_not_the_term(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    node.store.lose_next_answer()
    (partition,) = world.topic("t", (0, 1))
    node.store.reconnect()
    world.run()
    assert world.led(partition) == (0, 0, (0, 1))
    assert node.context.active and node.context.epoch == 1
