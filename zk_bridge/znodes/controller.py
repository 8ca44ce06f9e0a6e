"""Encode and decode the data of /controller and /controller_epoch."""

from __future__ import annotations

import re

from messages.ask import BadZnode
from zk_bridge.znodes import reading


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Encode /controller, version 1."""
    return reading.encode({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode_controller(path: str, data: bytes | None) -> int:
    """Return the broker id in /controller, version 1 or 2 (Kafka 3.4 and later add kraftControllerEpoch).

    Raises BadZnode.
    """
    read: int = reading.naming(path, data, lambda data: reading.number_member(reading.parse(data), "brokerid"))
    return read


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode /controller_epoch: a decimal number as text."""
    return b"%d" % epoch


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """Return the number in /controller_epoch. Raises BadZnode."""
    if data is None or not re.fullmatch(rb"[0-9]{1,10}", data) or int(data) > reading.INT32:
        raise BadZnode(f"{path}: expected a decimal number, found {reading.shown(data)}")
    return int(data)
