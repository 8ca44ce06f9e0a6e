"""What happens to records after they are in a log: cleaning, retention, and moves to another log directory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

from actors.simulation.client_history import TOMBSTONE, key_of
from actors.simulation.monitors.monitor import Monitor, invariant
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import FILES, ClusterQueried, LogCopied, LogExpired, Process, ReplicaSwapped
from messages.wire import MalformedFrame
from messages.wire.record_batch import has_valid_crc, whole_batches

WEEK_MS = 7 * 24 * 60 * 60 * 1000
"""The default of retention.ms."""

FASTEST = 1.03
"""How much faster than the clients' clocks a node's clock may be."""

WINDOW = 11
"""Seconds of all samples in which copies are counted."""


class CleaningInvariants(Monitor):
    """The rules for records that the cleaner or the retention removes, and for replicas that move."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._copied: dict[Process, deque[tuple[float, int]]] = {}
        """Process -> the time and the bytes of its last copies."""

    @invariant("retention removes only what its settings allow", "broker.md 5.5", lacks=FILES)
    def _retention_removes_only_what_is_allowed(self, fact: LogExpired) -> Iterator[str]:
        """The retention removes records by size if retention.bytes is set, and else those that are old enough.

        What the cleaner may have removed before, the retention has not removed.
        """
        partition, topic = fact.partition, fact.partition.topic
        if any(int(size) >= 0 for size in self.znodes.overrides.get(topic, {}).get("retention.bytes", ())):
            return
        oldest_ms = self.znodes.least(topic, "retention.ms", WEEK_MS)
        acknowledged, later = self.history.acknowledged.get(partition, {}), set[bytes]()
        is_compacted = self.znodes.is_compacted(topic)
        for offset, each in sorted(acknowledged.items(), reverse=True):
            age_ms = 1000 * (self.now * FASTEST - each.sent)
            if is_compacted:
                key = key_of(each.value)
                may_be_cleaned = key in later or each.value.startswith(TOMBSTONE)
                later.add(key)
                if may_be_cleaned:
                    continue
            if fact.before <= offset < fact.after and each.sent and age_ms < oldest_ms:
                yield (
                    f"{partition}: node {fact.node} removed offset {offset}, which was sent {age_ms / 1000:.1f} s ago;"
                    f" retention.ms is {oldest_ms}"
                )

    @invariant("moved replicas are whole", "KIP-113", lacks=FILES)
    def _moved_replicas_are_whole(self, fact: ReplicaSwapped) -> Iterator[str]:
        """The copy that replaces a log has all its batches, without a gap unless the topic is compacted."""
        view, name = fact.view, f"{fact.partition} of node {fact.node}"
        folder = Path(self.cluster.machines[fact.node].disks.path(view.folder))
        following = None
        for file in sorted(folder.glob("*.log")):
            data = file.read_bytes()
            try:
                for position, header in whole_batches(data):
                    first = header.base_offset
                    if not has_valid_crc(data, position, header):
                        yield f"{name}: the batch at offset {first} of {view.folder} is damaged"
                    gap = first > view.start if following is None else first != following
                    if gap and not self.znodes.is_compacted(fact.partition.topic):
                        yield f"{name}: {view.folder} has offset {first} where {following or view.start} follows"
                    following = header.next_offset
            except MalformedFrame as error:
                yield f"{name}: {file} is damaged: {error}"
        if following is not None and following != view.end and not self.znodes.is_compacted(fact.partition.topic):
            yield f"{name}: {view.folder} ends at {following}, the log that it replaces at {view.end}"
        if following is None and view.start < view.end:
            yield f"{name}: {view.folder} is empty, the log that it replaces has offsets {view.start} to {view.end}"

    @invariant("copies keep to their rate", "KIP-113", lacks=FILES)
    def _copies_keep_to_their_rate(self, fact: LogCopied) -> Iterator[str]:
        """Nothing is copied if the copies of the last samples have used up the rate for all samples.

        A process does not know what was copied before it started.
        """
        copies = self._copied.setdefault((fact.node, self.observed.starts(fact.node)), deque())
        while copies and copies[0][0] < self.now - (WINDOW - 1) / FASTEST:
            copies.popleft()
        size = sum(size for _, size in copies)
        if fact.rate is not None and fact.size and size > fact.rate * WINDOW * FASTEST:
            yield f"node {fact.node} copies {fact.size} bytes after {size} bytes; the rate is {fact.rate} per second"
        copies.append((self.now, fact.size))

    @invariant("deleted keys stay deleted", "KIP-534")
    def _deleted_keys_stay_deleted(self, fact: ClusterQueried) -> Iterator[str]:
        """A tombstone that the cleaner has removed leaves no earlier record of its key."""
        for partition, read in self.history.read.items():
            if self.observed.is_lossy(partition) or not self.znodes.is_compacted(partition.topic):
                continue
            for offset, each in self.history.acknowledged.get(partition, {}).items():
                if each.value.startswith(TOMBSTONE) and offset not in read:
                    key = key_of(each.value)
                    back = [place for place, value in read.items() if place < offset and key_of(value) == key]
                    if back and offset >= self.observed.first_offset(partition):
                        yield f"{partition}: {key!r} was deleted at offset {offset}, and is back at {back}"
