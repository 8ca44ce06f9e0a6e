"""Execute the steps that TopicDeletionActor plans for topic deletions (controller.md 6).

Rule 1: The state tables are authoritative. The steps of a plan are executed in order. State changes that the tables or
        ZooKeeper refuse are reported to TopicDeletionActor at the end, so that its state agrees with the tables between
        events (`validation` checks this).
Rule 2: If no topic is queued for deletion, TopicDeletionActor gets no request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from actors.core.controller import replica_state_machine
from actors.core.controller.batch import announce
from actors.core.controller.context import ControllerContext, ReplicasByBroker
from actors.core.controller.failures import passing
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import flat, group_by_broker, move_replicas, replicas_of
from actors.core.controller.states import PartitionState, ReplicaState
from messages import topic_deletion
from messages.ask import AskFailed, Question
from messages.cluster import PartitionReplica, TopicPartition
from messages.events import PartitionModifications
from messages.flow.conversation import Flow, ask, for_each
from messages.vocabulary import AnyMessage
from messages.zookeeper import DeleteTopicDeletionRequests, DeleteTopics, StopWatching

log = logging.getLogger("kafka.controller")

_STATE_FIELDS = ("replicas", "started", "successful", "ineligible")


def begin(context: ControllerContext, topics: Iterable[str], halted: Iterable[str] = ()) -> Flow[None]:
    """Begin this node's term as controller with these topics queued for deletion.

    The topics of `halted` are ineligible until they are resumed.
    """
    queued = yield from _deletion_states(context, topics)
    yield from _follow(context, topic_deletion.ResetDeletions(queued, ineligible=tuple(halted)))


def end(context: ControllerContext) -> Flow[None]:
    """Remove all topics from the deletion queue at the end of this node's term as controller."""
    yield from _follow(context, topic_deletion.ResetDeletions())


