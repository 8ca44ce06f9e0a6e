"""The limits of what other machines can use on a node: connections, open files, memory, trace bytes and log lines.

Rule 1: connections (`max.connections`, `max.connections.per.ip` and its `overrides`) as Kafka counts them. A node
        that has enough takes no more: they wait in the socket. The inter-broker listener, where there are others too,
        goes beyond: their longest idle connection is closed.
Rule 2: the process has a maximum number of open files (`ulimit -n`). Logs and connections share what a reserve for
        ZooKeeper, other brokers and the trace leaves. A connection beyond its share is refused, whatever
        max.connections says.
Rule 3: memory (`queued.max.request.bytes`): a request that is not there whole takes its size out of a pool when it
        begins, if there is anything in it, and puts it back when it has been read; who gets nothing is not read on.
Rule 4: what clients send is recorded whole, and so is what they are answered; so both are bounded
        (`trace.client.request.max.bytes`, `trace.client.bytes.per.second`): a connection beyond its rate is read later.
Rule 5: a line in the log that a peer can cause is written a few times a second at most.

Kafka: `ConnectionQuotas`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import NamedTuple

from messages.node import NodeSettings

RESERVED_FILES = 128
"""Maximum number of files in the reserve, which is at most half of all. Other brokers may have a quarter of it."""
MAX_LOG_FILES = 10_000

LINES_PER_SECOND = 10


class FileLimit(NamedTuple):
    """The number of files that a process may open, divided between log files and connections.

    `all`: connections of all listeners. `protected`: connections, with those of the protected listener beyond `all`.
    `logs`: files of logs. `limit`: what the process may open.
    """

    all: int
    protected: int
    logs: int = 0
    limit: int = 0

    @staticmethod
    def of_process() -> FileLimit:
        """Divide what this process may open now."""
        return FileLimit.of(os.sysconf("SC_OPEN_MAX"))

    @staticmethod
    def of(limit: int) -> FileLimit:
        """Divide a limit: a reserve, then half for logs and the rest for connections."""
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
        self._by_address: Counter[str] = Counter()

    def has_capacity(self, listener: str) -> bool:
        """Whether a listener may accept another connection (rule 1)."""
        return self._total < self._most or listener == self._protected

    def exceeded(self) -> bool:
        """Whether the protected listener has gone beyond: another one's connection has to go."""
        return self._total > min(self._most, self._files.all)

    def is_protected(self, listener: str) -> bool:
        """Whether the connections of a listener stay when others go."""
        return listener == self._protected

    def resolve(self) -> None:
        """Find the addresses of the hosts that have a number of their own. Raises OSError, which names the host."""
        for host, most in self._overrides:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            except (socket.gaierror, UnicodeError) as error:
                raise OSError(f"Invalid host {host} in max.connections.per.ip.overrides: {error}") from error
            self._most_from |= {str(address): most for *_, (address, *_) in found}

    def most_from(self, address: str) -> int:
        """How many connections an address may have."""
        return self._most_from.get(address, self._most_per_address)

    def begin(self, listener: str, address: str) -> str:
        """Count a connection. Return why it is refused, or ""."""
        files = self._files
        if self._total >= (files.protected if listener == self._protected else files.all):
            return f"{self._total} connections are open, and the limit is {files.limit} open files (ulimit -n)"
        if self._by_address.get(address, 0) >= self.most_from(address):
            return f"it has {self.most_from(address)} already (max.connections.per.ip)"
        self._total += 1
        self._by_address[address] += 1
        return ""

    def end(self, address: str) -> None:
        """A connection is gone."""
        self._total -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class MemoryPool:
    """The memory for requests that are being received (`queued.max.request.bytes`); -1 is unlimited."""

    def __init__(self, size: int) -> None:
        self._unlimited = size < 0
        self._left = size
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, size: int, retry: Callable[[], None]) -> bool:
        """Take `size` bytes, if there are any at all, as Kafka does; else `retry` is called when there are."""
        if self._unlimited:
            return True
        if self._left <= 0:
            self._waiting.append(retry)
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """Bytes that `take` gave; those who wait try again, first come first served."""
        if self._unlimited or not size:
            return
        self._left += size
        waiting, self._waiting = self._waiting, deque()
        for retry in waiting:
            retry()


class TraceRateLimit:
    """The limit on the trace bytes of one connection: `rate` bytes per second, with a burst of one second."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._used_up_until = 0.0

    def use(self, size: int, now: float) -> None:
        """So much goes to the record."""
        self._used_up_until = max(now, self._used_up_until) + size / self._rate

    def delay(self, now: float) -> float:
        """Seconds until more may follow."""
        return max(0.0, self._used_up_until - now - 1)


class PeerLog:
    """A logger with a rate limit, for events that clients can cause."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._second = 0.0
        self._lines = self._left_out = 0

    def warning(self, text: str, *arguments: object) -> None:
        """Write the line, or count it; the next one that is written says how many there were."""
        now = asyncio.get_running_loop().time()
        if now - self._second >= 1:
            left_out, self._second, self._lines, self._left_out = self._left_out, now, 0, 0
            if left_out:
                self._logger.warning("%d similar log lines were suppressed", left_out)
        if self._lines < LINES_PER_SECOND:
            self._lines += 1
            self._logger.warning(text, *arguments)
        else:
            self._left_out += 1
