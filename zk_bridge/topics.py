"""ZooKeeper operations on topics: their names and assignments (controller.md 2.2, 2.4)."""

from __future__ import annotations

import logging

from messages.ask import BadZnode, Done
from messages.flow.conversation import SLICE, Pause
from messages.store import (
    CONNECTION_LOSS,
    CREATE,
    NO_NODE,
    NODE_EXISTS,
    OK,
    SET,
    WriteOp,
)
from messages.zookeeper import (
    Assignments,
    CreateTopic,
    GetAssignments,
    GetTopics,
    SetAssignments,
    TopicExists,
    TopicNames,
)
from zk_bridge import paths, znodes
from zk_bridge.conversations import (
    Arm,
    Conversation,
    Starter,
    batches,
    children_of,
    create_missing,
    data_of,
    fence,
    in_pauses,
    transact,
)

logger = logging.getLogger(__name__)


def get_topics(question: GetTopics) -> Conversation:
    """Return the names of all topics."""
    if question.watch:
        yield Arm(children=(paths.TOPICS,))
    (names,) = yield from children_of((paths.TOPICS,))
    return TopicNames(names or ())


def get_assignments(question: GetAssignments) -> Conversation:
    """Return the assignments of topics. An unreadable assignment is logged, and its topic is in `unreadable`."""
    node_paths = tuple(paths.topic(name) for name in question.topics)
    if question.watch and node_paths:
        yield Arm(data=node_paths)
    nodes = yield from data_of(node_paths)
    found, unreadable = [], []
    partitions = 0
    for name, path, node in zip(question.topics, node_paths, nodes, strict=True):
        if node.code == NO_NODE:
            continue
        if partitions >= SLICE:
            partitions = 0
            yield Pause()
        try:
            found.append((yield from in_pauses(znodes.decoding_topic(path, node.data, node.version))))
            partitions += len(found[-1].partitions)
        except BadZnode as error:
            logger.warning("Ignoring topic %s until its znode can be read: %s", name, error)
            unreadable.append(name)
    return Assignments(tuple(found), tuple(unreadable))


def set_assignments(question: SetAssignments) -> Conversation:
    """Write the assignments of existing topics."""
    check = fence(question.epoch_zk_version)
    sets = []
    for topic in question.topics:
        data = yield from in_pauses(znodes.encoding_topic(topic))
        sets.append((WriteOp(SET, paths.topic(topic.topic), data, topic.zk_version),))
    for batch in batches(sets):
        yield from transact((*check, *(op for (op,) in batch)))
    return Done()


def create_topic(question: CreateTopic) -> Conversation:
    """Create the topic's configuration and then the topic in one transaction, so that a reader sees both or neither.

    Kafka uses two transactions. It writes the configuration even of a topic that already exists.
    """
    name = question.topic.topic
    config = WriteOp(CREATE, paths.topic_config(name), znodes.encode_config(question.config))
    topic = WriteOp(CREATE, paths.topic(name), (yield from in_pauses(znodes.encoding_topic(question.topic))))
    check = fence(question.epoch_zk_version)
    lost = False
    while True:
        old_config, old_topic = yield from data_of((config.path, topic.path))
        if old_topic.code == OK:
            return Done() if lost and old_topic.data == topic.data else TopicExists(name)
        write_config = config if old_config.code == NO_NODE else config._replace(kind=SET)
        reply = yield from transact((*check, write_config, topic), CONNECTION_LOSS, NODE_EXISTS, NO_NODE)
        if reply.code == OK:
            return Done()
        lost = lost or reply.code == CONNECTION_LOSS
        if reply.code == NO_NODE:
            yield from create_missing((paths.TOPICS, paths.TOPIC_CONFIGS))


ANSWERS: dict[type, Starter] = {
    GetTopics: get_topics,
    GetAssignments: get_assignments,
    SetAssignments: set_assignments,
    CreateTopic: create_topic,
}