def queue(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Queue these topics for deletion."""
    wanted = dict.fromkeys(topics)
    fresh = yield from _deletion_states(context, (topic for topic in wanted if topic not in context.queued))
    offline = yield from _offline(context, context.queued.union(wanted))
    yield from _follow(context, topic_deletion.QueueDeletions(fresh, offline))


def resume(context: ControllerContext, topics: Iterable[str] | None = None) -> Flow[None]:
    """Resume the deletion of these topics; None for all topics that are eligible."""
    if context.queued:
        offline = yield from _offline(context, context.queued)
        yield from _follow(context, topic_deletion.ResumeDeletions(None if topics is None else tuple(topics), offline))


def fail(context: ControllerContext, failed: ReplicasByBroker) -> Flow[None]:
    """Mark these replicas as currently ineligible for deletion.

    A replica in a state that cannot change to ineligible, such as Online, keeps its state.
    """
    legal = replica_state_machine.TABLE.previous(ReplicaState.DELETION_INELIGIBLE)
    partitions = (tp for failed_there in failed.values() for tp in failed_there)
    topics = dict.fromkeys(tp.topic for tp in partitions if tp.topic in context.queued)
    if topics:
        replicas = yield from flat(failed, lambda r: r.partition.topic in topics and _state(context, r) in legal)
        offline = yield from _offline(context, context.queued)
        yield from _follow(context, topic_deletion.FailReplicaDeletions(tuple(topics), replicas, offline))


def complete(context: ControllerContext, deleted: ReplicasByBroker) -> Flow[None]:
    """Record that the brokers have deleted these replicas."""
    replicas = yield from flat(deleted, lambda r: r.partition.topic in context.queued)
    if replicas:
        offline = yield from _offline(context, context.queued)
        yield from _follow(context, topic_deletion.CompleteReplicaDeletions(replicas, offline))


def correct(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Send the replica states of these topics to TopicDeletionActor, if the topics are queued for deletion.

    This is necessary if the states were changed by code outside a plan's steps, or if a step's change was refused.
    """
    changed = yield from _deletion_states(context, (topic for topic in topics if topic in context.queued))
    if changed:
        plan = yield from ask(topic_deletion.CorrectDeletions(changed))
        context.set_deletions(plan.steps[-1])


def _deletion_states(
    context: ControllerContext, topics: Iterable[str]
) -> Flow[tuple[topic_deletion.DeletingTopic, ...]]:
    """Return the deletion states of these topics' replicas, from the state tables."""
    found = []
    for topic in topics:
        found.append((yield from _deletion_states_of(context, topic)))
    return tuple(found)


def _deletion_states_of(context: ControllerContext, topic: str) -> Flow[topic_deletion.DeletingTopic]:
    parts: list[topic_deletion.DeletingTopic] = []
    yield from for_each(_partitions(context, [topic]), lambda part: parts.append(context.deleting_topic(topic, part)))
    joined = ((replica for part in parts for replica in getattr(part, name)) for name in _STATE_FIELDS)
    return topic_deletion.DeletingTopic(topic, *map(tuple, joined))


def _partitions(context: ControllerContext, topics: Iterable[str]) -> list[TopicPartition]:
    return [tp for topic in topics for tp in context.topics.get(topic, {}).values()]


def _offline(context: ControllerContext, topics: frozenset[str]) -> Flow[tuple[PartitionReplica, ...]]:
    """Return the offline replicas of these topics."""
    if context.all_online():
        return ()
    return (yield from flat(context.offline_replicas(), lambda r: r.partition.topic in topics))


def _follow(context: ControllerContext, question: Question[topic_deletion.DeletionPlan]) -> Flow[None]:
    """Ask TopicDeletionActor for a plan, and execute the plan's steps (rule 1)."""
    plan = yield from ask(question)
    imbalanced: dict[str, None] = {}
    try:
        for step in plan.steps:
            yield from _STEPS[type(step)](context, step, imbalanced)
    except AskFailed as error:
        passing(error)
        log.error("%s Failed to continue topic deletions, retrying: %s", context.tag, error)
        sets = context.deletions
        states = yield from _deletion_states(context, sets.queued)
        plan = yield from ask(topic_deletion.ResetDeletions(states, sets.started, sets.ineligible))
        context.set_deletions(plan.steps[-1])
        raise
    yield from correct(context, imbalanced)


def _store_sets(
    context: ControllerContext, step: topic_deletion.DeletionSets, imbalanced: dict[str, None]
) -> Flow[None]:
    if step.ineligible != context.deletions.ineligible:
        log.info("%s List of topics ineligible for deletion: %s", context.tag, ",".join(step.ineligible))
    context.set_deletions(step)
    yield from ()


def _move_partitions(
    context: ControllerContext, step: topic_deletion.ChangePartitionStates, imbalanced: dict[str, None]
) -> Flow[None]:
    yield from move_partitions(context, _partitions(context, step.topics), PartitionState(step.state))


def _move_replicas(
    context: ControllerContext, step: topic_deletion.ChangeReplicaStates, imbalanced: dict[str, None]
) -> Flow[None]:
    target = ReplicaState(step.state)
    if target is ReplicaState.DELETION_INELIGIBLE:
        yield from _take_new_offline(context, step.replicas)
    moving = yield from group_by_broker(step.replicas)
    if (yield from move_replicas(context, moving, target)) < len(step.replicas):
        imbalanced.update((r.partition.topic, None) for r in step.replicas if _state(context, r) is not target)


def _take_new_offline(context: ControllerContext, replicas: Sequence[PartitionReplica]) -> Flow[None]:
    """Move replicas in state NewReplica to Offline, before they become ineligible for deletion.

    A reassignment added these replicas to a broker that is not alive. Kafka 3.9.1 moves them from NewReplica to
    ReplicaDeletionIneligible, a transition that its own state machine refuses.
    """
    new = yield from group_by_broker(replicas, lambda r: _state(context, r) is ReplicaState.NEW)
    yield from move_replicas(context, new, ReplicaState.OFFLINE)


def _state(context: ControllerContext, replica: PartitionReplica) -> ReplicaState:
    return context.replica_state(replica.broker_id, replica.partition)


def _announce(
    context: ControllerContext, step: topic_deletion.AnnounceDeletion, imbalanced: dict[str, None]
) -> Flow[None]:
    yield from announce(context, partitions=_partitions(context, step.topics))


def _finish(
    context: ControllerContext, step: topic_deletion.FinishDeletions, imbalanced: dict[str, None]
) -> Flow[None]:
    """Stop the topics' PartitionModifications watches, then delete the topics' znodes.

    If a topic is created again, its first event is therefore TopicChange.
    """
    yield from ask(StopWatching((PartitionModifications.__name__,), step.topics))
    gone = yield from replicas_of(context, _partitions(context, step.topics))
    yield from move_replicas(context, gone, ReplicaState.NON_EXISTENT)
    yield from ask(DeleteTopics(step.topics, context.epoch_zk_version))
    yield from context.remove_topics(step.topics)
    for topic in step.topics:
        log.info("[Topic Deletion Manager %d] Deletion of topic %s successfully completed", context.broker_id, topic)


_STEPS: dict[type, Callable[[ControllerContext, AnyMessage, dict[str, None]], Flow[None]]] = {
    topic_deletion.DeletionSets: _store_sets,
    topic_deletion.ChangePartitionStates: _move_partitions,
    topic_deletion.ChangeReplicaStates: _move_replicas,
    topic_deletion.AnnounceDeletion: _announce,
    topic_deletion.FinishDeletions: _finish,
}


def forget_requests(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Remove deletion requests from ZooKeeper, because the topics do not exist or topic deletion is disabled."""
    unwanted = tuple(topics)
    if unwanted:
        yield from ask(DeleteTopicDeletionRequests(unwanted, context.epoch_zk_version))
