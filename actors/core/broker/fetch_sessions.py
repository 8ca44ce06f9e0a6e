"""Fetch sessions (KIP-227): what a client and the broker both remember between two fetches (broker.md 4.2).

Rule 1: a request of epoch 0 names all its partitions and begins a session, if there is a free slot; one of epoch -1
        begins none. Both end the session that they name. Every other epoch goes on with a session: the request names
        the partitions that are new or changed, and those that it forgets.
Rule 2: a session that is not there is error 70, another epoch than the one expected error 71. After epoch n comes
        n + 1, and 1 after the largest.
Rule 3: there are `slots` sessions. Another takes the place of the one that was used longest ago, if that was more than
        two minutes ago; else of the least valuable, if that is worth less than the new one: followers' sessions are
        worth more than consumers', then the larger more than the smaller. Who is younger than two minutes is safe,
        but a consumer's session not from a follower. A session that rests is used all the time.
Rule 4: an answer within a session names the partitions that have records or an error, or whose high watermark or log
        start differs from the one last sent to the reader. A last stable offset that moves names none by itself: a
        reader that waits for it gets records.
Rule 5: the isolation level is that of the session's last request. When it changes, there may be something for the
        reader in every partition.

Kafka: `FetchManager`, `FetchSessionCache`, `FetchSession`.
"""

from __future__ import annotations

import attrs

from messages.cluster import TopicPartition
from messages.data_requests import (
    CONSUMER,
    NO_REPLICA,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    next_epoch,
)
from messages.error_codes import FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, NONE

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_ID = 2**31 - 1
SAFE_SECONDS = 120.0
"""How long a session that is not used, or is new, keeps its place."""

NEVER = -1.0
"""Before all times of the node's clock."""

UNTOLD = -1
"""A high watermark or log start that was not sent to the reader."""


@attrs.define
class CachedPartition:
    """A partition of a fetch session: the fetch offset, and the offsets in the last response."""

    part: FetchPartition
    high_watermark: int = UNTOLD
    log_start_offset: int = UNTOLD
    known_at: float = NEVER
    """When the partition itself last heard of this reader."""
    idle_until: float = NEVER
    """Until when the session's polls found a follower caught up; -1 where the partition knows."""

    def must_tell(self, fetched: FetchedPartition) -> bool:
        """Rule 4; and record the offsets as sent."""
        last_sent = self.high_watermark, self.log_start_offset
        self.high_watermark, self.log_start_offset = fetched.high_watermark, fetched.log_start_offset
        if fetched.body.size or fetched.error_code != NONE or fetched.preferred_read_replica != NO_REPLICA:
            return True
        return last_sent != (self.high_watermark, self.log_start_offset)


@attrs.define
class DelayedFetch:
    """A fetch request that waits for data."""

    number: int
    request: FetchRequest
    deadline: float
    queue: dict[TopicPartition, None]
    """Partitions to be read, in order."""
    reading: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions that were asked."""
    results: dict[TopicPartition, FetchedPartition] = attrs.field(factory=dict)
    found: int = 0
    """Bytes of records in the results."""
    parked: bool = False


@attrs.define(eq=False)
class Session:
    """A fetch session with its partitions; a fetch without a session has id 0."""

    id: int
    key: int
    """The number of the request that began it."""
    replica_id: int
    created_at: float
    partitions: dict[TopicPartition, CachedPartition]
    isolation_level: int = READ_UNCOMMITTED
    epoch: int = INITIAL_EPOCH + 1
    """That of the next request."""
    used_at: float = 0.0
    """When the last request came, that we know of."""
    resting: bool = False
    """Whether the listener answers its polls: there is nothing to tell."""
    unread: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions in which there may be something for the reader, the one first that has waited longest."""
    moved: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions of which there may be something to tell, but no records."""
    fetch: DelayedFetch | None = None
    """The request under way."""

    @property
    def is_follower(self) -> bool:
        """Whether a broker reads, not a consumer."""
        return self.replica_id != CONSUMER

    @property
    def worth(self) -> tuple[bool, int, int]:
        """The sort key for eviction (rule 3)."""
        return self.is_follower, len(self.partitions), self.id

    def update(self, request: FetchRequest) -> None:
        """Take over what an incremental request says."""
        if self.isolation_level != request.isolation_level:
            self.isolation_level = request.isolation_level
            self.unread.update(dict.fromkeys(self.partitions))
        for part in request.partitions:
            place = self.partitions.get(part.partition)
            if place is None or place.part.current_leader_epoch != part.current_leader_epoch:
                self.partitions[part.partition] = CachedPartition(part)
            else:
                place.part = part
            self.unread[part.partition] = None
        for partition in request.forgotten:
            for known in (self.partitions, self.unread, self.moved):
                known.pop(partition, None)


class FetchSessions:
    """All fetch sessions of a broker; new sessions get ascending ids, starting with `first_id`."""

    def __init__(self, slots: int, first_id: int = 1) -> None:
        self._slots = slots
        self._next_id = first_id
        self._sessions: dict[int, Session] = {}
        """By id, the one first whose last request came here longest ago."""
        self._ended: list[Session] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, number: int, now: float) -> Session | int:
        """The session that the request `number` goes on with or begins; or the code to refuse it (rules 1, 2)."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id in self._sessions:
                self._end(self._sessions[request.session_id])
            places = {part.partition: CachedPartition(part) for part in request.partitions}
            session = Session(
                *(NO_SESSION, number, request.replica_id, now, places, request.isolation_level),
                used_at=now,
                unread=dict.fromkeys(places),
            )
            if request.session_epoch == INITIAL_EPOCH and places and self._evict(session, now):
                session.id = self._next_id
                self._next_id = 1 if self._next_id >= _LAST_ID else self._next_id + 1
                self._sessions[session.id] = session
            return session
        found = self._sessions.get(request.session_id)
        if found is None:
            return FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != request.session_epoch:
            return INVALID_FETCH_SESSION_EPOCH
        found.update(request)
        del self._sessions[found.id]
        if found.partitions:
            self._sessions[found.id] = found
            found.epoch, found.used_at = next_epoch(found.epoch), now
        else:
            found.id = NO_SESSION
        return found

    def get(self, session_id: int) -> Session | None:
        """The session of that id, if there is one."""
        return self._sessions.get(session_id)

    def holds(self, session: Session) -> bool:
        """Whether it is there still."""
        return self._sessions.get(session.id) is session

    def take_ended(self) -> list[Session]:
        """The sessions that have ended since it was last asked."""
        taken, self._ended = self._ended, []
        return taken

    def _end(self, session: Session) -> None:
        del self._sessions[session.id]
        self._ended.append(session)

    def _evict(self, new: Session, now: float) -> bool:
        """Rule 3."""
        if len(self._sessions) < self._slots:
            return True
        oldest = next((session for session in self._sessions.values() if not session.resting), None)
        if oldest is not None and now - oldest.used_at > SAFE_SECONDS:
            victim = oldest
        else:
            open_to_it = (
                session
                for session in self._sessions.values()
                if now - session.created_at > SAFE_SECONDS or (new.is_follower and not session.is_follower)
            )
            least = min(open_to_it, key=lambda session: session.worth, default=None)
            if least is None or (*new.worth[:2], 0) < least.worth:
                return False
            victim = least
        self._end(victim)
        return True
