"""The requests of the controller to TopicDeletionActor, and the plans that this actor returns.

Rule 1: only the controller sends requests, and only while its event handler runs. TopicDeletionActor never sends
        requests to the controller.
Rule 2: a reply is a DeletionPlan, a list of steps in order. At a DeletionSets step, the controller replaces its sets of
        queued, started and ineligible topics.
Rule 3: the controller's state machines decide whether a transition is legal. If the states of queued topics differ from
        a plan or change outside of a plan, the controller sends these states in CorrectDeletions.

`offline` in a request has the unreachable replicas of queued topics: those on dead brokers or failed disks.
"""

from __future__ import annotations

from typing import ClassVar

from messages.ask import Question
from messages.cluster import PartitionReplica
from messages.vocabulary import AnyMessage, Message, message

DELETION = "deletion"


@message
class DeletingTopic(Message):
    """A topic that is being deleted: its replicas, and the deletion state of each."""

    topic: str
    replicas: tuple[PartitionReplica, ...]
    started: tuple[PartitionReplica, ...] = ()
    successful: tuple[PartitionReplica, ...] = ()
    ineligible: tuple[PartitionReplica, ...] = ()


# ---------------------------------------------------------------------------------------------------- questions


@message
class ResetDeletions(Question["DeletionPlan"]):
    """A request to TopicDeletionActor to replace its list of topics to be deleted; the reply is a DeletionPlan.

    The plan's only step is a DeletionSets. Topics in `ineligible` are ineligible for deletion. The controller sends the
    request at failover, with an empty `started` (controller.md 6.1 init), and after an interrupted plan. At its
    resignation it sends the request without topics.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...] = ()
    started: tuple[str, ...] = ()
    ineligible: tuple[str, ...] = ()


@message
class CorrectDeletions(Question["DeletionPlan"]):
    """A request to TopicDeletionActor to replace its states of these queued topics by the controller's states.

    The reply is a DeletionPlan with one DeletionSets.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]


@message
class QueueDeletions(Question["DeletionPlan"]):
    """A request to TopicDeletionActor to queue topics for deletion; the reply is a DeletionPlan.

    Topics that are already queued are not changed.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]
    offline: tuple[PartitionReplica, ...]


@message
class ResumeDeletions(Question["DeletionPlan"]):
    """A request to TopicDeletionActor to retry the deletion of these topics (None: all).

    The reply is a DeletionPlan.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[str, ...] | None
    offline: tuple[PartitionReplica, ...]


@message
class FailReplicaDeletions(Question["DeletionPlan"]):
    """A message to TopicDeletionActor: replicas could not be deleted, or their broker failed.

    The reply is a DeletionPlan. `topics` has the queued topics of all affected replicas; their deletion waits.
    `replicas` has only the affected replicas whose deletion is pending: these become ineligible.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[str, ...]
    replicas: tuple[PartitionReplica, ...]
    offline: tuple[PartitionReplica, ...]


@message
class CompleteReplicaDeletions(Question["DeletionPlan"]):
    """A request to TopicDeletionActor: brokers have deleted these replicas; the reply is a DeletionPlan."""

    asks: ClassVar[str] = DELETION
    replicas: tuple[PartitionReplica, ...]
    offline: tuple[PartitionReplica, ...]


@message
class ReportDeletions(Question["DeletionReport"]):
    """A request to TopicDeletionActor for its list of topics to be deleted; the reply is a DeletionReport."""

    asks: ClassVar[str] = DELETION


# ---------------------------------------------------------------------------------------------------- answers


@message
class DeletionReport(Message):
    """The reply to ReportDeletions: the topics that are queued for deletion, and their states."""

    sets: DeletionSets
    topics: tuple[DeletingTopic, ...]


@message
class DeletionPlan(Message):
    """The next steps of topic deletions, which the controller executes in order.

    A step is one of ChangePartitionStates, ChangeReplicaStates, AnnounceDeletion, FinishDeletions and DeletionSets.
    """

    steps: tuple[AnyMessage, ...]


@message
class DeletionSets(Message):
    """Topics that are queued for deletion, being deleted, or ineligible for deletion, and two counts for metrics.

    Topics are in the order in which they were queued. `replicas_to_delete` is the number of replicas that are not
    deleted yet. `replicas_ineligible` is the number of replicas that are ineligible for deletion. Both numbers count
    only replicas of queued topics.
    """

    queued: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    ineligible: tuple[str, ...] = ()
    replicas_to_delete: int = 0
    replicas_ineligible: int = 0


@message
class ChangePartitionStates(Message):
    """A step of a deletion plan: change the partitions of these topics to the state `state`."""

    topics: tuple[str, ...]
    state: str


@message
class ChangeReplicaStates(Message):
    """A step of a deletion plan: change these replicas to the state `state`."""

    replicas: tuple[PartitionReplica, ...]
    state: str


@message
class AnnounceDeletion(Message):
    """A step of a deletion plan: announce to all brokers, by UpdateMetadata, that these topics are being deleted.

    The request contains the partitions of the topics with the leader -2, Kafka's sign for a deletion.
    """

    topics: tuple[str, ...]


@message
class FinishDeletions(Message):
    """A step of a deletion plan: all replicas are deleted, so delete the znodes of these topics.

    The controller also stops watching the topics, and removes them from its context.
    """

    topics: tuple[str, ...]
