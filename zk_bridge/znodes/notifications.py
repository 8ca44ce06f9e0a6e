"""Encode and decode the data of notification znodes, such as /isr_change_notification, and of other znodes that list
partitions."""

from __future__ import annotations

from collections.abc import Generator

from messages.cluster import TopicPartition
from messages.conversation import BadZnode, all_at_once, slices
from zk_bridge.znodes.reading import InvalidValue, encode, member, naming, number_member, parse, shown, valid_text


def encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    """/isr_change_notification/isr_change_N, and /admin/preferred_replica_election."""
    return encode({"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]})


def decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions that such a node names."""
    return all_at_once(decoding_partitions(path, data))


def decoding_partitions(path: str, data: bytes | None) -> Generator[None, None, tuple[TopicPartition, ...]]:
    """`decode_partitions` in steps of SLICE partitions: ten thousand may be named."""
    found: list[TopicPartition] = []
    try:
        for some in slices(member(parse(data), "partitions", list)):
            if found:
                yield
            for each in some:
                if type(each) is not dict:
                    raise InvalidValue(f"partitions holds {shown(each)}, expected objects")
                name = valid_text(member(each, "topic", str), "topic")
                found.append(TopicPartition(name, number_member(each, "partition", least=0)))
    except InvalidValue as torn:
        raise BadZnode(f"{path}: {torn}") from None
    return tuple(found)


def encode_log_dir_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_N; event 1 is the failure of a log directory."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker that a notification names."""
    read: int = naming(path, data, lambda data: number_member(parse(data), "broker"))
    return read
