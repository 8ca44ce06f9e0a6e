"""Topic ids, which a controller of Kafka 2.8 or later has written, are kept (KIP-516, KAFKA-14190)."""

from __future__ import annotations

import json

import pytest

from actors.core.controller.context import ControllerContext
from messages import errors
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic
from messages.apis.delete_topics import DeletableTopic, DeleteTopicsRequest
from messages.cluster import TopicPartition
from messages.store import CREATE, DELETE, SET, WriteOp
from messages.zookeeper import GetAssignments, SetAssignments
from tests.controller.test_reassignment import assigned, reassign
from tests.controller.test_topic_requests import ask, heard, learn
from tests.controller.world import Node, World
from tests.core.controller.driver import settings
from zk_bridge import paths

ID = "kTl4kQ6RR2m3wKZ1zV6dPg"


def described(world: World) -> tuple[int, str | None]:
    """Return the version and the topic id in the topic's znode."""
    data = json.loads(world.zk.read(paths.topic("t")).data or b"")
    return data["version"], data.get("topic_id")


def with_id(topic_id: str | None, *replicas: tuple[int, ...]) -> bytes:
    """Return the topic's znode as Kafka 2.8 or later writes it; without an id, as an older tool writes it."""
    partitions = {str(number): each for number, each in enumerate(replicas)}
    head = {"version": 2} if topic_id is None else {"version": 3, "topic_id": topic_id}
    return json.dumps({**head, "partitions": partitions, "adding_replicas": {}, "removing_replicas": {}}).encode()


def write(world: World, kind: str, data: bytes | None) -> None:
    world.zk.write((WriteOp(kind, paths.topic("t"), data),), 0)
    world.run()


def create(world: World) -> TopicPartition:
    """Start four fake brokers and create a topic with an id."""
    for broker_id in (6, 7, 8, 9):
        world.broker(broker_id)
    write(world, CREATE, with_id(ID, (8,)))
    return TopicPartition("t", 0)


def alter(world: World, node: Node, replicas: tuple[int, ...] | None) -> None:
    """Request a reassignment by the API; None cancels it."""
    topics = (ReassignableTopic("t", (ReassignablePartition(0, replicas),)),)
    ask(world, node, AlterPartitionReassignmentsRequest(0, 10_000, topics))
    world.run()


def test_every_write_keeps_the_topic_id(world: World) -> None:
    node = world.node(1)
    partition = create(world)
    for count in (2, 3):  # with the controller that saw the topic appear, and with one that found it
        ask(world, node, CreatePartitionsRequest(1, (GrowingTopic("t", count),), 10_000))
        world.run()
        assert (len(world.replicas("t")), *described(world)) == (count, 3, ID)
        old, new = assigned(world, partition).replicas[0], 6 + count
        reassign(world, (partition, (new, 7)))
        assert (assigned(world, partition).adding != (), *described(world)) == (True, 3, ID)
        world.write_isr(partition, old, new, 7)
        assert (assigned(world, partition).replicas, *described(world)) == ((new, 7), 3, ID)
        alter(world, node, (new, 7, 6))
        assert (assigned(world, partition).adding, *described(world)) == ((6,), 3, ID)
        alter(world, node, None)
        assert (assigned(world, partition).replicas, *described(world)) == ((new, 7), 3, ID)
        node.kill()
        node = world.node(count)
        assert described(world) == (3, ID)


def test_a_topic_is_deleted_by_its_id(world: World) -> None:
    node = world.node(1)
    create(world)
    wanted = (DeletableTopic("t", ID), DeletableTopic(None), DeletableTopic(None, "unknown"), DeletableTopic(None, ID))
    ask(world, node, DeleteTopicsRequest(6, (), 0, wanted))
    learn(world, node)
    (response,) = heard(world)
    assert [(each.name, each.topic_id, each.error_code) for each in response.topics] == [
        ("t", ID, errors.INVALID_REQUEST),
        ("", "", errors.INVALID_REQUEST),
        ("", "unknown", errors.UNKNOWN_TOPIC_ID),
        ("t", ID, errors.NONE),
    ]
    assert world.topics() == ()


def test_an_id_of_two_topics_deletes_neither_and_is_reported_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.node(1)
    create(world)
    world.zk.write((WriteOp(CREATE, paths.topic("copy"), with_id(ID, (8,))),), 0)
    world.run()
    ask(world, node, DeleteTopicsRequest(6, (), 0, (DeletableTopic(None, ID),)))
    (response,) = heard(world)
    assert [each.error_code for each in response.topics] == [errors.UNKNOWN_TOPIC_ID]
    assert world.topics() == ("copy", "t")
    ask(world, node, CreatePartitionsRequest(1, (GrowingTopic("t", 2), GrowingTopic("copy", 2)), 10_000))
    world.run()
    assert caplog.text.count(f"Topic copy has the id {ID} of topic t") == 1
    assert world.state(TopicPartition("copy", 1)) is not None


def test_a_topic_that_grows_while_it_is_deleted_keeps_its_id(world: World) -> None:
    world.node(1)
    create(world)
    world.lose(8)
    world.delete("t")
    (before,) = world.admin.ask(GetAssignments(("t",), watch=False)).topics
    write(world, SET, with_id(None, (8,), (9,)))
    (after,) = world.admin.ask(GetAssignments(("t",), watch=False)).topics
    assert (after.partitions, after.topic_id) == (before.partitions, ID)


def test_an_id_that_a_tool_drops_is_written_back(world: World) -> None:
    node = world.node(1)
    partition = create(world)
    write(world, SET, with_id(None, (8,)))
    ask(world, node, CreatePartitionsRequest(1, (GrowingTopic("t", 2),), 10_000))
    world.run()
    assert described(world) == (3, ID)
    write(world, SET, with_id(None, (8,), (9,)))
    reassign(world, (partition, (9,)))
    assert described(world) == (3, ID)


def test_an_id_that_is_put_into_the_znode_later_is_kept(world: World) -> None:
    """This is the cure of KAFKA-14190: the id from partition.metadata is written into the znode again."""
    world.node(1)
    partition = create(world)
    write(world, SET, with_id("another", (8,)))
    reassign(world, (partition, (9,)))
    assert described(world) == (3, "another")


def test_a_topic_that_is_created_again_has_no_earlier_id(world: World) -> None:
    world.node(1)
    partition = create(world)
    world.delete("t")
    world.topic("t", (8,))
    reassign(world, (partition, (9,)))
    assert described(world) == (2, None)
    world.zk.write(tuple(WriteOp(DELETE, path) for path, _ in sorted(world.zk.walk(paths.topic("t")), reverse=True)), 0)
    write(world, CREATE, with_id("another", (8,)))
    (found,) = world.admin.ask(GetAssignments(("t",), watch=False)).topics
    world.admin.ask(SetAssignments((found,), None))
    assert described(world) == (3, "another")


def test_no_two_clusters_and_no_two_calls_make_the_same_id() -> None:
    at_2_8 = settings(inter_broker_protocol_version="2.8")
    contexts = [ControllerContext(at_2_8, cluster_id) for cluster_id in ("a", "b")]
    made = [context.new_topic_id("t") for context in contexts for _ in range(2)]
    assert None not in made
    assert len({*made}) == 4
