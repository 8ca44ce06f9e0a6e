"""What a record says of partitions, topics, brokers and controllers; `fact_gathering` reads it there.

A fact names the delivery that shows it, of a node's run, and its time: `replay --run RUN --until DELIVERY` goes there.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

from messages.cluster import TopicPartition
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


class TracePosition(NamedTuple):
    """Where a fact stands: when (seconds since 1970), and which delivery of whose run."""

    at: float
    node: int
    run: str
    n: int


class ControllerEvent(NamedTuple):
    """A controller's event: where it was delivered, and whom it is about.

    `waited` and `took` are in milliseconds, None for an event of which no end is recorded.
    """

    place: TracePosition
    kind: str
    about: str = ""
    waited: float | None = None
    took: float | None = None

    @property
    def name(self) -> str:
        """The event without its place."""
        return f"{self.kind} {self.about}".rstrip()

    def __str__(self) -> str:
        return f"{self.name} (delivery {self.place.n})"


class StateWrite(NamedTuple):
    """A partition's state was asked to be written, and was at `taken`; `by` whom, and during which of its events.

    `version` is that of its znode, -1 if unknown. `read`: `by` did not write it but found it there: the write itself is
    not recorded, for its writer was killed before ZooKeeper's answer, or keeps no record.
    """

    place: TracePosition
    partition: TopicPartition
    leader: int
    epoch: int
    isr: tuple[int, ...]
    by: str
    taken: float
    event: ControllerEvent | None = None
    version: int = -1
    read: bool = False


class ReplicasAssigned(NamedTuple):
    """A partition has these replicas; some of them are being added or removed.

    `written`: this delivery wrote the assignment to ZooKeeper; otherwise a controller read it there.
    """

    place: TracePosition
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    event: ControllerEvent | None = None
    written: bool = False


class Dropped(NamedTuple):
    """A request for these replicas was taken out of /admin/reassign_partitions."""

    place: TracePosition
    partition: TopicPartition
    replicas: tuple[int, ...]
    event: ControllerEvent | None = None


class Seen(NamedTuple):
    """A controller saw these brokers registered, with their epochs."""

    place: TracePosition
    by: int
    brokers: dict[int, int]
    event: ControllerEvent | None = None


class Term(NamedTuple):
    """A controller's term began (`epoch`), or ended (`why`, or during which event)."""

    place: TracePosition
    broker: int
    epoch: int
    why: str
    event: ControllerEvent | None = None


class Deletion(NamedTuple):
    """What happened to the deletion of topics: `step` is asked, queued, ineligible or deleted."""

    place: TracePosition
    step: str
    topics: tuple[str, ...]
    event: ControllerEvent | None = None


class LeaderAndIsrSent(NamedTuple):
    """A LeaderAndIsr for a broker: it was `sent`, and `answered` with the code `outcome`.

    0 and None say that it was not; then `why` is how the channel's last try to send anything ended.
    """

    place: TracePosition
    broker: int
    partition: TopicPartition
    leader: int
    epoch: int
    sent: float = 0.0
    answered: float = 0.0
    outcome: int | None = None
    why: str = ""


class RequestFailed(NamedTuple):
    """A request to a broker failed with its connection."""

    place: TracePosition
    broker: int
    reason: str


class BrokerResponse(NamedTuple):
    """A broker answered a controller's request: the last one of the run."""

    place: TracePosition
    broker: int


class RequestRefused(NamedTuple):
    """A controller refused what a client or a broker asked of it, as to this topic, partition or broker.

    `left` are the partitions that a broker would still lead.
    """

    place: TracePosition
    request: str
    subject: str | TopicPartition | int
    code: int
    why: str = ""
    left: tuple[TopicPartition, ...] = ()


class ErrorAnswered(NamedTuple):
    """A client or broker was answered an error code to its request, `times` times in this response."""

    place: TracePosition
    api: str
    code: int
    subject: str
    times: int = 1


class FaultMet(NamedTuple):
    """A client's request met an injected fault."""

    place: TracePosition
    fault: str
    value: float
    api: str
    client_id: str


class Cut(NamedTuple):
    """A replica's log was cut: it ended at offset `end` (-1: not recorded), and ends at `to`."""

    place: TracePosition
    partition: TopicPartition
    end: int
    to: int


class Idle(NamedTuple):
    """An event did nothing, and why."""

    place: TracePosition
    event: ControllerEvent
    why: str


class Waiting(NamedTuple):
    """An event that was not over when the record ended, `age` seconds old; the one at work `waits_for` answers."""

    place: TracePosition
    event: ControllerEvent
    age: float
    waits_for: str


class Life(NamedTuple):
    """A node's run: its last delivery, when it began, and how it ended (`messages.trace.runs.ending`).

    `registered` are the broker epochs that ZooKeeper gave it, each with its time. A process that was refused has none.
    """

    place: TracePosition
    began: float
    ending: str
    registered: tuple[tuple[int, float], ...] = ()

    @property
    def end(self) -> float:
        """When the process ended; infinity if only its recording ended, or if it still runs."""
        return self.place.at if self.ending in (STOPPED, KILLED) else math.inf


@dataclasses.dataclass
class TraceFacts:
    """All facts of some runs, each kind in order of time."""

    written: list[StateWrite] = dataclasses.field(default_factory=list)
    assigned: list[ReplicasAssigned] = dataclasses.field(default_factory=list)
    dropped: list[Dropped] = dataclasses.field(default_factory=list)
    seen: list[Seen] = dataclasses.field(default_factory=list)
    terms: list[Term] = dataclasses.field(default_factory=list)
    deletions: list[Deletion] = dataclasses.field(default_factory=list)
    orders: list[LeaderAndIsrSent] = dataclasses.field(default_factory=list)
    failures: list[RequestFailed] = dataclasses.field(default_factory=list)
    answered: list[BrokerResponse] = dataclasses.field(default_factory=list)
    refused: list[RequestRefused] = dataclasses.field(default_factory=list)
    errors: list[ErrorAnswered] = dataclasses.field(default_factory=list)
    faults: list[FaultMet] = dataclasses.field(default_factory=list)
    cuts: list[Cut] = dataclasses.field(default_factory=list)
    handled: list[ControllerEvent] = dataclasses.field(default_factory=list)
    idle: list[Idle] = dataclasses.field(default_factory=list)
    waiting: list[Waiting] = dataclasses.field(default_factory=list)
    lives: list[Life] = dataclasses.field(default_factory=list)

    def in_order(self) -> TraceFacts:
        """The same, sorted."""
        for field in dataclasses.fields(self):
            getattr(self, field.name).sort(key=lambda fact: fact[0])
        return self
