"""Collect the controller's requests to each broker and send them together (controller.md 4).

Rule 1: A batch is a local variable of the step that fills it. It cannot outlive its event, so a failed step leaves no
        requests behind for the next event (controller.md, trap T4).
Rule 2: Brokers receive all LeaderAndIsr requests first, then all UpdateMetadata, then all StopReplica. Only live
        brokers, including those that are shutting down, receive requests. Each request carries the broker epoch of its
        receiver.
Rule 3: The last state of a replica replaces its earlier states, but `is_new` and `delete_partition` stay true once they
        are set.
Rule 4: Each LeaderAndIsr state of a partition adds an UpdateMetadata state of that partition for all brokers.
Rule 5: The state sent for a partition is one object for all brokers and batches until the partition's leadership or
        assignment changes (`ControllerContext.last_sent`). It is created, encoded and recorded once. Large requests are
        split into parts (`messages.parts`); brokers with equal parts share them. A cached state costs 400 bytes per
        partition.

Kafka: `ControllerBrokerRequestBatch`.
"""

from __future__ import annotations

import logging
import operator
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, compress, groupby
from typing import NamedTuple

from actors.core.controller import log_text
from actors.core.controller.context import NO_ASSIGNMENT, BrokerEndpointNotAvailable, ControllerContext
from actors.core.controller.instructions import SendRequest
from messages import cluster
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LiveLeader
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataBroker, UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.flow.conversation import Flow, cut, for_each
from messages.parts import LeaderAndIsrPart, StopReplicaPart, UpdateMetadataPart
from messages.probes import probe
from messages.protocol_version import at_least
from messages.vocabulary import maker

log = logging.getLogger("state.change.logger")

REQUEST_VERSIONS: tuple[tuple[str, int, int, int], ...] = (
    ("0.9.0", 0, 1, 0),
    ("0.10.0-IV1", 0, 2, 0),
    ("0.10.2-IV0", 0, 3, 0),
    ("1.0-IV0", 1, 4, 0),
    ("2.2-IV0", 2, 5, 1),
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.8-IV1", 5, 7, 3),
)
"""First inter.broker.protocol.version, and the versions of LeaderAndIsr, UpdateMetadata and StopReplica from then on.
"""


IDS_SINCE = 5, 7
"""The first versions of LeaderAndIsr and UpdateMetadata with topic ids."""


def request_versions(ibp: str) -> tuple[int, int, int]:
    """Return the versions of LeaderAndIsr, UpdateMetadata and StopReplica at a protocol version.

    Raises:
        ValueError: `ibp` is not a version.
    """
    reached = [versions for since, *versions in REQUEST_VERSIONS if at_least(ibp, since)]
    leader_and_isr, update_metadata, stop_replica = reached[-1] if reached else (0, 0, 0)
    return leader_and_isr, update_metadata, stop_replica


_LED_BY, _TOPIC = operator.attrgetter("leader"), operator.attrgetter("topic")
_IS_NEW = operator.attrgetter("is_new")

_Roles = defaultdict[int, dict[cluster.TopicPartition, LeaderAndIsrPartitionState]]
"""States by the number of the topic's dict in the context's tables (`partition_table`)."""

_stop = maker(StopReplicaPartitionState)


class _LeaderAndIsrPart(NamedTuple):
    """Partitions of a large LeaderAndIsr request that are sent together.

    `leaders` maps each leader to its partition count.
    """

    part: LeaderAndIsrPart
    leaders: Counter[int]

    @classmethod
    def of_entries(cls, entries: tuple[LeaderAndIsrPartitionState, ...]) -> _LeaderAndIsrPart:
        return cls(LeaderAndIsrPart(entries), Counter(map(_LED_BY, entries)))

    @classmethod
    def next_of(
        cls, before: Iterator[_LeaderAndIsrPart], entries: tuple[LeaderAndIsrPartitionState, ...]
    ) -> _LeaderAndIsrPart:
        """Return the next part from `before` if it has these entries, otherwise a new part.

        Args:
            before: The parts of the request to the previous broker.
        """
        shared = next(before, None)
        return shared if shared is not None and shared.part.entries == entries else cls.of_entries(entries)


