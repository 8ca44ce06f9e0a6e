"""I/O adapters through which actors read the clock, make random names and control the process.

Actors reach them as `self.port("time").wall_ms()`; each call and its result is recorded on the running delivery,
and answered from the record in replay. The disk's port is `actors.storage`'s.
"""

from __future__ import annotations

import base64
import os
import time
import uuid


class TimeAdapter:
    """An I/O adapter that returns the wall-clock time."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        return time.time_ns() // 1_000_000


class RandomAdapter:
    """An I/O adapter that returns random, unique names."""

    def uuid_hex(self) -> str:
        """32 hexadecimal digits of a random UUID."""
        return uuid.uuid4().hex

    def cluster_id(self) -> str:
        """A random UUID as Kafka writes cluster ids: 22 characters of url-safe base64, no leading dash."""
        while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
            pass
        return text


class ProcessAdapter:
    """An I/O adapter that returns the process id and the address of the node's metrics."""

    def __init__(self, metrics_host: str, metrics_port: int) -> None:
        self._identity = (metrics_host, metrics_port, os.getpid())

    def identity(self) -> tuple[str, int, int]:
        """(metrics host, metrics port, process id)."""
        return self._identity
