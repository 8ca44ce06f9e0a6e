"""The controller's side of topic deletion: it asks TopicDeletionActor what to do, and does it (controller.md 6).

Rule 1: the state tables are the authority. A plan's steps are made in order; what the tables refuse, or ZooKeeper
        hinders, is told back at the end, so that at rest both sides agree (`validation`).
Rule 2: without a queued topic there is nothing to ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from actors.core.controller import replica_state_machine
from actors.core.controller.batch import RequestBatch
from actors.core.controller.context import ControllerContext, ReplicasByBroker
from actors.core.controller.failures import passing
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import by_broker, flat, move_replicas, split
from actors.core.controller.states import PartitionState, ReplicaState
from messages.cluster import PartitionReplica
from messages.conversation import AskFailed, Flow, Question, ask
from messages.events import PartitionModifications
from messages.topic_deletion import (
    AnnounceDeletion,
    CompleteReplicaDeletions,
    CorrectDeletions,
    DeletionPlan,
    DeletionSets,
    FailReplicaDeletions,
    FinishDeletions,
    MovePartitions,
    MoveReplicas,
    QueueDeletions,
    ResetDeletions,
    ResumeDeletions,
)
from messages.vocabulary import Message
from messages.zookeeper import DeleteTopics, ForgetTopicDeletions, StopWatching

log = logging.getLogger("kafka.controller")


def begin(context: ControllerContext, topics: Iterable[str], ineligible: Iterable[str]) -> Flow[None]:
    """Begin a term with these topics queued. Those ineligible are left alone until something resumes them."""
    queued = tuple(context.deleting_topic(topic) for topic in topics)
    yield from _follow(context, ResetDeletions(queued, ineligible=tuple(ineligible)))


def end(context: ControllerContext) -> Flow[None]:
    """The term is over: nothing is queued any more."""
    yield from _follow(context, ResetDeletions())


def queue(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Delete these topics."""
    wanted = dict.fromkeys(topics)
    fresh = tuple(context.deleting_topic(topic) for topic in wanted if topic not in context.queued)
    yield from _follow(context, QueueDeletions(fresh, _offline(context, context.queued.union(wanted))))


def resume(context: ControllerContext, topics: Iterable[str] | None = None) -> Flow[None]:
    """Go on with these topics (None: with whatever can go on)."""
    if context.queued:
        wanted = None if topics is None else tuple(topics)
        yield from _follow(context, ResumeDeletions(wanted, _offline(context, context.queued)))


def fail(context: ControllerContext, failed: Iterable[PartitionReplica]) -> Flow[None]:
    """These replicas cannot be deleted now. One that is Online, say, stays so, as the state tables want it."""
    concerned = tuple(r for r in failed if r.partition.topic in context.queued)
    if concerned:
        topics = tuple(dict.fromkeys(r.partition.topic for r in concerned))
        legal = replica_state_machine.TABLE.previous(ReplicaState.DELETION_INELIGIBLE)
        moving = tuple(r for r in concerned if context.replica_state(r.broker_id, r.partition) in legal)
        yield from _follow(context, FailReplicaDeletions(topics, moving, _offline(context, context.queued)))


def complete(context: ControllerContext, deleted: Iterable[PartitionReplica]) -> Flow[None]:
    """The brokers deleted these replicas."""
    concerned = tuple(r for r in deleted if r.partition.topic in context.queued)
    if concerned:
        yield from _follow(context, CompleteReplicaDeletions(concerned, _offline(context, context.queued)))


def correct(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Tell how these topics stand, after moves that no plan asked for."""
    changed = tuple(context.deleting_topic(topic) for topic in topics if topic in context.queued)
    if changed:
        plan = yield from ask(CorrectDeletions(changed))
        context.take_deletions(plan.steps[-1])


def _offline(context: ControllerContext, topics: frozenset[str]) -> tuple[PartitionReplica, ...]:
    """The replicas of these topics that cannot be reached now."""
    if context.all_online():
        return ()
    return flat(split(context.offline_replicas(), lambda tp: tp.topic in topics)[0])


def _follow(context: ControllerContext, question: Question[DeletionPlan]) -> Flow[None]:
    """Ask, and make the steps of the plan (rule 1)."""
    plan = yield from ask(question)
    astray: dict[str, None] = {}
    try:
        for step in plan.steps:
            yield from _STEPS[type(step)](context, step, astray)
    except AskFailed as error:
        passing(error)
        log.error("%s a topic deletion could not go on: %s", context.tag, error)
        sets = context.deletions
        standing = tuple(context.deleting_topic(topic) for topic in sets.queued)
        plan = yield from ask(ResetDeletions(standing, sets.started, sets.ineligible))
        context.take_deletions(plan.steps[-1])
        raise
    yield from correct(context, astray)


def _take_sets(context: ControllerContext, step: DeletionSets, astray: dict[str, None]) -> Flow[None]:
    if step.ineligible != context.deletions.ineligible:
        log.info("%s List of topics ineligible for deletion: %s", context.tag, ",".join(step.ineligible))
    context.take_deletions(step)
    yield from ()


def _move_partitions(context: ControllerContext, step: MovePartitions, astray: dict[str, None]) -> Flow[None]:
    partitions = [tp for topic in step.topics for tp in context.topics.get(topic, {}).values()]
    yield from move_partitions(context, partitions, PartitionState(step.state))


def _move_replicas(context: ControllerContext, step: MoveReplicas, astray: dict[str, None]) -> Flow[None]:
    target = ReplicaState(step.state)
    yield from move_replicas(context, by_broker(step.replicas), target)
    for replica in step.replicas:
        if context.replica_state(replica.broker_id, replica.partition) is not target:
            astray[replica.partition.topic] = None


def _announce(context: ControllerContext, step: AnnounceDeletion, astray: dict[str, None]) -> Flow[None]:
    batch = RequestBatch(context)
    batch.add_update_metadata(
        context.brokers, (tp for topic in step.topics for tp in context.topics.get(topic, {}).values())
    )
    yield from batch.send()


def _finish(context: ControllerContext, step: FinishDeletions, astray: dict[str, None]) -> Flow[None]:
    """Stop watching first, so that a topic created anew at once is seen by TopicChange; then the znodes go."""
    yield from ask(StopWatching((PartitionModifications.__name__,), step.topics))
    gone: ReplicasByBroker = by_broker(r for topic in step.topics for r in context.deleting_topic(topic).replicas)
    yield from move_replicas(context, gone, ReplicaState.NON_EXISTENT)
    yield from ask(DeleteTopics(step.topics, context.epoch_zk_version))
    for topic in step.topics:
        context.remove_topic(topic)
    log.info("%s Deletion of topics %s successfully completed", context.tag, ",".join(step.topics))


_STEPS: dict[type, Callable[[ControllerContext, Message, dict[str, None]], Flow[None]]] = {
    DeletionSets: _take_sets,
    MovePartitions: _move_partitions,
    MoveReplicas: _move_replicas,
    AnnounceDeletion: _announce,
    FinishDeletions: _finish,
}


def forget_requests(context: ControllerContext, topics: Iterable[str]) -> Flow[None]:
    """Remove requests to delete topics that do not exist, or that may not be deleted here."""
    unwanted = tuple(topics)
    if unwanted:
        yield from ask(ForgetTopicDeletions(unwanted, context.epoch_zk_version))
