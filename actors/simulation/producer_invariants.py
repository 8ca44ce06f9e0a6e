"""Functions that check producers and transactions, listed in `actors.simulation.invariants.INVARIANTS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.core.coordinator.loading import Loading
from actors.core.coordinator.offsets import Offsets
from actors.core.topic.topic_name import GROUP_METADATA, INTERNAL_TOPICS, TRANSACTION_STATE
from actors.simulation.exchanges import ResponseSent
from actors.simulation.reachability import can_receive_markers
from actors.simulation.simulated_transactions import KnownOutcome, StableOffsetSeen, TransactionBroken
from actors.simulation.streams import StreamBroken
from actors.simulation.transactional_producers import INPUT, OUTPUT, WORKER
from actors.storage.log.key_values import key_values
from messages import errors
from messages.apis.produce import ProduceRequest
from messages.cluster import TopicPartition
from messages.partition import LogMoved

if TYPE_CHECKING:
    from actors.simulation.checker import Checker, ClusterQueried


def streams_are_whole(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """A log has each record of an idempotent producer once, in order and without a gap."""
    for stream in law.streams.values():
        partition = stream.partition
        read = law.read.get(partition)
        if read is None or law.born.get(partition.topic) != stream.born or law.is_lossy(partition):
            continue
        numbers = stream.numbers(read)
        if not numbers:
            continue
        first = numbers[0] if law.first_offset(partition) else 0
        if numbers != list(range(first, first + len(numbers))):
            wrong = next(place for place, number in enumerate(numbers) if number != first + place)
            yield f"{partition}: {stream.name} has {numbers[wrong]} where {first + wrong} follows: {numbers}"


def responses_to_streams_agree(law: Checker, change: StreamBroken) -> Iterator[str]:
    """A producer that sends its batches in order is not refused, and all responses to a batch have the same offset."""
    yield change.text


# ---------------------------------------------------------------------------------------------------- transactions


def _is_judged(law: Checker, partition: TopicPartition, born: int) -> bool:
    """Return whether a partition must have all its committed records. `born` identifies its topic's creation."""
    return (
        partition in law.read_committed
        and law.born.get(partition.topic) == born
        and not law.is_lossy(partition)
        and not law.first_offset(partition)
    )


