"""Encode and decode the data of /admin/reassign_partitions."""

from __future__ import annotations

from collections.abc import Iterable

from messages.cluster import TopicPartition
from messages.zookeeper import RequestedReassignment
from zk_bridge.znodes import reading


def encode_reassignments(requests: Iterable[RequestedReassignment]) -> bytes:
    """Encode partitions with their requested replicas."""
    return reading.encode(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for (topic, number), replicas in requests
            ],
        }
    )


def decode_reassignments(path: str, data: bytes | None) -> tuple[RequestedReassignment, ...]:
    """Decode partitions with their requested replicas. For a duplicate partition the last entry counts, as in Kafka."""

    def read(data: bytes | None) -> tuple[RequestedReassignment, ...]:
        found: dict[TopicPartition, tuple[int, ...]] = {}
        for each in reading.member(reading.parse(data), "partitions", list):
            if type(each) is not dict:
                raise reading.InvalidValue(f"partitions holds {reading.shown(each)}, expected objects")
            name = reading.valid_text(reading.member(each, "topic", str), "topic")
            partition = TopicPartition(name, reading.number_member(each, "partition", least=0))
            found[partition] = reading.broker_ids(reading.member(each, "replicas", list), f"replicas of {partition}")
        return tuple(RequestedReassignment(*entry) for entry in found.items())

    requests: tuple[RequestedReassignment, ...] = reading.naming(path, data, read)
    return requests
