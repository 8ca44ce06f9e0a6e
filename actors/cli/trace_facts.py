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


class Place(NamedTuple):
    """Where a fact stands: when (seconds since 1970), and which delivery of whose run."""

    at: float
    node: int
    run: str
    n: int


class Event(NamedTuple):
    """A controller's event: where it was delivered, and whom it is about.

    `waited` and `took` are in milliseconds, None for an event of which no end is recorded.
    """

    place: Place
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


class Written(NamedTuple):
    """A partition's state was asked to be written, and was at `taken`; `by` whom, and during which of its events.

    `version` is that of its znode, -1 if unknown. `read`: `by` did not write it but found it there: the write itself is
    not recorded, for its writer was killed before ZooKeeper's answer, or keeps no record.
    """

    place: Place
    partition: TopicPartition
    leader: int
    epoch: int
    isr: tuple[int, ...]
    by: str
    taken: float
    event: Event | None = None
    version: int = -1
    read: bool = False


class Assigned(NamedTuple):
    """A partition has these replicas; some of them are being added or removed.

    `written`: this delivery wrote the assignment to ZooKeeper; otherwise a controller read it there.
    """

    place: Place
    partition: TopicPartition
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    event: Event | None = None
    written: bool = False


class Dropped(NamedTuple):
    """A request for these replicas was taken out of /admin/reassign_partitions."""

    place: Place
    partition: TopicPartition
    replicas: tuple[int, ...]
    event: Event | None = None


class Seen(NamedTuple):
    """A controller saw these brokers registered, with their epochs."""

    place: Place
    by: int
    brokers: dict[int, int]
    event: Event | None = None


class Term(NamedTuple):
    """A controller's term began (`epoch`), or ended (`why`, or during which event)."""

    place: Place
    broker: int
    epoch: int
    why: str
    event: Event | None = None


class Deletion(NamedTuple):
    """What happened to the deletion of topics: `step` is asked, queued, ineligible or deleted."""

    place: Place
    step: str
    topics: tuple[str, ...]
    event: Event | None = None


class Order(NamedTuple):
    """A LeaderAndIsr for a broker: it was `sent`, and `answered` with the code `outcome`.

    0 and None say that it was not; then `why` is how the channel's last try to send anything ended.
    """

    place: Place
    broker: int
    partition: TopicPartition
    leader: int
    epoch: int
    sent: float = 0.0
    answered: float = 0.0
    outcome: int | None = None
    why: str = ""


class Failed(NamedTuple):
    """A request to a broker failed with its connection."""

    place: Place
    broker: int
    reason: str


class Answered(NamedTuple):
    """A broker answered a controller's request: the last one of the run."""

    place: Place
    broker: int


class Refused(NamedTuple):
    """A controller refused what a client or a broker asked of it, as to this topic, partition or broker.

    `left` are the partitions that a broker would still lead.
    """

    place: Place
    request: str
    subject: str | TopicPartition | int
    code: int
    why: str = ""
    left: tuple[TopicPartition, ...] = ()


class ErrorAnswered(NamedTuple):
    """A client or broker was answered an error code to its request, `times` times in this response."""

    place: Place
    api: str
    code: int
    subject: str
    times: int = 1


class Cut(NamedTuple):
    """A replica's log was cut: it ended at offset `end` (-1: not recorded), and ends at `to`."""

    place: Place
    partition: TopicPartition
    end: int
    to: int


class Idle(NamedTuple):
    """An event did nothing, and why."""

    place: Place
    event: Event
    why: str


class Waiting(NamedTuple):
    """An event that was not over when the record ended, `age` seconds old; the one at work `waits_for` answers."""

    place: Place
    event: Event
    age: float
    waits_for: str


class Life(NamedTuple):
    """A node's run: its last delivery, when it began, and how it ended (`messages.trace.runs.ending`).

    `registered` are the broker epochs that ZooKeeper gave it, each with its time. A process that was refused has none.
    """

    place: Place
    began: float
    ending: str
    registered: tuple[tuple[int, float], ...] = ()

    @property
    def end(self) -> float:
        """When the process ended; infinity if only its recording ended, or if it still runs."""
        return self.place.at if self.ending in (STOPPED, KILLED) else math.inf


@dataclasses.dataclass
class Facts:
    """All facts of some runs, each kind in order of time."""

    written: list[Written] = dataclasses.field(default_factory=list)
    assigned: list[Assigned] = dataclasses.field(default_factory=list)
    dropped: list[Dropped] = dataclasses.field(default_factory=list)
    seen: list[Seen] = dataclasses.field(default_factory=list)
    terms: list[Term] = dataclasses.field(default_factory=list)
    deletions: list[Deletion] = dataclasses.field(default_factory=list)
    orders: list[Order] = dataclasses.field(default_factory=list)
    failures: list[Failed] = dataclasses.field(default_factory=list)
    answered: list[Answered] = dataclasses.field(default_factory=list)
    refused: list[Refused] = dataclasses.field(default_factory=list)
    errors: list[ErrorAnswered] = dataclasses.field(default_factory=list)
    cuts: list[Cut] = dataclasses.field(default_factory=list)
    handled: list[Event] = dataclasses.field(default_factory=list)
    idle: list[Idle] = dataclasses.field(default_factory=list)
    waiting: list[Waiting] = dataclasses.field(default_factory=list)
    lives: list[Life] = dataclasses.field(default_factory=list)

    def in_order(self) -> Facts:
        """The same, sorted."""
        for field in dataclasses.fields(self):
            getattr(self, field.name).sort(key=lambda fact: fact[0])
        return self
