"""Fetch sessions: their epochs, their partitions, and what they send of a log's offsets."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.monitors.replication_invariants import PROMPT
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import FAULTS, ClusterAtRest, Process, ResponseSent
from actors.simulation.reachability import SLACK
from messages import errors
from messages.apis.fetch import FetchRequest
from messages.cluster import TopicPartition

FULL = 0
"""The epoch of a fetch that names all its partitions."""

UNSENT = -1, -1


@attrs.define
class _Session:
    """A fetch session as the responses show it."""

    epoch: int = FULL
    """The last epoch that was accepted."""
    sent: dict[TopicPartition, tuple[int, int] | None] = attrs.field(factory=dict)
    """The high watermark and log start offset in the last response that has the partition; None with an error."""
    unsent: dict[TopicPartition, tuple[str, float]] = attrs.field(factory=dict)
    """The partitions whose log has other offsets: which ones, and since when."""


class FetchSessionInvariants(Monitor):
    """The rules for fetch sessions (KIP-227)."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._sessions: dict[tuple[Process, int], _Session] = {}
        self._wrong: list[str] = []
        self._replaced: dict[tuple[Process, int], float] = {}
        """When the request that replaced a session arrived."""

    @observes
    def _note_session(self, fact: ResponseSent) -> None:
        self._wrong = list(self._continue_session(fact)) if isinstance(fact.request, FetchRequest) else []

    @invariant("fetch sessions go on", "KIP-227", FetchRequest)
    def _fetch_sessions_go_on(self, fact: ResponseSent) -> Iterator[str]:
        """A process accepts each epoch of a fetch session once, and none after another session has replaced it.

        A broker that follows sends the right epoch, or begins a new session if it is in doubt.
        """
        yield from self._wrong

    def _continue_session(self, fact: ResponseSent) -> Iterator[str]:
        request, response, what = fact.request, fact.response, f"node {fact.node}: fetch session"
        key, epoch, is_simulated = (fact.process, request.session_id), request.session_epoch, self.observed.is_simulated
        is_doubtful = response.error_code == errors.INVALID_FETCH_SESSION_EPOCH
        if is_doubtful and is_simulated and request.replica_id in self.cluster.machines:
            yield f"{what} {key[1]} of broker {request.replica_id} was refused epoch {epoch}"
        if response.error_code != errors.NONE:
            return
        if epoch <= FULL:
            self._sessions.pop(key, None)
            self._replaced[key] = fact.at
            session = self._sessions[fact.process, response.session_id] = _Session()
        elif fact.at < self._replaced.get(key, fact.at):
            return  # it arrived before the session was replaced
        else:
            session = self._sessions.setdefault(key, _Session())
            if epoch <= session.epoch or key in self._replaced:
                yield f"{what} {key[1]} accepted epoch {epoch} after {session.epoch}, or after its replacement"
            session.epoch = epoch
        if not is_simulated:
            return  # a trace has not all requests
        new: dict[TopicPartition, tuple[int, int] | None] = {each.partition: UNSENT for each in request.partitions}
        session.sent = new | session.sent
        for partition in request.forgotten:
            session.sent.pop(partition, None)
        for each in response.partitions:
            if each.partition not in session.sent:
                yield f"{what} {key[1]} returned {each.partition}, which is not among {list(session.sent)}"
            offsets = each.high_watermark, each.log_start_offset
            session.sent[each.partition] = offsets if each.error_code == errors.NONE else None
        if response.session_id and not session.sent:
            yield f"{what} {key[1]} goes on without partitions"

    def _unsent(self, process: Process, session: _Session) -> Iterator[tuple[TopicPartition, str]]:
        """Yield the partitions whose log has other offsets than the session sent, with both."""
        for partition, sent in session.sent.items():
            view = self.replicas.log(process[0], partition)
            if view is not None and sent not in (None, now := (view.high_watermark, view.start)):
                yield partition, f"of high watermark and log start offset {now}, node {process[0]} has sent {sent}"

    def _well_for(self, node: int, partition: TopicPartition) -> float:
        return min(self.observed.led_for(node, partition), self.observed.healthy_for(node))

    @invariant("fetch sessions send what moves", "KIP-227, KIP-107", FetchRequest, lacks=FAULTS)
    def _fetch_sessions_send_what_moves(self, fact: ResponseSent) -> Iterator[str]:
        """A response has each partition whose high watermark or log start offset differs from the last one sent."""
        id = fact.response.session_id
        session = self._sessions.get((fact.process, id)) if id else None  # a throttled response has no session
        if session is None or fact.response.error_code != errors.NONE:
            return
        before, session.unsent = session.unsent, {}
        for partition, text in self._unsent(fact.process, session):
            since = before[partition][1] if before.get(partition, ("",))[0] == text else self.now
            session.unsent[partition] = text, since
            if fact.at > since + PROMPT and self._well_for(fact.node, partition) > self.now - since + PROMPT:
                yield f"{partition}: {text} since {since:.3f} s, in fetch session {id}"

    @invariant("fetch sessions at rest have sent what moved", "KIP-227, KIP-107", lacks=FAULTS)
    def _fetch_sessions_at_rest_have_sent_what_moved(self, fact: ClusterAtRest) -> Iterator[str]:
        """Nothing has moved since a session's last response: the simulated network skips polls of idle sessions."""
        for each in self.exchanges.waiting():
            is_current = each.process == (each.node, self.observed.starts(each.node))
            id = each.request.session_id if is_current and isinstance(each.request, FetchRequest) else 0
            session = self._sessions.get((each.process, id)) if id else None
            for partition, text in self._unsent(each.process, session) if session else ():
                if self._well_for(each.node, partition) > SLACK:
                    yield f"{partition}: {text}, in fetch session {id}"
