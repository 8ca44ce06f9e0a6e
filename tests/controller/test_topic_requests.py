"""CreateTopics, DeleteTopics and CreatePartitions at the controller and elsewhere (broker.md 6.2; cases CT1, DT12)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from actors.core.topic.replica_assignment import extend
from messages import errors
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic, WantedReplicas
from messages.apis.create_topics import CreatableAssignment, CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.metadata import MetadataRequest
from messages.apis.update_features import FeatureUpdate, UpdateFeaturesRequest, UpdateFeaturesResponse
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import Ask
from messages.broker import MergeMetadata
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE
from messages.network import ClientRequest, ClientResponse, Forwarded
from messages.store import SET, WriteOp
from messages.zookeeper import GetTopicConfigs
from tests.controller.world import Node, World

TIMEOUT_MS = 10_000


def cluster(world: World, **options: Any) -> Node:
    """Start a controller and two more brokers; return the controller's node."""
    node = world.node(0, **options)
    world.broker(1)
    world.broker(2)
    return node


def ask(world: World, node: Node, request: Any) -> None:
    """Send a client's request to the node's controller."""
    node.send(Forwarded(world.client, ClientRequest(7, 1, "client", "PLAINTEXT", request)), world.client)


def heard(world: World) -> list[Any]:
    """Return the responses to the client since the last call."""
    found = [each.response for each in world.responses if isinstance(each, ClientResponse)]
    world.responses.clear()
    return found


def codes(world: World) -> dict[str, int]:
    """Return the error code of each topic of the only response."""
    (response,) = heard(world)
    return {topic.name: topic.error_code for topic in response.topics}


def learn(world: World, node: Node) -> None:
    """Send UpdateMetadata requests to the node's own metadata cache; the fake network drops them otherwise."""
    for request in world.sent(node.id, UpdateMetadataRequest):
        cache = world.base.instance_of(node.node)._actors["metadata_cache"]
        world.base.inject(cache, Ask(1, MergeMetadata(request, begins=True)), world.client)
    world.wire.clear()
    world.run(0.1)


