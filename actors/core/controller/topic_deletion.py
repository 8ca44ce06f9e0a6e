"""The states of topics that are being deleted, and the next steps of their deletion (controller.md 6.1).

1. A topic is *queued*. Its deletion begins if none of its replicas is being deleted and it is not *ineligible*.
2. At the beginning the partitions move to Offline and then to NonExistent, and the topic is marked as *started*. Every
   broker receives leader -2 for the topic's partitions.
3. Reachable replicas move to Offline (StopReplica) and then to DeletionStarted (StopReplica with delete). Other
   replicas move to DeletionIneligible and make the topic ineligible.
4. A broker's response moves the replicas that it names to DeletionSuccessful, or after an error to DeletionIneligible.
   No timer retries a failed deletion. The deletion is retried when a broker starts, at a failover, or when an event of
   another topic starts a pass over all queued topics and this topic is eligible.
5. If all replicas are DeletionSuccessful, the znodes are deleted and the topic is removed. It is also removed from the
   ineligible topics (trap T14: Kafka keeps the topic's name among them).

This module stores only the three deletion states of a replica. The controller makes all moves, and its tables are
authoritative: `correct` copies the replica states from the controller's tables to this module.

Kafka: `TopicDeletionManager`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from actors.core.controller.states import PartitionState, ReplicaState
from messages import topic_deletion
from messages.cluster import PartitionReplica
from messages.flow.conversation import Flow, for_each
from messages.probes import probe
from messages.vocabulary import AnyMessage, Message

TOPICS_AT_ONCE = 100
"""Number of topics recorded at a time. Most have at most some hundred replicas, at about 100 nanoseconds each."""

_Replicas = dict[PartitionReplica, None]


class TopicRecord:
    """A topic queued for deletion, with the deletion state of each replica."""

    def __init__(self, topic: topic_deletion.DeletingTopic) -> None:
        self.replicas: _Replicas = dict.fromkeys(topic.replicas)
        self.started: _Replicas = dict.fromkeys(topic.started)
        self.successful: _Replicas = dict.fromkeys(topic.successful)
        self.ineligible: _Replicas = dict.fromkeys(topic.ineligible)
        self._states = {
            ReplicaState.DELETION_STARTED: self.started,
            ReplicaState.DELETION_SUCCESSFUL: self.successful,
            ReplicaState.DELETION_INELIGIBLE: self.ineligible,
        }

    def enter(self, replica: PartitionReplica, state: ReplicaState) -> None:
        """Store a replica's deletion state; a replica in `started` is first removed from that set."""
        self.started.pop(replica, None)
        self._states[state][replica] = None


