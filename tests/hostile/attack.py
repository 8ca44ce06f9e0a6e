"""Send hostile frames to a node over many connections, and record the outcome of each frame.

Rule 1: the node responds to a frame, or closes its connection and logs the reason. Reasons are only counted, because
        the log suppresses similar lines and contains their number.
Rule 2: Produce with acks=0, requests that wait for other events (`WAITING`), and requests with a long timeout after a
        mutation may have no response. The attack finds these requests by decoding each frame as the node does. It
        counts them, and aborts their connections.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections import Counter
from pathlib import Path
from random import Random

import attrs

from messages.apis.fetch import FetchRequest
from messages.apis.join_group import JoinGroupRequest
from messages.apis.produce import ProduceRequest
from messages.apis.sync_group import SyncGroupRequest
from messages.wire import WireError, decode_request
from tests.hostile.frames import Frames

SECONDS = 15.0
"""Maximum seconds until the node responds to a request that does not wait."""
PATIENCE = 1.0
"""Seconds until the attack stops waiting for the response to a request that may wait."""
WAIT_MS = 100
WAITING = (JoinGroupRequest, SyncGroupRequest, FetchRequest)

_CLOSED = re.compile(r"Closing the connection from 127\.0\.0\.1:(\d+) on")
_LEFT_OUT = re.compile(r"(\d+) similar log lines were suppressed")


@attrs.define
class Outcome:
    """The number of frames with each outcome."""

    sent: int = 0
    answered: int = 0
    closed: int = 0
    silent: int = 0
    """Produce requests with acks=0, which get no response."""
    waiting: Counter[str] = attrs.field(factory=Counter)
    """Requests that may wait and got no response within `PATIENCE`, by class."""
    lost: list[tuple[int, int, str]] = attrs.field(factory=list)
    """(API key, version, frame) of each frame after which the node neither responded nor closed the connection."""
    apis: Counter[int] = attrs.field(factory=Counter)


class _Link:
    """A connection to the node that is opened again after it was closed."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def exchange(self, frame: bytes, seconds: float) -> bool:
        """Send a frame; return whether the node responded (True) or closed the connection (False).

        Raises:
            TimeoutError: The node did neither in this time. The connection is closed.
        """
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
        """Abort the connection."""
        if self._writer is not None:
            self._writer.transport.abort()
        self._reader = self._writer = None


async def attack(host: str, port: int, seed: int, count: int, links: int = 16) -> Outcome:
    """Send `count` frames over `links` concurrent connections, and return the outcome."""
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
    """Send one frame; return whether the node responded (True) or closed the connection (False)."""
    link = _Link(host, port)
    answered = await link.exchange(frame, SECONDS)
    link.close()
    return answered


def _read(frame: bytes) -> object:
    """Return the request of a frame as the node decodes it; None if it cannot be decoded."""
    try:
        return decode_request(frame[4:])[1]
    except WireError:
        return None


def reasons(log: Path) -> int:
    """Return the number of closed connections in a node's log, including its suppressed lines."""
    text = log.read_text(errors="replace")
    return len(_CLOSED.findall(text)) + sum(map(int, _LEFT_OUT.findall(text)))


def tracebacks(log: Path) -> list[str]:
    """Return the tracebacks in a node's log, each with the line before it and at most 39 lines after its first."""
    lines = log.read_text(errors="replace").splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.strip().startswith("Traceback (most recent call last)"):
            found.append("\n".join(lines[max(0, number - 1) : number + 40]))
    return found
