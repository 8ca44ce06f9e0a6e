"""Simulated idempotent producers, which send numbered batches and retry each until it is acknowledged.

Rule 1: a producer keeps up to WINDOW batches in flight. When all batches of a round have a response or have timed out,
        it sends the unacknowledged batches again, in order, as Kafka's producers do. It sends no batch that is WINDOW
        or more positions after the oldest unacknowledged batch, because a leader stores a producer's last five batches.
Rule 2: some batches are sent twice, the second time perhaps late, as if the network repeated them. All responses to one
        batch must agree.
Rule 3: a stream ends when its outcome is no longer defined: its topic was deleted, records may be lost, or a broker
        refuses a batch for another reason than its sequence. A deletion of earlier records does not end the stream.
"""

from __future__ import annotations

import random
from functools import partial

from actors.simulation.client_history import NOWHERE, Acknowledged, ProducerStream, SentBatch, key_of
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import StreamBroken
from messages import errors
from messages.apis.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from messages.apis.produce import ACKS_ALL, ProducePartition, ProduceRequest, ProduceResponse
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.record_batch import batch_of

WINDOW = 5
"""Maximum number of batches in flight; Kafka's brokers store as many."""

MOST_RECORDS = 3
"""Maximum number of records of a batch."""

EVERY = 0.4
"""Average seconds between two rounds."""

REPEATED = 0.2
"""The share of batches that are sent twice."""
REPEATED_LATE = 0.5
"""Average seconds after which such a batch is sent again."""

TIMEOUT_MS = 3000
PATIENCE = 8.0
"""Seconds that a producer waits for a response."""

RETRIABLE = frozenset(
    {
        errors.UNKNOWN_TOPIC_OR_PARTITION,
        errors.LEADER_NOT_AVAILABLE,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.REQUEST_TIMED_OUT,
        errors.NOT_ENOUGH_REPLICAS,
        errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        errors.KAFKA_STORAGE_ERROR,
    }
)
"""Error codes after which a producer sends a batch again."""

OF_SEQUENCES = frozenset({errors.OUT_OF_ORDER_SEQUENCE, errors.INVALID_PRODUCER_EPOCH})
"""Error codes that report a gap or a wrong order of a producer's batches."""


class IdempotentProducers:
    """The idempotent producers of a simulated cluster; they share one seed, separate from the cluster's."""

    def __init__(self, observed: ObservedCluster, seed: int) -> None:
        self.observed = observed
        self.chance = random.Random(seed)
        self._count = 0
        self._writing: dict[TopicPartition, StreamWriter] = {}
        observed.cluster.start_stream = self.start
        observed.cluster.end_stream = self.end

    def start(self, partition: TopicPartition) -> None:
        """Begin a stream to a partition, unless one exists."""
        observed = self.observed
        if partition in self._writing or partition not in observed.znodes.states:
            return
        self._count += 1
        stream = ProducerStream(f"stream {self._count}", partition, observed.znodes.born.get(partition.topic, 0))
        self._writing[partition] = writer = StreamWriter(self, stream)
        writer.begin()

    def end(self, partition: TopicPartition) -> None:
        """End the stream to a partition; batches in flight may still arrive."""
        writer = self._writing.pop(partition, None)
        if writer is not None:
            writer.is_over = True


