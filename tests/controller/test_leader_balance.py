"""Preferred leader elections on request and by the timer, and unclean elections where allowed (cases CI14, LE4)."""

from __future__ import annotations

from messages.cluster import ConfigEntry, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection
from messages.store import CREATE, DELETE, NO_NODE, WriteOp
from messages.zookeeper import SetTopicConfig
from tests.controller.world import World
from zk_bridge import paths
from zk_bridge.notifications import encode_partitions


def prefer(world: World, *partitions: TopicPartition) -> None:
    """Request the preferred leaders of these partitions, as admin tools do."""
    world.zk.write((WriteOp(CREATE, paths.PREFERRED_ELECTION, encode_partitions(partitions)),), 0)


def led_by_second(world: World) -> TopicPartition:
    """Return a partition that prefers broker 8 and is led by broker 9 at epoch 1, with both in the ISR."""
    world.broker(8)
    world.broker(9)
    (partition,) = world.topic("t", (8, 9))
    world.lose(8)
    world.broker(8)
    world.write_isr(partition, 8, 9)
    return partition


def wanted(world: World) -> bool:
    return world.zk.read(paths.PREFERRED_ELECTION).code != NO_NODE


def test_ci14_asked_for_the_preferred_leader_leads_again_and_again(world: World) -> None:
    world.node(1, auto_leader_rebalance_enable=False)
    partition = led_by_second(world)
    for epoch in (1, 3):
        assert world.led(partition) == (9, epoch, (8, 9))
        prefer(world, partition)
        world.run()
        assert world.led(partition) == (8, epoch + 1, (8, 9)) and not wanted(world)
        world.bounce(8)
        world.write_isr(partition, 8, 9)


def test_requests_without_a_controller_wait_for_the_next(world: World) -> None:
    node = world.node(1, auto_leader_rebalance_enable=False)
    partition = led_by_second(world)
    node.kill()
    prefer(world, partition, TopicPartition("unknown", 0))
    world.node(2, auto_leader_rebalance_enable=False)
    assert world.led(partition)[0] == 8 and not wanted(world)


def test_an_invalid_request_is_removed_without_effect(world: World) -> None:
    world.node(1)
    world.zk.write((WriteOp(CREATE, paths.PREFERRED_ELECTION, b"{not json"),), 0)
    world.run()
    assert not wanted(world)


def test_leaderships_return_to_the_preferred_replicas(world: World) -> None:
    world.node(1, leader_imbalance_check_interval_seconds=60)
    partition = led_by_second(world)
    assert world.led(partition) == (9, 1, (8, 9))
    world.run(70.0)
    assert world.led(partition) == (8, 2, (8, 9))


def test_a_new_term_takes_over_the_timer_of_the_old_one(world: World) -> None:
    node = world.node(1)
    for epoch in (2, 3):
        world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
        world.run()
        assert world.controller() == (1, epoch)
    names = [timer.name for timer in world.base.timers if timer.receiver is node.actor._myRef]
    assert names.count(AutoPreferredReplicaLeaderElection.__name__) == 1


def test_le4_a_topic_may_be_allowed_to_elect_uncleanly(world: World) -> None:
    world.node(1)
    world.broker(8)
    world.broker(9)
    (partition,) = world.topic("t", (8, 9))
    world.lose(9)
    world.lose(8)
    world.broker(9)
    assert world.led(partition)[::2] == (-1, (8,))
    world.admin.ask(SetTopicConfig("t", (ConfigEntry("retention.ms", "1"),)))
    world.run()
    assert world.led(partition)[::2] == (-1, (8,))
    world.admin.ask(SetTopicConfig("t", (ConfigEntry("unclean.leader.election.enable", "true"),)))
    world.run()
    assert world.led(partition)[::2] == (9, (9,))
