"""The facts that monitors receive: what happened in a cluster, by its ZooKeeper writes, requests and deliveries.

A recorded trace lacks some of them; `NEEDS` says what it lacks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import attrs

from actors.controller.controller import ControllerActor
from actors.core.controller.states import State
from actors.node.assembly import Node
from actors.simulation.members import AssignmentReceived
from messages.cluster import NO_LEADER, LeaderIsrAndControllerEpoch, TopicPartition
from messages.events import Event
from messages.partition import LogMoved, LogRead

# ---------------------------------------------------------------------------------------------------- ZooKeeper


class PartitionStateWritten(NamedTuple):
    """A partition's state was written; `before` is None for a new znode."""

    partition: TopicPartition
    before: LeaderIsrAndControllerEpoch | None
    after: LeaderIsrAndControllerEpoch
    session: int

    @property
    def is_unclean(self) -> bool:
        """Whether the new leader was not in the ISR."""
        leader = self.after.leader
        return self.before is not None and leader != NO_LEADER and leader not in self.before.isr


class TopicDeleted(NamedTuple):
    """The znode of a topic was deleted; `replicas` are those of its partitions.

    `queued` is False if the topic was not queued for deletion: then its logs stay.
    """

    topic: str
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    queued: bool


class TopicWritten(NamedTuple):
    """The znode of a topic was changed or deleted by a ZooKeeper session.

    `lost_id` is the topic's id if the change removed or replaced it.
    """

    topic: str
    session: int
    lost_id: str | None = None


class ControllerEpochWritten(NamedTuple):
    """/controller_epoch was written to ZooKeeper."""

    before: int
    after: int
    session: int


class ControllerWritten(NamedTuple):
    """A session created /controller."""

    session: int


class ControllerDeleted(NamedTuple):
    """/controller was deleted.

    It was deleted by its owner, by another session, or by the server (session 0), because the owner's session expired.
    """

    owner: int
    session: int


class BrokerUnregistered(NamedTuple):
    """The znode of a broker's registration was deleted."""

    broker: int


# ---------------------------------------------------------------------------------------------------- requests


class RequestSent(NamedTuple):
    """A controller sent a request to a broker."""

    source: str
    target: str
    request: Any


class UserAuthenticated(NamedTuple):
    """A node has authenticated a user, or refused it."""

    node: int
    user: str
    accepted: bool


class RequestJudged(NamedTuple):
    """A node with an authorizer has judged a request; `allowed` if nothing of it was refused."""

    node: int
    principal: str
    request: Any
    allowed: bool


Process = tuple[int, int]
"""A node, and the number of its start."""


@attrs.define
class Accepted:
    """The newest controller, broker and leader epochs that the process of a node has accepted."""

    controller_epoch: int = -1
    broker_epoch: int = -1
    leader_epochs: dict[TopicPartition, int] = attrs.field(factory=dict)
    """The leader epochs of the partitions that it leads."""
    led_since: dict[TopicPartition, float] = attrs.field(factory=dict)
    """The time at which it accepted that leader epoch."""
    zk_versions: dict[TopicPartition, int] = attrs.field(factory=dict)
    """The newest version of the state znode in an accepted order to lead."""


class Confirmation(NamedTuple):
    """A member's confirmation in a generation: between `since` and `until`, the coordinator must not remove the member.

    Rule 4 of `exchanges` lists what ends a confirmation earlier.
    """

    generation: int
    since: float
    until: float


