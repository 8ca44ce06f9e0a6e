"""A controller loses /controller in the middle of each kind of event, and the same process is elected again later.

The controller or its successor finishes the event under a newer epoch. The controller then works as before
(controller.md 7.1-7.3, trap T4: Apache's controller sends nothing more for the partitions that it knew).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from messages import zookeeper
from messages.cluster import Broker, ConfigEntry, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.store import CREATE, DELETE, WriteOp
from tests.controller.test_leader_balance import prefer, wanted
from tests.controller.world import World, endpoint
from zk_bridge import paths
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore

RED, BLUE = TopicPartition("red", 0), TopicPartition("blue", 0)
STEP = 9
"""Deliveries between two tested moments; not a divisor of the deliveries of an event, so that all kinds are tested."""


class Kind(NamedTuple):
    """A kind of event: its preparation, its trigger, and the condition that holds in the end."""

    before: Callable[[World], object]
    trigger: Callable[[World], object]
    in_the_end: Callable[[World], bool]


def nothing(world: World) -> None:
    """Do nothing: broker 11 leads two topics, with 12 in the ISR."""


def lose(world: World) -> None:
    world.brokers.pop(11).close()


def come(world: World) -> None:
    client = world.brokers[11] = Client(MemoryStore(world.zk))
    client.ask(zookeeper.RegisterBroker(Broker(11, (endpoint(11),)), 0, "2.6"))


def bounce(world: World) -> None:
    lose(world)
    come(world)


def grow(world: World) -> None:
    (red,) = world.admin.ask(zookeeper.GetAssignments(("red",), watch=False)).topics
    added = PartitionAssignment(1, ReplicaAssignment((12, 11)))
    world.admin.ask(zookeeper.SetAssignments((zookeeper.TopicAssignment("red", (*red.partitions, added)),), None))


def strand(world: World) -> None:
    world.write_isr(RED, 11)
    world.lose(11)


def move(world: World) -> None:
    request = b'{"version":1,"partitions":[{"topic":"red","partition":0,"replicas":[12,0]}]}'
    world.zk.write((WriteOp(CREATE, paths.REASSIGNMENTS, request),), 0)


def moved(world: World) -> bool:
    if world.replicas("red")[0] != (12, 0):
        world.write_isr(RED, *dict.fromkeys((*world.led(RED)[2], 12, 0)))
    return world.replicas("red")[0] == (12, 0) and world.led(RED)[0] == 12


def led_by(leader: int) -> Callable[[World], bool]:
    return lambda world: world.led(RED)[0] == world.led(BLUE)[0] == leader


KINDS = {
    "TopicChange": Kind(
        nothing,
        lambda world: world.topic("new", (12, 11), run=False),
        lambda world: world.led(TopicPartition("new", 0))[0] == 12,
    ),
    "PartitionModifications": Kind(nothing, grow, lambda world: world.led(TopicPartition("red", 1))[0] == 12),
    "TopicDeletion": Kind(
        nothing,
        lambda world: world.zk.write((WriteOp(CREATE, paths.delete_topic("red")),), 0),
        lambda world: world.topics() == ("blue",) and world.deletions() == (),
    ),
    "BrokerChange, lost": Kind(nothing, lose, led_by(12)),
    "BrokerChange, back": Kind(strand, come, lambda world: world.led(RED)[0] == 11),
    "BrokerChange, bounced": Kind(nothing, bounce, lambda world: led_by(11)(world) or led_by(12)(world)),
    "ControlledShutdown": Kind(nothing, lambda world: world.shut_down_somewhere(11), lambda world: True),
    "IsrChangeNotification": Kind(
        nothing,
        lambda world: world.admin.ask(zookeeper.NotifyIsrChange((RED, BLUE))),
        lambda world: not world.zk.children(paths.ISR_CHANGES).names,
    ),
    "LogDirEventNotification": Kind(
        nothing,
        lambda world: world.admin.ask(zookeeper.NotifyLogDirFailure(12)),
        lambda world: not world.zk.children(paths.LOG_DIR_EVENTS).names,
    ),
    "ZkPartitionReassignment": Kind(nothing, move, moved),
    "PreferredReplicaLeaderElection": Kind(
        lambda world: (world.lose(11), world.broker(11), world.write_isr(RED, 11, 12), world.write_isr(BLUE, 11, 12)),
        lambda world: prefer(world, RED, BLUE),
        lambda world: led_by(11)(world) and not wanted(world),
    ),
    "ConfigChangeNotification": Kind(
        strand,
        lambda world: world.admin.ask(
            zookeeper.SetTopicConfig("red", (ConfigEntry("unclean.leader.election.enable", "true"),))
        ),
        lambda world: world.led(RED)[0] == 12,
    ),
}


def cluster(kind: Kind) -> World:
    """Return a world with controller 0 and candidate 1, in which the event was triggered but not yet handled."""
    world = World()
    world.admin.ask(zookeeper.EnsurePaths())
    for node_id in (0, 1):
        world.node(node_id, auto_leader_rebalance_enable=False)
    world.broker(11)
    world.broker(12)
    for topic in ("red", "blue"):
        world.topic(topic, (11, 12))
    kind.before(world)
    world.run()
    kind.trigger(world)
    return world


@pytest.mark.parametrize("name", KINDS)
def test_a_controller_deposed_in_mid_event_and_elected_again_later(name: str) -> None:
    kind, moment, finished = KINDS[name], 0, False
    while not finished:
        world = cluster(kind)
        finished = world.base.run(limit=moment) != 0.0
        world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
        world.run(5.0)
        first, second = (0, 1) if world.controller()[0] == 1 else (1, 0)
        world.nodes[second].kill()
        world.run(5.0)
        assert world.controller() == (first, 3), f"{name} at {moment}"
        assert world.nodes[first].context.active
        assert kind.in_the_end(world), f"{name} at {moment}"
        world.wire.clear()
        (again,) = world.topic("again", (12, 11, first))
        assert world.led(again)[0] in (11, 12) and world.sent(12), f"{name} at {moment}: it works as before"
        world.expected_failures = len(world.errors)
        assert all("ControllerMoved" in error for error in world.errors), world.errors
        world.close()
        moment += STEP
    assert moment > 2 * STEP
