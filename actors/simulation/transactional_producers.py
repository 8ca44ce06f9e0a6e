"""Transactional producers: they write to several partitions, and commit, abort, crash or are fenced by a successor.

Rule 1: a transactional id has incarnations; each begins with InitProducerId, which fences the previous incarnation. A
        replaced incarnation goes on as a zombie until a broker refuses it.
Rule 2: an incarnation works as Kafka's producers do: it adds partitions, writes and tries again with the same
        sequences, then ends the transaction. After an error that is not retriable it aborts the transaction or ends.
Rule 3: after the response to InitProducerId, no later request of an older incarnation to the coordinator succeeds.
Rule 4: a worker reads its input from the committed offset of its group, and in one transaction writes a copy of each
        record and commits the next offset.
Rule 5: a zombie's commit sometimes arrives while that of the live worker is pending. The zombie's commit is refused and
        changes nothing.
Rule 6: some batches are for a partition that is not in the transaction. They are refused; otherwise no marker would end
        their transaction.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Sequence
from typing import Any

from actors.simulation.actions import TRANSACTION_TOPIC, WORKER
from actors.simulation.client_history import KnownOutcome, SimulatedTransaction
from actors.simulation.members import Script
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import TransactionBegun, TransactionBroken
from actors.simulation.simulated_producers import RETRIABLE
from messages import errors
from messages.apis import fetch, find_coordinator, init_producer_id, offset_commit, offset_fetch, produce
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.end_txn import EndTxnRequest, EndTxnResponse
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.response_codes import codes_of
from messages.vocabulary import Message
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import batch_of, whole_batches

PATIENCE = 8.0
"""Seconds that a client waits for a response."""

INPUT, OUTPUT = TopicPartition(TRANSACTION_TOPIC, 0), TopicPartition(TRANSACTION_TOPIC, 1)
"""The partitions that the worker reads and writes; other producers use the topic's other partitions."""

EVERY = 0.5
"""Average seconds between two transactions."""

BACKOFF = 0.3
"""Seconds before a request is sent again."""

TIMEOUT_MS = 6_000
"""`transaction.timeout.ms` of the producers."""

MOST_TRIES = 12
"""Number of attempts to send a batch before its transaction is aborted."""

MOST_BYTES = 600
"""Maximum number of bytes that the worker fetches at once."""

WAITS_MS = 1_000
"""Maximum time in ms that the worker's fetches wait for data."""

DIES = 0.1
"""The share of transactions during which a producer ends without ending them."""

LARGE_EACH, LARGE = 3, 1_000
"""Each third transaction has records of this size, so that small segments end within a transaction."""

STRAYS_EACH = 4
"""In each fourth transaction, a producer also writes to a partition that it has not added."""

LATE = 0.2
"""The share of the worker's transactions in which a zombie's commit arrives."""

ELSEWHERE = frozenset({errors.NOT_COORDINATOR, errors.COORDINATOR_NOT_AVAILABLE})
LATER = frozenset(
    {errors.CONCURRENT_TRANSACTIONS, errors.COORDINATOR_LOAD_IN_PROGRESS, errors.UNSTABLE_OFFSET_COMMIT, *RETRIABLE}
)

NO_RESPONSE = -100
"""The code of a missing response."""


def code_of(response: Any) -> int:
    """Return the first error code of a response, NONE if it has no error, NO_RESPONSE if there is no response."""
    if response is None:
        return NO_RESPONSE
    return next((code for code in codes_of(response) if code != errors.NONE), errors.NONE)


