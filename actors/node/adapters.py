"""I/O adapters through which actors read the clock, generate random ids and identify the process.

Actors call them as `self.port("time").wall_ms()`. Each call and its result is recorded with the message that the actor
is handling, and replay returns the recorded result. The disk's adapter is in `actors.storage`.
"""

from __future__ import annotations

import base64
import os
import time
import uuid


class TimeAdapter:
    """An I/O adapter that returns the wall-clock time."""

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


class RandomAdapter:
    """The I/O adapter for random numbers: it generates UUIDs, for example cluster ids."""

    def uuid_hex(self) -> str:
        """Return 32 hexadecimal digits of a random UUID."""
        return uuid.uuid4().hex

    def cluster_id(self) -> str:
        """Return a random UUID in Kafka's form of cluster ids.

        It has 22 characters of url-safe base64, and no leading dash.
        """
        while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
            pass
        return text


class ProcessAdapter:
    """An I/O adapter that returns the process id and the address at which the node serves its metrics."""

    def __init__(self, metrics_host: str, metrics_port: int) -> None:
        self._identity = (metrics_host, metrics_port, os.getpid())

    def identity(self) -> tuple[str, int, int]:
        """Return (metrics host, metrics port, process id)."""
        return self._identity