def create(*topics: CreatableTopic, timeout_ms: int = TIMEOUT_MS, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(5, topics, timeout_ms, validate_only)


def given(*assignments: tuple[int, ...], first: int = 0) -> tuple[CreatableAssignment, ...]:
    return tuple(CreatableAssignment(number, ids) for number, ids in enumerate(assignments, first))


# ------------------------------------------------------------------------------------------------- CreateTopics


def test_the_response_to_create_topics_follows_the_leaders(world: World) -> None:
    node = cluster(world)
    topics = (
        CreatableTopic("counted", 6, 3, configs=(CreatableConfig("retention.ms", "12345"),)),
        CreatableTopic("given", assignments=given((2, 1))),
        CreatableTopic("bad name", 1, 1),
    )
    ask(world, node, create(*topics))
    assert heard(world) == []
    learn(world, node)
    (response,) = heard(world)
    counted, manual, bad = response.topics
    assert (counted.error_code, counted.num_partitions, counted.replication_factor) == (errors.NONE, 6, 3)
    assert (manual.error_code, manual.num_partitions, manual.replication_factor) == (errors.NONE, 1, 2)
    assert bad.error_code == errors.INVALID_TOPIC and "Topic name is invalid" in bad.error_message
    replicas = world.replicas("counted")
    assert [sorted(each) for each in replicas.values()] == [[0, 1, 2]] * 6
    assert sorted(each[0] for each in replicas.values()) == [0, 0, 1, 1, 2, 2]
    assert world.replicas("given") == {0: (2, 1)}
    (config,) = world.admin.ask(GetTopicConfigs(("counted",))).topics
    assert config.entries == (("retention.ms", "12345"),)


def test_new_topics_begin_at_brokers_in_turn(world: World) -> None:
    node = cluster(world)
    ask(world, node, create(*(CreatableTopic(name, 1, 1) for name in "abc")))
    assert sorted(world.replicas(name)[0] for name in "abc") == [(0,), (1,), (2,)]


def test_replicas_are_in_different_racks(world: World) -> None:
    node = world.node(0, broker_rack="a")
    for broker_id, rack in ((1, "a"), (2, "b"), (3, "b")):
        world.broker(broker_id, rack)
    ask(world, node, create(CreatableTopic("t", 8, 2)))
    assert all({replica // 2 for replica in replicas} == {0, 1} for replicas in world.replicas("t").values())
    ask(world, node, grow(GrowingTopic("t", 16)))
    assert all({replica // 2 for replica in replicas} == {0, 1} for replicas in world.replicas("t").values())
    assert len(world.replicas("t")) == 16


def test_racks_of_some_brokers_only_are_refused(world: World) -> None:
    """Kafka 3.9.1 also responds with UNKNOWN_SERVER_ERROR, because it has no error code for this."""
    node = world.node(0, broker_rack="a")
    world.broker(1)
    ask(world, node, create(CreatableTopic("t", 1, 1)))
    assert codes(world) == {"t": errors.UNKNOWN_SERVER_ERROR}
    assert world.topics() == ()


def test_sizes_default_to_the_settings(world: World) -> None:
    node = cluster(world, num_partitions=4, default_replication_factor=2)
    ask(world, node, create(CreatableTopic("t")))
    assert [len(replicas) for replicas in world.replicas("t").values()] == [2, 2, 2, 2]


def test_a_topic_without_leaders_in_time_times_out(world: World) -> None:
    node = cluster(world)
    ask(world, node, create(CreatableTopic("t", 1, 1), CreatableTopic("bad name", 1, 1)))
    world.run(TIMEOUT_MS / 1000 + 1)
    assert codes(world) == {"t": errors.REQUEST_TIMED_OUT, "bad name": errors.INVALID_TOPIC}
    assert world.topics() == ("t",)


def test_a_request_without_timeout_is_answered_at_once(world: World) -> None:
    ask(world, cluster(world), create(CreatableTopic("t", 1, 1), timeout_ms=0))
    assert codes(world) == {"t": errors.REQUEST_TIMED_OUT}
    assert world.topics() == ("t",)


def test_validate_only_makes_nothing(world: World) -> None:
    ask(world, cluster(world), create(CreatableTopic("t", 2, 3), CreatableTopic("r", 1, 9), validate_only=True))
    assert codes(world) == {"t": errors.NONE, "r": errors.INVALID_REPLICATION_FACTOR}
    assert world.topics() == ()


def test_a_large_topic_is_planned_in_slices_and_one_beyond_all_bounds_not_at_all(world: World) -> None:
    node = cluster(world)
    ask(world, node, create(CreatableTopic("large", 2 * SLICE + 7, 2), validate_only=True))
    (response,) = heard(world)
    assert [(topic.error_code, topic.num_partitions) for topic in response.topics] == [(errors.NONE, 2 * SLICE + 7)]
    ask(world, node, create(CreatableTopic("beyond", 2**31 - 1, 2)))
    assert codes(world) == {"beyond": errors.INVALID_PARTITIONS}
    world.topic("t", (1,))
    ask(world, node, grow(GrowingTopic("t", 2**31 - 1)))
    assert codes(world) == {"t": errors.INVALID_PARTITIONS}


def test_a_topic_grows_by_thousands_in_slices(world: World) -> None:
    """Neither the node nor the bridge that writes the znode blocks for the whole topic."""
    node = cluster(world)
    world.topic("t", (1, 2))
    world.run()
    count = 2 * SLICE + 7
    ask(world, node, grow(GrowingTopic("t", count)))
    grown = world.replicas("t")
    assert [*grown] == list(range(count))
    assert tuple(grown.values())[1:] == extend(dict.fromkeys(range(3)), (1, 2), 1, count - 1)
    assert world.state(TopicPartition("t", count - 1)) is not None, "and led"


REFUSED = [
    (CreatableTopic("old", 1, 1), errors.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
    (CreatableTopic("..", 1, 1), errors.INVALID_TOPIC, "Topic name is invalid: '..' is not allowed"),
    (CreatableTopic("o_d", 1, 1), errors.INVALID_TOPIC, "Topic 'o_d' collides with existing topics: o.d"),
    (CreatableTopic("t", 0, 1), errors.INVALID_PARTITIONS, "Number of partitions must be larger than 0."),
    (CreatableTopic("t", 1, 0), errors.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0."),
    (
        CreatableTopic("t", 1, 4),
        errors.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
    (
        CreatableTopic("t", 1, 1, given((0,))),
        errors.INVALID_REQUEST,
        "Both numPartitions or replicationFactor and replicasAssignments were set."
        " Both cannot be used at the same time.",
    ),
    (
        CreatableTopic("t", assignments=given((0,), (1, 2))),
        errors.INVALID_REPLICA_ASSIGNMENT,
        "All partitions should have the same number of replicas",
    ),
    (
        CreatableTopic("t", assignments=given((1, 1))),
        errors.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate replica assignment found: 1, 1",
    ),
    (
        CreatableTopic("t", assignments=given((0,), first=1)),
        errors.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        CreatableTopic("t", 1, 1, configs=(CreatableConfig("a", None), CreatableConfig("b", None))),
        errors.INVALID_CONFIG,
        "Null value not supported for topic configs: a,b",
    ),
    (
        CreatableTopic("t", 1, 1, configs=(CreatableConfig("no.such", "1"),)),
        errors.INVALID_CONFIG,
        "Unknown topic config name: no.such",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "code", "words"), REFUSED)
def test_what_is_refused_in_kafkas_words(world: World, topic: CreatableTopic, code: int, words: str) -> None:
    node = cluster(world)
    world.topic("old", (1,))
    world.topic("o.d", (1,))
    ask(world, node, create(topic))
    (response,) = heard(world)
    (result,) = response.topics
    assert (result.error_code, result.error_message) == (code, words)
    assert world.topics() == ("o.d", "old")


def test_a_topic_named_twice_is_made_by_neither(world: World) -> None:
    ask(world, cluster(world), create(CreatableTopic("t", 1, 1), CreatableTopic("t", 2, 1)))
    assert codes(world) == {"t": errors.INVALID_REQUEST}
    assert world.topics() == ()


def test_unknown_brokers_are_accepted_as_kafka_does(world: World) -> None:
    ask(world, cluster(world), create(CreatableTopic("t", assignments=given((77, 1)))))
    assert world.replicas("t") == {0: (77, 1)}


# ------------------------------------------------------------------------------------------------- DeleteTopics


def test_the_response_to_delete_topics_follows_the_metadata(world: World) -> None:
    node = cluster(world)
    world.topic("t", (1, 2))
    learn(world, node)
    ask(world, node, DeleteTopicsRequest(4, ("t", "missing", "t"), TIMEOUT_MS))
    assert heard(world) == []
    learn(world, node)
    assert codes(world) == {"t": errors.NONE, "missing": errors.UNKNOWN_TOPIC_OR_PARTITION}
    assert (world.topics(), world.deletions()) == ((), ())


def test_dt11_a_topic_that_is_queued_for_deletion_is_unknown(world: World) -> None:
    """As in Apache 3.9.1, the topic's metadata is removed although its deletion waits for a broker."""
    node = cluster(world)
    world.topic("t", (1, 2))
    learn(world, node)
    world.lose(2)
    ask(world, node, DeleteTopicsRequest(4, ("t",), TIMEOUT_MS))
    learn(world, node)
    assert codes(world) == {"t": errors.NONE}
    assert world.deletions() == ("t",)
    ask(world, node, DeleteTopicsRequest(4, ("t",), TIMEOUT_MS))
    assert codes(world) == {"t": errors.UNKNOWN_TOPIC_OR_PARTITION}
    world.broker(2)
    assert (world.topics(), world.deletions()) == ((), ())


@pytest.mark.parametrize(("version", "code"), [(2, errors.INVALID_REQUEST), (3, errors.TOPIC_DELETION_DISABLED)])
def test_a_cluster_without_topic_deletion_refuses(world: World, version: int, code: int) -> None:
    node = cluster(world, delete_topic_enable=False)
    world.topic("t", (1,))
    ask(world, node, DeleteTopicsRequest(version, ("t", "missing"), TIMEOUT_MS))
    assert codes(world) == {"t": code, "missing": code}
    assert world.deletions() == ()


# ------------------------------------------------------------------------------------------------- CreatePartitions


def grow(*topics: GrowingTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(2, topics, TIMEOUT_MS, validate_only)


def test_the_response_to_create_partitions_follows_the_leaders(world: World) -> None:
    node = cluster(world)
    world.topic("t", (1, 2))
    world.topic("u", (1,))
    learn(world, node)
    ask(world, node, grow(GrowingTopic("t", 3), GrowingTopic("u", 2, (WantedReplicas((2,)),))))
    assert heard(world) == []
    learn(world, node)
    assert codes(world) == {"t": errors.NONE, "u": errors.NONE}
    assert sorted(world.replicas("t")) == [0, 1, 2] and world.replicas("t")[0] == (1, 2)
    assert world.replicas("u") == {0: (1,), 1: (2,)}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (GrowingTopic("missing", 2), errors.UNKNOWN_TOPIC_OR_PARTITION),
        (GrowingTopic("t", 1), errors.INVALID_PARTITIONS),
        (GrowingTopic("t", 0), errors.INVALID_PARTITIONS),
        (GrowingTopic("t", 3, (WantedReplicas((1, 2)),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (GrowingTopic("t", 2, (WantedReplicas((1, 77)),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (GrowingTopic("t", 2, (WantedReplicas((1, 1)),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (GrowingTopic("t", 2, (WantedReplicas((1,)),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (GrowingTopic("t", 2, (WantedReplicas(()),)), errors.INVALID_REPLICA_ASSIGNMENT),
        (GrowingTopic("moving", 2), errors.REASSIGNMENT_IN_PROGRESS),
        (GrowingTopic("going", 2), errors.INVALID_TOPIC),
    ],
)
def test_invalid_numbers_of_partitions(world: World, topic: GrowingTopic, code: int) -> None:
    node = cluster(world)
    for name in ("t", "moving", "going"):
        world.topic(name, (1, 2))
    moving = b'{"version":2,"partitions":{"0":[1,2,0]},"adding_replicas":{"0":[0]},"removing_replicas":{}}'
    world.zk.write((WriteOp(SET, "/brokers/topics/moving", moving),), 0)
    world.lose(2)
    world.delete("going")
    ask(world, node, grow(topic))
    assert codes(world) == {topic.name: code}


def test_a_topic_to_grow_named_twice_grows_by_neither(world: World) -> None:
    node = cluster(world)
    world.topic("t", (1,))
    ask(world, node, grow(GrowingTopic("t", 2), GrowingTopic("t", 3)))
    assert codes(world) == {"t": errors.INVALID_REQUEST}
    ask(world, node, grow(GrowingTopic("t", 2), validate_only=True))
    assert codes(world) == {"t": errors.NONE}
    assert len(world.replicas("t")) == 1


# ----------------------------------------------------------------------------------- only the controller responds


def test_an_invalid_name_in_metadata_is_no_error_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    node = cluster(world)
    learn(world, node)
    cache = world.base.instance_of(node.node)._actors["metadata_cache"]
    request = ClientRequest(7, 1, "client", "PLAINTEXT", MetadataRequest(9, ("bad name",), True))
    world.base.inject(cache, Forwarded(world.client, request), world.client)
    world.run()
    assert codes(world) == {"bad name": errors.INVALID_TOPIC}
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_feature_levels_cannot_be_changed_below_protocol_version_2_7(world: World) -> None:
    """The codes and texts are those of Kafka 3.9.1."""
    for node in (cluster(world), world.node(3)):
        ask(world, node, UpdateFeaturesRequest(1, (FeatureUpdate("metadata.version", 1),)))
    refused, elsewhere = heard(world)
    assert refused == UpdateFeaturesResponse(errors.INVALID_REQUEST, "Feature versioning system is disabled.")
    text = "This is not the correct controller for this cluster."
    assert elsewhere == UpdateFeaturesResponse(errors.NOT_CONTROLLER, text)


NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."
CANNOT_DELETE = "Can not delete non-existing finalized feature."
BELOW_ONE = "Can not provide versionLevel: {} less than 1 without setting the SAFE downgradeType in the request."
UPDATES = (
    (FeatureUpdate("metadata.version", 1), NOT_SUPPORTED),
    (FeatureUpdate("", 0, 9), "Feature name can not be empty."),
    (FeatureUpdate("a", 0), BELOW_ONE.format(0)),
    (FeatureUpdate("b", -1), BELOW_ONE.format(-1)),
    (FeatureUpdate("c", 0, 2), CANNOT_DELETE),
    (FeatureUpdate("d", -3, 3), CANNOT_DELETE),
    (FeatureUpdate("e", 5, 2), NOT_SUPPORTED),
    (FeatureUpdate("f", 1, 0), "Received unknown upgrade type."),
)
"""Update -> the error text of Kafka 3.9.1 at protocol version 2.8."""


def test_each_feature_update_is_refused_from_protocol_version_2_7_on(world: World) -> None:
    node = cluster(world, inter_broker_protocol_version="2.7")
    updates = (*(update for update, _ in UPDATES), FeatureUpdate("a", 1))
    ask(world, node, UpdateFeaturesRequest(1, updates))
    (response,) = heard(world)
    assert response.error_code == errors.NONE
    assert [(each.feature, each.error_code, each.error_message) for each in response.results] == [
        (update.feature, errors.INVALID_REQUEST, text) for update, text in UPDATES
    ], "of a repeated feature, the first update counts"


@pytest.mark.parametrize(
    "request_",
    [create(CreatableTopic("n", 1, 1)), DeleteTopicsRequest(4, ("t",), TIMEOUT_MS), grow(GrowingTopic("t", 2))],
    ids=lambda request: type(request).__name__,
)
def test_a_deposed_controller_writes_nothing(world: World, request_: Any) -> None:
    """ZooKeeper has another controller's epoch, and this controller was not notified of it."""
    node = cluster(world)
    world.topic("t", (1,))
    before = dict(world.zk.walk())
    epoch = WriteOp(SET, "/controller_epoch", b"9")
    world.zk.write((epoch,), 0)
    world.expected_failures = 1
    ask(world, node, request_)
    assert set(codes(world).values()) == {errors.NOT_CONTROLLER}
    for name in ("/brokers/topics/t", "/brokers/topics/n", "/admin/delete_topics/t", "/config/topics/n"):
        assert dict(world.zk.walk()).get(name) == before.get(name)
