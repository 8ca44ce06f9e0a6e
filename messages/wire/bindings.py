"""A table for `compiler`: the message fields that do not map directly to the protocol field of the same name.

Rule 1: partitions are flat in messages, and grouped by topic on the wire from some version on.
Rule 2: topic ids are not supported: they are written as zero. LeaderAndIsr responses of v5+ contain *only* the id. When
        such a response is read, the id's text becomes the topic name ("" for the zero id). When it is written, all
        partitions are in one group, which has the zero id.
Rule 3: before StopReplica v3 one flag applies to all partitions, and leader epochs are not on the wire. A request with
        different flags cannot be encoded, so the controller sends two requests (controller.md 4).
Rule 4: early versions of UpdateMetadata lack endpoints or listener names. v0 has one host and port per broker, which
        are those of its first PLAINTEXT endpoint. v1 and v2 have endpoints without listener names; the name of the
        security protocol is read as the listener name.
Rule 5: Metadata's "all topics" is a null list from v1 on. In v0 it is an empty list, so v0 cannot encode "no topics".
        In v9, librdkafka writes "all topics" with a four-byte zero count. Apache Kafka and this codec read this count
        and the bytes after it as a null list, false flags, one unknown tag and one extra byte. They ignore the tag and
        the extra byte (broker.md 6.2).
Rule 6: a LeaveGroup request before v3 has one member, whose fields are in the request itself.
Rule 7: an array in `compiler.Binding.gathered` may also be an array of int64. It is read and written like an array of
        structs with one field.
"""

from __future__ import annotations

