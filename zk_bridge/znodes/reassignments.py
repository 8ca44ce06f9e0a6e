"""Encode and decode the data of /admin/reassign_partitions."""

from __future__ import annotations

from collections.abc import Iterable

from messages.cluster import TopicPartition
from messages.zookeeper import RequestedReassignment
from zk_bridge.znodes.reading import (
    InvalidValue,
    broker_ids,
    encode,
    member,
    naming,
    number_member,
    parse,
    shown,
    valid_text,
)


def encode_reassignments(requests: Iterable[RequestedReassignment]) -> bytes:
    """Partitions with the replicas that they shall have."""
    return encode(
        {
            "version": 1,
            "partitions": [
                {"topic": topic, "partition": number, "replicas": list(replicas)}
                for (topic, number), replicas in requests
            ],
        }
    )


def decode_reassignments(path: str, data: bytes | None) -> tuple[RequestedReassignment, ...]:
    """The same; of a partition that stands there twice the last counts, as for Kafka."""

    def read(data: bytes | None) -> tuple[RequestedReassignment, ...]:
        found: dict[TopicPartition, tuple[int, ...]] = {}
        for each in member(parse(data), "partitions", list):
            if type(each) is not dict:
                raise InvalidValue(f"partitions holds {shown(each)}, expected objects")
            name = valid_text(member(each, "topic", str), "topic")
            partition = TopicPartition(name, number_member(each, "partition", least=0))
            found[partition] = broker_ids(member(each, "replicas", list), f"replicas of {partition}")
        return tuple(RequestedReassignment(*entry) for entry in found.items())

    requests: tuple[RequestedReassignment, ...] = naming(path, data, read)
    return requests
