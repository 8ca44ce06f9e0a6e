"""Asking ZooKeeper from a command: one session for the command's life."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from actors.cli.app import Failed
from messages.vocabulary import Message
from zk_bridge.client import ZooKeeperUnavailable, connect


@contextmanager
def zookeeper(address: str) -> Iterator[Callable[[Message], Any]]:
    """`ask(question)` at host:port[,host:port]*[/chroot]. Failed where nobody answers there."""
    logging.getLogger("kazoo").addHandler(logging.NullHandler())  # what it has to say comes as our errors
    try:
        with connect(address) as client:
            yield client.ask
    except ZooKeeperUnavailable as error:
        raise Failed(str(error)) from error