class TransactionalProducers:
    """The transactional producers of a simulated cluster; they share one seed, which is not the cluster's seed."""

    def __init__(self, observed: ObservedCluster, seed: int) -> None:
        self.observed = observed
        self.chance = random.Random(seed)
        self.newest: dict[str, int] = {}
        """The number of the newest incarnation of each transactional id."""
        self.fenced = observed.cluster.newest_producers
        """The newest (producer id, epoch) that an incarnation of each transactional id has received."""
        self._stopped: set[str] = set()
        observed.cluster.start_transactions = self.start
        observed.cluster.end_transactions = self.end

    def start(self, id: str) -> None:
        """Start an incarnation of a transactional id; a running incarnation becomes a zombie."""
        self._stopped.discard(id)
        self.newest[id] = number = self.newest.get(id, 0) + 1
        incarnation = (Worker if id == WORKER else Incarnation)(self, id, number)
        self.observed.cluster.run_script(incarnation.script(), PATIENCE)

    def end(self, id: str) -> None:
        """Stop all producers with this transactional id, each after its current transaction."""
        self._stopped.add(id)

    def is_stopped(self, id: str) -> bool:
        """Return whether the id was stopped by `end`; a stopped id begins no further transaction."""
        return id in self._stopped


class Incarnation:
    """One run of a transactional producer, until it crashes or is replaced."""

    def __init__(self, producers: TransactionalProducers, id: str, number: int) -> None:
        self.id, self.number = id, number
        self.producer_id = self.epoch = -1
        self._chance = producers.chance
        self._producers = producers
        self._observed = producers.observed
        self._coordinators: dict[tuple[str, int], int] = {}
        self._sequences: dict[TopicPartition, int] = {}
        self._count = 0

    def script(self) -> Script:
        """Run transactions until the transactional id is stopped, the incarnation crashes, or a broker refuses it.

        If the incarnation crashed or was refused, and no newer one exists, start the next incarnation.
        """
        if not (yield from self._initialise()):
            return
        while not self._producers.is_stopped(self.id):
            if not (yield from self._transaction()):
                break
            yield self._chance.expovariate(1 / EVERY)
        yield EVERY
        if self._producers.newest[self.id] == self.number and not self._producers.is_stopped(self.id):
            self._producers.start(self.id)

    # ---------------------------------------------------------------------------------------------- coordinators

    def _initialise(self) -> Generator[Any, Any, bool]:
        """Get a producer id; return False if a newer incarnation has already fenced this one."""
        request = init_producer_id.InitProducerIdRequest(3, self.id, TIMEOUT_MS)
        while self._producers.newest[self.id] == self.number:
            response = yield from self._coordinate(request)
            if isinstance(response, init_producer_id.InitProducerIdResponse) and response.error_code == errors.NONE:
                pair = self.producer_id, self.epoch = response.producer_id, response.producer_epoch
                if pair in self._observed.history.asked:
                    self._observed.take(TransactionBroken(f"{self.id}: {pair} was given to another producer before"))
                self._observed.history.asked[pair] = set()
                self._producers.fenced[self.id] = max(pair, self._producers.fenced.get(self.id, pair))
                return True
            yield BACKOFF
        return False

    def _coordinate(
        self, request: Message, key_type: int = find_coordinator.TRANSACTION_KEY
    ) -> Generator[Any, Any, Any]:
        """Repeat a request to a coordinator until the response is definite, and return that response.

        The coordinator is that of the transactional id `self.id`, or of the group `self.id` if `key_type` is GROUP_KEY.
        A retriable error is not definite.
        """
        cluster, key = self._observed.cluster, (self.id, key_type)
        while True:
            while key not in self._coordinators:
                node = self._chance.choice(sorted(cluster.machines))
                found = yield node, find_coordinator.FindCoordinatorRequest(2, *key)
                if isinstance(found, find_coordinator.FindCoordinatorResponse) and found.error_code == errors.NONE:
                    self._coordinators[key] = found.node_id
                else:
                    yield BACKOFF
            newest = self._producers.fenced.get(self.id, (-1, -1))
            response = yield self._coordinators[key], request
            code = code_of(response)
            is_late = newest > (self.producer_id, self.epoch) and key_type == find_coordinator.TRANSACTION_KEY
            if code == errors.NONE and is_late and not isinstance(request, init_producer_id.InitProducerIdRequest):
                text = f"{self.id}: {type(request).__name__} of epoch {self.epoch} succeeds after {newest} was given"
                self._observed.take(TransactionBroken(text))
            if code in ELSEWHERE or code == NO_RESPONSE:
                del self._coordinators[key]
            elif code not in LATER:
                return response
            yield BACKOFF

    # ---------------------------------------------------------------------------------------------- transactions

    def _transaction(self) -> Generator[Any, Any, bool]:
        """Run one transaction; return False if the incarnation is over."""
        led = sorted(
            partition
            for partition in self._observed.znodes.states
            if partition.topic == TRANSACTION_TOPIC and partition not in (INPUT, OUTPUT)
        )
        if not led:
            return True
        partitions = self._chance.sample(led, self._chance.randint(1, len(led)))
        running = self._begin()
        if not (yield from self._add(partitions)):
            return False
        elsewhere = [each for each in led if each not in partitions]
        if elsewhere and not self._count % STRAYS_EACH:
            yield from self._write_elsewhere(elsewhere[0])
        written = True
        for partition in partitions:
            written = written and (yield from self._write(running, partition, self._chance.randint(1, 3)))
        if self._chance.random() < DIES:
            return False
        return (yield from self._end(running, written and self._chance.random() < 0.7))

    def _begin(self) -> SimulatedTransaction:
        self._count += 1
        running = SimulatedTransaction(f"{self.id}.{self.number}.{self._count}")
        self._observed.history.transactions[running.name] = running
        return running

    def _add(self, partitions: Sequence[TopicPartition]) -> Generator[Any, Any, bool]:
        request = AddPartitionsToTxnRequest(1, self.id, self.producer_id, self.epoch, tuple(partitions))
        added = code_of((yield from self._coordinate(request))) == errors.NONE
        if added:
            self._observed.take(TransactionBegun(self.producer_id))
        return added

    def _write_elsewhere(self, partition: TopicPartition) -> Generator[Any, Any, None]:
        """Write to a partition that the transaction lacks: its leader asks the coordinator, and refuses (rule 6)."""
        leader = self._observed.leader_of(partition)
        if leader is not None:
            yield leader, self._request(partition, [b"elsewhere"], self._sequences.get(partition, 0))

    def _request(self, partition: TopicPartition, values: list[bytes], first: int) -> produce.ProduceRequest:
        """Return a request to write one batch; `first` is its first sequence number."""
        pairs, wall_ms = [(b"key", value) for value in values], self._observed.cluster.wall_ms()
        batch = batch_of(pairs, wall_ms, self.producer_id, self.epoch, first, True)
        return produce.ProduceRequest(
            8, self.id, produce.ACKS_ALL, 3_000, (produce.ProducePartition(partition, batch),)
        )

    def _write(
        self, running: SimulatedTransaction, partition: TopicPartition, count: int, copied: Sequence[bytes] = ()
    ) -> Generator[Any, Any, bool]:
        """Send a batch of `count` values until it is acknowledged; return False if it cannot be acknowledged."""
        observed = self._observed
        there = running.values.setdefault(partition, [])
        size = 0 if self._count % LARGE_EACH else LARGE
        values = [f"{running.name}:{len(there) + place}".encode().ljust(size, b".") for place in range(count)]
        values = [b"%b:%b" % pair for pair in zip(values, copied, strict=True)] if copied else values
        running.born[partition.topic] = observed.znodes.born.get(partition.topic, 0)
        there += values
        first = self._sequences.get(partition, 0)
        self._sequences[partition] = first + len(values)
        request = self._request(partition, values, first)
        for _ in range(MOST_TRIES):
            leader = observed.leader_of(partition)
            if leader is not None:
                code = code_of((yield leader, request))
                if code == errors.NONE:
                    return True
                if code != NO_RESPONSE and code not in RETRIABLE:
                    return False
            yield BACKOFF
        return False

    def _end(self, running: SimulatedTransaction, commit: bool) -> Generator[Any, Any, bool]:
        """Commit or abort; return False if the incarnation is over."""
        running.fate = KnownOutcome.COMMITTING if commit else KnownOutcome.ABORTED
        self._observed.history.asked[self.producer_id, self.epoch].add(commit)
        request = EndTxnRequest(1, self.id, self.producer_id, self.epoch, commit)
        response = yield from self._coordinate(request)
        if not isinstance(response, EndTxnResponse) or response.error_code != errors.NONE:
            return False
        if commit:
            running.fate = KnownOutcome.COMMITTED
        return True


