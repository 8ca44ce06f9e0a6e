"""Encode and decode the data of Kafka's znodes (controller.md 2.1-2.4).

Rule 1: reading accepts the data of every Kafka version with ZooKeeper: every version number, any key order. Unknown
        keys are ignored.
Rule 2: writing produces the data that Kafka 3.9.1 writes at inter.broker.protocol.version 2.6. For the state node, the
        bytes are the same as Kafka's. For other nodes, the order of the keys may differ.
Rule 3: for data that rule 1 does not accept, reading raises only BadZnode, which contains the path and the reason.

Kafka: `ZkData`.
"""

from __future__ import annotations

from zk_bridge.znodes.brokers import decode_broker, encode_broker, is_broker_id, registration_version
from zk_bridge.znodes.cluster import (
    decode_cluster_id,
    decode_node,
    decode_producer_ids,
    encode_cluster_id,
    encode_node,
    encode_producer_ids,
)
from zk_bridge.znodes.controller import (
    decode_controller,
    decode_controller_epoch,
    encode_controller,
    encode_controller_epoch,
)
from zk_bridge.znodes.notifications import (
    decode_log_dir_event,
    decode_partitions,
    decoding_partitions,
    encode_log_dir_event,
    encode_partitions,
)
from zk_bridge.znodes.partition_states import decode_state, encode_state
from zk_bridge.znodes.reassignments import decode_reassignments, encode_reassignments
from zk_bridge.znodes.topics import (
    decode_config,
    decode_config_change,
    decode_topic,
    decoding_topic,
    encode_config,
    encode_config_change,
    encode_topic,
    encoding_topic,
)

__all__ = [
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_config_change",
    "decode_controller",
    "decode_controller_epoch",
    "decode_partitions",
    "decoding_partitions",
    "decode_log_dir_event",
    "decode_node",
    "decode_reassignments",
    "decode_state",
    "decode_topic",
    "decoding_topic",
    "encode_broker",
    "encode_cluster_id",
    "encode_config",
    "encode_config_change",
    "encode_controller",
    "encode_controller_epoch",
    "encode_partitions",
    "encode_log_dir_event",
    "decode_producer_ids",
    "encode_node",
    "encode_producer_ids",
    "encode_reassignments",
    "encode_state",
    "encode_topic",
    "encoding_topic",
    "is_broker_id",
    "registration_version",
]
