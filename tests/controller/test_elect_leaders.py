"""ElectLeaders requests, by which admin clients request leaders from the controller (controller.md 1.5.1, trap T8)."""

from __future__ import annotations

from typing import Any

import pytest

from messages import errors
from messages.apis.elect_leaders import PREFERRED, UNCLEAN, ElectableTopic, ElectLeadersRequest
from messages.cluster import TopicPartition
from tests.controller.test_leader_balance import led_by_second
from tests.controller.test_topic_requests import TIMEOUT_MS, ask, heard, learn
from tests.controller.world import Node, World


def elect(*topics: tuple[str, tuple[int, ...]], kind: int = PREFERRED) -> ElectLeadersRequest:
    return ElectLeadersRequest(2, tuple(ElectableTopic(*topic) for topic in topics), TIMEOUT_MS, kind)


def codes(world: World) -> dict[TopicPartition, int]:
    """Return the error code of each partition of the only response."""
    (response,) = heard(world)
    return {
        TopicPartition(topic.name, each.partition_index): each.error_code
        for topic in response.topics
        for each in topic.partitions
    }


def controller(world: World, **options: Any) -> Node:
    return world.node(1, auto_leader_rebalance_enable=False, **options)


def test_the_response_follows_the_metadata_with_the_preferred_leader(world: World) -> None:
    node = controller(world)
    partition = led_by_second(world)
    learn(world, node)
    ask(world, node, elect(("t", (0,))))
    assert world.led(partition) == (8, 2, (8, 9)) and heard(world) == []
    learn(world, node)
    assert codes(world) == {partition: errors.NONE}
    ask(world, node, elect(("t", (0,))))
    assert codes(world) == {partition: errors.ELECTION_NOT_NEEDED}


def test_a_timed_out_election_names_the_pending_partitions(world: World) -> None:
    node = controller(world)
    partition = led_by_second(world)
    ask(world, node, elect(("t", (0, 7))))
    world.run(TIMEOUT_MS / 1000 + 1)
    assert codes(world) == {
        partition: errors.REQUEST_TIMED_OUT,
        TopicPartition("t", 7): errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert world.led(partition) == (8, 2, (8, 9))


def test_of_all_partitions_only_those_are_named_that_needed_a_leader(world: World) -> None:
    node = controller(world)
    partition = led_by_second(world)
    world.topic("fine", (8, 9))
    learn(world, node)
    ask(world, node, ElectLeadersRequest(2, None, TIMEOUT_MS))
    learn(world, node)
    assert codes(world) == {partition: errors.NONE}
    ask(world, node, ElectLeadersRequest(2, None, TIMEOUT_MS))
    assert codes(world) == {}


def test_an_unclean_election_without_in_sync_replicas(world: World) -> None:
    """The request elects an unclean leader although unclean.leader.election.enable is false."""
    node = controller(world)
    world.broker(8)
    world.broker(9)
    (partition,) = world.topic("t", (8, 9))
    world.write_isr(partition, 8)
    world.lose(8)
    assert world.led(partition) == (-1, 1, (8,))
    ask(world, node, elect(("t", (0,))))
    assert codes(world) == {partition: errors.PREFERRED_LEADER_NOT_AVAILABLE}
    ask(world, node, elect(("t", (0,)), kind=UNCLEAN))
    learn(world, node)
    assert codes(world) == {partition: errors.NONE}
    assert world.led(partition) == (9, 2, (9,))
    ask(world, node, elect(("t", (0,)), kind=UNCLEAN))
    assert codes(world) == {partition: errors.ELECTION_NOT_NEEDED}


@pytest.mark.parametrize(
    ("kind", "code"),
    [(PREFERRED, errors.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, errors.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_t8_each_partition_is_answered_for_itself(world: World, kind: int, code: int) -> None:
    """Kafka never responds to a request with a partition that never had a leader, and elects none of the others."""
    node = controller(world)
    partition = led_by_second(world)
    world.topic("unled", (77,))
    world.topic("going", (9, 8))
    world.answers[9] = lambda request: ConnectionError("gone")
    world.delete("going")
    ask(world, node, elect(("t", (0,)), ("unled", (0,)), ("going", (0,)), ("missing", (0,)), kind=kind))
    world.run(TIMEOUT_MS / 1000 + 1)
    assert codes(world) == {
        partition: errors.REQUEST_TIMED_OUT if kind == PREFERRED else errors.ELECTION_NOT_NEEDED,
        TopicPartition("unled", 0): code,
        TopicPartition("going", 0): errors.INVALID_TOPIC,
        TopicPartition("missing", 0): errors.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_unknown_election_type_keeps_the_term(world: World) -> None:
    node = controller(world)
    ask(world, node, elect(("t", (0,)), kind=7))
    (response,) = heard(world)
    assert response.error_code == response.topics[0].partitions[0].error_code == errors.UNKNOWN_SERVER_ERROR
    assert world.controller() == (1, 1)


def test_another_broker_refuses_each_partition(world: World) -> None:
    controller(world)
    other = world.node(2)
    ask(world, other, elect(("t", (0,))))
    ask(world, other, ElectLeadersRequest(2, None, TIMEOUT_MS))
    named, all_ = heard(world)
    assert (named.error_code, named.topics[0].partitions[0].error_code) == (errors.NONE, errors.NOT_CONTROLLER)
    assert (all_.error_code, all_.topics) == (errors.NOT_CONTROLLER, ())
