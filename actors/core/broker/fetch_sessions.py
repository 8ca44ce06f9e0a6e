"""Fetch sessions (KIP-227): state that a client and a broker keep from one fetch to the next (broker.md 4.2).

Rule 1: a request with epoch 0 names all its partitions, and begins a session if a slot is free. A request with epoch -1
        is sessionless. Both kinds of request end the session whose id they contain. A request with another epoch
        continues a session, and names the new, changed and forgotten partitions.
Rule 2: a request with an unknown session gets error 70, and a request with an unexpected epoch gets error 71. Epoch n
        is followed by n + 1, and the largest epoch by 1.
Rule 3: the number of sessions is limited to `slots`. A new session evicts the least recently used session, if this
        session was last used more than two minutes ago. Otherwise the new session evicts the session with the least
        worth, if the new session is worth more. Any follower's session is worth more than a consumer's. Among sessions
        of the same kind, a session with more partitions is worth more. A session younger than two minutes is evicted
        only if it is a consumer's and the new session is a follower's. While the listener answers the polls of a
        session, the session is idle (`fetches`, rule 7), and the current time counts as the time of its last use.
Rule 4: a response within a session contains the partitions with records, with an error, with a preferred read replica,
        or with a high watermark or log start offset that differs from the last response. A changed last stable offset
        alone does not add a partition: a reader that waits for this change receives the records that the change makes
        readable.
Rule 5: a session has the isolation level of its last request. When this level changes, each partition is read again.
Rule 6: a session has either topic names or topic ids (Fetch 13 and later), and a request of the other kind gets error
        106. In a session with ids, a partition has its topic's name, or UNKNOWN and the id while the id is unknown.
Rule 7: partitions are read in the order in which they were added. A partition whose records are in a response within
        the session becomes the last one, so that a partition with many records does not hold up the others.

Kafka: `FetchManager`, `FetchSessionCache`, `FetchSession`.
"""

from __future__ import annotations

import attrs

from messages import errors
from messages.apis.fetch import (
    CONSUMER,
    IDS_SINCE,
    NO_REPLICA,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    next_epoch,
)
from messages.cluster import TopicPartition

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_ID = 2**31 - 1
SAFE_SECONDS = 120.0
"""Time in seconds during which an unused or new session is not evicted."""

NEVER = -1.0
"""A time before all times of the node's clock."""

UNKNOWN = "\0"
"""The first character of the topic of a partition whose topic id is unknown; topics' names cannot contain it."""

UNTOLD = -1
"""A high watermark or log start offset that was not yet sent to the reader."""


def is_final(fetched: FetchedPartition) -> bool:
    """Return whether a reader must get a result at once, although it has no records."""
    return (
        fetched.error_code != errors.NONE
        or fetched.preferred_read_replica != NO_REPLICA
        or fetched.diverging_epoch is not None
    )


@attrs.define
class CachedPartition:
    """A partition of a fetch session: the fetch offset, and the offsets in the last response."""

    part: FetchPartition
    turn: int
    """Partitions with a lower turn are read first (rule 7)."""
    high_watermark: int = UNTOLD
    log_start_offset: int = UNTOLD
    idle_until: float = NEVER
    """The time until which polls found the follower caught up; -1 if the partition has it."""

    def must_include(self, fetched: FetchedPartition) -> bool:
        """Return whether a response must contain this partition (rule 4); store its offsets as sent."""
        last_sent = self.high_watermark, self.log_start_offset
        self.high_watermark, self.log_start_offset = fetched.high_watermark, fetched.log_start_offset
        if fetched.body.size or is_final(fetched):
            return True
        return last_sent != (self.high_watermark, self.log_start_offset)


