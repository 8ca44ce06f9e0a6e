"""Random histories of a cluster: after all faults have ended, each topic has leaders, or is deleted as requested."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages.cluster import TopicPartition
from messages.store import CREATE, DELETE, WriteOp
from messages.zookeeper import EnsurePaths
from tests.controller.world import World
from zk_bridge import paths

NODES = (0, 1)
BROKERS = (11, 12, 13)
TOPICS = ("red", "green", "blue")
ASSIGNMENTS = st.lists(
    st.lists(st.sampled_from((*NODES, *BROKERS)), min_size=1, max_size=3, unique=True).map(tuple),
    min_size=1,
    max_size=2,
)
EVENTS = st.one_of(
    st.tuples(st.just("create"), st.sampled_from(TOPICS), ASSIGNMENTS),
    st.tuples(st.just("delete"), st.sampled_from(TOPICS)),
    st.tuples(st.sampled_from(["lose", "bounce"]), st.sampled_from(BROKERS)),
    st.tuples(st.sampled_from(["expire", "disconnect", "lose answer", "shut down"]), st.sampled_from(NODES)),
    st.tuples(st.just("mute"), st.sampled_from(BROKERS)),
    st.tuples(st.just("move controller")),
)


def happen(world: World, event: tuple, asked: set[str], quiet: bool) -> None:  # type: ignore[type-arg]
    """Apply one event. If `quiet`, the next event follows before the actors have handled this one."""
    match event:
        case ("create", topic, assignments):
            if topic not in world.topics():
                world.topic(topic, *assignments, run=False)
        case ("delete", topic):
            if topic in world.topics() and topic not in world.deletions():
                world.zk.write((WriteOp(CREATE, paths.delete_topic(topic)),), 0)
                asked.add(topic)
        case ("lose", broker_id):
            if broker_id in world.brokers:
                world.brokers.pop(broker_id).close()
        case ("bounce", broker_id):
            if broker_id in world.brokers:
                world.bounce(broker_id)
            else:
                world.broker(broker_id)
        case ("expire", node_id):
            world.nodes[node_id].store.expire()
        case ("disconnect", node_id):
            store = world.nodes[node_id].store
            store.disconnect() if store.connected else store.reconnect()
        case ("lose answer", node_id):
            world.nodes[node_id].store.lose_next_answer()
        case ("shut down", broker_id):
            world.shut_down_somewhere(broker_id)
        case ("mute", broker_id):
            world.answers[broker_id] = lambda request: OSError("no route")
        case ("move controller",):
            if paths.CONTROLLER in world.zk.nodes:
                world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    if not quiet:
        world.run()


def reconnect(world: World) -> None:
    """Reconnect all nodes to ZooKeeper, and run until all due events have happened."""
    world.run(5.0)
    while not all(node.store.connected for node in world.nodes.values()):
        for node in world.nodes.values():
            node.store.reconnect()
        world.run(5.0)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(EVENTS, st.booleans()), max_size=15))
def test_in_the_end_all_is_well(events: list[tuple[tuple, bool]]) -> None:  # type: ignore[type-arg]
    world = World()
    world.admin.ask(EnsurePaths())
    for node_id in NODES:
        world.node(node_id)
    for broker_id in BROKERS:
        world.broker(broker_id)
    asked: set[str] = set()
    for event, quiet in events:
        happen(world, event, asked, quiet)
    world.run()
    world.answers.clear()
    for node in world.nodes.values():
        reconnect(world)
        node.store.expire()
    reconnect(world)
    for broker_id in BROKERS:
        if broker_id in world.brokers:
            world.bounce(broker_id)
        else:
            world.broker(broker_id)
        reconnect(world)
    active = [node for node in world.nodes.values() if node.context.active]
    assert [node.id for node in active] == [world.controller()[0]]
    assert world.deletions() == ()
    for topic in world.topics():
        for number, replicas in world.replicas(topic).items():
            leader, _, isr = world.led(TopicPartition(topic, number))
            assert leader in isr and leader in replicas
    world.expected_failures = len(world.errors)
    assert all("ControllerMoved" in error or "SessionLost" in error for error in world.errors), world.errors
    world.close()


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=[pytest.mark.soak, pytest.mark.long])])
@pytest.mark.parametrize("mishap", ["expire", "disconnect", "depose"])
def test_a_mishap_at_any_moment_of_a_deletion(mishap: str, step: int) -> None:
    """The mishap occurs after each `step` deliveries. The deletion always completes, and leaves a consistent state."""
    moment, finished = 0, False
    while not finished:
        world = World()
        world.admin.ask(EnsurePaths())
        node = world.node(0)
        world.broker(11)
        world.topic("red", (0, 11), (11, 0))
        world.zk.write((WriteOp(CREATE, paths.delete_topic("red")),), 0)
        finished = world.base.run(limit=moment) != 0.0
        match mishap:
            case "expire":
                node.store.expire()
            case "disconnect":
                node.store.disconnect()
                node.store.reconnect()
            case "depose":
                world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
        world.run(5.0)
        assert node.context.active
        assert world.topics() == world.deletions() == ()
        world.expected_failures = len(world.errors)
        assert all(mishap == "depose" and "ControllerMoved" in error for error in world.errors), world.errors
        world.close()
        moment += step
    assert moment > 30
