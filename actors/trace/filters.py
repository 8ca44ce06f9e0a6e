"""Choose deliveries: by node, actor, message, topic, partition, broker, time, event, causes and effects.

Rule 1: filters are combined; a delivery must pass each one.
Rule 2: a topic, partition or broker is looked for in the message's fields, in znode paths, and in the receiving actor:
        a PartitionActor or BrokerChannelActor belongs to the partition or broker that its first message names.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from actors.trace.links import CauseFinder, DeliveryId, Link
from actors.trace.reader import Trace, TraceDelivery
from messages.cluster import TopicPartition
from messages.trace.errors import TraceError
from messages.trace.schema import TIMER, TraceRecord

TOPIC_KEYS = frozenset(("topic", "name", "topic_name", "topics", "topic_names"))
PARTITION_KEYS = frozenset(("partition", "partitions", "partition_index", "partition_id", "partition_indexes"))
BROKER_KEYS = frozenset(
    "broker broker_id brokers controller_id leader replica_id host_id live_brokers isr replicas adding_replicas"
    " removing_replicas offline_replicas node_id leader_id".split()
)
POLLING = "ReplicaFetcherActor."
"""The class of actors whose requests repeat as long as a node runs, as the start of their addresses."""
OWNERS = {"Ask": "PartitionActor", "StartChannel": "BrokerChannelActor"}
"""The first message of an actor that belongs to one partition or broker.

