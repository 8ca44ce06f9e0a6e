"""The states of topics that are being deleted, and the next steps of their deletion (controller.md 6.1).

1. A topic is *queued*. It begins if none of its replicas is being deleted and it is not *ineligible*.
2. At the beginning its partitions move to Offline and NonExistent, it is *started*, and every broker receives leader
   -2.
3. Reachable replicas move to Offline (StopReplica) and DeletionStarted (StopReplica with delete). Other replicas move
   to DeletionIneligible and make the topic ineligible.
4. A broker's response moves its replicas to DeletionSuccessful, a failure to DeletionIneligible. Failures are not
   retried after a time, but when a broker starts, when the pass of another topic finds the topic eligible, or at a
   failover.
5. If all replicas are DeletionSuccessful, the znodes are deleted and the topic is removed, also from the ineligible
   topics (trap T14: Kafka keeps its name there).

The record stores only the three deletion states of a replica. The controller makes all moves, and its tables are
authoritative: `correct` stores their states here.

Kafka: `TopicDeletionManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.core.controller.slicing import Pauses, chosen
from actors.core.controller.states import PartitionState, ReplicaState
from messages.cluster import PartitionReplica
from messages.flow.conversation import Flow, in_slices, slices
from messages.probes import probe
from messages.topic_deletion import (
    AnnounceDeletion,
    ChangePartitionStates,
    ChangeReplicaStates,
    CompleteReplicaDeletions,
    CorrectDeletions,
    DeletingTopic,
    DeletionPlan,
    DeletionReport,
    DeletionSets,
    FailReplicaDeletions,
    FinishDeletions,
    QueueDeletions,
    ReportDeletions,
    ResetDeletions,
    ResumeDeletions,
)
from messages.vocabulary import Message

_Replicas = dict[PartitionReplica, None]


class TopicRecord:
    """A topic queued for deletion, with the deletion state of each replica."""

    def __init__(self, topic: DeletingTopic) -> None:
        self.replicas: _Replicas = dict.fromkeys(topic.replicas)
        self.started: _Replicas = dict.fromkeys(topic.started)
        self.successful: _Replicas = dict.fromkeys(topic.successful)
        self.ineligible: _Replicas = dict.fromkeys(topic.ineligible)


class TopicDeletions:
    """All topic deletions of one controller."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.started: dict[str, None] = {}
        self.ineligible: dict[str, None] = {}

    def answer(self, question: Message) -> Flow[DeletionPlan | DeletionReport]:
        """Answer a question of `messages.topic_deletion`.

        Raises:
            KeyError: The message is not such a question.
        """
        if isinstance(question, ReportDeletions):
            return self.report()
        steps = yield from _ANSWERS[type(question)](self, question)
        return DeletionPlan((*steps, self.sets()))

    def sets(self) -> DeletionSets:
        """Return the current sets."""
        records = self.topics.values()
        return DeletionSets(
            tuple(self.topics),
            tuple(self.started),
            tuple(self.ineligible),
            sum(len(r.replicas) - len(r.successful) for r in records),
            sum(len(r.ineligible) for r in records),
        )

    def report(self) -> DeletionReport:
        """Return the sets and the state of every replica."""
        return DeletionReport(
            self.sets(),
            tuple(
                DeletingTopic(topic, tuple(r.replicas), tuple(r.started), tuple(r.successful), tuple(r.ineligible))
                for topic, r in self.topics.items()
            ),
        )

    # ------------------------------------------------------------------------------------------------------- questions

    def reset(self, question: ResetDeletions) -> Flow[list[Message]]:
        """Replace the record: for a new term, at the end of a term, or after an interrupted plan."""
        self.topics = {}
        yield from self._record(question.topics)
        self.started = {topic: None for topic in question.started if topic in self.topics}
        self.ineligible = {topic: None for topic in question.ineligible if topic in self.topics}
        return []

    def correct(self, question: CorrectDeletions) -> Flow[list[Message]]:
        """Replace the replica states of these topics with those of the state tables."""
        yield from self._record([topic for topic in question.topics if topic.topic in self.topics])
        return []

    def queue(self, question: QueueDeletions) -> Flow[list[Message]]:
        """Queue the topics that are not queued yet, and resume all."""
        yield from self._record([topic for topic in question.topics if topic.topic not in self.topics])
        return (yield from self._resume(question.offline))

    def resume(self, question: ResumeDeletions) -> Flow[list[Message]]:
        """Resume these topics; None for all. No steps result if none of them is queued."""
        if question.topics is not None:
            queued = [topic for topic in question.topics if topic in self.topics]
            if not queued:
                return []
            for topic in queued:
                self.ineligible.pop(topic, None)
        return (yield from self._resume(question.offline))

    def fail(self, question: FailReplicaDeletions) -> Flow[list[Message]]:
        """Mark these replicas and their topics as ineligible."""
        waiting = [topic for topic in question.topics if topic in self.topics]
        if not waiting:
            return []
        steps = yield from self._to_ineligible((yield from chosen(self._is_queued, question.replicas)))
        self._mark(waiting)
        return steps + (yield from self._resume(question.offline))

    def complete(self, question: CompleteReplicaDeletions) -> Flow[list[Message]]:
        """Mark these replicas as deleted."""
        done = yield from chosen(
            lambda r: self._is_queued(r) and r in self._topic(r).started,
            question.replicas,
        )

        def succeed(part: Sequence[PartitionReplica]) -> None:
            for replica in part:
                record = self._topic(replica)
                del record.started[replica]
                record.successful[replica] = None

        yield from in_slices(succeed, done)
        return _moves(done, ReplicaState.DELETION_SUCCESSFUL) + (yield from self._resume(question.offline))

    # ------------------------------------------------------------------------------------------------------- decisions

    def _record(self, topics: Iterable[DeletingTopic]) -> Flow[None]:
        pauses = Pauses()
        for topic in topics:
            self.topics[topic.topic] = TopicRecord(topic)
            yield from pauses.after(len(topic.replicas))

    def _resume(self, offline: tuple[PartitionReplica, ...]) -> Flow[list[Message]]:
        """Run one pass over all queued topics: finish, retry, begin."""
        finished: list[str] = []
        again: list[PartitionReplica] = []
        eligible: list[str] = []
        for topic, record in self.topics.items():
            if len(record.successful) == len(record.replicas):
                finished.append(topic)
                continue
            if not record.started:
                if record.ineligible:
                    again.extend(record.ineligible)
                    record.ineligible = {}
                if topic not in self.ineligible:
                    eligible.append(topic)
        steps: list[Message] = []
        if finished:
            steps.append(FinishDeletions(tuple(finished)))
            for topic in finished:
                if topic in self.ineligible:
                    probe("T14 a deleted topic is forgotten as an ineligible one")
                del self.topics[topic]
                self.started.pop(topic, None)
                self.ineligible.pop(topic, None)
            steps.append(self.sets())
        steps += _moves(again, ReplicaState.OFFLINE)
        if eligible:
            steps += yield from self._begin(eligible, frozenset(offline))
        return steps

    def _begin(self, topics: list[str], offline: frozenset[PartitionReplica]) -> Flow[list[Message]]:
        """Delete the reachable replicas of these topics that are not deleted yet."""
        steps: list[Message] = []
        fresh = tuple(topic for topic in topics if topic not in self.started)
        if fresh:
            steps.append(self.sets())
            steps.append(ChangePartitionStates(fresh, PartitionState.OFFLINE.value))
            steps.append(ChangePartitionStates(fresh, PartitionState.NON_EXISTENT.value))
            self.started.update(dict.fromkeys(fresh))
            steps.append(self.sets())
        steps.append(AnnounceDeletion(tuple(topics)))
        dead: list[PartitionReplica] = []
        alive: list[PartitionReplica] = []
        pauses = Pauses()
        for topic in topics:
            record = self.topics[topic]
            for part in slices(tuple(record.replicas)):
                left = [replica for replica in part if replica not in record.successful]
                reached = [replica for replica in left if replica not in offline]
                if len(reached) < len(left):
                    dead += [replica for replica in left if replica in offline]
                alive += reached
                record.started.update(dict.fromkeys(reached))
                yield from pauses.after(len(part))
        steps += yield from self._to_ineligible(dead)
        steps += _moves(alive, ReplicaState.OFFLINE)
        steps += _moves(alive, ReplicaState.DELETION_STARTED)
        self._mark(dict.fromkeys(r.partition.topic for r in dead))
        return steps

    def _to_ineligible(self, replicas: Sequence[PartitionReplica]) -> Flow[list[Message]]:
        moving = yield from chosen(lambda r: r not in self._topic(r).ineligible, replicas)

        def put_off(part: Sequence[PartitionReplica]) -> None:
            for replica in part:
                record = self._topic(replica)
                record.started.pop(replica, None)
                record.ineligible[replica] = None

        yield from in_slices(put_off, moving)
        return _moves(moving, ReplicaState.DELETION_INELIGIBLE)

    def _mark(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic in self.topics:
                self.ineligible[topic] = None

    def _is_queued(self, replica: PartitionReplica) -> bool:
        return replica.partition.topic in self.topics and replica in self._topic(replica).replicas

    def _topic(self, replica: PartitionReplica) -> TopicRecord:
        return self.topics[replica.partition.topic]


def _moves(replicas: list[PartitionReplica], state: ReplicaState) -> list[Message]:
    return [ChangeReplicaStates(tuple(replicas), state.value)] if replicas else []


_ANSWERS: dict[type, Callable[[TopicDeletions, Any], Flow[list[Message]]]] = {
    ResetDeletions: TopicDeletions.reset,
    CorrectDeletions: TopicDeletions.correct,
    QueueDeletions: TopicDeletions.queue,
    ResumeDeletions: TopicDeletions.resume,
    FailReplicaDeletions: TopicDeletions.fail,
    CompleteReplicaDeletions: TopicDeletions.complete,
}
