"""Find free TCP ports outside the operating system's ephemeral range."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection, Sequence
from contextlib import ExitStack

HOST = "127.0.0.1"
RANGE = (20_000, 32_000)
"""Below the ephemeral ports, so that a restarted node finds its port free."""
TRIES = 200


def free_ports(count: int, host: str = HOST, besides: Collection[int] = ()) -> list[int]:
    """Return `count` consecutive ports that are free on `host` and not in `besides`.

    Raises:
        OSError: No such ports are found, or this machine does not have the address `host`.
    """
    family, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][0::4]
    for _ in range(TRIES):
        first = random.randrange(RANGE[0], RANGE[1] - count)
        ports = range(first, first + count)
        if not set(ports).isdisjoint(besides):
            continue
        with ExitStack() as stack:
            try:
                for port in ports:
                    held = stack.enter_context(socket.socket(family))
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    held.bind((address[0], port))
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    raise OSError(error.errno, f"this machine does not have the address {host}") from None
                continue
            return list(ports)
    raise OSError(f"no {count} consecutive free ports were found from {RANGE[0]} to {RANGE[1]}")


def busy(ports: Sequence[int]) -> dict[int, str]:
    """Return the ports that cannot be bound, and the reasons."""
    refused = {}
    for port in ports:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind((HOST, port))
            except OSError as error:
                refused[port] = "in use" if error.errno == errno.EADDRINUSE else str(error.strerror)
    return refused


def refusal(ports: Sequence[int]) -> str:
    """Return in one line why a process cannot listen on these ports; "" if it can."""
    reasons = ", ".join(f"port {port} ({why})" for port, why in busy(ports).items())
    return f"cannot listen on {HOST}: {reasons}" if reasons else ""
