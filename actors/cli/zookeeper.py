"""Asking ZooKeeper from a command: one session for the command's life."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from actors.cli.app import Failed
from messages.vocabulary import Message
from zk_bridge.client import ZooKeeperUnavailable, connect


@contextmanager
def zookeeper(address: str) -> Iterator[Callable[[Message], Any]]:
    """`ask(question)` at host:port[,host:port]*[/chroot]. Failed where nobody answers there."""
    try:
        with connect(address) as client:
            yield client.ask
    except ZooKeeperUnavailable as error:
        raise Failed(f"ZooKeeper at {address}: {error}") from error