A PartitionActor first receives an Ask to become leader or follower.
"""


class DeliveryFilters(NamedTuple):
    """The filters that select deliveries. A filter that is None, or an infinite `start` or `end`, is not applied.

    `actor` is the class or the address of the receiver or sender. `start` <= time < `end`, in seconds since 1970.
    `slower_than` is compared with the seconds in the queue and in the handler together.
    `event` is a class of controller events. It selects the events of this class and everything that they caused.
    `causes_of` and `effects_of` each identify a delivery of the run `origin` by its number.
    """

    actor: str | None = None
    message: str | None = None
    topic: str | None = None
    partition: TopicPartition | None = None
    broker: int | None = None
    event: str | None = None
    start: float = -math.inf
    end: float = math.inf
    causes_of: int | None = None
    effects_of: int | None = None
    origin: str | None = None
    slower_than: float = -1.0


def chosen(trace: Trace, filters: DeliveryFilters) -> Iterator[TraceDelivery]:
    """Yield the deliveries that pass all filters, ordered by time.

    Raises:
        TraceError: A run is damaged.
    """
    deliveries: Iterable[TraceDelivery] = trace.deliveries()
    if filters.causes_of is not None:
        deliveries = causes(trace, _place(trace, filters.origin, filters.causes_of))
    if filters.effects_of is not None or filters.event is not None:
        deliveries = _effects(trace, deliveries, filters)
    return select(deliveries, filters)


def select(deliveries: Iterable[TraceDelivery], filters: DeliveryFilters) -> Iterator[TraceDelivery]:
    """Yield the deliveries that pass the filters; `causes_of`, `effects_of` and `event` are not applied."""
    subject = _SubjectFilter(filters)
    actor, message, start, end = filters.actor, filters.message, filters.start, filters.end
    of_class = "." not in actor and not actor.startswith("outside:") if actor is not None else False
    for each in deliveries:
        about = subject.concerns(each)
        record = each.record
        if not about or (message is not None and record.type != message):
            continue
        if actor is not None and not _is_of(record, actor, of_class):
            continue
        if start <= each.at < end and record.finished_at - record.queued_at > filters.slower_than:
            yield each


def _is_of(record: TraceRecord, actor: str, of_class: bool) -> bool:
    """Return whether `actor` receives or sends the record's message.

    If `of_class`, `actor` is the name of a class, and the receiver or sender may be any actor of this class.
    """
    if actor in (record.receiver, record.sender):
        return True
    return of_class and actor in (record.actor, record.sender.rpartition(".")[0])


def causes(trace: Trace, place: DeliveryId) -> list[TraceDelivery]:
    """Return the chain of deliveries that led to a delivery, the first cause first, the delivery last.

    Raises:
        TraceError: A run is damaged.
    """
    links = CauseFinder(trace.runs)
    parents = [array("q", [0]) for _ in trace.runs]  # 8 bytes per delivery
    begun = [0] * len(trace.runs)
    for each in trace.deliveries():
        run = links.index[id(each.run)]
        begun[run] = begun[run] or each.seq
        link = links.link(each)
        parents[run].append(-1 if link is None else _as_number(link.cause))
        if each.seq == place.seq and run == place.run:
            break
    else:
        raise _no_delivery(trace, place)
    chain: set[int] = set()
    at = _as_number(place)
    while at >= 0 and at not in chain:
        chain.add(at)
        run, seq = at >> _SHIFT, at & _SEQ
        index = seq - begun[run] + 1
        at = parents[run][index] if 0 < index < len(parents[run]) else -1
    found = []
    for each in trace.deliveries():
        here = _as_number(DeliveryId(links.index[id(each.run)], each.seq))
        if here in chain:
            found.append(each)
        if here == _as_number(place):
            break
    return found


def linked_effects(
    trace: Trace, places: Collection[DeliveryId], event: str | None = None, polls: bool = True
) -> Iterator[tuple[TraceDelivery, Link | None]]:
    """Yield the deliveries `places`, the controller events of class `event`, and all effects of both, by time.

    Each comes with the link to its cause. If `event` is given or `polls` is False, the search for effects stops before
    timers and followers' polls. A delivery belongs to a controller's event if it has the event's id. This id exists
    only on the controller's node; deliveries on other nodes that handle its requests are found by their links.
    """
    links, led_to, events = CauseFinder(trace.runs), set[int](), set[int]()
    begin = {_as_number(place) for place in places}
    for each in trace.deliveries():
        here = _as_number(DeliveryId(links.index[id(each.run)], each.seq))
        link = links.link(each)
        begins = here in begin or (event is not None and each.message == event)
        if begins and event is not None:
            events.add(here)
        follows = link is not None and _as_number(link.cause) in led_to
        if follows and (event is not None or not polls):
            follows = each.kind != TIMER and not each.sender.startswith(POLLING)
        of_event = _as_number(DeliveryId(links.index[id(each.run)], each.record.event_id)) in events
        if begins or follows or of_event:
            led_to.add(here)
            begin.discard(here)
            yield each, link
    for missing in begin:
        raise _no_delivery(trace, DeliveryId(missing >> _SHIFT, missing & _SEQ))


def _effects(trace: Trace, deliveries: Iterable[TraceDelivery], filters: DeliveryFilters) -> Iterator[TraceDelivery]:
    """Yield those of `deliveries` that are effects of `filters.event` or `filters.effects_of`."""
    if filters.event is not None:
        _check_event(trace, filters.event)
    places = [] if filters.effects_of is None else [_place(trace, filters.origin, filters.effects_of)]
    found = (each for each, _ in linked_effects(trace, places, filters.event))
    if filters.causes_of is None:
        return found
    kept = {(id(each.run), each.seq) for each in deliveries}
    return (each for each in found if (id(each.run), each.seq) in kept)


_SHIFT = 40
_SEQ = (1 << _SHIFT) - 1


def _as_number(place: DeliveryId) -> int:
    """Return a delivery as one number."""
    return place.run << _SHIFT | place.seq


def _no_delivery(trace: Trace, place: DeliveryId) -> TraceError:
    return TraceError(f"run {trace.runs[place.run].name} has no delivery {place.seq}")


def _check_event(trace: Trace, event: str) -> None:
    known = sorted({name for run in trace.runs for name, _ in run.run.header.events})
    if event not in known:
        raise TraceError(f"{event} is not a controller event. The events are {', '.join(known)}")


def _place(trace: Trace, origin: str | None, seq: int) -> DeliveryId:
    return DeliveryId(trace.runs.index(trace.only_run() if origin is None else trace.only_run(run=origin)), seq)


class _SubjectFilter:
    """A filter for deliveries that name a topic, partition or broker, or whose sender or receiver belongs to it."""

    def __init__(self, filters: DeliveryFilters) -> None:
        subjects = (filters.topic, names_topic), (filters.partition, names_partition), (filters.broker, names_broker)
        self._checks: list[tuple[Any, Any, set[tuple[int, str]]]]
        self._checks = [(wanted, names, set()) for wanted, names in subjects if wanted is not None]
        """The requested subjects, the functions that find each in a payload, and the actors that belong to it."""

    def concerns(self, delivery: TraceDelivery) -> bool:
        """Return whether the delivery concerns the requested topic, partition and broker.

        Also store the actors that belong to them, for later deliveries.
        """
        return all(self._concerns(delivery, *each) for each in self._checks)

    def _concerns(self, delivery: TraceDelivery, wanted: Any, names: Any, actors: set[tuple[int, str]]) -> bool:
        record, run = delivery.record, id(delivery.run)
        found = _may_name(record.payload, wanted) and names(delivery.payload, wanted)
        if found and OWNERS.get(record.type) == record.actor:
            actors.add((run, record.receiver))
        return found or (run, record.receiver) in actors or (run, record.sender) in actors


def _may_name(payload: msgspec.Raw, wanted: Any) -> bool:
    """Return False if the raw payload cannot name the wanted topic or broker: its name or id is not in the text."""
    text = bytes(payload)
    if isinstance(wanted, int):
        return b"%d" % wanted in text
    topic = wanted.topic if isinstance(wanted, TopicPartition) else wanted
    return topic.encode() in text


def names_topic(value: object, topic: str) -> bool:
    """Return whether a payload names a topic."""
    for key, part in _parts(value):
        match part:
            case str() if (part == topic and key in TOPIC_KEYS) or f"/topics/{topic}/" in f"{part}/":
                return True
            case [str(first), int(), *_] if first == topic:
                return True
    return False


def names_partition(value: object, partition: TopicPartition) -> bool:
    """Return whether a payload names a partition."""
    topic, number = partition
    for _, part in _parts(value):
        match part:
            case str() if f"/topics/{topic}/partitions/{number}/" in f"{part}/":
                return True
            case [str(first), int(second), *_] if (first, second) == partition:
                return True
            case dict() if any(part.get(name) == topic for name in TOPIC_KEYS) and any(
                key in PARTITION_KEYS and inner == number and not isinstance(inner, bool) for key, inner in _parts(part)
            ):
                return True
    return False


def names_broker(value: object, broker: int) -> bool:
    """Return whether a payload names a broker."""
    for key, part in _parts(value):
        match part:
            case int() if key in BROKER_KEYS and part == broker and not isinstance(part, bool):
                return True
            case str() if f"/brokers/ids/{broker}/" in f"{part}/":
                return True
            case dict() if key in ("brokers", "live_brokers") and part.get("id") == broker:
                return True
    return False


def _parts(value: object, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield a plain value and all values inside it, each with the nearest name around it."""
    yield key, value
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _parts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each, key)
