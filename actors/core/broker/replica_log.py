"""ReplicaLog holds the offsets of a replica's log, and changes the log (broker.md 3.5, 4.4 - 4.6).

Rule 1: a partition's log start offset, log end offset and high watermark are stored only here. The high watermark never
        exceeds the log end offset.
Rule 2: an empty log stores a leader epoch only when it is about to append the epoch's first record. Epochs stored
        earlier would all begin at the same offset, and only the last of them would count.
Rule 3: a follower's log is truncated by leader epochs (KIP-101, KIP-279). It is truncated to the high watermark only if
        the leader or the log has no epochs.
Rule 4: a log lacks committed records if it ends before its checkpointed high watermark: its file was damaged, or its
        machine lost power. The checkpoint stays until the log has these records again, or has all records of a leader.

Kafka: `Log`, `Partition.log`.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.core.broker.partition_effects import CallAdapter, Effects, call
from messages import errors, log_results
from messages.broker import LogPlace
from messages.partition import Replicate, TruncateToEpochEnd, last_stable_offset
from messages.probes import probe

NO_LOG = ""
"""The path while no log is open."""


class ReplicaLog:
    """The log of a replica: its path and its offsets."""

    __slots__ = ("end", "first_unstable", "high_watermark", "latest_epoch", "lost_before", "moved", "path", "start")

    def __init__(self, start: int = 0, end: int = 0, high_watermark: int = 0) -> None:
        self.path = NO_LOG
        self.start = start
        self.end = end
        self.high_watermark = high_watermark
        self.first_unstable = -1
        """The first offset of the earliest unfinished transaction; -1 without one."""
        self.latest_epoch = -1
        """The latest leader epoch in the log when the replica took its role."""
        self.lost_before = 0
        """The offset before which records are missing if the log ends before it (rule 4)."""
        self.moved = False
        """Whether the high watermark has moved since it was last passed to the log's files."""

    @property
    def last_stable_offset(self) -> int:
        """The end offset for consumers that read committed data only."""
        if self.first_unstable < 0:  # avoids a function call for most logs; each fetch reads this property twice
            return self.high_watermark
        return last_stable_offset(self.first_unstable, self.start, self.high_watermark)

    @property
    def lacks_committed(self) -> bool:
        """Whether the log lacks records that were committed (rule 4)."""
        return self.end < self.lost_before

    def accept_loss(self) -> None:
        """Let the log count as complete: no replica in the ISR has the missing records (rule 4)."""
        self.lost_before, self.moved = 0, True

    def _call(self, method: str, *arguments: object) -> CallAdapter:
        """Return the effect that calls a method for this log."""
        return call(("logs", method, (self.path, *arguments)))

    def open(self, place: LogPlace, config: tuple[int, ...]) -> Effects[None]:
        """Open the log, or create it.

        Raises:
            OSError: From the disk.
        """
        opened = log_results.log_opened((yield call(("logs", "open", (place.path, place.missing, config)))))
        self.start, self.end, self.first_unstable = opened.start, opened.end, opened.first_unstable
        self.latest_epoch, high_watermark = opened.latest_epoch, opened.high_watermark
        in_log = self.start <= high_watermark <= self.end
        self.high_watermark = high_watermark if in_log else min(max(high_watermark, self.start), self.end)
        self.lost_before = high_watermark if high_watermark > self.end else 0
        self.path = place.path

    def configure(self, config: tuple[int, ...]) -> Effects[None]:
        """Apply the settings to all later calls."""
        yield self._call("configure", config)

    def assign_topic_id(self, topic_id: str) -> Effects[str]:
        """Let the log keep the topic's id if it keeps none; return the id that it keeps, "" if it keeps no id."""
        kept: str = yield self._call("assign_topic_id", topic_id)
        return kept

    # ------------------------------------------------------------------------------------------------ high watermark

    def move_high_watermark(self, offset: int) -> None:
        """Set the high watermark; `note_high_watermark` then passes it to the storage of the log."""
        if offset != self.high_watermark:
            self.high_watermark, self.moved = offset, True

    def note_high_watermark(self) -> Effects[None]:
        """Pass the new high watermark to the storage of the log.

        The storage returns the first unstable offset, which becomes `first_unstable`.
        """
        if self.moved and not self.lacks_committed:
            self.moved = False
            self.first_unstable = yield self._call("note_high_watermark", self.high_watermark)

    # ------------------------------------------------------------------------------------------------ leading

    def begin_epoch(self, leader_epoch: int) -> Effects[None]:
        """Begin this leader epoch."""
        yield self._call("begin_epoch", leader_epoch)

    def begin_first_epoch(self, leader_epoch: int) -> Effects[None]:
        """Begin this leader epoch if the log is empty, before something depends on it (rule 2)."""
        if not self.end:
            yield from self.begin_epoch(leader_epoch)

    def read_latest_epoch(self) -> Effects[int]:
        """Return the latest leader epoch; -1 if the log has none."""
        epoch: int = yield self._call("latest_epoch")
        return epoch

    def epoch_end(self, leader_epoch: int) -> Effects[tuple[int, int]]:
        """Return the largest epoch up to this one, and its end offset; (-1, -1) if there is no such epoch."""
        end: tuple[int, int] = yield self._call("epoch_end", leader_epoch)
        return end

    def append(
        self, method: str, leader_epoch: int, append_time: bool, committed: bool, appending: Iterable[object]
    ) -> Effects[log_results.RecordsAppended]:
        """Append batches or a marker by one of the three methods of the I/O adapter; `end` stays the old one."""
        yield from self.begin_first_epoch(leader_epoch)
        arguments = self.path, leader_epoch, append_time, committed, *appending
        end, first_unstable, *batches = yield call(("logs", method, arguments))
        appended = log_results.RecordsAppended(end, first_unstable, tuple(batches))
        self.first_unstable = appended.first_unstable
        return appended

    def advance_start(self, offset: int) -> Effects[None]:
        """Delete the records before `offset`."""
        self.start = yield self._call("advance_start", offset)

    def expire(self) -> Effects[None]:
        """Delete old segments, but only segments that end at or below the high watermark (broker.md 5.5)."""
        self.start = log_results.SegmentsExpired(*(yield self._call("expire", self.high_watermark))).start

    # ------------------------------------------------------------------------------------------------ reading

    def read(
        self, offset: int, max_bytes: int, limit: int, at_least_one: bool, to_be_sent: bool
    ) -> Effects[log_results.RecordsRead]:
        """Read batches up to the offset `limit`; those to be sent may be returned as regions of files."""
        wanted = self.path, offset, max_bytes, limit, at_least_one, to_be_sent
        return log_results.RecordsRead(*(yield call(("logs", "read", wanted))))

    def read_committed(
        self, offset: int, max_bytes: int, limit: int, at_least_one: bool
    ) -> Effects[log_results.RecordsRead]:
        """Read batches, and the aborted transactions among them."""
        wanted = self.path, offset, max_bytes, limit, at_least_one
        return log_results.RecordsRead(*(yield call(("logs", "read_committed", wanted))))

    def offsets_before(self, timestamp: int, most: int) -> Effects[tuple[int, ...]]:
        """Return the offsets for a ListOffsets of version 0."""
        offsets: tuple[int, ...] = yield self._call("offsets_before", timestamp, most)
        return offsets

    def find_time(self, timestamp: int, limit: int, search: int) -> Effects[log_results.RecordFound]:
        """Begin or continue a search for the first record of `timestamp` (ms) or later, below the offset `limit`."""
        return log_results.RecordFound(*(yield self._call("find_time", timestamp, limit, search)))

    def producers(self) -> Effects[tuple[tuple[int, ...], ...]]:
        """Return the fields of DescribedProducer for each producer of an open log."""
        rows: tuple[tuple[int, ...], ...] = (yield self._call("producers")) if self.path else ()
        return rows

    # ------------------------------------------------------------------------------------------------ moves

    def begin_copy(self, folder: str) -> Effects[None]:
        """Begin to copy the log to this folder of another directory."""
        yield self._call("begin_copy", folder)

    def copy(self, max_bytes: int) -> Effects[log_results.CopyAdvanced]:
        """Copy at most `max_bytes` more."""
        return log_results.CopyAdvanced(*(yield self._call("copy", max_bytes)))

    def end_copy(self) -> Effects[None]:
        """Stop copying."""
        yield self._call("end_copy")

    def swap(self) -> Effects[str]:
        """Let the complete copy replace the log; return the path of the replaced one, which the caller renames."""
        old, self.path = self.path, (yield self._call("swap"))
        return old

    # ------------------------------------------------------------------------------------------------ following

    def replicate(self, fetched: Replicate) -> Effects[int]:
        """Append the leader's bytes unchanged, and adopt the leader's log start offset; return an error code."""
        error_code = errors.NONE
        if fetched.body.size:
            replicated = log_results.RecordsReplicated(*(yield self._call("replicate", fetched.body)))
            error_code, self.end, self.first_unstable = replicated
        if self.start < fetched.log_start_offset <= self.end:
            yield from self.advance_start(fetched.log_start_offset)
        if not fetched.body.size and fetched.high_watermark <= self.end:
            self.lost_before = 0
        return error_code

    def truncate(self, reply: TruncateToEpochEnd) -> Effects[int]:
        """Truncate to the offset at which this log and the leader's diverge (rule 3).

        Returns:
            The epoch to look up next, -1 if none.
        """
        own: tuple[int, int] = (-1, -1)
        if reply.end >= 0 and reply.epoch >= 0:
            own = yield from self.epoch_end(reply.epoch)
        target, ask = truncation(reply, *own)
        if target < self.end:
            probe("a follower truncates its log")
        if target < self.end or reply.with_epoch:  # an epoch without records is forgotten too
            self._adopt(log_results.LogCut(*(yield self._call("truncate", target))))
            self.move_high_watermark(min(self.high_watermark, self.end))
            yield from self.note_high_watermark()
        return ask

    def restart(self, offset: int) -> Effects[None]:
        """Delete all records, and start again at `offset`."""
        self._adopt(log_results.LogCut(*(yield self._call("restart", offset))))
        self.move_high_watermark(offset)
        yield from self.note_high_watermark()

    def _adopt(self, cut: log_results.LogCut) -> None:
        self.start, self.end, self.first_unstable = cut


def truncation(reply: TruncateToEpochEnd, own_epoch: int, own_end: int) -> tuple[int, int]:
    """Return how to truncate a follower's log (broker.md 4.4, the table).

    Args:
        reply: The leader's response.
        own_epoch: The follower's largest epoch that is not above the epoch in the response; -1 if there is none.
        own_end: The end offset of that epoch.

    Returns:
        The offset to truncate to, and the epoch to look up next, -1 if none.
    """
    if reply.end < 0:
        probe("a follower does not learn where an epoch ends")
        return reply.otherwise, -1
    if reply.epoch < 0:
        return reply.end, -1
    if own_epoch == reply.epoch:
        return min(reply.end, own_end), -1
    if 0 <= own_epoch < reply.epoch:
        probe("a follower asks about an older epoch")
        return own_end, own_epoch
    return reply.end, -1
