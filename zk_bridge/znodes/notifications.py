"""Encode and decode the data of notification znodes, such as /isr_change_notification.

Other znodes that list partitions have the same form.
"""

from __future__ import annotations

from collections.abc import Generator

from messages.ask import BadZnode
from messages.cluster import TopicPartition
from messages.flow.conversation import all_at_once, slices
from zk_bridge.znodes import reading


def encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    """Encode /isr_change_notification/isr_change_N or /admin/preferred_replica_election."""
    return reading.encode(
        {"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]}
    )


def decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """Return the partitions that the znode lists. Raises BadZnode."""
    return all_at_once(decoding_partitions(path, data))


def decoding_partitions(path: str, data: bytes | None) -> Generator[None, None, tuple[TopicPartition, ...]]:
    """Run `decode_partitions` in steps of SLICE partitions, because a znode may list ten thousand."""
    found: list[TopicPartition] = []
    try:
        for some in slices(reading.member(reading.parse(data), "partitions", list)):
            if found:
                yield
            for each in some:
                if type(each) is not dict:
                    raise reading.InvalidValue(f"partitions holds {reading.shown(each)}, expected objects")
                name = reading.valid_text(reading.member(each, "topic", str), "topic")
                found.append(TopicPartition(name, reading.number_member(each, "partition", least=0)))
    except reading.InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None
    return tuple(found)


def encode_log_dir_event(broker_id: int) -> bytes:
    """Encode /log_dir_event_notification/log_dir_event_N. Event 1 is the failure of a log directory."""
    return reading.encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """Return the broker id in a notification. Raises BadZnode."""
    read: int = reading.naming(path, data, lambda data: reading.number_member(reading.parse(data), "broker"))
    return read