class StreamWriter:
    """A simulated producer that writes the batches of one producer id to one partition."""

    def __init__(self, producers: IdempotentProducers, stream: ProducerStream) -> None:
        self.is_over = False
        self._producers = producers
        self._observed = producers.observed
        self._chance = producers.chance
        self._stream = stream
        self._next = 0
        """The number of the next record."""
        self._unacknowledged: list[SentBatch] = []
        self._round = 0
        self._outstanding = 0
        """Number of missing responses of this round."""
        self._is_known = False
        """Whether a batch was acknowledged: a broker accepts any sequence of an unknown producer."""

    def begin(self) -> None:
        """Request a producer id."""
        if self.is_over:
            return
        observed, nodes = self._observed, sorted(self._observed.cluster.machines)
        request = InitProducerIdRequest(3, None, 60_000)
        observed.cluster.ask(self._chance.choice(nodes), request, self._handle_producer_id, PATIENCE)

    def _handle_producer_id(self, response: Message | None) -> None:
        observed, stream = self._observed, self._stream
        if not isinstance(response, InitProducerIdResponse) or response.error_code != errors.NONE:
            observed.cluster.scheduler.call_later(EVERY, self.begin)
            return
        stream.producer_id = response.producer_id
        broken = observed.history.stream_began(stream)
        if broken is not None:
            observed.take(broken)
        self._later()

    def _later(self) -> None:
        self._observed.cluster.scheduler.call_later(self._chance.expovariate(1 / EVERY), self._send_round)

    def _send_round(self) -> None:
        """Send the unacknowledged batches again, in order, and new batches after them (rule 1)."""
        observed, partition = self._observed, self._stream.partition
        self.is_over |= observed.znodes.born.get(partition.topic) != self._stream.born or observed.is_lossy(partition)
        if self.is_over:
            self._producers.end(partition)
            return
        leader = observed.leader_of(partition)
        if leader is None:
            self._later()
            return
        wanted = self._chance.choice((1, WINDOW)) if self._is_known else 1
        batches = self._stream.batches
        oldest = batches.index(self._unacknowledged[0]) if self._unacknowledged else len(batches)
        while len(self._unacknowledged) < wanted and len(batches) - oldest < WINDOW:
            batch = SentBatch(self._next, self._chance.randint(1, MOST_RECORDS))
            self._next += batch.size
            self._unacknowledged.append(batch)
            batches.append(batch)
        self._round += 1
        head = self._unacknowledged[0]
        for batch in tuple(self._unacknowledged):
            self._outstanding += 1
            report = partial(self._handle_produce, self._round, batch, batch is head)
            observed.cluster.ask(leader, self._request(batch), report, PATIENCE)
            if self._chance.random() < REPEATED:
                late = partial(self._send_again, batch)
                observed.cluster.scheduler.call_later(self._chance.expovariate(1 / REPEATED_LATE), late)

    def _send_again(self, batch: SentBatch) -> None:
        """Send a copy of a batch; its response does not count for the round."""
        observed, leader = self._observed, self._observed.leader_of(self._stream.partition)
        if leader is not None and not self.is_over:
            report = partial(self._handle_produce, 0, batch, False)
            observed.cluster.ask(leader, self._request(batch), report, PATIENCE)

    def _request(self, batch: SentBatch) -> ProduceRequest:
        stream = self._stream
        pairs = [(key_of(each), each) for each in map(stream.value, range(batch.first, batch.first + batch.size))]
        records = batch_of(pairs, self._observed.cluster.wall_ms(), stream.producer_id, 0, batch.first)
        return ProduceRequest(8, None, ACKS_ALL, TIMEOUT_MS, (ProducePartition(stream.partition, records),))

    def _handle_produce(self, round: int, batch: SentBatch, is_head: bool, response: Message | None) -> None:
        observed, stream = self._observed, self._stream
        code, offset = None, NOWHERE
        if isinstance(response, ProduceResponse):
            code, offset = response.partitions[0].error_code, response.partitions[0].base_offset
        if observed.znodes.born.get(stream.partition.topic) != stream.born or observed.is_lossy(stream.partition):
            self.is_over = True
        elif code == errors.NONE:
            self._acknowledge(batch, offset)
        elif code in OF_SEQUENCES and is_head and round == self._round and batch.offset == NOWHERE:
            text = (
                f"{stream.partition}: {stream.name} sends {batch.first} after {batch.first - 1}, and is refused: {code}"
            )
            observed.take(StreamBroken(text))
            self.is_over = True
        elif code is not None and code not in RETRIABLE and code not in OF_SEQUENCES:
            self.is_over = True
        if round == self._round:
            self._outstanding -= 1
            if not self._outstanding:
                self._later()

    def _acknowledge(self, batch: SentBatch, offset: int) -> None:
        observed, stream = self._observed, self._stream
        if batch.offset not in (NOWHERE, offset):
            text = f"{stream.partition}: {stream.name} has {batch.first} at offset {batch.offset} and at {offset}"
            observed.take(StreamBroken(text))
        if batch in self._unacknowledged:
            self._unacknowledged.remove(batch)
        batch.offset = offset
        self._is_known = True
        for place in range(batch.size if offset >= observed.history.deleted.get(stream.partition, 0) else 0):
            kept = observed.history.acknowledged.setdefault(stream.partition, {})
            kept[offset + place] = Acknowledged(stream.value(batch.first + place), stream.born, observed.now())
