"""Quotas: a user gets what its quotas permit, neither more nor less, and is muted for its throttle time."""

from __future__ import annotations

import itertools
import json
import math
from collections import deque
from collections.abc import Iterator

from actors.simulation.actions import SPENDERS
from actors.simulation.monitors.monitor import Monitor, invariant, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import Process, QuotaUsed, Ticked
from actors.simulation.reachability import SLACK
from actors.simulation.simulated_cluster import CLIENT
from messages.client_quotas import FETCH, PRODUCE

COUNTED = 10.0
"""Seconds in which used bytes are surely counted together: all samples but one."""

WINDOW = 11.0
"""Seconds of all samples."""

TOLERANCE = 1.1
"""How much more a user may get than its quota, and be throttled for longer."""

LARGEST = 4_000
"""Maximum number of bytes of a response that a throttled user does not get."""

Key = tuple[Process, str, str]


class QuotaInvariants(Monitor):
    """The rules for users with quotas, from what these users see and the quotas in ZooKeeper."""

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self._quotas = dict.fromkeys(itertools.product(SPENDERS, (PRODUCE, FETCH)), ("", math.inf, 0.0))
        """User and quota -> the path of the quota, bytes per second, infinite without a quota, and since when."""
        self._used: dict[Key, deque[tuple[float, int]]] = {}
        """The times of the last requests with a response, and their bytes, since the process must know the quota."""
        self._sent: dict[Key, deque[tuple[float, int]]] = {}
        """The times of the last requests, and their bytes, LARGEST without a response."""
        self._muted: dict[tuple[Process, str], tuple[float, float]] = {}
        """When a throttled user received a throttle time, and until when it is muted."""

    @observes
    def _tick(self, fact: Ticked) -> None:
        """Note which quotas have changed."""
        for user, quota in self._quotas:
            self._note_quota(user, quota)

    def _rate(self, fact: QuotaUsed) -> float:
        return self._note_quota(fact.user, fact.quota)

    def _note_quota(self, user: str, quota: str) -> float:
        """Return the bytes per second of a user, and note when they changed; the use of each quota is counted apart."""
        nodes, rate, applied = self.cluster.zookeeper.nodes, math.inf, ""
        for path in (f"/config/users/{user}/clients/{CLIENT}", f"/config/users/{user}"):
            entries = json.loads((nodes[path].data or b"{}") if path in nodes else b"{}").get("config", {})
            if quota in entries:
                applied, rate = path, float(entries[quota])
                break
        if self._quotas[user, quota][:2] != (applied, rate):
            self._quotas[user, quota] = applied, rate, self.now
        return rate

    def _is_settled(self, fact: QuotaUsed) -> bool:
        """Return whether the process has had time to learn the quota."""
        *_, since = self._quotas[fact.user, fact.quota]
        return min(self.now - since, self.nodes.healthy_for(fact.process[0])) > SLACK

    @invariant("a user gets no more than its quota", "KIP-13, KIP-55")
    def _users_get_no_more(self, fact: QuotaUsed) -> Iterator[str]:
        """In the seconds whose bytes are counted together; a request is charged after it was sent."""
        key, rate = (fact.process, fact.user, fact.quota), self._rate(fact)
        if not self._is_settled(fact) or rate == math.inf:
            self._used.pop(key, None)
            return
        used = self._used.setdefault(key, deque())
        used.append((fact.sent, fact.size))
        while used and used[0][0] < self.now - COUNTED:
            used.popleft()
        if not used:
            return  # the request took longer than that
        size, largest = sum(each for _, each in used), max(each for _, each in used)
        # in a window that is not over, each throttle time is longer by a request's, and one request follows each
        more = math.sqrt(2 * COUNTED * rate * largest) + largest
        if size > TOLERANCE * rate * WINDOW + more:
            yield f"node {fact.process[0]}: {fact.user} used {size} bytes in {COUNTED} s; its {fact.quota} is {rate:g}"

    @invariant("a user is throttled for no longer than it must", "KIP-13, KIP-219")
    def _users_are_throttled_as_they_must(self, fact: QuotaUsed) -> Iterator[str]:
        """Without a quota never, and else not for longer than the quota needs for the bytes of all samples."""
        sent, rate = self._sent.setdefault((fact.process, fact.user, fact.quota), deque()), self._rate(fact)
        sent.append((fact.sent, LARGEST if fact.throttle_ms is None else fact.size))
        while sent[0][0] < fact.sent - TOLERANCE * WINDOW:
            sent.popleft()
        charged = sum(size for _, size in sent) + (LARGEST if fact.quota == FETCH else 0)  # perhaps not sent
        most_ms = 1 + 1000 * TOLERANCE * charged / rate
        if (fact.throttle_ms or 0) > most_ms and self._is_settled(fact):
            yield (
                f"node {fact.process[0]} throttles {fact.user} for {fact.throttle_ms} ms, which is more than"
                f" {most_ms:.0f} ms; its {fact.quota} is {rate:g}"
            )

    @invariant("a throttled user is muted", "KIP-219")
    def _throttled_users_are_muted(self, fact: QuotaUsed) -> Iterator[str]:
        """The next response arrives after the throttle time, counted from when the last request was sent."""
        key = fact.process, fact.user
        since, until = self._muted.get(key, (0.0, 0.0))
        if fact.throttle_ms is not None and since <= fact.sent and self.now < until:
            yield f"node {fact.process[0]} answers {fact.user}, which is muted for {until - self.now:.3f} s more"
        if fact.throttle_ms:
            self._muted[key] = self.now, fact.sent + fact.throttle_ms / 1000 / TOLERANCE
