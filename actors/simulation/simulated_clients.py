"""Simulated producers with acks=all, and consumers that read during a run, some of them with quotas.

Rule 1: a producer does not retry: a record without an acknowledgement may be in the log or not.
Rule 2: an acknowledged record is at its offset whenever the cluster is idle and its topic exists, unless a machine lost
        its power: Kafka's brokers acknowledge records before they flush them.
Rule 3: from the time of a DeleteRecords request on, the records below its offset may be in the log or not.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from actors.simulation.client_history import TOMBSTONE, Acknowledged, content, key_of
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import QuotaUsed
from actors.simulation.simulated_cluster import CLIENT
from messages import errors
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.fetch import FetchPartition, FetchRequest, FetchResponse
from messages.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from messages.client_quotas import FETCH, PRODUCE
from messages.cluster import TopicPartition
from messages.vocabulary import Message
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import batch_of

EVERY = 0.5
"""Average seconds between two produces."""

CONSUMES = 1.0
"""Seconds between two fetches of the consumer."""

NEW_CONSUMERS = 0.2
"""The share of fetches that begin at the start of the log, as those of a new consumer do."""

CONSUMED_BYTES = 1 << 14

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
            self._later()
            self._consume_later()

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
            observed.cluster.ask(leader, request, done, 10.0)

    def _note_deletion(self, partition: TopicPartition, born: int, offset: int, response: Message | None) -> None:
        """Note that records below `offset` may be missing, if the topic was recreated after the request."""
        observed = self._observed
        if born != observed.znodes.born.get(partition.topic) and partition in observed.znodes.states:
            observed.history.delete_up_to(partition, offset)

    def _later(self) -> None:
        self._observed.cluster.scheduler.call_later(self._chance.expovariate(1 / EVERY), self._write)

    def burst(self, partition: TopicPartition, batches: int, size: int) -> None:
        """Produce many batches at once, each with one record of `size` bytes."""
        for _ in range(batches if self._going and self._is_led(partition) else 0):
            self._produce(partition, size)

    def _is_led(self, partition: TopicPartition) -> bool:
        return self._observed.leader_of(partition) is not None

    def _consume_later(self) -> None:
        self._observed.cluster.scheduler.call_later(CONSUMES, self._consume)

    def _consume(self) -> None:
        """Continue to read one partition up to the high watermark, as a consumer does."""
        if not self._going:
            return
        observed = self._observed
        led = sorted(partition for partition in observed.history.acknowledged if self._is_led(partition))
        if led:
            partition = self._chance.choice(led)
            born = observed.znodes.born.get(partition.topic, 0)
            position, life = self._positions.get(partition, (0, born))
            is_new = life != born or self._chance.random() < NEW_CONSUMERS
            position = max(0 if is_new else position, observed.history.deleted.get(partition, 0))
            request = FetchRequest(11, -1, 0, 0, (FetchPartition(partition, position, CONSUMED_BYTES),), CONSUMED_BYTES)
            report = partial(self._handle_fetch, partition, born, position)
            observed.cluster.ask(observed.znodes.states[partition].leader, request, report, 10.0)
        self._consume_later()

    def _handle_fetch(self, partition: TopicPartition, born: int, position: int, response: Message | None) -> None:
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

    def _write(self) -> None:
        if not self._going:
            return
        observed = self._observed
        led = sorted(filter(self._is_led, observed.znodes.states))
        if led:
            self._produce(self._chance.choice(led))
        self._later()

    def _produce(self, partition: TopicPartition, size: int = 0) -> None:
        self._count += 1
        self._send(partition, f"record {self._count}".encode().ljust(size, b"."))

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
            self._spend(user, began, PRODUCE)

    def end_spending(self, user: str) -> None:
        """End the requests of a user; the last one may still be in flight."""
        self._spending.pop(user, None)

    def _spend(self, user: str, began: tuple[TopicPartition, float], quota: str) -> None:
        observed, (partition, _) = self._observed, began
        if self._spending.get(user) != began:
            return
        leader = observed.leader_of(partition)
        if not self._going or leader is None:
            self.end_spending(user)
            return
        process, size = (leader, observed.starts(leader)), SPENT_BYTES[quota]
        ended = partial(self._handle_spent, user, began, quota, process, observed.now())
        if quota == PRODUCE:
            self._count += 1
            self._send(partition, f"record {self._count}".encode().ljust(size, b"."), user, ended)
        else:
            part = FetchPartition(partition, observed.first_offset(partition), size)
            observed.cluster.ask(leader, FetchRequest(11, -1, 0, 0, (part,), size), ended, 10.0, user)

    def _handle_spent(
        self,
        user: str,
        began: tuple[TopicPartition, float],
        quota: str,
        process: tuple[int, int],
        sent: float,
        response: Message | None,
        size: int = 0,
    ) -> None:
        observed, throttle_ms = self._observed, None
        if isinstance(response, ProduceResponse | FetchResponse):
            throttle_ms = response.throttle_time_ms
        if isinstance(response, FetchResponse):
            size = sum(each.body.size for each in response.partitions)
        observed.take(QuotaUsed(process, user, quota, size, sent, throttle_ms))
        following = FETCH if quota == PRODUCE else PRODUCE
        observed.cluster.scheduler.call_later(SPENDS, partial(self._spend, user, began, following))

    def _send(
        self,
        partition: TopicPartition,
        value: bytes,
        user: str = CLIENT,
        ended: Callable[[Message | None, int], None] = lambda response, size: None,
    ) -> None:
        observed = self._observed
        pair = key_of(value), None if value.startswith(TOMBSTONE) else value
        batch = batch_of([pair], observed.cluster.wall_ms())
        request = ProduceRequest(8, None, -1, 3000, (ProducePartition(partition, batch),))
        born, sent = observed.znodes.born.get(partition.topic, 0), observed.now()

        def report(response: Message | None) -> None:
            self._handle_produce(partition, born, value, sent, response)
            ended(response, batch.body.size)

        observed.cluster.ask(observed.znodes.states[partition].leader, request, report, 10.0, user)

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
