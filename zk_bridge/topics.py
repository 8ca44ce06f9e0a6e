"""ZooKeeper operations on topics: their names and assignments (controller.md 2.2, 2.4)."""

from __future__ import annotations

import logging

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.flow.conversation import SLICE, Pause
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


def get_topics(question: zookeeper.GetTopics) -> conversations.Conversation:
    """Return the names of all topics."""
    if question.watch:
        yield conversations.Arm(children=(paths.TOPICS,))
    (names,) = yield from conversations.children_of((paths.TOPICS,))
    return zookeeper.TopicNames(names or ())


def get_assignments(question: zookeeper.GetAssignments) -> conversations.Conversation:
    """Return the assignments of topics. An unreadable assignment is logged, and its topic is in `unreadable`."""
    node_paths = tuple(paths.topic(name) for name in question.topics)
    if question.watch and node_paths:
        yield conversations.Arm(data=node_paths)
    nodes = yield from conversations.data_of(node_paths)
    found, unreadable = [], []
    partitions = 0
    for name, path, node in zip(question.topics, node_paths, nodes, strict=True):
        if node.code == store.NO_NODE:
            continue
        if partitions >= SLICE:
            partitions = 0
            yield Pause()
        try:
            found.append((yield from conversations.in_pauses(znodes.decoding_topic(path, node.data, node.version))))
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
        data = yield from conversations.in_pauses(znodes.encoding_topic(topic))
        sets.append((store.WriteOp(store.SET, paths.topic(topic.topic), data, topic.zk_version),))
    for batch in conversations.batches(sets):
        yield from conversations.transact((*check, *(op for (op,) in batch)))
    return Done()


def create_topic(question: zookeeper.CreateTopic) -> conversations.Conversation:
    """Create the topic's configuration and then the topic in one transaction, so that a reader sees both or neither.

    Kafka uses two transactions. It writes the configuration even of a topic that already exists.
    """
    name = question.topic.topic
    config = store.WriteOp(store.CREATE, paths.topic_config(name), znodes.encode_config(question.config))
    topic = store.WriteOp(
        store.CREATE, paths.topic(name), (yield from conversations.in_pauses(znodes.encoding_topic(question.topic)))
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
