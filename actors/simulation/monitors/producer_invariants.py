"""Producers and consumers: acknowledged records, idempotent producers and transactions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from actors.core.topic.topic_name import INTERNAL_TOPICS, TRANSACTION_STATE
from actors.simulation import observed_facts
from actors.simulation.client_history import KnownOutcome, key_of
from actors.simulation.exchanges import accepted_markers
from actors.simulation.monitors.cleaning_invariants import FASTEST
from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.transactional_producers import INPUT, OUTPUT, WORKER
from messages import errors
from messages.apis.produce import ProduceRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import TopicPartition
from messages.partition import LogMoved

DAY_MS = 24 * 60 * 60 * 1000
"""The default of delete.retention.ms."""


class ProducerInvariants(Monitor):
    """The rules for acknowledged and consumed records, the batches of idempotent producers, and transactions."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._stable: dict[tuple[observed_facts.Process, TopicPartition, int, int], int] = {}
        """The largest last stable offset of each leader, by process, creation of the topic and leader epoch."""
        self._expired: dict[tuple[TopicPartition, int], int] = {}
        """Partition and creation of its topic -> the offset before which the retention has removed records."""

    @observes
    def _retention_removed(self, fact: observed_facts.LogExpired) -> None:
        """Note which records need not be there any more; `CleaningInvariants` checks whether they were old enough."""
        key = fact.partition, self.znodes.born.get(fact.partition.topic, 0)
        self._expired[key] = max(fact.after, self._expired.get(key, 0))

    @invariant("responses to idempotent producers agree", "broker.md 5.3, KIP-98")
    def _responses_to_streams_agree(self, fact: observed_facts.StreamBroken) -> Iterator[str]:
        """A producer that sends its batches in order is not refused, and all responses to a batch are equal."""
        yield fact.text

    @invariant("last stable offsets never decrease", "KIP-98")
    def _stable_offsets_never_decrease(self, fact: observed_facts.StableOffsetSeen) -> Iterator[str]:
        """A last stable offset is at most the high watermark, and never decreases during a leader epoch."""
        message = fact.message
        partition = message.partition if isinstance(message, LogMoved) else message.result.partition
        state = message.state
        if state.stable > state.high_watermark:
            yield f"{partition}: last stable offset {state.stable} of {fact.process[0]} is above {state.high_watermark}"
        key = (fact.process, partition, self.znodes.born.get(partition.topic, 0), state.leader_epoch)
        before = self._stable.get(key, -1)
        if state.leads and state.stable < before:
            yield f"{partition}: last stable offset of {fact.process[0]} falls from {before} to {state.stable}"
        if state.leads:
            self._stable[key] = max(before, state.stable)

    @invariant("zombie producers are fenced", "KIP-98, KIP-360")
    def _zombies_are_fenced(self, fact: observed_facts.TransactionBroken) -> Iterator[str]:
        """A coordinator refuses requests of a producer after its successor with the same transactional id has begun.

        The exception is a coordinator whose log lost the successor's epoch by a power failure or an unclean election.
        """
        unclean = any(partition.topic in INTERNAL_TOPICS for partition in self.znodes.led_uncleanly)
        if not self.observed.power_failed and not unclean:
            yield fact.text

    @invariant("transactions end as their producers ask", "transactions.md 1.2, 2.6, KIP-98", WriteTxnMarkersRequest)
    def _transactions_end_as_asked(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A coordinator that aborts a transaction itself raises the epoch first, which fences the producer."""
        for partition, marker in accepted_markers(fact.request, fact.response):
            pair, commits = (marker.producer_id, marker.producer_epoch), marker.transaction_result
            if commits not in self.history.asked.get(pair, (commits,)) and not self.observed.power_failed:
                yield f"{partition}: node {fact.node} wrote {marker}; its producer asked for {self.history.asked[pair]}"

    @invariant("transactional records have a transactional id", "transactions.md 3.2, KIP-98", ProduceRequest)
    def _transactional_records_have_a_transactional_id(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A leader refuses a transactional batch if the Produce request has no transactional id."""
        request = fact.request
        if request.transactional_id is not None:
            return
        for part, result in zip(request.partitions, fact.response.partitions, strict=True):
            if result.error_code == errors.NONE and any(header.is_transactional for header in part.records.batches):
                yield f"{result.partition}: node {fact.node} appended a transactional batch without a transactional id"

    @invariant("no acknowledged record is lost", "broker.md 3.5, 3.6")
    def _no_acknowledged_record_is_lost(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        for partition, acknowledged in self.history.acknowledged.items():
            read = self.history.read.get(partition)
            if self.observed.is_lossy(partition) or not self.nodes.can_commit(partition):
                continue
            if read is None:
                yield f"{partition} cannot be read"
                continue
            first = self._expired.get((partition, self.znodes.born.get(partition.topic, 0)), 0)
            for offset, each in acknowledged.items():
                is_wrong = offset >= first and read.get(offset) != each.value
                if is_wrong and not self._is_cleaned(partition, offset, each.value):
                    yield (
                        f"{partition}: {each.value!r} was acknowledged at offset {offset} ({each.at:.3f} s),"
                        f" but {read.get(offset)!r} was read"
                    )

    @invariant("consumed records stay", "broker.md 3.5")
    def _consumed_records_stay(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        for partition, seen in self.history.seen.items():
            read = self.history.read.get(partition)
            if self.observed.is_lossy(partition) or not self.nodes.can_commit(partition) or read is None:
                continue
            first = self.observed.first_offset(partition)
            for offset, value in seen.items():
                if offset >= first and read.get(offset) != value and not self._is_cleaned(partition, offset, value):
                    now = read.get(offset)
                    yield f"{partition}: a consumer read {value!r} at offset {offset}, where {now!r} is now"

    @invariant("idempotent producers write each record once, in order", "broker.md 5.3, KIP-98")
    def _streams_are_whole(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        """A log has each record of an idempotent producer once, in order and without a gap."""
        for stream in self.history.streams.values():
            partition = stream.partition
            read = self.history.read.get(partition)
            is_of_topic = self.znodes.born.get(partition.topic) == stream.born
            numbers = stream.numbers(read) if read is not None and is_of_topic else []
            if not numbers or self.observed.is_lossy(partition):
                continue
            first = numbers[0] if self.observed.first_offset(partition) else 0
            if self.znodes.is_compacted(partition.topic) and numbers == sorted(set(numbers)):
                continue
            if numbers != list(range(first, first + len(numbers))):
                wrong = next(place for place, number in enumerate(numbers) if number != first + place)
                yield f"{partition}: {stream.name} has {numbers[wrong]} where {first + wrong} follows: {numbers}"

    @invariant("readers see whole transactions", "KIP-98")
    def _readers_see_whole_transactions(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        """Readers of committed data see all records of a transaction, each once and in order, or none.

        While a fault prevents a marker from reaching a partition, its leader does not return the transaction's records.
        If a coordinator's log may have lost the decision, the next coordinator may decide otherwise. If it was
        truncated, the coordinator may not know the transaction (`_transactions_end`), and answer its commit like that
        of the transaction before: then no record is visible.
        """
        visible: dict[TopicPartition, dict[bytes, int]] = {}
        for partition, read in self.history.read_committed.items():
            places = visible[partition] = {}
            for place, value in enumerate(read.values):
                transactional_id = value.partition(b":")[0].decode(errors="replace")
                if value in places and b":" in value and transactional_id in self.history.transactions:
                    yield f"{partition}: {value!r} is visible twice"
                places[value] = place
        if any(map(self.observed.is_lossy, self._coordinator_logs())):
            return
        may_forget = any(log in self.replicas.truncated for log in self._coordinator_logs())
        for each in self.history.transactions.values():
            judged = {tp: values for tp, values in each.values.items() if self._is_judged(tp, each.born[tp.topic])}
            found = {tp: [value for value in values if value in visible[tp]] for tp, values in judged.items()}
            if any(found.values()) and not each.may_be_visible:
                yield f"{each.name} is {each.fate.value}, and readers of committed data see {found}"
            elif any(found.values()) or (each.fate is KnownOutcome.COMMITTED and not may_forget):
                whole = {tp: values for tp, values in judged.items() if self.nodes.can_receive_markers(tp)}
                for partition, values in whole.items():
                    order = [visible[partition].get(value, -1) for value in values]
                    if -1 in order or order != sorted(order):
                        yield f"{each.name} is {each.fate.value}, and readers of committed data see {found} of {judged}"

    @invariant("transactions end", "KIP-98, KAFKA-12671")
    def _transactions_end(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        """In an idle cluster no transaction is open: its producer ends it, or its timeout does (KIP-98).

        A transaction is exempt if a power failure or an unclean election may have damaged one of two logs: its
        partition's log, which has the marker, or the coordinator's log, which has the transaction's state. It is also
        exempt if the coordinator's log was truncated. As in Kafka, a new coordinator also loads uncommitted records. If
        an uncommitted record lists a partition, a request to add that partition is answered without a new record. If
        the uncommitted record is then truncated, the next coordinator does not know the partition.
        """
        if any(self.observed.is_lossy(log) or log in self.replicas.truncated for log in self._coordinator_logs()):
            return
        for partition, read in self.history.read_committed.items():
            is_open = read.stable != read.high_watermark
            if is_open and not self.observed.is_lossy(partition) and self.nodes.can_receive_markers(partition):
                yield f"{partition}: last stable offset {read.stable}, high watermark {read.high_watermark}"

    @invariant("input is processed once", "KIP-98, KIP-447")
    def _input_is_processed_once(self, fact: observed_facts.ClusterQueried) -> Iterator[str]:
        """The output of a read-process-write worker is its input up to the committed offset, once and in order."""
        born = self.znodes.born.get(INPUT.topic, 0)
        done = [each for each in self.history.transactions.values() if each.offset >= 0 and OUTPUT in each.values]
        if not done or not self._is_judged(OUTPUT, born) or INPUT not in self.history.read:
            return
        if self.observed.is_lossy(INPUT) or self.observed.first_offset(INPUT):
            return
        group = self.exchanges.group_partition(WORKER)
        if self.observed.is_lossy(group) or any(each.born[OUTPUT.topic] != born for each in done):
            return
        read = self.history.read[INPUT]
        copies = [value for value in self.history.read_committed[OUTPUT].values if value.startswith(WORKER.encode())]
        copied = [value.split(b":", 2)[2] for value in copies]
        wanted = [value for _, value in sorted(read.items())][: len(copied)]
        if copied[: len(wanted)] != wanted:
            wrong = next(place for place, pair in enumerate(zip(copied, wanted, strict=False)) if pair[0] != pair[1])
            yield f"{OUTPUT}: copy {wrong} is of {copied[wrong]!r}, where {wanted[wrong]!r} follows"

    def _is_cleaned(self, partition: TopicPartition, offset: int, value: bytes) -> bool:
        """Return whether the cleaner may have removed a record: a later one has its key, or has deleted this key."""
        read, key = self.history.read[partition], key_of(value)
        if offset in read or not self.znodes.is_compacted(partition.topic):
            return False
        kept_ms = self.znodes.least(partition.topic, "delete.retention.ms", DAY_MS)
        deleted_at = self.history.buried.get(partition, {}).get(key, math.inf)
        is_forgotten = 1000 * FASTEST * (self.now - deleted_at) > kept_ms
        return is_forgotten or any(place > offset and key_of(later) == key for place, later in read.items())

    def _coordinator_logs(self) -> list[TopicPartition]:
        """Return the partitions that have the states of transactions."""
        return [log for log in self.states if log.topic == TRANSACTION_STATE]

    def _is_judged(self, partition: TopicPartition, born: int) -> bool:
        """Return whether a partition must have all its committed records. `born` identifies its topic's creation."""
        return (
            partition in self.history.read_committed
            and self.znodes.born.get(partition.topic) == born
            and not self.observed.is_lossy(partition)
            and not self.observed.first_offset(partition)
        )
