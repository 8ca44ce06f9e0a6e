"""Encode and decode the data of /cluster/id and /kafka-actors/nodes/N."""

from __future__ import annotations

from messages.zookeeper import NodeRegistration
from zk_bridge.znodes import reading


def encode_cluster_id(cluster_id: str) -> bytes:
    """Encode /cluster/id. Its version is text."""
    return reading.encode({"version": "1", "id": cluster_id})


def decode_cluster_id(path: str, data: bytes | None) -> str:
    """Return the id in /cluster/id. Raises BadZnode."""
    read: str = reading.naming(
        path, data, lambda data: reading.valid_text(reading.member(reading.parse(data), "id", str), "id")
    )
    return read


def encode_producer_ids(broker_id: int, start: int, count: int) -> bytes:
    """Encode /latest_producer_id_block. Its block_start and block_end are text, and block_end is inclusive."""
    return reading.encode(
        {"version": 1, "broker": broker_id, "block_start": str(start), "block_end": str(start + count - 1)}
    )


def decode_producer_ids(path: str, data: bytes | None, count: int) -> int:
    """Return the first id after the block in /latest_producer_id_block; 0 if no block exists.

    Raises:
        BadZnode: The data is invalid, or fewer than `count` ids of 64 bits are left.
    """
    if data is None:
        return 0

    def read(data: bytes | None) -> int:
        return reading.number(
            reading.decimal(reading.member(reading.parse(data), "block_end", str)),
            "block_end",
            least=0,
            most=reading.INT64 - count,
        )

    end: int = reading.naming(path, data, read)
    return end + 1


def encode_node(node: NodeRegistration) -> bytes:
    """Encode /kafka-actors/nodes/N, which Kafka does not have."""
    return reading.encode(
        {
            "version": 1,
            "roles": list(node.roles),
            "metrics_host": node.metrics_host,
            "metrics_port": node.metrics_port,
            "pid": node.pid,
            "inter_broker_listener": node.inter_broker_listener,
        }
    )


def decode_node(path: str, data: bytes | None) -> NodeRegistration:
    """Decode the registration of one of our nodes. Its id is the last part of `path`. Raises BadZnode."""

    def read(data: bytes | None) -> NodeRegistration:
        members = reading.parse(data)
        listener = reading.member(members, "inter_broker_listener", str, "")
        return NodeRegistration(
            id=reading.number(reading.decimal(path.rpartition("/")[2]), "the node's name"),
            roles=tuple(reading.valid_text(role, "roles") for role in reading.member(members, "roles", list)),
            metrics_host=reading.valid_text(reading.member(members, "metrics_host", str), "metrics_host"),
            metrics_port=reading.number_member(members, "metrics_port", least=0),
            pid=reading.number_member(members, "pid", least=0),
            inter_broker_listener=reading.valid_text(listener, "inter_broker_listener"),
        )

    node: NodeRegistration = reading.naming(path, data, read)
    return node