class Worker(Incarnation):
    """A consumer and transactional producer that copies the records of the input topic to the output topic.

    See the module's rule 4.
    """

    def _transaction(self) -> Generator[Any, Any, bool]:
        if OUTPUT not in self._observed.znodes.states:
            return True
        topics = (offset_fetch.OffsetFetchTopic(INPUT.topic, (INPUT.partition,)),)
        found = yield from self._coordinate(
            offset_fetch.OffsetFetchRequest(7, WORKER, topics, True), find_coordinator.GROUP_KEY
        )
        if not isinstance(found, offset_fetch.OffsetFetchResponse) or code_of(found) != errors.NONE:
            return False
        if self._is_superseded(self._coordinators[WORKER, find_coordinator.GROUP_KEY]):
            return True
        position = max(found.partitions[0].committed_offset, 0)
        values, after = yield from self._read(position)
        if not values:
            return True
        running = self._begin()
        running.offset = after
        if not (yield from self._add([OUTPUT])):
            return False
        offsets = AddOffsetsToTxnRequest(1, self.id, self.producer_id, self.epoch, WORKER)
        if code_of((yield from self._coordinate(offsets))) != errors.NONE:
            return False
        written = yield from self._write(running, OUTPUT, len(values), values)
        if written:
            offset = (offset_commit.CommittedPartition(INPUT, after),)
            request = TxnOffsetCommitRequest(3, self.id, WORKER, self.producer_id, self.epoch, offset)
            written = code_of((yield from self._coordinate(request, find_coordinator.GROUP_KEY))) == errors.NONE
        if written and self.epoch > 0 and self._chance.random() < LATE:
            yield from self._commit_late()
        if self._chance.random() < DIES:
            return False
        return (yield from self._end(running, written and self._chance.random() < 0.8))

    def _is_superseded(self, coordinator: int) -> bool:
        """Return whether another broker leads the partition of the worker's group.

        A coordinator that has lost ZooKeeper answers OffsetFetch from its cache, in Kafka too. For a consumer this does
        no harm: the consumer's generation is too old, so the next coordinator refuses the consumer's commit (KIP-447).
        The worker's commit has no generation and would be accepted, so the worker does not use an offset from such a
        coordinator.
        """
        state = self._observed.znodes.states.get(self._observed.exchanges.group_partition(WORKER))
        return state is None or state.leader != coordinator

    def _commit_late(self) -> Generator[Any, Any, None]:
        """Send a zombie's commit, with the previous epoch, while this incarnation's commit is pending (rule 5)."""
        offset = (offset_commit.CommittedPartition(INPUT, 0),)
        request = TxnOffsetCommitRequest(3, self.id, WORKER, self.producer_id, self.epoch - 1, offset)
        if code_of((yield from self._coordinate(request, find_coordinator.GROUP_KEY))) == errors.NONE:
            text = f"{self.id}: a TxnOffsetCommit of epoch {self.epoch - 1} succeeds after one of {self.epoch}"
            self._observed.take(TransactionBroken(text))

    def _read(self, position: int) -> Generator[Any, Any, tuple[list[bytes], int]]:
        """Return some committed values of the input from an offset on, and the offset after them."""
        leader = self._observed.leader_of(INPUT)
        if leader is None:
            return [], position
        part = fetch.FetchPartition(INPUT, position, MOST_BYTES)
        response = yield (
            leader,
            fetch.FetchRequest(11, -1, WAITS_MS, 1, (part,), MOST_BYTES, fetch.READ_COMMITTED),
        )
        if not isinstance(response, fetch.FetchResponse) or code_of(response) != errors.NONE or not response.partitions:
            return [], position
        result = response.partitions[0]
        data = bytes(result.body.data) if result.body.size else b""
        after = max((header.next_offset for _, header in whole_batches(data)), default=position)
        found = visible_records(data, result.aborted_transactions or ())
        return [record.value or b"" for record in found if record.offset >= position], after
