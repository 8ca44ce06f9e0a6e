"""ZooKeeper operations on topics: their names, assignments and data (controller.md 2.2, 2.4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import cast

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.cluster import PartitionAssignment, ReplicaAssignment
from messages.flow.conversation import SLICE, Pause, all_at_once, chunks, slices
from messages.store import ANY_VERSION
from messages.zookeeper import TopicAssignment
from zk_bridge import conversations, paths, znodes
from zk_bridge.configs import encode_config

logger = logging.getLogger(__name__)

_new: Callable[..., PartitionAssignment] = tuple.__new__
"""Makes a NamedTuple in a third of the time, as in `partition_states`."""

SHORT = 9
"""Maximum number of digits of a number that is an int32 in any case."""


def encode_topic(topic: TopicAssignment) -> bytes:
    """Encode /brokers/topics/T: version 2, or version 3 if the topic has an id.

    The tables `adding_replicas` and `removing_replicas` list only partitions that have such replicas.
    """
    return all_at_once(encoding_topic(topic))


def encoding_topic(topic: TopicAssignment) -> Generator[None, None, bytes]:
    """Run `encode_topic` in steps of SLICE partitions."""
    tables: dict[str, list[bytes]] = {"partitions": [], "adding_replicas": [], "removing_replicas": []}
    for part in slices(topic.partitions):
        if tables["partitions"]:
            yield
        for table, rows in (
            ("partitions", {str(n): list(each.replicas) for n, each in part}),
            ("adding_replicas", {str(n): list(each.adding) for n, each in part if each.adding}),
            ("removing_replicas", {str(n): list(each.removing) for n, each in part if each.removing}),
        ):
            if rows:
                tables[table].append(znodes.encode(rows)[1:-1])  # without the braces of the JSON object
    members = [b'"%s":{%s}' % (table.encode(), b",".join(rows)) for table, rows in tables.items()]
    head = {"version": 2} if topic.topic_id is None else {"version": 3, "topic_id": topic.topic_id}
    return b"%s,%s}" % (znodes.encode(head)[:-1], b",".join(members))


def decode_topic(path: str, data: bytes | None, zk_version: int = ANY_VERSION) -> TopicAssignment:
    """Return the id of a topic and its partitions, sorted by number. The topic's name is the last part of `path`.

    The data may have version 1, 2 or 3; the version is ignored. As in Kafka, a missing key counts as an empty object.
    """
    return all_at_once(decoding_topic(path, data, zk_version))


def decoding_topic(path: str, data: bytes | None, zk_version: int) -> Generator[None, None, TopicAssignment]:
    """Run `decode_topic` in steps of SLICE partitions, because a topic may have ten thousand."""
    tables: list[dict[int, tuple[int, ...]]] = []
    try:
        members = znodes.parse(data)
        topic_id = znodes.member(members, "topic_id", str, None)
        for name in ("partitions", "adding_replicas", "removing_replicas"):
            table: dict[int, tuple[int, ...]] = {}
            for part in chunks(znodes.member(members, name, dict, {}).items()):
                if table:
                    yield
                keys, values = zip(*part, strict=True)
                if _are_usual(keys, values):
                    table.update(zip(map(int, keys), map(tuple, values), strict=True))
                    continue
                for key, value in part:
                    table[znodes.number(znodes.decimal(key), "a partition")] = znodes.broker_ids(
                        value, f"{name} of {key}"
                    )
            tables.append(table)
    except znodes.InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None
    replicas, adding, removing = tables
    found: list[PartitionAssignment] = []
    settled: dict[tuple[int, ...], ReplicaAssignment] = {}
    for some in slices(sorted(replicas.items())):
        if found:
            yield
        for partition, ids in some:
            if (adding or removing) and (partition in adding or partition in removing):
                assignment = ReplicaAssignment(ids, adding.get(partition, ()), removing.get(partition, ()))
            else:
                assignment = settled.get(ids) or settled.setdefault(ids, ReplicaAssignment(ids))
            found.append(_new(PartitionAssignment, (partition, assignment)))
    return TopicAssignment(path.rpartition("/")[2], tuple(found), topic_id, zk_version)


def _are_usual(keys: Sequence[str], values: Sequence[object]) -> bool:
    """Return whether the keys are short decimal numbers and the values lists of int32; fast for a thousand of them."""
    joined = "".join(keys)
    if not (joined.isdecimal() and joined.isascii() and min(map(len, keys)) >= 1 and max(map(len, keys)) <= SHORT):
        return False
    if set(map(type, values)) != {list}:
        return False
    ids = list(chain.from_iterable(cast("Sequence[list[object]]", values)))
    return set(map(type, ids)) == {int} and min(ids) >= -znodes.INT32 - 1 and max(ids) <= znodes.INT32  # type: ignore[type-var,operator]


def get_topics(question: zookeeper.GetTopics) -> conversations.Conversation:
    """Return the names of all topics."""
    (names,) = yield from conversations.children_of((paths.TOPICS,), question.watch)
    return zookeeper.TopicNames(names or ())


def get_assignments(question: zookeeper.GetAssignments) -> conversations.Conversation:
    """Return the assignments of topics. An unreadable assignment is logged, and its topic is in `unreadable`."""
    node_paths = tuple(paths.topic(name) for name in question.topics)
    watches = store.Watches(data=node_paths if question.watch else ())
    nodes = yield from conversations.data_of(node_paths, watches=watches)
    found, unreadable = [], []
    partitions = 0
    for name, path, node in zip(question.topics, node_paths, nodes, strict=True):
        if node.code == store.NO_NODE:
            continue
        if partitions >= SLICE:
            partitions = 0
            yield Pause()
        try:
            found.append((yield from conversations.in_pauses(decoding_topic(path, node.data, node.version))))
            partitions += len(found[-1].partitions)
        except BadZnode as error:
            logger.warning("Ignoring topic %s until its znode can be read: %s", name, error)
            unreadable.append(name)
    return zookeeper.Assignments(tuple(found), tuple(unreadable))


def set_assignments(question: zookeeper.SetAssignments) -> conversations.Conversation:
    """Write the assignments of existing topics."""
    check = conversations.fence(question.epoch_zk_version)
    sets = []
    for topic in question.topics:
        data = yield from conversations.in_pauses(encoding_topic(topic))
        sets.append((store.WriteOp(store.SET, paths.topic(topic.topic), data, topic.zk_version),))
    for batch in conversations.batches(sets):
        yield from conversations.transact((*check, *(op for (op,) in batch)))
    return Done()


def create_topic(question: zookeeper.CreateTopic) -> conversations.Conversation:
    """Create the topic's configuration and then the topic in one transaction, so that a reader sees both or neither.

    Kafka uses two transactions. It writes the configuration even of a topic that already exists.
    """
    name = question.topic.topic
    config = store.WriteOp(store.CREATE, paths.topic_config(name), encode_config(question.config))
    topic = store.WriteOp(
        store.CREATE, paths.topic(name), (yield from conversations.in_pauses(encoding_topic(question.topic)))
    )
    check = conversations.fence(question.epoch_zk_version)
    lost = False
    while True:
        old_config, old_topic = yield from conversations.data_of((config.path, topic.path))
        if old_topic.code == store.OK:
            return Done() if lost and old_topic.data == topic.data else zookeeper.TopicExists(name)
        write_config = config if old_config.code == store.NO_NODE else config._replace(kind=store.SET)
        reply = yield from conversations.transact(
            (*check, write_config, topic), store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE
        )
        if reply.code == store.OK:
            return Done()
        lost = lost or reply.code == store.CONNECTION_LOSS
        if reply.code == store.NO_NODE:
            yield from conversations.create_missing((paths.TOPICS, paths.TOPIC_CONFIGS))


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.GetTopics: get_topics,
    zookeeper.GetAssignments: get_assignments,
    zookeeper.SetAssignments: set_assignments,
    zookeeper.CreateTopic: create_topic,
}
