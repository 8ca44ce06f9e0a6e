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

from actors.core.broker.partition_effects import CallAdapter, Effects, call
from messages import errors
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

    def call(self, method: str, *arguments: object) -> CallAdapter:
        """Return the effect that calls a method for this log."""
        return call(("logs", method, (self.path, *arguments)))

    def open(self, place: LogPlace, config: tuple[int, ...]) -> Effects[None]:
        """Open the log, or create it.

        Raises:
            OSError: From the disk.
        """
        opened = yield call(("logs", "open", (place.path, place.missing, config)))
        self.start, self.end, self.latest_epoch, high_watermark, self.first_unstable = opened
        in_log = self.start <= high_watermark <= self.end
        self.high_watermark = high_watermark if in_log else min(max(high_watermark, self.start), self.end)
        self.lost_before = high_watermark if high_watermark > self.end else 0
        self.path = place.path

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
            self.first_unstable = yield self.call("note_high_watermark", self.high_watermark)

    # ------------------------------------------------------------------------------------------------ leading

    def begin_epoch(self, leader_epoch: int) -> Effects[None]:
        """Begin this leader epoch; an empty log stores it only with the first record (rule 2)."""
        if not self.end:
            yield self.call("begin_epoch", leader_epoch)

    def epoch_end(self, leader_epoch: int) -> Effects[tuple[int, int]]:
        """Return the largest epoch up to this one, and its end offset; (-1, -1) if there is no such epoch."""
        end: tuple[int, int] = yield self.call("epoch_end", leader_epoch)
        return end

    def advance_start(self, offset: int) -> Effects[None]:
        """Delete the records before `offset`."""
        self.start = yield self.call("advance_start", offset)

    def expire(self) -> Effects[None]:
        """Delete old segments, but only segments that end at or below the high watermark (broker.md 5.5)."""
        self.start, *_ = yield self.call("expire", self.high_watermark)

    # ------------------------------------------------------------------------------------------------ following

    def replicate(self, fetched: Replicate) -> Effects[int]:
        """Append the leader's bytes unchanged, and adopt the leader's log start offset; return an error code."""
        error_code = errors.NONE
        if fetched.body.size:
            error_code, self.end, self.first_unstable = yield self.call("replicate", fetched.body)
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
            self.start, self.end, self.first_unstable = yield self.call("truncate", target)
            self.move_high_watermark(min(self.high_watermark, self.end))
            yield from self.note_high_watermark()
        return ask

    def restart(self, offset: int) -> Effects[None]:
        """Delete all records, and start again at `offset`."""
        self.start, self.end, self.first_unstable = yield self.call("restart", offset)
        self.move_high_watermark(offset)
        yield from self.note_high_watermark()


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