class RequestBatch:
    """The requests that a controller collects for its brokers and then sends together.

    Args:
        context: The controller's state.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._leader_and_isr: defaultdict[int, _Roles] = defaultdict(partial(defaultdict, dict))
        self._metadata_brokers: dict[int, None] = {}
        self._metadata_to_all = False
        self._metadata_partitions: defaultdict[int, dict[cluster.TopicPartition, None]] = defaultdict(dict)
        self._stop_replica: dict[int, dict[cluster.TopicPartition, StopReplicaPartitionState]] = {}
        self._some_new = False

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        partition: cluster.TopicPartition,
        leadership: cluster.LeaderIsrAndControllerEpoch,
        assignment: cluster.ReplicaAssignment,
        is_new: bool,
    ) -> None:
        """Add a LeaderAndIsr state for these brokers and an UpdateMetadata state for all brokers (rule 4).

        Args:
            broker_ids: Brokers that receive the state; negative ids are skipped.
            is_new: Marks the replica as new on these brokers (rule 3).
        """
        self._some_new = self._some_new or is_new
        role_to_send, by_broker = self._context.role_to_send, self._leader_and_isr
        number = self._context.dict_numbers[partition.topic]
        state = role_to_send(partition, leadership, assignment, is_new)
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = by_broker[broker_id][number]
            last = states.setdefault(partition, state)
            if last is not state:
                sticks = last.is_new and not is_new
                states[partition] = role_to_send(partition, leadership, assignment, True) if sticks else state
        if not self._metadata_to_all:
            self._add_all_brokers()
        self._metadata_partitions[number][partition] = None

    def add_roles(self, broker_id: int, partitions: Sequence[cluster.TopicPartition]) -> None:
        """Add the roles of one broker in these partitions, and their UpdateMetadata states for all brokers.

        Partitions without a cached leadership are skipped.
        """
        context = self._context
        known = context.last_sent.find(partitions, None)
        if not all(known):  # the state of a partition was never sent, or the partition has no leader
            led = context.leadership.find(partitions, None)
            if not all(led):
                partitions = list(compress(partitions, led))
                known = context.last_sent.find(partitions, None)
        if not partitions:
            return
        states, numbers = self._leader_and_isr[broker_id], context.dict_numbers
        roles = [sent.role if sent else None for sent in known]
        if self._some_new or not all(roles) or any(map(_IS_NEW, roles)):
            unsure = [self._some_new or role is None or role.is_new for role in roles]
            rest = list(compress(partitions, unsure))
            last = [states[numbers[partition.topic]].get(partition) for partition in rest]
            made = map(
                context.role_to_send,
                rest,
                filter(None, context.leadership.find(rest, None)),
                context.assignments.find(rest, NO_ASSIGNMENT),
                [role is not None and role.is_new for role in last],  # rule 3
            )
            roles = [next(made) if again else role for role, again in zip(roles, unsure, strict=True)]
        for partition, role in zip(partitions, filter(None, roles), strict=True):
            states[numbers[partition.topic]][partition] = role
        self._add_all_brokers()
        self._add_metadata(partitions)

    def _add_all_brokers(self) -> None:
        """Add all brokers to the receivers of UpdateMetadata."""
        self._metadata_to_all = True
        self._metadata_brokers.update(dict.fromkeys(self._context.brokers))

    def add_update_metadata(self, broker_ids: Iterable[int], partitions: Iterable[cluster.TopicPartition]) -> None:
        """Add an UpdateMetadata request with these partitions for these brokers.

        The request lists all live brokers, even if `partitions` is empty. Negative broker ids are skipped.
        """
        self._metadata_brokers.update(dict.fromkeys(b for b in broker_ids if b >= 0))
        self._add_metadata(partitions)

    def _add_metadata(self, partitions: Iterable[cluster.TopicPartition]) -> None:
        """Add these partitions to the UpdateMetadata requests."""
        for topic, some in groupby(partitions, _TOPIC):
            self._metadata_partitions[self._context.dict_numbers.get(topic, -1)].update(dict.fromkeys(some))

    def add_stop_replicas(self, broker_id: int, partitions: Iterable[cluster.TopicPartition], delete: bool) -> None:
        """Add StopReplica states for a live broker.

        Args:
            broker_id: Receiver; the call has no effect if the broker is not registered.
            delete: Whether the broker also deletes the replicas (rule 3).
        """
        if broker_id not in self._context.brokers:
            return
        states = self._stop_replica.setdefault(broker_id, {})
        queued, leaderships = self._context.queued, self._context.leadership
        for partition in partitions:
            sticky = states.get(partition)
            if partition.topic in queued:
                leader_epoch = cluster.EPOCH_DURING_DELETE
            else:
                leadership = leaderships.get(partition)
                leader_epoch = cluster.NO_EPOCH if leadership is None else leadership.leader_epoch
            sticks = sticky is not None and sticky.delete_partition
            states[partition] = _stop(partition, leader_epoch, delete or sticks)

    def send(self, announced: Iterable[cluster.TopicPartition] = ()) -> Flow[None]:
        """Send all requests in the order of rule 2. A batch is sent once.

        Args:
            announced: Further partitions for UpdateMetadata that are not in the batch.
        """
        context = self._context
        versions = request_versions(context.settings.inter_broker_protocol_version)
        yield from self._send_leader_and_isr(versions[0])
        yield from self._send_update_metadata(versions[1], chain(self._take_metadata_partitions(), announced))
        yield from self._send_stop_replica(versions[2])

    def _take_metadata_partitions(self) -> Iterator[cluster.TopicPartition]:
        """Yield the partitions for UpdateMetadata, and free each of their tables after it."""
        for number in list(self._metadata_partitions):
            yield from self._metadata_partitions.pop(number)

    def _send_leader_and_isr(self, version: int) -> Flow[None]:
        context, shared_parts = self._context, list[_LeaderAndIsrPart]()
        for broker_id in list(self._leader_and_isr):
            states = self._leader_and_isr.pop(broker_id)  # to free one broker's table at a time
            broker = context.brokers.get(broker_id)
            if broker is None:
                continue
            part_of = partial(_LeaderAndIsrPart.next_of, iter(shared_parts))
            shared_parts = yield from cut(chain.from_iterable(map(dict.values, states.values())), part_of)
            led: Counter[int] = Counter()
            for each in shared_parts:
                led.update(each.leaders)
            live_leaders = self._live_leaders(led)
            log.info(
                "%s Sending LeaderAndIsr request to broker %d with %d become-leader and %d become-follower partitions",
                context.tag,
                broker_id,
                led[broker_id],
                led.total() - led[broker_id],
            )
            *parts, last = (each.part for each in shared_parts)
            rest = last.entries
            ids = (yield from self._ids_of(chain(*states.values()))) if version >= IDS_SINCE[0] else ()
            yield SendRequest(
                broker_id,
                LeaderAndIsrRequest(version, context.broker_id, context.epoch, broker.epoch, rest, live_leaders, ids),
                tuple(parts),
            )

    def _ids_of(self, partitions: Iterable[cluster.TopicPartition]) -> Flow[tuple[cluster.TopicId, ...]]:
        """Return the ids of the topics of these partitions."""
        topics: dict[str, None] = {}

        def note(part: Sequence[cluster.TopicPartition]) -> None:
            topics.update(dict.fromkeys([partition.topic for partition in part]))

        yield from for_each(partitions, note)
        return self._context.topic_ids_of(topics)

    def _live_leaders(self, leaders: Iterable[int]) -> tuple[LiveLeader, ...]:
        """Return the endpoints of these leaders. A leader without an inter-broker listener is logged and left out."""
        context, found = self._context, []
        for leader in leaders:
            if leader in context.brokers:
                try:
                    endpoint = context.inter_broker_endpoint(context.brokers[leader])
                except BrokerEndpointNotAvailable as error:
                    log.error("%s Omitting leader %d from LeaderAndIsr requests: %s", context.tag, leader, error)
                else:
                    found.append(LiveLeader(leader, endpoint.host, endpoint.port))
        return tuple(found)

    def _send_update_metadata(self, version: int, partitions: Iterable[cluster.TopicPartition]) -> Flow[None]:
        context = self._context
        receivers = [context.brokers[b] for b in self._metadata_brokers if b in context.brokers]
        if not receivers:
            return
        ahead: list[UpdateMetadataPart] = []
        rest: tuple[UpdateMetadataPartitionState, ...] = ()

        def add(part: Sequence[cluster.TopicPartition]) -> None:
            nonlocal rest
            states = tuple(context.metadata_to_send(part))
            if states and rest:
                ahead.append(context.metadata_part(len(ahead), rest))  # frees the states of the last part there
            rest = states or rest

        yield from for_each(partitions, add)
        ids: tuple[cluster.TopicId, ...] = ()
        if version >= IDS_SINCE[1]:
            states = chain.from_iterable((*(part.entries for part in ahead), rest))
            ids = yield from self._ids_of(each.partition for each in states)
        live_brokers = tuple(UpdateMetadataBroker(b.id, b.endpoints, b.rack) for b in context.brokers.values())
        log.info(
            "%s Sending UpdateMetadata request to brokers %s for %d partitions",
            context.tag,
            log_text.scala_collection([broker.id for broker in receivers]),
            sum(len(part.entries) for part in ahead) + len(rest),
        )
        parts = tuple(ahead)
        for broker in receivers:
            yield SendRequest(
                broker.id,
                UpdateMetadataRequest(version, context.broker_id, context.epoch, broker.epoch, rest, live_brokers, ids),
                parts,
            )

    def _send_stop_replica(self, version: int) -> Flow[None]:
        context = self._context
        for broker_id in list(self._stop_replica):
            states = self._stop_replica.pop(broker_id)
            broker = context.brokers.get(broker_id)
            if broker is None:
                continue
            requests: list[Iterable[StopReplicaPartitionState]] = [states.values()]
            if version < 3:
                requests = [
                    [state for state in states.values() if state.delete_partition is delete] for delete in (True, False)
                ]
            for stopped in requests:
                *ahead, rest = (yield from cut(stopped, tuple)) or [()]
                if rest:
                    log.info(
                        "%s Sending StopReplica request for %d replicas to broker %d",
                        context.tag,
                        sum(map(len, ahead)) + len(rest),
                        broker_id,
                    )
                    if len(rest) > 1:
                        probe("T3 one StopReplica request has several replicas")
                    yield SendRequest(
                        broker_id,
                        StopReplicaRequest(version, context.broker_id, context.epoch, broker.epoch, rest),
                        tuple(map(StopReplicaPart, ahead)),
                    )


def announce(
    context: ControllerContext,
    broker_ids: Iterable[int] | None = None,
    partitions: Iterable[cluster.TopicPartition] = (),
) -> Flow[None]:
    """Send an UpdateMetadata request that lists these partitions and all live brokers.

    Args:
        broker_ids: Receivers; None for all brokers.
        partitions: Partitions to send, each once. A generator is allowed and is consumed while the request is built.
    """
    batch = RequestBatch(context)
    batch.add_update_metadata(context.brokers if broker_ids is None else broker_ids, ())
    yield from batch.send(partitions)
