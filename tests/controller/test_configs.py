"""The controller's reaction to changed configs (controller.md 1.4.20, 1.4.21)."""

from __future__ import annotations

import pytest

from messages.cluster import ConfigEntry, TopicPartition
from messages.zookeeper import ALL_BROKERS, SetBrokerConfig
from tests.controller.world import World

UNCLEAN = "unclean.leader.election.enable"


def stranded(world: World) -> TopicPartition:
    """Return an offline partition whose ISR is dead, while another replica is alive."""
    world.broker(8)
    world.broker(9)
    (partition,) = world.topic("t", (8, 9))
    world.write_isr(partition, 8)
    world.lose(8)
    assert world.led(partition) == (-1, 1, (8,))
    return partition


def say(world: World, broker: str, value: str) -> None:
    """Change the override of a broker, or of all brokers."""
    world.admin.ask(SetBrokerConfig(broker, (ConfigEntry(UNCLEAN, value),)))
    world.run()


@pytest.mark.parametrize("broker", ["1", ALL_BROKERS])
def test_brokers_that_may_elect_uncleanly_from_now_on_do_at_once(world: World, broker: str) -> None:
    world.node(1)
    partition = stranded(world)
    say(world, broker, "true")
    assert world.led(partition) == (9, 2, (9,))


def test_the_controllers_own_override_precedes_the_cluster_wide_default(world: World) -> None:
    world.node(1, unclean_leader_election_enable=True)
    say(world, "1", "false")
    partition = stranded(world)
    say(world, ALL_BROKERS, "true")
    assert world.led(partition)[0] == -1


def test_another_brokers_override_is_not_the_controllers(world: World) -> None:
    world.node(1)
    partition = stranded(world)
    say(world, "2", "true")
    assert world.led(partition)[0] == -1


def test_a_new_controller_knows_what_counts_by_default(world: World) -> None:
    world.node(1)
    partition = stranded(world)
    world.nodes[1].kill()
    say(world, ALL_BROKERS, "true")
    world.node(2)
    assert world.led(partition)[0] == 9
