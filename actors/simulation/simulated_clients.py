"""Simulated producers with acks=all, consumers that read during a run, and a final read of all records.

Rule 1: a producer does not retry: a record without an acknowledgement may be in the log or not.
Rule 2: an acknowledged record is at its offset whenever the cluster is idle and its topic exists, unless a machine lost
        its power: Kafka's brokers acknowledge records before they flush them.
Rule 3: from the time of a DeleteRecords request on, the records below its offset may be in the log or not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

from actors.simulation.checker import Acknowledged, Checker
from messages import errors
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.fetch import FetchPartition, FetchRequest, FetchResponse
from messages.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.batch_records import records
from messages.wire.record_batch import batch_of, whole_batches

EVERY = 0.5
"""Average seconds between two produces."""

CONSUMES = 1.0
"""Seconds between two fetches of the consumer."""

NEW_CONSUMERS = 0.2
"""The share of fetches that begin at the start of the log, as those of a new consumer do."""

MOST_BYTES = 1 << 20
CONSUMED_BYTES = 1 << 14


class Clients:
    """The producers and the consumer of a simulated cluster; they share one seed, separate from the cluster's."""

    def __init__(self, law: Checker, seed: int) -> None:
        self._law = law
        self._chance = random.Random(seed)
        self._count = 0
        self.reads = 0
        """Number of fetches of `read_back` without a response."""
        self._going = False
        self._positions: dict[TopicPartition, tuple[int, int]] = {}
        """The position of the consumer, with the ZooKeeper transaction that created the topic."""
        law.cluster.delete_records = self.delete_records
        law.cluster.burst = self.burst

    def go(self) -> None:
        """Let the producers start to write."""
        if not self._going:
            self._going = True
            self._later()
            self._consume_later()

    def rest(self) -> None:
        """Let the producers stop writing."""
        self._going = False

    def read_back(self) -> None:
        """For each partition with acknowledged records, read all records from the partition's leader."""
        law = self._law
        law.read.clear()
        for partition in law.acknowledged:
            self._read_from(partition, law.first_offset(partition), [])

    def delete_records(self, partition: TopicPartition) -> None:
        """Send the partition's leader a request to delete the records up to an acknowledged record (rule 3)."""
        law = self._law
        state, known = law.states.get(partition), sorted(law.acknowledged.get(partition, ()))
        if state is not None and state.leader in law.cluster.machines and known:
            offset = self._chance.choice(known) + 1
            law.delete_up_to(partition, offset)
            request = DeleteRecordsRequest(2, (TrimmedPartition(partition, offset),), 3000)
            done = partial(self._deleted, partition, law.born.get(partition.topic, 0), offset)
            law.cluster.ask(state.leader, request, done, 10.0)

    def _deleted(self, partition: TopicPartition, born: int, offset: int, response: Message | None) -> None:
        """Note that records below `offset` may be missing, if the topic was recreated after the request."""
        law = self._law
        if born != law.born.get(partition.topic) and partition in law.states:
            law.delete_up_to(partition, offset)

    def _later(self) -> None:
        self._law.cluster.scheduler.call_later(self._chance.expovariate(1 / EVERY), self._write)

    def burst(self, partition: TopicPartition, batches: int, size: int) -> None:
        """Produce many batches at once, each with one record of `size` bytes."""
        for _ in range(batches if self._going and self._is_led(partition) else 0):
            self._produce(partition, size)

    def _is_led(self, partition: TopicPartition) -> bool:
        state = self._law.states.get(partition)
        return state is not None and state.leader in self._law.cluster.machines

    def _consume_later(self) -> None:
        self._law.cluster.scheduler.call_later(CONSUMES, self._consume)

    def _consume(self) -> None:
        """Continue to read one partition up to the high watermark, as a consumer does."""
        if not self._going:
            return
        law = self._law
        led = sorted(partition for partition in law.acknowledged if self._is_led(partition))
        if led:
            partition = self._chance.choice(led)
            born = law.born.get(partition.topic, 0)
            position, life = self._positions.get(partition, (0, born))
            is_new = life != born or self._chance.random() < NEW_CONSUMERS
            position = max(0 if is_new else position, law.deleted.get(partition, 0))
            request = FetchRequest(11, -1, 0, 0, (FetchPartition(partition, position, CONSUMED_BYTES),), CONSUMED_BYTES)
            report = partial(self._consumed, partition, born, position)
            law.cluster.ask(law.states[partition].leader, request, report, 10.0)
        self._consume_later()

    def _consumed(self, partition: TopicPartition, born: int, position: int, response: Message | None) -> None:
        law = self._law
        if not isinstance(response, FetchResponse) or not response.partitions or born != law.born.get(partition.topic):
            return
        result = response.partitions[0]
        if result.error_code != errors.NONE:
            self._positions.pop(partition, None)
            return
        found = dict(_values(result.body.data if result.body.size else b""))
        if found and not law.is_lossy(partition):
            seen = law.seen.setdefault(partition, {})
            for offset, value in found.items():
                seen.setdefault(offset, value)
            self._positions[partition] = max(found) + 1, born

    def _write(self) -> None:
        if not self._going:
            return
        law = self._law
        led = sorted(partition for partition, state in law.states.items() if state.leader in law.cluster.machines)
        if led:
            self._produce(self._chance.choice(led))
        self._later()

    def _produce(self, partition: TopicPartition, size: int = 0) -> None:
        law = self._law
        self._count += 1
        value = f"record {self._count}".encode().ljust(size, b".")
        batch = batch_of([(b"key", value)], law.cluster.wall_ms())
        request = ProduceRequest(8, None, -1, 3000, (ProducePartition(partition, batch),))
        report = partial(self._produced, partition, law.born.get(partition.topic, 0), value)
        law.cluster.ask(law.states[partition].leader, request, report, 10.0)

    def _produced(self, partition: TopicPartition, born: int, value: bytes, response: Message | None) -> None:
        law = self._law
        if isinstance(response, ProduceResponse) and born == law.born.get(partition.topic):
            result = response.partitions[0]
            if result.error_code == errors.NONE and result.base_offset >= law.deleted.get(partition, 0):
                law.acknowledged.setdefault(partition, {})[result.base_offset] = Acknowledged(
                    value, born, law.cluster.now
                )

    def _read_from(self, partition: TopicPartition, offset: int, found: list[tuple[int, bytes]]) -> None:
        law = self._law
        state = law.states.get(partition)
        if state is not None and state.leader in law.cluster.machines:
            part = FetchPartition(partition, offset, MOST_BYTES)
            request = FetchRequest(11, -1, 0, 0, (part,), MOST_BYTES)
            self.reads += 1
            law.cluster.ask(state.leader, request, partial(self._fetched, partition, found), 10.0)

    def _fetched(self, partition: TopicPartition, found: list[tuple[int, bytes]], response: Message | None) -> None:
        self.reads -= 1
        if not isinstance(response, FetchResponse) or not response.partitions:
            return
        result = response.partitions[0]
        if result.error_code != errors.NONE:
            return
        data = result.body.data if result.body.size else b""
        end = max((header.next_offset for _, header in whole_batches(data)), default=-1)
        found += _values(data)
        if 0 <= end < result.high_watermark:
            self._read_from(partition, end, found)
        else:
            self._law.read[partition] = dict(found)


def _values(data: Any) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the value of each record in these batches."""
    for position, header in whole_batches(data):
        batch = bytes(data[position : position + header.size])
        for each in records(batch, header):
            yield each.offset, each.value or b""
