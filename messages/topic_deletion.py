"""Questions of the controller to TopicDeletionActor, and the resulting plans.

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
    """A topic to delete: its replicas, and those in a deletion state."""

    topic: str
    replicas: tuple[PartitionReplica, ...]
    started: tuple[PartitionReplica, ...] = ()
    successful: tuple[PartitionReplica, ...] = ()
    ineligible: tuple[PartitionReplica, ...] = ()


# ---------------------------------------------------------------------------------------------------- questions


@message
class ResetDeletions(Question["DeletionPlan"]):
    """Replace all deletions: these topics are queued, those in `ineligible` are ineligible for deletion.

    -> DeletionPlan of one DeletionSets. Asked at failover (controller.md 6.1 init; none is `started` then), without
    topics at resignation, and when a plan broke off.
    """

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...] = ()
    started: tuple[str, ...] = ()
    ineligible: tuple[str, ...] = ()


@message
class CorrectDeletions(Question["DeletionPlan"]):
    """Correct the deletion states of topics by the controller's state. -> DeletionPlan with one DeletionSets"""

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]


@message
class QueueDeletions(Question["DeletionPlan"]):
    """Queue topics for deletion; topics already queued stay as they are. -> DeletionPlan"""

    asks: ClassVar[str] = DELETION
    topics: tuple[DeletingTopic, ...]
    offline: tuple[PartitionReplica, ...]


@message
class ResumeDeletions(Question["DeletionPlan"]):
    """Retry the deletion of these topics (None: all queued topics). -> DeletionPlan"""

    asks: ClassVar[str] = DELETION
    topics: tuple[str, ...] | None
    offline: tuple[PartitionReplica, ...]


@message
class FailReplicaDeletions(Question["DeletionPlan"]):
    """Replicas of these topics could not be deleted, or their broker failed. -> DeletionPlan

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
    """Describe the current deletions without changes. -> DeletionReport"""

    asks: ClassVar[str] = DELETION


# ---------------------------------------------------------------------------------------------------- answers


@message
class DeletionReport:
    """The deletion sets, and the queued topics."""

    sets: DeletionSets
    topics: tuple[DeletingTopic, ...]


@message
class DeletionPlan:
    """The next steps: MovePartitions, MoveReplicas, AnnounceDeletion, FinishDeletions, DeletionSets."""

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
    """Change all partitions of these topics to `state` (a PartitionState value)."""

    topics: tuple[str, ...]
    state: str


@message
class MoveReplicas:
    """Change these replicas to `state` (a ReplicaState value)."""

    replicas: tuple[PartitionReplica, ...]
    state: str


@message
class AnnounceDeletion:
    """Send UpdateMetadata with leader -2 for all partitions of these topics to all brokers."""

    topics: tuple[str, ...]


@message
class FinishDeletions:
    """All replicas are deleted: stop watching these topics, delete their znodes and remove them from the context."""

    topics: tuple[str, ...]