def readers_see_whole_transactions(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """Readers of committed data see all records of a transaction, each once and in order, or none.

    While a fault prevents a marker from reaching a partition, its leader does not return the transaction's records.
    """
    visible: dict[TopicPartition, dict[bytes, int]] = {}
    for partition, read in law.read_committed.items():
        places = visible[partition] = {}
        for place, value in enumerate(read.values):
            transactional_id = value.partition(b":")[0].decode(errors="replace")
            if value in places and b":" in value and transactional_id in law.transactions:
                yield f"{partition}: {value!r} is visible twice"
            places[value] = place
    for each in law.transactions.values():
        judged = {tp: values for tp, values in each.values.items() if _is_judged(law, tp, each.born[tp.topic])}
        found = {tp: [value for value in values if value in visible[tp]] for tp, values in judged.items()}
        if any(found.values()) and not each.may_be_visible:
            yield f"{each.name} is {each.fate.value}, and readers of committed data see {found}"
        elif each.fate is KnownOutcome.COMMITTED or any(found.values()):
            whole = {tp: values for tp, values in judged.items() if can_receive_markers(law, tp)}
            for partition, values in whole.items():
                order = [visible[partition].get(value, -1) for value in values]
                if -1 in order or order != sorted(order):
                    yield f"{each.name} is {each.fate.value}, and readers of committed data see {found} of {judged}"


def transactional_records_have_a_transactional_id(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A leader refuses a transactional batch if the Produce request has no transactional id."""
    request = change.request
    if not isinstance(request, ProduceRequest) or request.transactional_id is not None:
        return
    for part, result in zip(request.partitions, change.response.partitions, strict=True):
        if result.error_code == errors.NONE and any(header.is_transactional for header in part.records.batches):
            yield f"{result.partition}: node {change.node} appended a transactional batch without a transactional id"


def transactions_end(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """In an idle cluster no transaction is open: its producer ends it, or its timeout does (KIP-98).

    A transaction is exempt if a power failure or an unclean election may have damaged one of two logs: its partition's
    log, which has the marker, or the coordinator's log, which has the transaction's state. It is also exempt if the
    coordinator's log was truncated. As in Kafka, a new coordinator also loads uncommitted records. If an uncommitted
    record lists a partition, a request to add that partition is answered without a new record. If the uncommitted
    record is then truncated, the next coordinator does not know the partition.
    """
    logs = [log for log in law.states if log.topic == TRANSACTION_STATE]
    if any(law.is_lossy(log) or log in law.replicas.truncated for log in logs):
        return
    for partition, read in law.read_committed.items():
        is_open = read.stable != read.high_watermark
        if is_open and not law.is_lossy(partition) and can_receive_markers(law, partition):
            yield f"{partition}: last stable offset {read.stable}, high watermark {read.high_watermark}"


def input_is_processed_once(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """The output of a read-process-write worker is its input up to the committed offset, once and in order."""
    born = law.born.get(INPUT.topic, 0)
    done = [each for each in law.transactions.values() if each.offset >= 0 and OUTPUT in each.values]
    if not done or not all(_is_judged(law, tp, born) for tp in (OUTPUT,)) or INPUT not in law.read:
        return
    if law.is_lossy(INPUT) or law.first_offset(INPUT):
        return
    group = law.exchanges.group_partition(WORKER)
    if law.is_lossy(group) or any(each.born[OUTPUT.topic] != born for each in done):
        return
    read = law.read[INPUT]
    copies = [value for value in law.read_committed[OUTPUT].values if value.startswith(WORKER.encode())]
    copied = [value.split(b":", 2)[2] for value in copies]
    wanted = [value for _, value in sorted(read.items())][: len(copied)]
    if copied[: len(wanted)] != wanted:
        wrong = next(place for place, pair in enumerate(zip(copied, wanted, strict=False)) if pair[0] != pair[1])
        yield f"{OUTPUT}: copy {wrong} is of {copied[wrong]!r}, where {wanted[wrong]!r} follows"


def stable_offsets_never_decrease(law: Checker, change: StableOffsetSeen) -> Iterator[str]:
    """A last stable offset is at most the high watermark, and never decreases during a leader epoch."""
    message = change.message
    partition = message.partition if isinstance(message, LogMoved) else message.result.partition
    state = message.state
    if state.stable > state.high_watermark:
        yield f"{partition}: last stable offset {state.stable} of {change.node} is above {state.high_watermark}"
    key = (change.node, change.starts, partition, law.born.get(partition.topic, 0), state.leader_epoch)
    before = law.stable_offsets.get(key, -1)
    if state.leads and state.stable < before:
        yield f"{partition}: last stable offset of {change.node} falls from {before} to {state.stable}"
    if state.leads:
        law.stable_offsets[key] = max(before, state.stable)


def zombies_are_fenced(law: Checker, change: TransactionBroken) -> Iterator[str]:
    """A coordinator refuses requests of a producer after its successor with the same transactional id has begun.

    The exception is a coordinator whose log lost the successor's epoch by a power failure or an unclean election.
    """
    unclean = any(partition.topic in INTERNAL_TOPICS for partition in law.led_uncleanly)
    if not law.power_failed and not unclean:
        yield change.text


def groups_equal_their_log(law: Checker, change: ClusterQueried) -> Iterator[str]:
    """The offsets of a group in memory are those that the next coordinator would load.

    A commit that timed out may be in the log and not in the coordinator's memory, as in Kafka (3.9
    `GroupMetadata.failPendingOffsetWrite`): the next coordinator may load later offsets.
    """
    for partition, read in law.read_committed.items():
        state = law.states.get(partition)
        if partition.topic != GROUP_METADATA or state is None or read.stable != read.high_watermark:
            continue
        loading = Loading(partition.partition)
        loading.take(key_values(read.data, 0)[1])
        loaded = {each.group: Offsets.loaded(each.offsets, each.pending) for each in loading.groups()}
        for name, group in law.cluster.groups_at(state.leader).items():
            offsets = group.offsets
            if law.exchanges.group_partition(name) == partition and not offsets.under_way:
                expected = loaded.get(name, Offsets())
                is_behind = (state.leader, name) in law.unsure_groups and _is_behind(offsets, expected)
                if expected != offsets and not is_behind:
                    yield f"{name} has {offsets} in memory, and its log has {expected}"


def _is_behind(offsets: Offsets, loaded: Offsets) -> bool:
    """Return whether the log's offsets `loaded` have the same or a later commit for each partition in `offsets`."""
    return all(
        partition in loaded.committed and loaded.committed[partition].log_offset >= value.log_offset
        for partition, value in offsets.committed.items()
    )
