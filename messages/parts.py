"""The parts of large requests and responses: the entries of a long list, which actors send in several messages.

On the wire a request is one frame. Inside the node all messages share one queue, so no actor handles more than SLICE
entries at a time:

Rule 1: a message with a list longer than SLICE is split. Its parts of SLICE entries are sent first, in order. The
        message itself follows with the rest of the list and all other fields.
Rule 2: until the message arrives, its receiver keeps the parts and takes no irreversible action on them. A message that
        fits into one part has no parts before it.
Rule 3: an actor that forwards a message forwards its parts unchanged. Several receivers get the same objects, so the
        parts are encoded once for the wire and once for the trace. Actors and the codec never join parts into one list.
Rule 4: requests of clients with more than MAX_ENTRIES entries are rejected. A controller's request may contain a whole
        cluster; `messages.wire.codec` limits it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import ClassVar, NamedTuple, TypeVar

import attrs

from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.metadata import MetadataResponse, MetadataTopic
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.flow.conversation import SLICE, Flow, Pause, slices
from messages.vocabulary import AnyMessage, Message, message

E = TypeVar("E")

MAX_ENTRIES = 250_000
"""Maximum number of partitions in a client's request."""


class Encoded(Message):
    """A part that keeps its encoded rows by topic once it has been encoded, because it is sent to many brokers.

    The slots that keep them are not attrs fields, because their values are derived from the fields. So equality and
    traces ignore these slots. The names of these slots begin with an underscore, because msgspec treats each slot
    without a leading underscore as a field and encodes it.
    """

    __slots__ = ("_encoded", "_encoded_version")
    _encoded: object
    _encoded_version: int


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
class NoErrorsPart(Message):
    """A part of an error-free LeaderAndIsr or StopReplica response; it holds only the number of partitions.

    It replaces the PartitionErrorsParts of a large response if all codes in them are NONE.
    """

    entries: ClassVar[tuple[PartitionError, ...]] = ()
    """Always empty."""
    count: int


@message
class MetadataPart(Message):
    """A part of a Metadata response: some topics."""

    entries: tuple[MetadataTopic, ...]


Part = LeaderAndIsrPart | StopReplicaPart | UpdateMetadataPart | PartitionErrorsPart | NoErrorsPart | MetadataPart


class PartLayout(NamedTuple):
    """How a message is split into parts: the field whose list is divided, and the class of a part."""

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
"""Message classes that are split if they are large. All other messages are sent whole."""


class PartEncoding(NamedTuple):
    """The message class and the API version in which the entries of a part are encoded.

    Rows are encoded entries, which a part caches. A part that came from the wire keeps its rows unchanged. If a part
    has no cached rows, its entries are encoded in `version`. For requests this is the version that Kafka 2.6's
    controller sends. For responses it is None: the entries are not encoded.
    """

    message: type
    version: int | None


KEEP_ROWS: dict[type, PartEncoding] = {
    LeaderAndIsrPart: PartEncoding(LeaderAndIsrRequest, 4),
    StopReplicaPart: PartEncoding(StopReplicaRequest, 3),
    UpdateMetadataPart: PartEncoding(UpdateMetadataRequest, 6),
    PartitionErrorsPart: PartEncoding(LeaderAndIsrResponse, None),
}


def cut(whole: AnyMessage) -> tuple[tuple[Part, ...], AnyMessage]:
    """Split a message (rule 1), and return its parts and the message with the rest."""
    parted = PARTED.get(type(whole))
    if parted is None:
        return (), whole
    parts, rest = cut_entries(parted.part, getattr(whole, parted.field))
    return parts, attrs.evolve(whole, **{parted.field: rest}) if parts else whole


def cut_entries(
    part: Callable[[tuple[E, ...]], Part], entries: tuple[E, ...]
) -> tuple[tuple[Part, ...], tuple[E, ...]]:
    """Split entries into parts of SLICE entries, and a rest of at most SLICE entries; `part` creates each part.

    The rest remains in the message (rule 1).
    """
    if len(entries) <= SLICE:
        return (), entries
    *ahead, rest = slices(entries)
    return tuple([part(tuple(slice)) for slice in ahead]), tuple(rest)


def entries_of(parts: Sequence[Part], last: Message) -> tuple[tuple[AnyMessage, ...], ...]:
    """Return the entries of a message and its parts, as non-empty tuples of at most SLICE entries."""
    rest = getattr(last, PARTED[type(last)].field)
    return (*(part.entries for part in parts), *((rest,) if rest else ()))


def all_entries(parts: Sequence[Part], last: Message) -> Iterator[AnyMessage]:
    """Return the entries of a message and its parts, one after another."""
    return chain.from_iterable(entries_of(parts, last))


def tersely(parts: tuple[Part, ...], last: AnyMessage) -> tuple[tuple[Part, ...], AnyMessage]:
    """Replace the parts of a response without errors by one NoErrorsPart.

    Any other message and its parts are returned unchanged.
    """
    if not parts or not isinstance(parts[0], PartitionErrorsPart):
        return parts, last
    result = entries_of(parts, last)
    if any(error.error_code for errors in result for error in errors):
        return parts, last
    return (NoErrorsPart(sum(map(len, result))),), attrs.evolve(last, partition_errors=())


def free_parts(parts: list[Part]) -> Flow[None]:
    """Free parts one at a time, with a pause after each.

    Freeing the states of 100,000 partitions at once blocks the node.
    """
    while parts:
        parts.pop()
        yield Pause()


def join_parts(parts: Sequence[Part], last: AnyMessage) -> AnyMessage:
    """Return one message with all entries of `parts` and `last`. Only for tests, simulations and refused requests."""
    if not parts:
        return last
    entries = tuple([entry for slice in entries_of(parts, last) for entry in slice])
    return attrs.evolve(last, **{PARTED[type(last)].field: entries})