@attrs.define
class ResponseSent:
    """A node responded to a request. The attributes below describe the moment when the request arrived.

    Attributes:
        at: When the request arrived.
        accepted: The epochs that the process had accepted (`None` for requests without epochs).
        generation: The generation that the process had announced to the group, -1 if none.
        is_current: Whether the process had accepted the leader epoch that ZooKeeper had for the group's partition.
        states: The partition states in ZooKeeper (empty except for ControlledShutdown).
        log_end: The end of the group's log, if the response must wait for a record in that log; otherwise -1.
        left: The members that had left the group's generation.
        renewed: The seconds from the arrival of the member's last accepted request to the arrival of this request.
        markers: The newest coordinator epoch of a marker that the process had accepted, by (producer id, partition).
        confirmed: The members that were confirmed in a generation (rule 4), by group and member id. A group is
            included only if the process had accepted the leader epoch that ZooKeeper had for the group's partition.
    """

    process: Process
    request: Any
    at: float
    response: Any = None
    accepted: Accepted | None = None
    generation: int = -1
    is_current: bool = False
    states: Mapping[TopicPartition, LeaderIsrAndControllerEpoch] = attrs.field(factory=dict)
    log_end: int = -1
    left: tuple[str, ...] = ()
    renewed: float = math.inf
    markers: Mapping[tuple[int, TopicPartition], int] = attrs.field(factory=dict)
    confirmed: Mapping[tuple[str, str], Confirmation] = attrs.field(factory=dict)

    @property
    def node(self) -> int:
        """The node that responded."""
        return self.process[0]


# ---------------------------------------------------------------------------------------------------- deliveries


class HandlerFailed(NamedTuple):
    """An actor's message handler raised an exception."""

    node: int
    error: str
    message: str


@attrs.define(eq=False)
class LogView:
    """The log of one replica, as the calls of the I/O adapter "logs" show it."""

    start: int = 0
    end: int = 0
    high_watermark: int = 0
    epoch_start: int = 0
    """The log end offset when this replica last became leader."""
    ends: deque[tuple[float, int]] = attrs.field(factory=deque)
    """Changes of the log end offset: (time, offset)."""
    limits: deque[tuple[float, int, int]] = attrs.field(factory=deque)
    """Changes of what consumers can read: (time, high watermark, last stable offset)."""
    folder: str = ""
    """The log's directory, as the node sees it."""
    lost_before: int = 0
    """The checkpointed high watermark that was above the log's end when it was opened; 0 if none was."""
    starts: int = 0
    """The start of the process that opened the log (`Machine.starts`)."""
    noted: int | None = None
    """The high watermark that the leader last noted in its leader epoch."""
    changes: int = 0
    """Number of calls that changed the log's files."""

    @property
    def directory(self) -> str:
        """The log directory that has the log."""
        return self.folder.rpartition("/")[0]

    def end_at(self, moment: float) -> int:
        """Return the log end offset at an earlier time, or the oldest kept one if none is kept for that time."""
        found = self.end
        for at, end in reversed(self.ends):
            found = end
            if at <= moment:
                break
        return found

    def readable_since(self, offset: int, committed: bool) -> float | None:
        """Return the time since which consumers can read an offset; None if they cannot read it.

        `committed` is whether the consumers use READ_COMMITTED.
        """
        since = None
        for at, high_watermark, stable in reversed(self.limits):
            if (stable if committed else high_watermark) <= offset:
                break
            since = at
        return since


class HighWatermarkMoved(NamedTuple):
    """The high watermark of a leader changed within one leader epoch."""

    node: int
    log: str
    before: int
    after: int


class HighWatermarkRaised(NamedTuple):
    """A leader raised the high watermark, so more records of its log are committed."""

    node: int
    partition: TopicPartition
    before: int
    after: int


class LogCalled(NamedTuple):
    """A call of the I/O adapter "logs" that opened a log, changed it, or moved its high watermark.

    Attributes:
        method: The name of the called method.
        first_unstable: The first unstable offset in the call's result.
        view: The log after the call.
        opened_before: The log as it was before it was opened again; None for other calls.
        end_before: The log end offset before the call.
    """

    node: int
    partition: TopicPartition
    method: str
    first_unstable: int
    view: LogView
    opened_before: LogView | None
    end_before: int


class LogExpired(NamedTuple):
    """The retention has removed records from the beginning of a log."""

    node: int
    partition: TopicPartition
    before: int
    after: int