from messages.admin_requests import (
    CreatableConfig,
    CreatePartitionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectableTopic,
    ElectedPartition,
    ElectedTopic,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from messages.cluster import Endpoint
from messages.config_requests import DEFAULT_CONFIG, ConfigChange, DescribedConfig
from messages.data_requests import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from messages.group_requests import (
    DeleteGroupsRequest,
    LeaveGroupRequest,
    LeavingMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchResponse,
)
from messages.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveLeader,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from messages.sensitive_configs import masked_value
from messages.transaction_requests import (
    AddedPartition,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTransaction,
    DescribedTransaction,
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
    WritableTxnMarkerResult,
)
from messages.wire.compiler import Binding

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols; the index is the id on the wire."""


def _delete_partitions(request: StopReplicaRequest) -> bool:
    flags = {state.delete_partition for state in request.partition_states}
    if len(flags) > 1:
        raise ValueError("StopReplica before version 3 can only delete all its partitions or none")
    return True in flags


def _protocol_id(endpoint: Endpoint) -> int:
    if endpoint.security_protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"unknown security protocol {endpoint.security_protocol!r}")
    return SECURITY_PROTOCOLS.index(endpoint.security_protocol)


def _protocol(security_protocol: int) -> str:
    if not 0 <= security_protocol < len(SECURITY_PROTOCOLS):
        raise ValueError(f"unknown security protocol {security_protocol}")
    return SECURITY_PROTOCOLS[security_protocol]


def _listener(security_protocol: int, listener: str | None = None) -> str:
    return _protocol(security_protocol) if listener is None else listener


def _plaintext(broker: UpdateMetadataBroker) -> Endpoint:
    for endpoint in broker.endpoints:
        if endpoint.security_protocol == "PLAINTEXT":
            return endpoint
    raise ValueError(f"broker {broker.id} has no PLAINTEXT endpoint, which version 0 of the request requires")


def _v0_host(broker: UpdateMetadataBroker) -> str:
    return _plaintext(broker).host


def _v0_port(broker: UpdateMetadataBroker) -> int:
    return _plaintext(broker).port


def _endpoints(
    endpoints: tuple[Endpoint, ...] = (), v0_host: str | None = None, v0_port: int = 0
) -> tuple[Endpoint, ...]:
    return endpoints if v0_host is None else (Endpoint("PLAINTEXT", v0_host, v0_port),)


def _topics_asked(request: MetadataRequest) -> tuple[str, ...] | None:
    if request.version > 0:
        return request.topics
    if request.topics == ():
        raise ValueError(
            "Metadata version 0 cannot request an empty list of topics, because an empty list means all topics"
        )
    return request.topics or ()


def _topics_read(version: int, topics: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return topics or None if version == 0 else topics


def _config_value(name: str, value: str | None) -> str | None:
    """Mask a sensitive value: no such config can be changed here, and the trace stores the request."""
    return masked_value(name, value)


def _produced_bytes(part: ProducePartition) -> bytes:
    return bytes(part.records.body.data)


def _leaving_member(request: LeaveGroupRequest) -> str:
    if len(request.members) != 1:
        raise ValueError("LeaveGroup before version 3 must name exactly one member")
    return request.members[0].member_id


def _leaving_members(
    member_id: str | None = None, members: tuple[LeavingMember, ...] = ()
) -> tuple[LeavingMember, ...]:
    return members if member_id is None else (LeavingMember(member_id),)


def _is_default(config: DescribedConfig) -> bool:
    return config.config_source == DEFAULT_CONFIG


BINDINGS: dict[type, Binding] = {
    ProduceRequest: Binding(gathered={"partitions": ("topic_data.partition_data",)}),
    ProducePartition: Binding(written={"records": _produced_bytes}),
    ProduceResponse: Binding(gathered={"partitions": ("responses.partition_responses",)}),
    ListOffsetsRequest: Binding(gathered={"partitions": ("topics.partitions",)}),
    ListOffsetsResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    OffsetForLeaderEpochRequest: Binding(gathered={"partitions": ("topics.partitions",)}),
    OffsetForLeaderEpochResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    DeleteRecordsRequest: Binding(gathered={"partitions": ("topics.partitions",)}),
    DeleteRecordsResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    DeleteTopicsRequest: Binding(renamed={"topics": ("topic_names",)}),
    DeleteTopicsResponse: Binding(renamed={"topics": ("responses",)}),
    DescribedConfig: Binding(written={"is_default": _is_default}),
    ConfigChange: Binding(read={"value": _config_value}),
    CreatableConfig: Binding(read={"value": _config_value}),
    CreatePartitionsResponse: Binding(renamed={"topics": ("results",)}),
    ElectLeadersRequest: Binding(renamed={"topics": ("topic_partitions",)}),
    ElectableTopic: Binding(renamed={"name": ("topic",)}),
    ElectLeadersResponse: Binding(renamed={"topics": ("replica_election_results",)}),
    ElectedTopic: Binding(renamed={"name": ("topic",), "partitions": ("partition_result",)}),
    ElectedPartition: Binding(renamed={"partition_index": ("partition_id",)}),
    OffsetCommitRequest: Binding(
        renamed={"generation_id": ("generation_id_or_member_epoch",)}, gathered={"partitions": ("topics.partitions",)}
    ),
    OffsetCommitResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    OffsetFetchResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    OffsetDeleteRequest: Binding(gathered={"partitions": ("topics.partitions",)}),
    OffsetDeleteResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    DeleteGroupsRequest: Binding(renamed={"groups": ("groups_names",)}),
    LeaveGroupRequest: Binding(written={"member_id": _leaving_member}, read={"members": _leaving_members}),
    AddPartitionsToTxnRequest: Binding(
        renamed={
            "transactional_id": ("v3_and_below_transactional_id",),
            "producer_id": ("v3_and_below_producer_id",),
            "producer_epoch": ("v3_and_below_producer_epoch",),
        },
        gathered={"partitions": ("v3_and_below_topics.partitions",)},
    ),
    AddPartitionsToTxnTransaction: Binding(gathered={"partitions": ("topics.partitions",)}),
    AddPartitionsToTxnResponse: Binding(
        renamed={"transactions": ("results_by_transaction",)},
        gathered={"partitions": ("results_by_topic_v3_and_below.results_by_partition",)},
    ),
    AddPartitionsToTxnResult: Binding(gathered={"partitions": ("topic_results.results_by_partition",)}),
    AddedPartition: Binding(renamed={"error_code": ("partition_error_code",)}),
    TxnOffsetCommitRequest: Binding(gathered={"partitions": ("topics.partitions",)}),
    TxnOffsetCommitResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    WritableTxnMarker: Binding(gathered={"partitions": ("topics.partition_indexes",)}),
    WritableTxnMarkerResult: Binding(gathered={"partitions": ("topics.partitions",)}),
    DescribeProducersRequest: Binding(gathered={"partitions": ("topics.partition_indexes",)}),
    DescribeProducersResponse: Binding(gathered={"partitions": ("topics.partitions",)}),
    DescribedTransaction: Binding(gathered={"partitions": ("topics.partitions",)}),
    ListTransactionsRequest: Binding(gathered={"producer_id_filters": ("producer_id_filters",)}),
    LeaderAndIsrRequest: Binding(
        gathered={"partition_states": ("ungrouped_partition_states", "topic_states.partition_states")},
    ),
    LeaderAndIsrPartitionState: Binding(renamed={"zk_version": ("partition_epoch",)}),
    LiveLeader: Binding(renamed={"host": ("host_name",)}),
    LeaderAndIsrResponse: Binding(gathered={"partition_errors": ("partition_errors", "topics.partition_errors")}),
    StopReplicaRequest: Binding(
        gathered={
            "partition_states": ("ungrouped_partitions", "topics.partition_indexes", "topic_states.partition_states")
        },
        written={"delete_partitions": _delete_partitions},
    ),
    StopReplicaPartitionState: Binding(renamed={"delete_partition": ("delete_partition", "delete_partitions")}),
    UpdateMetadataRequest: Binding(
        gathered={"partition_states": ("ungrouped_partition_states", "topic_states.partition_states")},
    ),
    UpdateMetadataBroker: Binding(written={"v0_host": _v0_host, "v0_port": _v0_port}, read={"endpoints": _endpoints}),
    Endpoint: Binding(
        written={"security_protocol": _protocol_id}, read={"security_protocol": _protocol, "listener": _listener}
    ),
    MetadataRequest: Binding(written={"topics": _topics_asked}, read={"topics": _topics_read}),
    MetadataBroker: Binding(renamed={"id": ("node_id",)}),
    MetadataPartition: Binding(
        renamed={
            "partition": ("partition_index",),
            "leader": ("leader_id",),
            "replicas": ("replica_nodes",),
            "isr": ("isr_nodes",),
        },
    ),
}
