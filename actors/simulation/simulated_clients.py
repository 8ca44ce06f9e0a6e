"""Simulated producers with acks=all, and consumers that read during a run or at a rest, some of them with quotas.

Rule 1: a producer does not retry: a record without an acknowledgement may be in the log or not.
Rule 2: an acknowledged record is at its offset whenever the cluster is idle and its topic exists, unless a machine lost
        its power: Kafka's brokers acknowledge records before they flush them.
Rule 3: from the time of a DeleteRecords request on, the records below its offset may be in the log or not.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import partial

from actors.core.topic.topic_name import GROUP_METADATA
from actors.simulation.client_history import TOMBSTONE, Acknowledged, CommittedView, content, key_of
from actors.simulation.members import Script
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import QuotaUsed
from messages import errors
from messages.apis import fetch
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.fetch import READ_COMMITTED, READ_UNCOMMITTED, FetchPartition, FetchRequest, FetchResponse
from messages.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from messages.client_quotas import FETCH, PRODUCE
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import batch_of, whole_batches

PATIENCE = 10.0
"""Seconds that a client waits for a response."""

EVERY = 0.5
"""Average seconds between two produces."""

CONSUMES = 1.0
"""Seconds between two fetches of the consumer."""

NEW_CONSUMERS = 0.2
"""The share of fetches that begin at the start of the log, as those of a new consumer do."""

CONSUMED_BYTES = 1 << 14
READ_BYTES = 1 << 20

SPENT_BYTES = {PRODUCE: 400, FETCH: 1_000}
"""About how many bytes a request of a user with quotas has: of its record, or at most in its response."""

SPENDS = 0.05
"""Seconds that such a user waits after each response."""

BURIED = (b"ke0", b"ke1")
"""The keys of which tombstones are written; the last values of the others stay for ever."""


class Clients:
    """The producers and the consumer of a simulated cluster; they share one seed, separate from the cluster's."""

    def __init__(self, observed: ObservedCluster, seed: int) -> None:
        self._observed = observed
        self._chance = random.Random(seed)
        self._count = 0
        self._going = False
        self._positions: dict[TopicPartition, tuple[int, int]] = {}
        """The position of the consumer, with the ZooKeeper transaction that created the topic."""
        observed.cluster.delete_records = self.delete_records
        observed.cluster.burst = self.burst
        observed.cluster.bury = self.bury
        self._spending: dict[str, tuple[TopicPartition, float]] = {}
        """The users that use their quotas, each with the partition and the time since when."""
        observed.cluster.start_spending = self.start_spending
        observed.cluster.end_spending = self.end_spending

    def go(self) -> None:
        """Let the producers start to write."""
        if not self._going:
            self._going = True
            for script in self._write(), self._consume():
                self._observed.cluster.run_script(script)

    def rest(self) -> None:
        """Let the producers stop writing."""
        self._going = False

    def delete_records(self, partition: TopicPartition) -> None:
        """Send the partition's leader a request to delete the records up to an acknowledged record (rule 3)."""
        observed = self._observed
        leader, known = observed.leader_of(partition), sorted(observed.history.acknowledged.get(partition, ()))
        if leader is not None and known:
            offset = self._chance.choice(known) + 1
            observed.history.delete_up_to(partition, offset)
            request = DeleteRecordsRequest(2, (TrimmedPartition(partition, offset),), 3000)
            done = partial(self._note_deletion, partition, observed.znodes.born.get(partition.topic, 0), offset)
            observed.cluster.ask(leader, request, done, PATIENCE)

    def _note_deletion(self, partition: TopicPartition, born: int, offset: int, response: Message | None) -> None:
        """Note that records below `offset` may be missing, if the topic was recreated after the request."""
        observed = self._observed
        if born != observed.znodes.born.get(partition.topic) and partition in observed.znodes.states:
            observed.history.delete_up_to(partition, offset)

    def burst(self, partition: TopicPartition, batches: int, size: int) -> None:
        """Produce many batches at once, each with one record of `size` bytes."""
        for _ in range(batches if self._going and self._is_led(partition) else 0):
            self._send(partition, self._value(size))

    def _is_led(self, partition: TopicPartition) -> bool:
        return self._observed.leader_of(partition) is not None

    def _consume(self) -> Script:
        """Continue to read one partition up to the high watermark, as a consumer does, until `rest`."""
        observed = self._observed
        yield CONSUMES
        while self._going:
            led = sorted(filter(self._is_led, observed.history.acknowledged))
            if led:
                partition = self._chance.choice(led)
                born = observed.znodes.born.get(partition.topic, 0)
                position, life = self._positions.get(partition, (0, born))
                is_new = life != born or self._chance.random() < NEW_CONSUMERS
                position = max(0 if is_new else position, observed.history.deleted.get(partition, 0))
                part = FetchPartition(partition, position, CONSUMED_BYTES)
                request = FetchRequest(11, -1, 0, 0, (part,), CONSUMED_BYTES)
                report = partial(self._handle_fetch, partition, born)
                observed.cluster.ask(observed.znodes.states[partition].leader, request, report, PATIENCE)
            yield CONSUMES

    def _handle_fetch(self, partition: TopicPartition, born: int, response: Message | None) -> None:
        observed = self._observed
        if (
            not isinstance(response, FetchResponse)
            or not response.partitions
            or born != observed.znodes.born.get(partition.topic)
        ):
            return
        result = response.partitions[0]
        if result.error_code != errors.NONE:
            self._positions.pop(partition, None)
            return
        data = bytes(result.body.data) if result.body.size else b""
        found = {each.offset: content(each) for each in visible_records(data, ())}
        if found and not observed.is_lossy(partition):
            seen = observed.history.seen.setdefault(partition, {})
            for offset, value in found.items():
                seen.setdefault(offset, value)
            self._positions[partition] = max(found) + 1, born

    def _write(self) -> Script:
        yield self._chance.expovariate(1 / EVERY)
        while self._going:
            led = sorted(filter(self._is_led, self._observed.znodes.states))
            if led:
                self._send(self._chance.choice(led), self._value(0))
            yield self._chance.expovariate(1 / EVERY)

    def bury(self, partition: TopicPartition) -> None:
        """Produce a tombstone of one of the keys in BURIED."""
        if self._going and self._is_led(partition):
            key = self._chance.choice(BURIED)
            self._observed.history.buried.setdefault(partition, {}).setdefault(key, self._observed.now())
            self._send(partition, TOMBSTONE + key)

    def start_spending(self, user: str, partition: TopicPartition) -> None:
        """Let a user produce and fetch in turns, each request after the response to the last one."""
        if user not in self._spending:
            self._spending[user] = began = partition, self._observed.now()
            self._observed.cluster.run_script(self._spend(user, began), PATIENCE, user)

    def end_spending(self, user: str) -> None:
        """End the requests of a user; the last one may still be in flight."""
        self._spending.pop(user, None)

    def _spend(self, user: str, began: tuple[TopicPartition, float]) -> Script:
        observed, (partition, _) = self._observed, began
        for quota in itertools.cycle((PRODUCE, FETCH)):
            leader = observed.leader_of(partition)
            if self._spending.get(user) != began:
                return
            if not self._going or leader is None:
                self.end_spending(user)
                return
            process, sent, size, throttle_ms = (leader, observed.starts(leader)), observed.now(), 0, None
            if quota == PRODUCE:
                request, noted = self._production(partition, self._value(SPENT_BYTES[quota]))
                response = yield leader, request
                noted(response)
                size = request.partitions[0].records.body.size
            else:
                part = FetchPartition(partition, observed.first_offset(partition), SPENT_BYTES[quota])
                response = yield leader, FetchRequest(11, -1, 0, 0, (part,), SPENT_BYTES[quota])
                if isinstance(response, FetchResponse):
                    size = sum(each.body.size for each in response.partitions)
            if isinstance(response, ProduceResponse | FetchResponse):
                throttle_ms = response.throttle_time_ms
            observed.take(QuotaUsed(process, user, quota, size, sent, throttle_ms))
            yield SPENDS

    def _value(self, size: int) -> bytes:
        self._count += 1
        return f"record {self._count}".encode().ljust(size, b".")

    def _send(self, partition: TopicPartition, value: bytes) -> None:
        request, noted = self._production(partition, value)
        self._observed.cluster.ask(self._observed.znodes.states[partition].leader, request, noted, PATIENCE)

    def _production(
        self, partition: TopicPartition, value: bytes
    ) -> tuple[ProduceRequest, Callable[[Message | None], None]]:
        """Return the request that produces a record, and what notes its response."""
        observed = self._observed
        pair = key_of(value), None if value.startswith(TOMBSTONE) else value
        batch = batch_of([pair], observed.cluster.wall_ms())
        born = observed.znodes.born.get(partition.topic, 0)
        noted = partial(self._handle_produce, partition, born, value, observed.now())
        return ProduceRequest(8, None, -1, 3000, (ProducePartition(partition, batch),)), noted

    def _handle_produce(
        self, partition: TopicPartition, born: int, value: bytes, sent: float, response: Message | None
    ) -> None:
        observed = self._observed
        if isinstance(response, ProduceResponse) and born == observed.znodes.born.get(partition.topic):
            result = response.partitions[0]
            if result.error_code == errors.NONE and result.base_offset >= observed.history.deleted.get(partition, 0):
                observed.history.acknowledged.setdefault(partition, {})[result.base_offset] = Acknowledged(
                    value, born, observed.now(), sent
                )