class LogCopied(NamedTuple):
    """A node has copied bytes of a log to another directory.

    `rate` is the maximum number of bytes per second of all its copies; None if its process has set none.
    """

    node: int
    size: int
    rate: int | None


class ReplicaSwapped(NamedTuple):
    """The copy of a log in another directory has replaced the log."""

    node: int
    partition: TopicPartition
    view: LogView


class DirectoryOpened(NamedTuple):
    """A process opened a log in a log directory, or the first record of a new log there was written."""

    node: int
    directory: str


class DirectoriesClosed(NamedTuple):
    """A process closed its log directories, and wrote their clean shutdown markers."""

    node: int


class PointsWritten(NamedTuple):
    """A node wrote the recovery points and log start offsets of its logs."""

    node: int


class StableOffsetSeen(NamedTuple):
    """A reader received a leader's last stable offset and log end offset."""

    process: Process
    message: LogRead | LogMoved


# ------------------------------------------------------------------------------------------- the state of controllers


class StateChanged(NamedTuple):
    """A controller changed the state of partitions or replicas.

    `before` has the previous states of the changed partitions or replicas, and `target` is their new state. `kept` has
    the states of the partitions or replicas that the controller meant to change but did not change.
    """

    node: int
    target: State
    broker: int | None
    before: dict[TopicPartition, State]
    kept: dict[TopicPartition, State]


class EventHandled(NamedTuple):
    """The active controller has handled one of the `CHECKED_EVENTS`, and is now idle.

    `before` is the controller's cached leadership of each partition when the event arrived.
    """

    node: int
    event: Event
    process: Node
    controller: ControllerActor
    before: dict[TopicPartition, LeaderIsrAndControllerEpoch]
    at: float


# ---------------------------------------------------------------------------------------------------- clients


class StreamBroken(NamedTuple):
    """A response to a producer contradicts the acknowledgements of earlier batches; `text` describes how."""

    text: str


class TransactionBroken(NamedTuple):
    """A response or a read contradicts what producers know of their transactions; `text` describes how."""

    text: str


class TransactionBegun(NamedTuple):
    """A coordinator has added a producer's first partitions to a transaction."""

    producer_id: int


class QuotaUsed(NamedTuple):
    """A request of a user with one of the QUOTAS has ended.

    Attributes:
        process: The process that received the request.
        user: The user.
        quota: The quota that the request uses.
        size: The bytes that the request has used.
        sent: When it was sent.
        throttle_ms: The throttle time in the response; None without a response.
    """

    process: Process
    user: str
    quota: str
    size: int
    sent: float
    throttle_ms: int | None


class Ticked(NamedTuple):
    """Half a second has passed; invariants check how long states last."""


class ClusterAtRest(NamedTuple):
    """No fault or action has occurred for some time, so all brokers must agree."""


class ClusterQueried(NamedTuple):
    """An idle cluster returned its metadata, records and consumer groups."""


FAULTS, NODES, CLIENTS, REST = (
    "the faults of the nodes",
    "the state of the nodes' actors",
    "what the clients know",
    "a cluster at rest",
)
FILES = "the files of the logs"
SERVER = "the changes that ZooKeeper makes itself"
START = "the start of each run"

WITH_REQUESTS = (RequestSent, ResponseSent)
"""Facts about a request."""

NEEDS: Mapping[type, str] = {
    StateChanged: NODES,
    EventHandled: NODES,
    DirectoryOpened: FILES,
    DirectoriesClosed: FILES,
    PointsWritten: FILES,
    AssignmentReceived: CLIENTS,
    StreamBroken: CLIENTS,
    TransactionBroken: CLIENTS,
    TransactionBegun: CLIENTS,
    UserAuthenticated: CLIENTS,
    RequestJudged: CLIENTS,
    QuotaUsed: CLIENTS,
    Ticked: FAULTS,
    ClusterAtRest: REST,
    ClusterQueried: REST,
}
"""Facts that a recorded trace does not show, and what it lacks for them."""
