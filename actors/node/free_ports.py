"""Ports that nobody listens on, and that nobody will be given meanwhile."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack

HOST = "127.0.0.1"
RANGE = (20_000, 32_000)
"""Below those that the system gives to whoever connects: a node that comes back finds its port free."""
TRIES = 200


def free_ports(count: int) -> list[int]:
    """So many ports in a row that nobody listens on now. Raises OSError where none are found."""
    for _ in range(TRIES):
        first = random.randrange(RANGE[0], RANGE[1] - count)
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    held = stack.enter_context(socket.socket())
                    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    held.bind((HOST, port))
            except OSError:
                continue
            return list(range(first, first + count))
    raise OSError(f"no {count} free ports in a row were found from {RANGE[0]} to {RANGE[1]}")
