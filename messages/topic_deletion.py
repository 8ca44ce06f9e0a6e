"""What the controller's flow asks TopicDeletionActor, and the plans it gets back.

Rule 1: only the controller asks, while its flow runs; TopicDeletionActor never asks back.
Rule 2: an answer is a DeletionPlan, steps in the order in which they are to be made. A DeletionSets among them is the
        new truth about which topics are queued, started and ineligible from that step on.
Rule 3: the controller's state tables decide whether a move is legal. What they refuse goes back as CorrectDeletions.

`offline` in a question names the replicas of queued topics that cannot be reached now: on dead brokers or failed disks.
"""

from __future__ import annotations

from typing import ClassVar

from messages.cluster import PartitionReplica
from messages.conversation import Question
from messages.vocabulary import Message, message

DELETION = "deletion"


@message
class DeletingTopic:
    """A topic to be deleted: all its replicas, and which of them are in a state of deletion."""

    topic: str
    replicas: tuple[PartitionReplica, ...]
    started: tuple[PartitionReplica, ...] = ()
    successful: tuple[PartitionReplica, ...] = ()
    ineligible: tuple[PartitionReplica, ...] = ()


# ---------------------------------------------------------------------------------------------------- questions


@message
class ResetDeletions(Question["DeletionPlan"]):
    """Forget everything; these topics are queued, those of `ineligible` are not to be tried now.

    -> DeletionPlan of one DeletionSets. Asked at failover (controller.md 6.1 init; none is `started` then), without
    topics at resignation, and when a plan broke off.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...] = ()
    started: tuple[str, ...] = ()
    ineligible: tuple[str, ...] = ()


@message
class CorrectDeletions(Question["DeletionPlan"]):
    """These topics stand otherwise than the plan foresaw: the tables are right. -> DeletionPlan of one DeletionSets"""

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]


@message
class QueueDeletions(Question["DeletionPlan"]):
    """These topics are to be deleted (those queued already stay as they are). -> DeletionPlan"""

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]
    offline: tuple[PartitionReplica, ...]


@message
class ResumeDeletions(Question["DeletionPlan"]):
    """Something changed for these topics (None: look at all queued ones, as they are). -> DeletionPlan"""

    asks: ClassVar[str] = DELETION
    topics: tuple[str, ...] | None
    offline: tuple[PartitionReplica, ...]


@message
class FailReplicaDeletions(Question["DeletionPlan"]):
    """Replicas of these topics could not be deleted, or died. -> DeletionPlan

    `replicas` are those of them that were about to be deleted; the others stay as they are, but their topics wait, too.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[str, ...]
    replicas: tuple[PartitionReplica, ...]
    offline: tuple[PartitionReplica, ...]


@message
class CompleteReplicaDeletions(Question["DeletionPlan"]):
    """The brokers have deleted these replicas. -> DeletionPlan"""

    asks: ClassVar[str] = DELETION
    replicas: tuple[PartitionReplica, ...]
    offline: tuple[PartitionReplica, ...]


@message
class ReportDeletions(Question["DeletionReport"]):
    """How does everything stand? Changes nothing. -> DeletionReport"""

    asks: ClassVar[str] = DELETION


# ---------------------------------------------------------------------------------------------------- answers


@message
class DeletionReport:
    """The sets, and the topics that are queued, as the deletion's record has them."""

    sets: DeletionSets
    topics: tuple[DeletingTopic, ...]


@message
class DeletionPlan:
    """What to do now, step by step: MovePartitions, MoveReplicas, AnnounceDeletion, FinishDeletions, DeletionSets."""

    steps: tuple[Message, ...]


@message
class DeletionSets:
    """The topics queued, started and ineligible, in order of queueing, and two figures for the gauges.

    `replicas_to_delete`: replicas of queued topics not deleted yet; `replicas_ineligible`: those that have to wait.
    """

    queued: tuple[str, ...] = ()
    started: tuple[str, ...] = ()
    ineligible: tuple[str, ...] = ()
    replicas_to_delete: int = 0
    replicas_ineligible: int = 0


@message
class MovePartitions:
    """Move all partitions of these topics to `state` (PartitionState's value)."""

    topics: tuple[str, ...]
    state: str


@message
class MoveReplicas:
    """Move these replicas to `state` (ReplicaState's value)."""

    replicas: tuple[PartitionReplica, ...]
    state: str


@message
class AnnounceDeletion:
    """UpdateMetadata of all partitions of these topics to all brokers: they have leader -2 from now on."""

    topics: tuple[str, ...]


@message
class FinishDeletions:
    """Every replica is gone: stop watching these topics, delete their znodes and forget them."""

    topics: tuple[str, ...]
