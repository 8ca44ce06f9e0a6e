"""Logs and their files: transactions in them, checkpoints, and equal logs of the ISR."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import attrs

from actors.core.topic.topic_name import TRANSACTION_STATE
from actors.core.transaction import transaction_states
from actors.core.transaction.transaction import NO_PRODUCER, Transaction
from actors.simulation import observed_facts
from actors.simulation.log_transactions import NO_OFFSET, LogTransactions
from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import FILES
from actors.simulation.simulated_cluster import UP
from actors.storage.log.checkpoint import Checkpoint
from actors.storage.log_directories import CLEAN_MARKER, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, parse_name
from messages import errors
from messages.apis.add_offsets_to_txn import AddOffsetsToTxnRequest
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.fetch import READ_COMMITTED, AbortedTransaction, FetchRequest
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from messages.cluster import TopicPartition
from messages.response_codes import codes_of
from messages.wire.batch_records import InvalidRecords
from messages.wire.compression import CannotDecompress
from messages.wire.control_batch import visible_records
from messages.wire.record_batch import whole_batches

CHANGING = (AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest)
"""Requests that change the state of a transactional id."""


@attrs.define
class _Files:
    """What the files of one log have, since the log was opened."""

    transactions: LogTransactions
    durable_end: int
    """The end of the records that the process found when it opened the log, or of the complete segments."""
    kept_start: int = 0
    """The log start offset at the last checkpoint."""


class LogInvariants(Monitor):
    """The rules for the files of logs: transactions in them, checkpoints, and equal logs of the ISR."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._files: dict[observed_facts.LogView, _Files] = {}
        self._suspects: set[tuple[int, str]] = set()
        """Log directories in use that may have a clean shutdown marker, by node."""
        self._equal: dict[TopicPartition, object] = {}
        """The changes of a partition's logs with which they were equal."""
        self._cut: dict[TopicPartition, int] = {}
        """The largest offset to which a replica of the partition lost the end of its log."""

    @observes
    def _directory_opened(self, fact: observed_facts.DirectoryOpened) -> None:
        """Look for a clean shutdown marker at the next tick."""
        self._suspects.add((fact.node, fact.directory))

    @observes
    def _directories_closed(self, fact: observed_facts.DirectoriesClosed) -> None:
        """Look for a clean shutdown marker in the directories that the process uses nevertheless."""
        self._suspects.update((fact.node, name) for name in self.cluster.machines[fact.node].disks.names)

    @invariant("directories in use have no clean shutdown marker", "broker.md 5.4")
    def _directories_in_use_have_no_clean_shutdown_marker(self, fact: observed_facts.Ticked) -> Iterator[str]:
        """Check that a broker would recover its open logs if it were killed now."""
        for node, name in sorted(self._suspects):
            machine = self.cluster.machines[node]
            if self.replicas.opened.get((node, name)) != machine.starts:
                self._suspects.discard((node, name))
            elif machine.state == UP:
                self._suspects.discard((node, name))
                if os.path.exists(machine.disks.path(f"{name}/{CLEAN_MARKER}")):  # noqa: PTH110  # Path takes longer
                    yield f"node {node} has opened logs in {name}, which has a {CLEAN_MARKER}"

    @observes
    def _note_files(self, fact: observed_facts.LogCalled) -> None:
        """Read what the files of a log have after a call."""
        if fact.view.end < fact.end_before:
            self._cut[fact.partition] = max(fact.view.end, self._cut.get(fact.partition, 0))
        if not self.observed.is_simulated:
            return
        view, files = fact.view, self._files.get(fact.view)
        if files is None or fact.method in ("truncate", "restart"):
            folder = Path(self.cluster.machines[fact.node].disks.path(view.folder))
            transactions = LogTransactions(folder, view.end)
            if files is None:
                files = self._files[view] = _Files(transactions, view.end)
            files.transactions = transactions
            files.durable_end = min(files.durable_end, view.end)
            files.kept_start = min(files.kept_start, view.start)
        else:
            files.transactions.read_on(view.end)
        files.transactions.raise_high_watermark(view.high_watermark)

    @invariant("unfinished transactions are unstable", "transactions.md 3.1, KIP-98", lacks=FILES)
    def _unfinished_transactions_are_unstable(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        """The first unstable offset is at most the first offset of each unfinished transaction in the log."""
        first, result = self._files[fact.view].transactions.first_unfinished, fact.first_unstable
        if first > NO_OFFSET and first >= fact.view.start and not NO_OFFSET < result <= first:
            yield (
                f"{fact.partition}: {fact.method} of node {fact.node} returned first unstable offset {result}; an"
                f" unfinished transaction begins at {first}"
            )

    @invariant("transactions begin after the markers of the last one", "transactions.md 1.3, 2.5, KIP-98")
    def _transactions_begin_after_markers(self, fact: observed_facts.TransactionBegun) -> Iterator[str]:
        """A coordinator adds no partition until those of the producer's last transaction have their markers.

        The exception is a coordinator whose log lost records, which may not know these partitions (`transactions end`).
        """
        if any(log.topic == TRANSACTION_STATE for log in {*self.replicas.truncated, *self.znodes.led_uncleanly}):
            return
        for partition in self.replicas.with_records.values():
            if (first := self._first_open(partition, fact.producer_id)) > NO_OFFSET:
                yield f"{partition}: producer {fact.producer_id} begins a transaction; one is open from {first} on"

    @invariant("states of transactions follow each other", "transactions.md 1.3, 2.5, 2.6", lacks=FILES)
    def _states_of_transactions_follow(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        """A transaction keeps the time of its begin, and is complete when no partition of it lacks the marker."""
        files = self._files[fact.view].transactions
        changes, files.changes = files.changes, []
        for before, after in changes if self.observed.leader_of(fact.partition) == fact.node else ():
            is_same = before.state is after.state is transaction_states.ONGOING  # more partitions: no repeated begin
            if is_same and set(before.partitions) < set(after.partitions) and before.start_ms != after.start_ms:
                yield f"node {fact.node} wrote that {before} begins at {after.start_ms}"
            is_complete = after.state is transaction_states.COMPLETION.get(before.state)
            for partition in before.partitions if is_complete else ():
                if (first := self._first_open(partition, before.producer_id)) > NO_OFFSET:
                    yield f"node {fact.node} wrote that {before} has ended; {partition} has it from {first} on"

    def _first_open(self, partition: TopicPartition, producer_id: int) -> int:
        """Return where an unfinished transaction of a producer begins in the leader's log; NO_OFFSET without one."""
        leader = self.observed.leader_of(partition)
        led = None if leader is None else self._led_log(leader, partition)
        return NO_OFFSET if led is None else led[1].first_of(producer_id, led[0].epoch_start)

    def _led_log(self, node: int, partition: TopicPartition) -> tuple[observed_facts.LogView, LogTransactions] | None:
        """Return a leader's log and what its batches say; None if the partition may have lost records.

        A leader that does not know of it yet counts as none: its high watermark is older.
        """
        view = self.replicas.log(node, partition) if self.observed.led_for(node, partition) else None
        files = None if view is None or self.observed.is_lossy(partition) else self._files.get(view)
        return None if view is None or files is None else (view, files.transactions)

    @invariant("coordinators answer what their log has", "transactions.md 1.3, 2.3", *CHANGING, lacks=FILES)
    def _coordinators_answer_what_their_log_has(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A decision and an added partition are below the high watermark before the coordinator responds."""
        request = fact.request
        if any(codes_of(fact.response)) or not request.transactional_id:
            return
        for log in [log for log in self.states if log.topic == TRANSACTION_STATE]:
            if (led := self._led_log(fact.node, log)) is None:
                continue
            view, batches = led
            batches.read_on(view.end)
            state, offset = batches.states.get(request.transactional_id, (Transaction("", NO_PRODUCER), 0))
            if (state.producer_id, state.producer_epoch) != (request.producer_id, request.producer_epoch):
                continue
            wanted = getattr(request, "partitions", ())
            if isinstance(request, AddOffsetsToTxnRequest):
                wanted = (self.exchanges.group_partition(request.group_id),)
            is_open = state.state is transaction_states.ONGOING
            is_late = offset >= max(view.high_watermark, view.epoch_start)
            if is_late or (is_open and not set(wanted or (None,)) <= set(state.partitions)):
                yield f"node {fact.node} accepted {request}; its log has {state} at {offset}, replicated to {view}"

    @invariant("files of a log agree with its batches", "broker.md 4.6, 5.3, transactions.md 3.3", lacks=FILES)
    def _files_agree_with_batches(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        """An opened or truncated log has the epochs and producers of its batches, and nothing of later offsets."""
        if fact.method not in ("open", "truncate"):
            return
        view, disks = fact.view, self.cluster.machines[fact.node].disks
        if view.directory in disks.faults:
            return
        what = f"{fact.partition}: after {fact.method}, node {fact.node} has log end {view.end}, and"
        is_cut = fact.method == "truncate" and view.end < fact.end_before
        starts = [start for _, start in disks.epochs_of(view.folder)]
        if starts != sorted({*starts}) or (is_cut and starts and starts[-1] >= view.end):
            yield f"{what} leader epochs from {starts} on"
        for points in (LOG_STARTS, HIGH_WATERMARKS) if is_cut else ():
            for topic, number, offset in Checkpoint(disks.path(f"{view.directory}/{points}"), 1, 2).read():
                is_beyond = view.end < int(offset) <= fact.end_before  # a later one stays: its records are missing
                if is_beyond and TopicPartition(str(topic), int(number)) == fact.partition:
                    yield f"{what} {offset} in {points}"
        before = fact.opened_before or view
        start = max(view.start, before.start)  # a killed process forgets where its log began, but not which epochs went
        runs = self._files[view].transactions.epochs
        epochs = [epoch for epoch, _, _ in runs]
        if epochs == sorted({*epochs} - {-1}):  # formats before 2 have no epochs; after lost records they may fall
            for (epoch, _, end), (_, first, _) in itertools.pairwise([*runs, (-1, view.end, -1)]):
                found = disks.end_of_epoch(view.folder, epoch) if end > start else (epoch, end)
                if found[0] != epoch or not end <= found[1] <= first:
                    yield f"{what} {found} as the end of leader epoch {epoch}, whose batches end at {end}"
        if (snapshot := disks.last_snapshot(view.folder)) > view.end:
            yield f"{what} a snapshot of the producers at {snapshot}"
        if view.lost_before and not self.observed.power_failed and fact.partition not in self.observed.damaged:
            yield f"{what} high watermark {view.lost_before} in the checkpoint"
        if is_cut and (aborted := disks.last_aborted(view.folder)) >= view.end:
            yield f"{what} an aborted transaction that ends at {aborted}"
        known = disks.producers_of(view.folder)
        for producer, last in self._files[view].transactions.producers.items():
            *those, coordinator = known.get(producer, (-1, -1, -1))
            if last.offset >= view.start and (those != [last.epoch, last.sequence] or coordinator < last.coordinator):
                yield f"{what} {known.get(producer)} as the state of producer {producer}: {last}"

    @invariant("ends of epochs are those of the log", "KIP-279", OffsetForLeaderEpochRequest, lacks=FILES)
    def _ends_of_epochs_are_those_of_the_log(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A leader answers with an epoch that its log has, or with an epoch before all that it has."""
        for result in fact.response.partitions:
            view = self.replicas.log(fact.node, result.partition)
            has_led = self.observed.led_for(fact.node, result.partition) > self.now - fact.at
            if result.error_code != errors.NONE or view is None or not has_led:
                continue
            entries = [*self.cluster.machines[fact.node].disks.epochs_of(view.folder), (-1, view.end + 1)]
            epochs = [epoch for (epoch, _), (_, end) in itertools.pairwise(entries) if end > view.start]
            if epochs and epochs[0] < result.leader_epoch not in epochs:
                yield (
                    f"{result.partition}: node {fact.node} sent the end of leader epoch {result.leader_epoch}; its log"
                    f" has {epochs}"
                )

    @invariant("readers hear of aborted transactions", "transactions.md 3.3, KIP-98", FetchRequest, lacks=FILES)
    def _readers_receive_aborted_transactions(self, fact: observed_facts.ResponseSent) -> Iterator[str]:
        """A reader of committed data receives the ids of all aborted transactions whose records it receives."""
        request = fact.request
        if request.isolation_level != READ_COMMITTED:
            return
        for result in fact.response.partitions:
            view = self.replicas.log(fact.node, result.partition)
            files = None if view is None else self._files.get(view)
            if files is None or not result.body.size:
                continue
            headers = [header for _, header in whole_batches(result.body.data)]
            listed = [(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
            for each in files.transactions.aborted_within(headers[0].base_offset, headers[-1].last_offset):
                if self.znodes.is_compacted(result.partition.topic) and not any(map(each.has, headers)):
                    continue  # the cleaner has removed its records
                if not any(producer == each.producer_id and first <= each.first for producer, first in listed):
                    yield (
                        f"{result.partition}: node {fact.node} sent offsets {headers[0].base_offset} to"
                        f" {headers[-1].last_offset} with aborted transactions {listed}, without {each}"
                    )

    @observes
    def _note_swap(self, fact: observed_facts.ReplicaSwapped) -> None:
        """Note that another folder has the log, whose files may all be unflushed."""
        files = self._files.get(fact.view)
        if files is not None:
            folder = Path(self.cluster.machines[fact.node].disks.path(fact.view.folder))
            files.transactions, files.durable_end = LogTransactions(folder, fact.view.end), 0

    @invariant("log start offsets survive restarts", "broker.md 5.1, KIP-107", lacks=FILES)
    def _log_start_offsets_survive_restarts(self, fact: observed_facts.LogCalled) -> Iterator[str]:
        """A log begins at the log start offset of the last checkpoint, or later."""
        before = None if fact.opened_before is None else self._files.pop(fact.opened_before, None)
        if before is not None and fact.view.start < before.kept_start and not self.observed.power_failed:
            yield (
                f"{fact.partition}: node {fact.node} opened its log with log start offset {fact.view.start};"
                f" {before.kept_start} was written to the checkpoint"
            )

    @observes
    def _note_checkpoint(self, fact: observed_facts.PointsWritten) -> None:
        """Note what is durable on the disks of a node, unless one of these disks has a fault."""
        disks = self.cluster.machines[fact.node].disks
        for name in () if disks.faults or disks.hurt else self.replicas.with_records:
            view = self.replicas.logs[name].get(fact.node)
            files = None if view is None or not view.end else self._files.get(view)
            if view is not None and files is not None:
                files.kept_start = view.start
                folder = Path(disks.path(view.folder))
                active = max((int(file.stem) for file in folder.glob("*.log")), default=0)
                files.durable_end = max(files.durable_end, active)

    @invariant("recovery points are durable", "broker.md 5.1")
    def _recovery_points_are_durable(self, fact: observed_facts.PointsWritten) -> Iterator[str]:
        """No recovery point is above both the end of the complete segments and the log end at the process start."""
        machine = self.cluster.machines[fact.node]
        disks = machine.disks
        for name in () if disks.faults or disks.hurt else disks.names:
            for topic, number, offset in Checkpoint(disks.path(f"{name}/{RECOVERY_POINTS}"), 1, 2).read():
                partition = TopicPartition(str(topic), int(number))
                view = self.replicas.log(fact.node, partition)
                if view is None or view.starts != machine.starts or view.directory != name:
                    continue
                durable_end = self._files[view].durable_end
                if int(offset) > durable_end:
                    yield (
                        f"{partition}: node {fact.node} has recovery point {offset}; its complete segments, and what"
                        f" its start found, end at {durable_end}"
                    )

    @invariant("logs of the ISR are identical", "broker.md 4.4, 4.5")
    def _logs_of_the_isr_are_identical(self, fact: observed_facts.ClusterAtRest) -> Iterator[str]:
        """Check the logs of replicas that can reach their leader, from the highest of their log start offsets on.

        Each replica applies the retention by itself, so one replica may have deleted records that another still has.
        A follower that truncates its log after a response does not use the log start offset in it.
        Each replica is also cleaned by itself: those of a compacted topic have the same last values of all keys.
        If such a topic may lose committed records, only those after the lost ones are compared: a replica's cleaner may
        have removed an earlier record because of a later one with its key, and the log then loses the later one.
        The partitions in `self.observed.resumed` are not checked. The leader of such a partition lost power, and
        registered again before a controller noticed. It remains the leader in the same leader epoch and appends other
        records at the offsets that it lost. Its followers cannot detect this. Where bits have flipped, unreadable bytes
        may follow the log's end.
        """
        up = set(self.nodes.controlled_nodes())
        for partition, state in self.znodes.remaining.items():
            if str(partition) not in self.replicas.filled or state.leader not in up:
                continue
            if partition in self.observed.resumed or partition in self.observed.lost:
                continue
            nodes = [node for node in state.isr if node in up and self.nodes.are_linked(state.leader, node)]
            logs = {node: self.replicas.log(node, partition) or observed_facts.LogView() for node in nodes}
            for node, log in logs.items():
                if log.start < logs[state.leader].start and partition not in self.replicas.diverged:
                    yield f"{partition}: {node} has log start offset {log.start}, its leader {logs[state.leader].start}"
            first = max([self.history.deleted.get(partition, 0), *(log.start for log in logs.values())])
            changes = first, [(node, id(log), log.changes) for node, log in logs.items()]
            if self._equal.get(partition) == changes:
                continue
            disks = {node: self.cluster.machines[node].disks for node in nodes}
            ends = {node: logs[node].end for node in nodes}
            until = ends if partition in self.observed.damaged else {}
            held = {
                node: (ends[node], disks[node].records_of(str(partition), first, until.get(node))) for node in nodes
            }
            differ = len(set(held.values())) > 1
            if differ and self.znodes.is_compacted(partition.topic):
                if self.observed.is_lossy(partition):
                    first = max(first, self._cut.get(partition, 0))
                values = {node: (end, self._last_values(logs[node], data, first)) for node, (end, data) in held.items()}
                differ = any(each != values[state.leader] for each in values.values())
                if differ:
                    yield f"{partition}: its ISR has different last values from offset {first} on: {values}"
            elif differ:
                yield (
                    f"{partition}: the logs of its ISR differ from offset {first} on; log end offset and bytes by node:"
                    f" { {node: (end, len(data)) for node, (end, data) in held.items()} }"
                )
            if not differ:
                self._equal[partition] = changes

    def _last_values(
        self, log: observed_facts.LogView, data: bytes, first: int
    ) -> dict[bytes | None, tuple[int, bytes]]:
        """Return the offset and the value of the last record of each key that is not deleted; an error in its place."""
        files = self._files.get(log)
        aborted = () if files is None else files.transactions.aborted
        try:
            last = {
                each.key: (each.offset, each.value)
                for each in visible_records(
                    data, tuple(AbortedTransaction(row.producer_id, row.first) for row in aborted)
                )
                if each.offset >= first
            }
        except (InvalidRecords, CannotDecompress) as error:  # logs that differ can have batches that no reader accepts
            return {None: (-1, str(error).encode())}
        return {key: (offset, value) for key, (offset, value) in last.items() if value is not None}

    @invariant("log directories match the assignment", "broker.md 2.2, 5.1")
    def _log_directories_match_the_assignment(self, fact: observed_facts.ClusterAtRest) -> Iterator[str]:
        assigned: dict[int, set[TopicPartition]] = {}
        for tp, each in self.assigned.items():
            if tp.topic not in self.deleting:
                for replica in each.replicas:
                    assigned.setdefault(replica, set()).add(tp)
        for node in self.nodes.controlled_nodes():
            wanted = assigned.get(node, set())
            held = set()
            for name in self.cluster.machines[node].disks.logs():
                topic, number, renamed = parse_name(name)
                if renamed != "delete":
                    held.add(TopicPartition(topic, number))
            # Brokers do not know a partition before it has its first leader.
            missing = (wanted - held) & self.states.keys()
            yield from (f"node {node} has no log of {tp}" for tp in sorted(missing))
            for tp in sorted(held - wanted):
                # Two exceptions, as in Kafka. A controller does not wait until an absent broker has deleted the
                # replicas that a reassignment removed. A new controller halts the deletion of a topic with an offline
                # replica; live brokers then create the topic's logs again (trap T1).
                halted = tp.topic in self.deleting and self.nodes.waits_for_absent(tp.topic)
                if (node, tp) not in self.znodes.moved_away and not halted:
                    yield f"node {node} has a log of {tp} but no assigned replica"