class LogReader:
    """Reads the logs of an idle cluster into `observed.history`: all records, and what `read_committed` shows.

    It also reads the partitions of __consumer_offsets, from their beginning, as the next coordinator would.
    """

    def __init__(self, observed: ObservedCluster) -> None:
        self._observed = observed
        self.reads = 0
        """Number of partitions that are being read."""

    def read_back(self) -> None:
        """Read the partitions with acknowledged records, those of transactions, and the offsets of groups."""
        observed, history = self._observed, self._observed.history
        history.read.clear()
        history.read_committed.clear()
        written = {partition for each in history.transactions.values() for partition in each.values}
        groups = {partition for partition in observed.znodes.states if partition.topic == GROUP_METADATA}
        for partition in history.acknowledged:
            observed.cluster.run_script(self._read(partition, READ_UNCOMMITTED))
        for partition in sorted(written | groups if written else ()):
            observed.cluster.run_script(self._read(partition, READ_COMMITTED))

    def _read(self, partition: TopicPartition, level: int) -> Script:
        """Read a partition up to its last stable offset or, uncommitted, its high watermark."""
        observed, history = self._observed, self._observed.history
        offset, is_read = observed.first_offset(partition), False
        data, aborted = b"", dict[fetch.AbortedTransaction, None]()
        self.reads += 1
        while not is_read and (leader := observed.leader_of(partition)) is not None:
            part = FetchPartition(partition, offset, READ_BYTES)
            response = yield leader, FetchRequest(11, -1, 0, 0, (part,), READ_BYTES, level)
            if not isinstance(response, FetchResponse) or not response.partitions:
                break
            result = response.partitions[0]
            if result.error_code != errors.NONE:
                break
            more = bytes(result.body.data) if result.body.size else b""
            data += more
            aborted.update(dict.fromkeys(result.aborted_transactions or ()))
            offset = max((header.next_offset for _, header in whole_batches(more)), default=-1)
            stable, high_watermark = result.last_stable_offset, result.high_watermark
            is_read = not 0 <= offset < (stable if level == READ_COMMITTED else high_watermark)
            if is_read and level == READ_COMMITTED:
                values = tuple(record.value or b"" for record in visible_records(data, tuple(aborted)))
                history.read_committed[partition] = CommittedView(values, stable, high_watermark, data)
            elif is_read:
                history.read[partition] = {each.offset: content(each) for each in visible_records(data, ())}
        self.reads -= 1
