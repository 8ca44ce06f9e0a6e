"""A large request or response is passed inside a node as several parts, followed by a message with the rest.

One request on the wire is one request. Inside the node, where one queue carries everything, nothing handles more than
SLICE entries at a time:

Rule 1: a message whose list is longer than SLICE goes as several. Parts of SLICE entries go ahead, in order; the
        message itself comes last, with the rest of the list, and says everything that is said once.
Rule 2: until the message comes, its receiver keeps the parts and does nothing with them that cannot be forgotten. A
        message that fits into one part has none ahead of it.
Rule 3: who passes a message on passes its parts on as they are: to several receivers the very same objects, so that
        they are encoded once, for the wire and for the trace. They are never joined to one list again, also in the
        codec.
Rule 4: entries beyond MAX_ENTRIES are not taken in. Kafka's own limit for a whole cluster with ZooKeeper is 200,000
        partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, TypeVar

import attrs

from messages.conversation import SLICE, Flow, Pause, slices
from messages.encoded import Encoded
from messages.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    MetadataResponse,
    MetadataTopic,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from messages.vocabulary import Message, message

E = TypeVar("E")

MAX_ENTRIES = 250_000
"""Partitions that one request may name."""


@message
class LeaderAndIsrPart(Encoded):
    """A part of a LeaderAndIsr request: the states of some partitions."""

    entries: tuple[LeaderAndIsrPartitionState, ...]


@message
class StopReplicaPart(Encoded):
    """A part of a StopReplica request: the states of some partitions."""

    entries: tuple[StopReplicaPartitionState, ...]


@message
class UpdateMetadataPart(Encoded):
    """A part of an UpdateMetadata request: the states of some partitions."""

    entries: tuple[UpdateMetadataPartitionState, ...]


@message
class PartitionErrorsPart(Encoded):
    """A part of a LeaderAndIsr or StopReplica response: the errors of some partitions."""

    entries: tuple[PartitionError, ...]


@message
class NoErrorsPart:
    """A LeaderAndIsr or StopReplica response without errors, stored as the number of its partitions.

    It goes ahead of a large answer in place of PartitionErrorsParts that say nothing else.
    """

    entries: ClassVar[tuple[PartitionError, ...]] = ()
    """It names none."""
    count: int


@message
class MetadataPart:
    """A part of a Metadata response: some topics."""

    entries: tuple[MetadataTopic, ...]


Part = LeaderAndIsrPart | StopReplicaPart | UpdateMetadataPart | PartitionErrorsPart | NoErrorsPart | MetadataPart


class PartLayout(NamedTuple):
    """How a message is split: the field with the list that is split, and the class of its parts."""

    field: str
    part: type


PARTED: dict[type, PartLayout] = {
    LeaderAndIsrRequest: PartLayout("partition_states", LeaderAndIsrPart),
    StopReplicaRequest: PartLayout("partition_states", StopReplicaPart),
    UpdateMetadataRequest: PartLayout("partition_states", UpdateMetadataPart),
    LeaderAndIsrResponse: PartLayout("partition_errors", PartitionErrorsPart),
    StopReplicaResponse: PartLayout("partition_errors", PartitionErrorsPart),
    MetadataResponse: PartLayout("topics", MetadataPart),
}
"""The messages that go in parts when they are large. Any other goes whole."""


class PartEncoding(NamedTuple):
    """The request type and API version whose wire format a part class uses for its encoded entries.

    `version` is the one in which to make them where there are none yet: that in which a controller of Kafka 2.6 sends
    them. None: those that they are read from are kept, others not made.
    """

    message: type
    version: int | None


KEEP_ROWS: dict[type, PartEncoding] = {
    LeaderAndIsrPart: PartEncoding(LeaderAndIsrRequest, 4),
    StopReplicaPart: PartEncoding(StopReplicaRequest, 3),
    UpdateMetadataPart: PartEncoding(UpdateMetadataRequest, 6),
    PartitionErrorsPart: PartEncoding(LeaderAndIsrResponse, None),
}


def cut(whole: Message) -> tuple[tuple[Part, ...], Message]:
    """The parts that go ahead of a message, and the message that completes them (rule 1)."""
    parted = PARTED.get(type(whole))
    if parted is None:
        return (), whole
    parts, rest = cut_entries(parted.part, getattr(whole, parted.field))
    return parts, attrs.evolve(whole, **{parted.field: rest}) if parts else whole


def cut_entries(
    part: Callable[[tuple[E, ...]], Part], entries: tuple[E, ...]
) -> tuple[tuple[Part, ...], tuple[E, ...]]:
    """Parts of that class, and the rest that their message holds: at most SLICE entries in each."""
    if len(entries) <= SLICE:
        return (), entries
    *ahead, rest = slices(entries)
    return tuple([part(tuple(slice)) for slice in ahead]), tuple(rest)


def entries_of(parts: Sequence[Part], last: Message) -> tuple[tuple[Message, ...], ...]:
    """The entries of a message that came in parts, at most SLICE in each tuple; none that is empty."""
    rest = getattr(last, PARTED[type(last)].field)
    return (*(part.entries for part in parts), *((rest,) if rest else ()))


def tersely(parts: tuple[Part, ...], last: Message) -> tuple[tuple[Part, ...], Message]:
    """The parts and the message, or a NoErrorsPart and the rest, where that says the same."""
    if not parts or not isinstance(parts[0], PartitionErrorsPart):
        return parts, last
    said = entries_of(parts, last)
    if any(error.error_code for errors in said for error in errors):
        return parts, last
    return (NoErrorsPart(sum(map(len, said))),), attrs.evolve(last, partition_errors=())


def let_go(parts: list[Part]) -> Flow[None]:
    """Forget parts one by one: to free the states of a hundred thousand partitions at once takes its time too."""
    while parts:
        parts.pop()
        yield Pause()


def joined(parts: Sequence[Part], last: Message) -> Message:
    """The message as one. For tests and for messages that are short by other means."""
    if not parts:
        return last
    entries = tuple([entry for slice in entries_of(parts, last) for entry in slice])
    return attrs.evolve(last, **{PARTED[type(last)].field: entries})
