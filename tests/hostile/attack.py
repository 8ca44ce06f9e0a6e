"""An attack on a node: frames over many connections, and what became of each.

Rule 1: a frame is answered, or its connection closes. Which reason the node's log has for each is counted in all, for
        its log leaves lines out and says how many.
Rule 2: what may rightly have no answer is known by decoding the frame as the node does: Produce with acks=0, requests
        that wait for others (`WAITING`), and those that a mutation gave a long timeout. They are counted, and their
        connections are left.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections import Counter
from pathlib import Path
from random import Random

import attrs

from messages.data_requests import FetchRequest, ProduceRequest
from messages.group_requests import JoinGroupRequest, SyncGroupRequest
from messages.wire import WireError, decode_request
from tests.hostile.frames import Frames

SECONDS = 15.0
"""In which every frame is answered that waits for nothing."""
PATIENCE = 1.0
"""For those that may wait."""
WAIT_MS = 100
WAITING = (JoinGroupRequest, SyncGroupRequest, FetchRequest)

_CLOSED = re.compile(r"Closing the connection from 127\.0\.0\.1:(\d+) on")
_LEFT_OUT = re.compile(r"(\d+) similar log lines were suppressed")


@attrs.define
class Outcome:
    """What became of the frames."""

    sent: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    """Produce with acks=0."""
    waiting: Counter[str] = attrs.field(factory=Counter)
    """Requests that wait for others, by API."""
    lost: list[tuple[int, int, str]] = attrs.field(factory=list)
    """(API key, version, frame) of those that were neither answered nor refused."""
    apis: Counter[int] = attrs.field(factory=Counter)


class _Link:
    """A connection that is opened again when it is closed."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def exchange(self, frame: bytes, seconds: float) -> bool:
        """Send a frame; whether it was answered, or else the connection was closed. Raises TimeoutError."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(*self._place)
        try:
            async with asyncio.timeout(seconds):
                self._writer.write(frame)
                (size,) = struct.unpack(">i", await self._reader.readexactly(4))
                answer = await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            if isinstance(error, TimeoutError):
                raise
            return False
        assert len(answer) >= 4, "an answer has a correlation id"
        return True

    def close(self) -> None:
        """Leave the connection."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def attack(host: str, port: int, seed: int, count: int, links: int = 16) -> Outcome:
    """Send `count` frames over `links` connections at a time."""
    outcome, random = Outcome(), Random(seed)

    async def one(seed: int, share: int) -> None:
        frames, link = Frames(Random(seed), WAIT_MS), _Link(host, port)
        for _ in range(share):
            key, version, _, frame = frames.next()
            outcome.sent += 1
            outcome.apis[key] += 1
            request = _read(frame)
            silent = isinstance(request, ProduceRequest) and request.acks == 0
            may_wait = silent or isinstance(request, WAITING) or getattr(request, "timeout_ms", 0) > WAIT_MS
            try:
                answered = await link.exchange(frame, PATIENCE if may_wait else SECONDS)
            except TimeoutError:
                if silent:
                    outcome.silent += 1
                elif may_wait:
                    outcome.waiting[type(request).__name__] += 1
                else:
                    outcome.lost.append((key, version, frame.hex()))
                continue
            if answered:
                outcome.answered += 1
            else:
                outcome.closed += 1
        link.close()

    await asyncio.gather(*(one(random.getrandbits(64), (count + n) // links) for n in range(links)))
    return outcome


async def until_answered(host: str, port: int, frame: bytes) -> bool:
    """Send one frame; whether it was answered, or else its connection closed."""
    link = _Link(host, port)
    answered = await link.exchange(frame, SECONDS)
    link.close()
    return answered


def _read(frame: bytes) -> object:
    """Return the request of a frame as the node reads it, None if the node refuses it."""
    try:
        return decode_request(frame[4:])[1]
    except WireError:
        return None


def reasons(log: Path) -> int:
    """How many connections a node's log gives a reason for, those lines included that it left out."""
    text = log.read_text(errors="replace")
    return len(_CLOSED.findall(text)) + sum(map(int, _LEFT_OUT.findall(text)))


def tracebacks(log: Path) -> list[str]:
    """The tracebacks in a node's log: the line above each, and its text."""
    lines = log.read_text(errors="replace").splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.strip().startswith("Traceback (most recent call last)"):
            found.append("\n".join(lines[max(0, number - 1) : number + 40]))
    return found
