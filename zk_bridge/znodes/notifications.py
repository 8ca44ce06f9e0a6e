"""/isr_change_notification, /log_dir_event_notification, and what names partitions in the same form."""

from __future__ import annotations

from messages.cluster import TopicPartition
from zk_bridge.znodes.reading import Torn, encode, member, naming, number_member, parse, shown, valid_text


def encode_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    """/isr_change_notification/isr_change_N, and /admin/preferred_replica_election."""
    return encode({"version": 1, "partitions": [{"topic": name, "partition": number} for name, number in partitions]})


def decode_partitions(path: str, data: bytes | None) -> tuple[TopicPartition, ...]:
    """The partitions that such a node names."""

    def read(data: bytes | None) -> tuple[TopicPartition, ...]:
        found = []
        for each in member(parse(data), "partitions", list):
            if type(each) is not dict:
                raise Torn(f"partitions holds {shown(each)}, expected objects")
            name = valid_text(member(each, "topic", str), "topic")
            found.append(TopicPartition(name, number_member(each, "partition", least=0)))
        return tuple(found)

    partitions: tuple[TopicPartition, ...] = naming(path, data, read)
    return partitions


def encode_log_dir_event(broker_id: int) -> bytes:
    """/log_dir_event_notification/log_dir_event_N; event 1 is the failure of a log directory."""
    return encode({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker that a notification names."""
    read: int = naming(path, data, lambda data: number_member(parse(data), "broker"))
    return read