class TopicDeletions:
    """All topic deletions of one controller."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.started: dict[str, None] = {}
        self.ineligible: dict[str, None] = {}

    def answer(self, question: Message) -> Flow[topic_deletion.DeletionPlan | topic_deletion.DeletionReport]:
        """Handle a request of `messages.topic_deletion` and return its reply.

        Raises:
            KeyError: The message is not a request of that module.
        """
        if isinstance(question, topic_deletion.ReportDeletions):
            return self.report()
        steps = yield from _ANSWERS[type(question)](self, question)
        return topic_deletion.DeletionPlan((*steps, self.sets()))

    def sets(self) -> topic_deletion.DeletionSets:
        """Return the queued, started and ineligible topics, and the numbers of undeleted and ineligible replicas."""
        records = self.topics.values()
        return topic_deletion.DeletionSets(
            tuple(self.topics),
            tuple(self.started),
            tuple(self.ineligible),
            sum(len(r.replicas) - len(r.successful) for r in records),
            sum(len(r.ineligible) for r in records),
        )

    def report(self) -> topic_deletion.DeletionReport:
        """Return the sets of topics (see `sets`) and the deletion state of every replica."""
        return topic_deletion.DeletionReport(
            self.sets(),
            tuple(
                topic_deletion.DeletingTopic(
                    topic, tuple(r.replicas), tuple(r.started), tuple(r.successful), tuple(r.ineligible)
                )
                for topic, r in self.topics.items()
            ),
        )

    # ------------------------------------------------------------------------------------------------------- questions

    def reset(self, question: topic_deletion.ResetDeletions) -> Flow[list[Message]]:
        """Replace all stored topics.

        The controller requests this at the start or the end of its term, or after a plan was interrupted.
        """
        self.topics = {}
        yield from self._record(question.topics)
        self.started = {topic: None for topic in question.started if topic in self.topics}
        self.ineligible = {topic: None for topic in question.ineligible if topic in self.topics}
        return []

    def correct(self, question: topic_deletion.CorrectDeletions) -> Flow[list[Message]]:
        """Replace the stored replica states of these topics with the states that the controller sent in the request."""
        yield from self._record([topic for topic in question.topics if topic.topic in self.topics])
        return []

    def queue(self, question: topic_deletion.QueueDeletions) -> Flow[list[Message]]:
        """Queue the topics that are not queued yet, then resume all queued deletions; return the next steps."""
        yield from self._record([topic for topic in question.topics if topic.topic not in self.topics])
        return (yield from self._resume(question.offline))

    def resume(self, question: topic_deletion.ResumeDeletions) -> Flow[list[Message]]:
        """Resume the deletion of these topics, or of all if `question.topics` is None.

        Returns:
            The next steps; empty if none of the named topics is queued.
        """
        if question.topics is not None:
            queued = [topic for topic in question.topics if topic in self.topics]
            if not queued:
                return []
            for topic in queued:
                self.ineligible.pop(topic, None)
        return (yield from self._resume(question.offline))

    def fail(self, question: topic_deletion.FailReplicaDeletions) -> Flow[list[Message]]:
        """Mark these replicas and their topics as ineligible for deletion; return the next steps."""
        waiting = [topic for topic in question.topics if topic in self.topics]
        if not waiting:
            return []
        failed = yield from self._enter(
            ReplicaState.DELETION_INELIGIBLE,
            question.replicas,
            lambda r: self._is_queued(r) and r not in self._topic(r).ineligible,
        )
        self._mark(waiting)
        return _moves(failed, ReplicaState.DELETION_INELIGIBLE) + (yield from self._resume(question.offline))

    def complete(self, question: topic_deletion.CompleteReplicaDeletions) -> Flow[list[Message]]:
        """Mark these replicas as deleted; return the next steps."""
        done = yield from self._enter(
            ReplicaState.DELETION_SUCCESSFUL,
            question.replicas,
            lambda r: self._is_queued(r) and r in self._topic(r).started,
        )
        return _moves(done, ReplicaState.DELETION_SUCCESSFUL) + (yield from self._resume(question.offline))

    # ------------------------------------------------------------------------------------------------------- decisions

    def _record(self, topics: Iterable[topic_deletion.DeletingTopic]) -> Flow[None]:
        def record(part: Sequence[topic_deletion.DeletingTopic]) -> None:
            self.topics.update((topic.topic, TopicRecord(topic)) for topic in part)

        yield from for_each(topics, record, TOPICS_AT_ONCE)

    def _resume(self, offline: tuple[PartitionReplica, ...]) -> Flow[list[Message]]:
        """Run one pass over all queued topics: finish, retry or begin the deletion of each; return the next steps."""
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
                    record.ineligible.clear()
                if topic not in self.ineligible:
                    eligible.append(topic)
        steps: list[Message] = []
        if finished:
            steps.append(topic_deletion.FinishDeletions(tuple(finished)))
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
        """Return the steps that delete the remaining reachable replicas of these topics."""
        steps: list[Message] = []
        fresh = tuple(topic for topic in topics if topic not in self.started)
        if fresh:
            steps.append(self.sets())
            steps.append(topic_deletion.ChangePartitionStates(fresh, PartitionState.OFFLINE.value))
            steps.append(topic_deletion.ChangePartitionStates(fresh, PartitionState.NON_EXISTENT.value))
            self.started.update(dict.fromkeys(fresh))
            steps.append(self.sets())
        steps.append(topic_deletion.AnnounceDeletion(tuple(topics)))
        replicas = [
            replica
            for record in map(self.topics.__getitem__, topics)
            for replica in record.replicas
            if replica not in record.successful
        ]
        dead = yield from self._enter(ReplicaState.DELETION_INELIGIBLE, replicas, offline.__contains__)
        alive = yield from self._enter(ReplicaState.DELETION_STARTED, replicas, lambda r: r not in offline)
        for moving, state in (
            (dead, ReplicaState.DELETION_INELIGIBLE),
            (alive, ReplicaState.OFFLINE),
            (alive, ReplicaState.DELETION_STARTED),
        ):
            steps += _moves(moving, state)
        self._mark(dict.fromkeys(r.partition.topic for r in dead))
        return steps

    def _enter(
        self,
        state: ReplicaState,
        replicas: Iterable[PartitionReplica],
        where: Callable[[PartitionReplica], bool],
    ) -> Flow[list[PartitionReplica]]:
        """Store this deletion state for the replicas that pass the test `where`; return these replicas."""
        entered: list[PartitionReplica] = []

        def enter(part: Sequence[PartitionReplica]) -> None:
            for replica in filter(where, part):
                self._topic(replica).enter(replica, state)
                entered.append(replica)

        yield from for_each(replicas, enter)
        return entered

    def _mark(self, topics: Iterable[str]) -> None:
        for topic in topics:
            if topic in self.topics:
                self.ineligible[topic] = None

    def _is_queued(self, replica: PartitionReplica) -> bool:
        return replica.partition.topic in self.topics and replica in self._topic(replica).replicas

    def _topic(self, replica: PartitionReplica) -> TopicRecord:
        return self.topics[replica.partition.topic]


def _moves(replicas: list[PartitionReplica], state: ReplicaState) -> list[Message]:
    return [topic_deletion.ChangeReplicaStates(tuple(replicas), state.value)] if replicas else []


_ANSWERS: dict[type, Callable[[TopicDeletions, AnyMessage], Flow[list[Message]]]] = {
    topic_deletion.ResetDeletions: TopicDeletions.reset,
    topic_deletion.CorrectDeletions: TopicDeletions.correct,
    topic_deletion.QueueDeletions: TopicDeletions.queue,
    topic_deletion.ResumeDeletions: TopicDeletions.resume,
    topic_deletion.FailReplicaDeletions: TopicDeletions.fail,
    topic_deletion.CompleteReplicaDeletions: TopicDeletions.complete,
}
