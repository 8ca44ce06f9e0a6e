"""The simulated network between hosts, which delays messages or holds them back.

Rule 1: messages of one stream keep their order, as in TCP; messages of different streams may overtake each other.
Rule 2: a cut connection holds messages, as TCP retransmits them, and delivers them when the cut ends. The end points
        detect timeouts (`memory_network`, `zookeeper_link`).
Rule 3: faults of one connection add up: it works again when all its cuts have ended, and delays are summed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

from actors.runtime import VirtualScheduler

LATENCY = 0.0002
JITTER = 0.001
"""The minimum delay of a message in seconds, and the maximum of its additional random delay."""

Direction = tuple[str, str]
"""(from host, to host)."""


class Wires:
    """The simulated connections between all hosts, by host name; `steady` switches random delays off."""

    def __init__(
        self, scheduler: VirtualScheduler, chance: random.Random, steady: bool = False, latency: float = LATENCY
    ) -> None:
        self._scheduler = scheduler
        self._chance = chance
        self._jitter = 0.0 if steady else JITTER
        self._latency = latency
        self._distances: dict[Direction, float] = {}
        """Permanent additional delays in seconds, which are not faults."""
        self._cuts: dict[Direction, int] = {}
        self._delays: dict[Direction, float] = {}
        self._held: dict[Direction, list[tuple[Callable[[], None], Hashable]]] = {}
        self._arrivals: dict[Hashable, float] = {}
        """The arrival time of the last message of each stream."""
        self.disturbed: Callable[[str, str], None] = lambda one, other: None
        """Called with two hosts after a fault of their connection has begun or ended."""

    def carry(self, source: str, target: str, deliver: Callable[[], None], stream: Hashable = None) -> None:
        """Send a message: `deliver` is called when it arrives. Messages of one `stream` arrive in order."""
        direction = source, target
        if direction in self._cuts:
            self._held.setdefault(direction, []).append((deliver, stream))
            return
        delay = self._latency if source == target else self._latency + self._chance.random() * self._jitter
        delay += self._distances.get(direction, 0.0) + self._delays.get(direction, 0.0)
        if stream is not None:
            now = self._scheduler.clock.now()
            arrival = self._arrivals[stream] = max(now + delay, self._arrivals.get(stream, 0.0))
            delay = arrival - now
        self._scheduler.call_later(delay, deliver)

    def is_cut(self, source: str, target: str) -> bool:
        """Return whether traffic is blocked in this direction."""
        return (source, target) in self._cuts

    def is_steady(self, one: str, other: str) -> bool:
        """Return whether the connection has no fault in either direction."""
        return not any(
            (one, other) in faults or (other, one) in faults for faults in (self._cuts, self._delays) if faults
        )

    def set_distance(self, one: str, other: str, seconds: float) -> None:
        """Set the permanent additional delay of messages between two hosts."""
        self._distances[one, other] = self._distances[other, one] = seconds

    def cut(self, source: str, target: str) -> None:
        """Block traffic in this direction."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1
        self.disturbed(source, target)

    def mend(self, source: str, target: str) -> None:
        """End one `cut` of this direction; send the held messages if no cut remains."""
        direction = source, target
        self._cuts[direction] -= 1
        if not self._cuts[direction]:
            del self._cuts[direction]
            for deliver, stream in self._held.pop(direction, []):
                self.carry(source, target, deliver, stream)
        self.disturbed(source, target)

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Add to the delay between two hosts; a negative number reduces it."""
        for direction in ((one, other), (other, one)):
            self._delays[direction] = round(self._delays.get(direction, 0.0) + seconds, 6)
            if self._delays[direction] <= 0:
                del self._delays[direction]
        self.disturbed(one, other)