@attrs.define
class DelayedFetch:
    """A fetch request that waits for data."""

    number: int
    request: FetchRequest
    max_bytes: int
    min_bytes: int
    deadline: float
    queue: dict[TopicPartition, None]
    """Partitions to read, in order."""
    reading: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions whose reads have no result yet."""
    results: dict[TopicPartition, FetchedPartition] = attrs.field(factory=dict)
    found: int = 0
    """Size in bytes of the records in the results."""
    parked: bool = False


@attrs.define(eq=False)
class Session:
    """A fetch session with its partitions; the id 0 means a fetch without a session."""

    id: int
    key: int
    """The number of the request that began the session."""
    replica_id: int
    created_at: float
    partitions: dict[TopicPartition, CachedPartition]
    turns: int
    """The next partition's turn."""
    isolation_level: int = READ_UNCOMMITTED
    epoch: int = INITIAL_EPOCH + 1
    """The epoch of the next request."""
    used_at: float = 0.0
    """The time of the last known request."""
    resting: bool = False
    """Whether the session is idle: the listener answers its polls."""
    unread: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions that may have data for the reader."""
    moved: dict[TopicPartition, None] = attrs.field(factory=dict)
    """Partitions with changed offsets, but without new records."""
    fetch: DelayedFetch | None = None
    """The request in flight."""
    ids: dict[str, str] | None = None
    """Topic of the session's partitions -> the id in the requests; None if the requests have names (rule 6)."""

    @property
    def is_follower(self) -> bool:
        """Whether the reader is a broker, not a consumer."""
        return self.replica_id != CONSUMER

    @property
    def worth(self) -> tuple[bool, int, int]:
        """The sort key for eviction (rule 3)."""
        return self.is_follower, len(self.partitions), self.id

    def queue(self) -> dict[TopicPartition, None]:
        """Return the partitions to read, in order (rule 7)."""
        return dict.fromkeys(sorted(self.unread, key=lambda partition: self.partitions[partition].turn))

    def move_to_end(self, place: CachedPartition) -> None:
        """Read this partition after all others (rule 7)."""
        place.turn, self.turns = self.turns, self.turns + 1

    def update(self, request: FetchRequest) -> None:
        """Apply the changes of an incremental request."""
        if self.isolation_level != request.isolation_level:
            self.isolation_level = request.isolation_level
            self.unread.update(dict.fromkeys(self.partitions))
        for part in request.partitions:
            place = self.partitions.get(part.partition)
            if place is None:
                self.partitions[part.partition] = place = CachedPartition(part, 0)
                self.move_to_end(place)
            elif place.part.current_leader_epoch != part.current_leader_epoch:
                self.partitions[part.partition] = CachedPartition(part, place.turn)
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
        """Sessions by id, the least recently used first."""
        self._ended: list[Session] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, number: int, now: float) -> Session | int:
        """Find or begin the session of a request (rules 1, 2).

        Args:
            request: The fetch.
            number: The number of the request, which becomes the key of a new session.
            now: Seconds of the node's clock.

        Returns:
            The session, or the error code that refuses the request.
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id in self._sessions:
                self.end(self._sessions[request.session_id])
            places = {part.partition: CachedPartition(part, turn) for turn, part in enumerate(request.partitions)}
            session = Session(
                *(NO_SESSION, number, request.replica_id, now, places, len(request.partitions)),
                isolation_level=request.isolation_level,
                used_at=now,
                unread=dict.fromkeys(places),
                ids=None if request.version < IDS_SINCE else {},
            )
            if request.session_epoch == INITIAL_EPOCH and places and self._evict(session, now):
                session.id = self._next_id
                self._next_id = 1 if self._next_id >= _LAST_ID else self._next_id + 1
                self._sessions[session.id] = session
            return session
        found = self._sessions.get(request.session_id)
        if found is None:
            return errors.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != request.session_epoch:
            return errors.INVALID_FETCH_SESSION_EPOCH
        if (found.ids is None) != (request.version < IDS_SINCE):
            return errors.FETCH_SESSION_TOPIC_ID_ERROR
        found.update(request)
        del self._sessions[found.id]
        if found.partitions:
            self._sessions[found.id] = found
            found.epoch, found.used_at = next_epoch(found.epoch), now
        else:
            found.id = NO_SESSION
        return found

    def get(self, session_id: int) -> Session | None:
        """Return the session with this id, if it exists."""
        return self._sessions.get(session_id)

    def with_ids(self) -> list[Session]:
        """Return the sessions that have topic ids."""
        return [session for session in self._sessions.values() if session.ids is not None]

    def holds(self, session: Session) -> bool:
        """Return whether this session still exists."""
        return self._sessions.get(session.id) is session

    def take_ended(self) -> list[Session]:
        """Return the sessions that have ended since the last call."""
        taken, self._ended = self._ended, []
        return taken

    def end(self, session: Session) -> None:
        """End a session."""
        del self._sessions[session.id]
        self._ended.append(session)

    def _evict(self, new: Session, now: float) -> bool:
        """Evict a session for the new session if no slot is free (rule 3); return whether a slot is free now."""
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
        self.end(victim)
        return True
