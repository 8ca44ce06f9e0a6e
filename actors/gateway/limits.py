"""The limits on what clients and brokers can use on a node: connections, open files, memory, trace bytes and log lines.

Rule 1: connections are counted as in Kafka (`max.connections`, `max.connections.per.ip` and its `overrides`). At the
        limit a node accepts no more, and connections wait in the listening socket. If there are several listeners, the
        inter-broker listener may exceed the limit: for each such connection, the longest-idle connection of the other
        listeners is closed.
Rule 2: the process has a maximum number of open files (`ulimit -n`). A reserve is kept for ZooKeeper, other brokers and
        the trace. Logs and connections share the rest. A connection that would exceed the connections' share is
        refused, regardless of max.connections.
Rule 3: memory (`queued.max.request.bytes`): when a request begins to arrive, its size is taken from a pool of bytes.
        The bytes are returned when the request has been read. If the pool is empty, the connection is not read until
        the pool has bytes again.
Rule 4: requests of clients and their responses are recorded whole, so both are bounded
        (`trace.client.request.max.bytes`, `trace.client.bytes.per.second`). A connection that exceeds its rate is read
        later.
Rule 5: a log line that a peer can cause is written at most LINES_PER_SECOND times a second.

Kafka: `ConnectionQuotas`.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from messages.node import NodeSettings

RESERVED_FILES = 128
"""Maximum number of files in the reserve, which is at most half of all files. Other brokers may use a quarter of it."""
MAX_LOG_FILES = 10_000

LINES_PER_SECOND = 10


class FileLimit(NamedTuple):
    """The number of files that a process may open, divided between log files and connections.

    Attributes:
        all: Maximum number of connections of all listeners together.
        protected: Like `all`, but the maximum that applies when the protected (inter-broker) listener accepts a
            connection.
        logs: Maximum number of log files.
        limit: Maximum number of files that the process may open.
    """

    all: int
    protected: int
    logs: int = 0
    limit: int = 0

    @staticmethod
    def of_process() -> FileLimit:
        """Return how the open-file limit of this process is divided."""
        return FileLimit.divide(os.sysconf("SC_OPEN_MAX"))

    @staticmethod
    def divide(limit: int) -> FileLimit:
        """Divide the open-file limit: a reserve, at most half of the rest for logs, the remainder for connections."""
        reserve = min(RESERVED_FILES, limit // 2)
        logs = min(MAX_LOG_FILES, (limit - reserve) // 2)
        connections = limit - reserve - logs
        return FileLimit(connections, connections + reserve // 4, logs, limit)


class ConnectionCount:
    """The number of open connections, in total and for each client address."""

    def __init__(self, settings: NodeSettings, files: FileLimit) -> None:
        several = len(settings.listeners) > 1
        self._protected = settings.inter_broker_listener_name if several else None
        self._most = settings.max_connections
        self._files = files
        self._most_per_address = settings.max_connections_per_ip
        self._overrides = settings.max_connections_per_ip_overrides
        self._most_from: dict[str, int] = {}
        self._total = 0
        self._by_address: dict[str, int] = {}

    def has_capacity(self, listener: str) -> bool:
        """Return whether a listener may accept another connection (rule 1)."""
        return self._total < self._most or listener == self._protected

    def is_exceeded(self) -> bool:
        """Return whether more connections are open than allowed, which only the protected listener can cause.

        If so, a connection of another listener must be closed.
        """
        return self._total > min(self._most, self._files.all)

    def is_protected(self, listener: str) -> bool:
        """Return whether the connections of a listener are never closed in favour of other connections."""
        return listener == self._protected

    def resolve(self) -> None:
        """Resolve the hosts of max.connections.per.ip.overrides. Raises OSError with the name of the host."""
        for host, most in self._overrides:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (socket.gaierror, UnicodeError) as error:
                raise OSError(f"Invalid host {host} in max.connections.per.ip.overrides: {error}") from error
            self._most_from |= {str(address): most for *_, (address, *_) in found}

    def most_from(self, address: str) -> int:
        """Return the maximum number of connections of an address."""
        return self._most_from.get(address, self._most_per_address)

    def begin(self, listener: str, address: str) -> str:
        """Count a new connection, unless it must be refused; return the reason for the refusal, else ""."""
        files = self._files
        if self._total >= (files.protected if listener == self._protected else files.all):
            return (
                f"{self._total} connections are open, the maximum for a limit of {files.limit} open files (ulimit -n)"
            )
        of_address = self._by_address.get(address, 0)
        if of_address >= self.most_from(address):
            return f"it has {self.most_from(address)} already (max.connections.per.ip)"
        self._total += 1
        self._by_address[address] = of_address + 1
        return ""

    def end(self, address: str) -> None:
        """Subtract a closed connection from the counts."""
        self._total -= 1
        left = self._by_address.pop(address) - 1
        if left:
            self._by_address[address] = left


class MemoryPool:
    """The memory for requests that are being received (`queued.max.request.bytes`); -1 is unlimited."""

    def __init__(self, size: int) -> None:
        self._unlimited = size < 0
        self._left = size
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int, retry: Callable[[], None]) -> bool:
        """Take `size` bytes if the pool is not empty, as Kafka does.

        Args:
            size: Number of bytes. It may exceed the bytes left.
            retry: If no bytes were taken, it is called when the pool has bytes again.

        Returns:
            Whether the bytes were taken.
        """
        if self._unlimited:
            return True
        if self._left <= 0:
            self._waiting.append(retry)
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """Put `size` bytes back into the pool, then call `retry` of each waiting `take`, the oldest first."""
        if self._unlimited or not size:
            return
        self._left += size
        waiting, self._waiting = self._waiting, deque()
        for retry in waiting:
            retry()


class TraceRateLimit:
    """The limit on the rate at which one client connection may add data to the trace.

    It is `rate` bytes per second, with a burst of one second.
    """

    __slots__ = "_rate", "_used_up_until"

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._used_up_until = 0.0

    def use(self, size: int, now: float) -> None:
        """Count `size` bytes that go to the trace."""
        self._used_up_until = max(now, self._used_up_until) + size / self._rate

    def delay(self, now: float) -> float:
        """Return the seconds until the connection may add data to the trace again."""
        return max(0.0, self._used_up_until - now - 1)
