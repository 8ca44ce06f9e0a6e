"""Metadata (API key 3): versions 0-9.

Rule 1: "all topics" is null from v1 on and an empty list in v0, where "no topics" has no bytes.
Rule 2: librdkafka writes its v9 "all topics" with a four-byte zero count. Read as Apache Kafka reads it, that is a null
        list, false flags, one unknown tag and one byte too many, and neither of these matters (broker.md 6.2).
Rule 3: authorized operations are never computed: they go out as Kafka's "not asked for" (v8+).
"""

from __future__ import annotations

from messages.requests import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from messages.wire.api import Api, Fields
from messages.wire.schema import METADATA_REQUEST, METADATA_RESPONSE, Wire, present

_BROKER_NAMES = (("node_id", "id"),)
_PARTITION_NAMES = (
    ("partition_index", "partition"),
    ("leader_id", "leader"),
    ("replica_nodes", "replicas"),
    ("isr_nodes", "isr"),
)


def _request_fields(request: MetadataRequest, version: int) -> Fields:
    if version == 0 and request.topics == ():
        raise ValueError("version 0 cannot ask for no topics: an empty list asks for all")
    return {"topics": request.topics, "allow_auto_topic_creation": request.allow_auto_topic_creation}


def _read_request(body: Wire, version: int) -> MetadataRequest:
    if version == 0:
        names = [present(topic.name) for topic in present(body.topics)] or None
    else:
        names = None if body.topics is None else [present(topic.name) for topic in body.topics]
    return MetadataRequest(version, None if names is None else tuple(names), body.allow_auto_topic_creation)


def _response_fields(response: MetadataResponse, version: int) -> Fields:
    broker = METADATA_RESPONSE.row(version, ("brokers",), _BROKER_NAMES)
    partition = METADATA_RESPONSE.row(version, ("topics", "partitions"), _PARTITION_NAMES)
    columns = METADATA_RESPONSE.columns(version, "topics")

    def topic_row(topic: MetadataTopic) -> tuple[object, ...]:
        values = {
            "error_code": topic.error_code,
            "name": topic.name,
            "is_internal": topic.is_internal,
            "partitions": [partition(state) for state in topic.partitions],
            "authorized_operations": None,
        }
        return tuple(values[column] for column in columns)

    return {
        "brokers": [broker(live) for live in response.brokers],
        "cluster_id": response.cluster_id,
        "controller_id": response.controller_id,
        "topics": [topic_row(topic) for topic in response.topics],
    }


def _read_partition(state: Wire) -> MetadataPartition:
    return MetadataPartition(
        state.error_code,
        state.partition_index,
        state.leader_id,
        state.leader_epoch,
        tuple(present(state.replica_nodes)),
        tuple(present(state.isr_nodes)),
        tuple(present(state.offline_replicas)),
    )


def _read_response(body: Wire, version: int) -> MetadataResponse:
    brokers = (
        MetadataBroker(broker.node_id, present(broker.host), broker.port, broker.rack)
        for broker in present(body.brokers)
    )
    topics = (
        MetadataTopic(
            topic.error_code,
            present(topic.name),
            topic.is_internal,
            tuple(_read_partition(state) for state in present(topic.partitions)),
        )
        for topic in present(body.topics)
    )
    return MetadataResponse(tuple(brokers), body.cluster_id, body.controller_id, tuple(topics))


METADATA = Api(
    3,
    "Metadata",
    0,
    9,
    MetadataRequest,
    MetadataResponse,
    METADATA_REQUEST,
    METADATA_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
