"""Handle new topics, new partitions and deletion requests that appear in ZooKeeper (controller.md 1.4, 1.6).

Kafka: `KafkaController.processTopicChange`, `processPartitionModifications`, `onNewPartitionCreation`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from functools import partial

from actors.core.controller import deletion_steps, log_text, reassignment
from actors.core.controller.context import ControllerContext, Handler
from actors.core.controller.leadership import MOVES, record_refusals
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import move_replicas, replicas_of
from actors.core.controller.states import PartitionState, ReplicaState
from messages import zookeeper
from messages.ask import ZooKeeperRefused
from messages.cluster import PartitionAssignment, TopicPartition
from messages.events import PartitionModifications, TopicChange, TopicDeletion
from messages.flow.conversation import SLICE, Flow, ask, for_each

log = logging.getLogger("kafka.controller")

TOPICS_AT_FIRST = 10
"""Number of topics in the first read of assignments, before their sizes are known."""

PARTITIONS_READ = 5 * SLICE
"""Number of partitions whose assignments are read at once; they are stored in slices."""


def handle_topic_change(context: ControllerContext, event: TopicChange) -> Flow[None]:
    """Read /brokers/topics after a change of its children: create partitions of new topics, remove deleted topics."""
    names = yield from ask(zookeeper.GetTopics())
    existing = frozenset(names.topics)
    new = tuple(topic for topic in names.topics if topic not in context.topics)
    removed = tuple(topic for topic in context.topics if topic not in existing)
    added: list[TopicPartition] = []
    if removed:
        yield from ask(zookeeper.StopWatching((PartitionModifications.__name__,), removed))
        yield from context.remove_topics(removed)
    if new:
        for topic in new:
            context.add_topic(topic)
        added = yield from learn_assignments(context, new)
    if new or removed:
        log.info(
            "%s New topics: [%s], deleted topics: [%s], new partition replica assignment [%s]",
            *(
                context.tag,
                log_text.scala_collection(new),
                log_text.scala_collection(removed),
                _assignments(context, added),
            ),
        )
    yield from on_new_partition_creation(context, added)
    if any(topic in context.queued for topic in removed):
        yield from deletion_steps.correct(context, removed)
        yield from deletion_steps.resume(context)


def learn_assignments(context: ControllerContext, topics: tuple[str, ...]) -> Flow[list[TopicPartition]]:
    """Read and watch the assignments of topics; return the partitions that were added.

    The number of topics per read is estimated from the previous reads, so that a read returns about PARTITIONS_READ
    partitions.
    """
    added: list[TopicPartition] = []
    start, count = 0, TOPICS_AT_FIRST
    while start < len(topics):
        answer = yield from ask(zookeeper.GetAssignments(topics[start : start + count]))
        added += yield from learn(context, (yield from _give_ids(context, answer.topics)))
        start += count
        partitions = sum(len(partitions) for _, partitions, *_ in answer.topics)
        count = max(1, min(2 * count, count * PARTITIONS_READ // max(1, partitions)))
    return added


def _give_ids(
    context: ControllerContext, topics: tuple[zookeeper.TopicAssignment, ...]
) -> Flow[tuple[zookeeper.TopicAssignment, ...]]:
    """Give an id to each topic that has none, from protocol version 2.8 on (KIP-516); return the topics with ids.

    A topic that another client writes meanwhile stays without an id until its next change.
    """
    given = [
        each._replace(topic_id=topic_id)
        for each in topics
        if each.topic_id is None and (topic_id := context.new_topic_id(each.topic)) is not None
    ]
    if not given:
        return topics
    try:
        yield from ask(zookeeper.SetAssignments(tuple(given), context.epoch_zk_version))
    except ZooKeeperRefused as error:
        log.warning("%s Failed to give ids to %d topics: %s", context.tag, len(given), error)
        return topics
    by_name = {each.topic: each for each in given}
    return tuple([by_name.get(each.topic, each) for each in topics])


def handle_partition_modifications(context: ControllerContext, event: PartitionModifications) -> Flow[None]:
    """Read /brokers/topics/T after a change of its data and create the new partitions.

    If the topic is queued for deletion, the new partitions are removed from the znode instead.
    """
    topic = event.topic
    answer = yield from ask(zookeeper.GetAssignments((topic,)))
    if topic in context.topics and topic not in context.topic_ids and topic not in context.queued:
        yield from _give_ids(context, answer.topics)  # the write fires this event again
    for each in answer.topics:
        _learn_id(context, topic, each.topic_id)
    fresh = [
        n for _, partitions, *_ in answer.topics for n, replicas in partitions if context.is_new(topic, n, replicas)
    ]
    if topic in context.queued:
        if fresh:
            log.error(
                "%s Skipping adding partitions %s for topic %s since it is currently being deleted",
                context.tag,
                fresh,
                topic,
            )
            reason = "the topic is being deleted"
            yield from record_refusals("add", dict.fromkeys((TopicPartition(topic, n) for n in fresh), reason))
            yield from ask(zookeeper.SetAssignments((context.topic_assignment(topic),), context.epoch_zk_version))
    elif fresh and topic in context.topics:
        added = yield from learn(context, answer.topics)
        log.info("%s New partitions to be added %s", context.tag, _assignments(context, added))
        yield from on_new_partition_creation(context, added)


def _assignments(context: ControllerContext, partitions: Sequence[TopicPartition]) -> str:
    """Return the assignments of these partitions as text for a log line."""
    shown = [f"{tp} -> {log_text.assignment(context.assignments[tp])}" for tp in partitions[: log_text.MOST]]
    return log_text.scala_collection([*shown, *partitions[log_text.MOST :]], "Map")


def learn(context: ControllerContext, topics: Iterable[zookeeper.TopicAssignment]) -> Flow[list[TopicPartition]]:
    """Store the assignments of partitions that the controller does not know yet; return these partitions."""
    added: list[TopicPartition] = []
    for topic, partitions, topic_id, _ in topics:
        _learn_id(context, topic, topic_id)
        yield from for_each(partitions, partial(_learn, context, topic, added), MOVES)
    return added


def _learn_id(context: ControllerContext, topic: str, topic_id: str | None) -> None:
    """Store a topic's id. Kafka's controller fails if two topics have one id; this one only reports it."""
    others = context.set_topic_id(topic, topic_id)
    if others:
        log.error(
            "%s Topic %s has the id %s of topic %s; requests by this id find neither. Delete the copy.",
            *(context.tag, topic, topic_id, ", ".join(others)),
        )


def _learn(
    context: ControllerContext, topic: str, added: list[TopicPartition], partitions: Iterable[PartitionAssignment]
) -> None:
    added += context.learn(topic, partitions)


def on_new_partition_creation(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[None]:
    """Move new partitions and their replicas to Online.

    The LeaderAndIsr requests are sent when the partitions move to Online.
    """
    if not partitions:
        return
    hosted = yield from replicas_of(context, partitions)
    unseen = [tp for tp in partitions if context.partition_state(tp) is not PartitionState.NEW]
    yield from move_partitions(context, unseen, PartitionState.NEW)
    yield from move_replicas(context, hosted, ReplicaState.NEW)
    yield from move_partitions(context, partitions, PartitionState.ONLINE)
    yield from move_replicas(context, hosted, ReplicaState.ONLINE)


def deletion_requested(context: ControllerContext, event: TopicDeletion) -> Flow[None]:
    """Read /admin/delete_topics after a change of its children: queue existing topics, and remove refused requests."""
    names = yield from ask(zookeeper.GetTopicDeletions())
    unknown = [topic for topic in names.topics if topic not in context.topics]
    known = [topic for topic in names.topics if topic in context.topics]
    log.debug(
        "%s Delete topics listener fired for topics %s to be deleted", context.tag, log_text.join_values(names.topics)
    )
    if unknown:
        log.warning("%s Ignoring request to delete non-existing topics %s", context.tag, ",".join(unknown))
        yield from deletion_steps.forget_requests(context, unknown)
    if not known:
        return
    if context.settings.delete_topic_enable:
        log.info("%s Starting topic deletion for topics %s", context.tag, ",".join(known))
        yield from reassignment.end_for_deletion(context, known)
        yield from deletion_steps.queue(context, known)
    else:
        log.info(
            "%s Removing the delete requests of topics %s since delete topic is disabled", context.tag, ",".join(known)
        )
        yield from deletion_steps.forget_requests(context, known)


EVENTS: dict[type, Handler] = {
    TopicChange: handle_topic_change,
    PartitionModifications: handle_partition_modifications,
    TopicDeletion: deletion_requested,
}
