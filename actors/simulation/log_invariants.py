"""Functions that check logs and their files; the table `INVARIANTS` of `actors.simulation.invariants` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.simulation.exchanges import ResponseSent
from actors.simulation.log_transactions import NO_OFFSET
from actors.simulation.replicas import LogCalled
from actors.storage.log.checkpoint import Checkpoint
from actors.storage.log_directories import RECOVERY_POINTS
from messages import errors
from messages.apis.fetch import READ_COMMITTED, FetchRequest
from messages.cluster import TopicPartition
from messages.wire.record_batch import whole_batches

if TYPE_CHECKING:
    from actors.simulation.checker import Checker, PointsWritten

PROMPT = 0.3
"""Seconds within which a node without a fault answers a fetch when it has data."""


def unfinished_transactions_are_unstable(law: Checker, change: LogCalled) -> Iterator[str]:
    """The first unstable offset is at most the first offset of each unfinished transaction in the log."""
    transactions, result = change.view.transactions, change.first_unstable
    first = NO_OFFSET if transactions is None else transactions.first_unfinished
    if first > NO_OFFSET and first >= change.view.start and not NO_OFFSET < result <= first:
        yield (
            f"{change.partition}: {change.method} of node {change.node} returned first unstable offset {result}; an"
            f" unfinished transaction begins at {first}"
        )


def readers_receive_aborted_transactions(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A reader of committed data receives the ids of all aborted transactions whose records it receives."""
    request = change.request
    if not isinstance(request, FetchRequest) or request.isolation_level != READ_COMMITTED:
        return
    for result in change.response.partitions:
        view = law.replicas.log(change.node, result.partition)
        if view is None or view.transactions is None or not result.body.size:
            continue
        headers = [header for _, header in whole_batches(result.body.data)]
        listed = [(each.producer_id, each.first_offset) for each in result.aborted_transactions or ()]
        for each in view.transactions.aborted_within(headers[0].base_offset, headers[-1].last_offset):
            if not any(producer == each.producer_id and first <= each.first for producer, first in listed):
                yield (
                    f"{result.partition}: node {change.node} sent offsets {headers[0].base_offset} to"
                    f" {headers[-1].last_offset} with aborted transactions {listed}, without {each}"
                )


def waiting_fetches_end_when_there_is_data(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A consumer's fetch stops waiting as soon as there is a record below the limit of its isolation level."""
    request, now = change.request, law.cluster.now
    if not isinstance(request, FetchRequest) or request.replica_id >= 0 or not request.max_wait_ms:
        return
    if law.replicas.healthy_for(law.cluster, change.node) < now - change.at:
        return
    codes = {result.partition: result.error_code for result in change.response.partitions}
    for part in request.partitions:
        view = law.replicas.log(change.node, part.partition)
        if view is None or codes.get(part.partition, errors.NONE) != errors.NONE:
            continue
        since = view.readable_since(part.fetch_offset, request.isolation_level == READ_COMMITTED)
        if since is not None and now - max(since, change.at) > PROMPT:
            yield (
                f"{part.partition}: a fetch from offset {part.fetch_offset} arrived at {change.at:.3f} s; node"
                f" {change.node} had the record at {since:.3f} s and answered at {now:.3f} s"
            )


def in_sync_replicas_keep_committed_records(law: Checker, change: LogCalled) -> Iterator[str]:
    """A replica of the ISR truncates no committed record, because its leader has the same record (KIP-101)."""
    if change.method not in ("truncate", "restart") or law.is_lossy(change.partition):
        return
    state = law.states.get(change.partition)
    if state is None or change.node not in state.isr or change.partition.topic in law.deleting:
        return
    committed = min(law.replicas.committed(change.partition), change.end_before)
    if change.view.end < committed:
        yield (
            f"{change.partition}: {change.node} of the ISR {state.isr} truncated its log to {change.view.end};"
            f" the records before {committed} are committed"
        )


def damaged_replicas_do_not_lead(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A replica whose log lost committed records does not lead while the ISR has another member with a good copy."""
    for partition, isr in law.replicas.leads_without_records(change.node, change.request, change.response):
        view = law.replicas.log(change.node, partition)
        if set(isr) != {change.node} and view is not None and not law.is_lossy(partition):
            yield (
                f"{partition}: node {change.node} leads with log end offset {view.end}, although its records before"
                f" {view.lost_before} were committed; the ISR is {isr}"
            )


def log_start_offsets_survive_restarts(law: Checker, change: LogCalled) -> Iterator[str]:
    """A log begins at the log start offset of the last checkpoint, or later."""
    if change.method == "open" and change.view.start < change.kept_start and not law.power_failed:
        yield (
            f"{change.partition}: node {change.node} opened its log with log start offset {change.view.start};"
            f" {change.kept_start} was written to the checkpoint"
        )


def recovery_points_are_durable(law: Checker, change: PointsWritten) -> Iterator[str]:
    """No recovery point is above both the end of the complete segments and the log end at the process start."""
    machine = law.cluster.machines[change.node]
    disks = machine.disks
    for name in () if disks.faults or disks.hurt else disks.names:
        for topic, number, offset in Checkpoint(disks.path(f"{name}/{RECOVERY_POINTS}"), 1, 2).read():
            partition = TopicPartition(str(topic), int(number))
            view = law.replicas.log(change.node, partition)
            if view is None or view.starts != machine.starts or view.folder.parent.name != name.removeprefix("/"):
                continue
            if int(offset) > view.durable_end:
                yield (
                    f"{partition}: node {change.node} has recovery point {offset}; its complete segments, and what its"
                    f" start found, end at {view.durable_end}"
                )
