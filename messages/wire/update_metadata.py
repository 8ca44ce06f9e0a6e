"""UpdateMetadata (API key 6): versions 0-8.

Rule 1: partitions are grouped by topic from v5 on; topic ids (v7+) are not ours and go out as zero.
Rule 2: endpoints came late. v0 has one host and port per broker, that of its first PLAINTEXT endpoint; v1 and v2 have
        endpoints without listener names, which are read back as the names of their security protocols.
"""

from __future__ import annotations

from messages.cluster import Endpoint, TopicPartition
from messages.requests import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.wire.api import Api, Fields
from messages.wire.schema import UPDATE_METADATA_REQUEST, UPDATE_METADATA_RESPONSE, Wire, grouped, present, read_states

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's security protocols; the index is the id on the wire."""

_STATE_NAMES = (("topic_name", "partition.topic"), ("partition_index", "partition.partition"))


def _endpoint_row(endpoint: Endpoint, version: int) -> tuple[object, ...]:
    if endpoint.security_protocol not in SECURITY_PROTOCOLS:
        raise ValueError(f"no security protocol {endpoint.security_protocol!r}")
    protocol = SECURITY_PROTOCOLS.index(endpoint.security_protocol)
    listener = () if version < 3 else (endpoint.listener,)
    return (endpoint.port, endpoint.host, *listener, protocol)


def _broker_row(broker: UpdateMetadataBroker, version: int) -> tuple[object, ...]:
    if version == 0:
        for endpoint in broker.endpoints:
            if endpoint.security_protocol == "PLAINTEXT":
                return (broker.id, endpoint.host, endpoint.port)
        raise ValueError(f"broker {broker.id} has no PLAINTEXT endpoint, and version 0 has no other")
    rack = () if version < 2 else (broker.rack,)
    return (broker.id, [_endpoint_row(endpoint, version) for endpoint in broker.endpoints], *rack)


def _request_fields(request: UpdateMetadataRequest, version: int) -> Fields:
    fields: dict[str, object] = {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "live_brokers": [_broker_row(broker, version) for broker in request.live_brokers],
    }
    if version < 5:
        row = UPDATE_METADATA_REQUEST.row(version, ("ungrouped_partition_states",), _STATE_NAMES)
        fields["ungrouped_partition_states"] = [row(state) for state in request.partition_states]
    else:
        row = UPDATE_METADATA_REQUEST.row(version, ("topic_states", "partition_states"), _STATE_NAMES)
        topics = grouped(request.partition_states, row).items()
        topic_id = () if version < 7 else (None,)
        fields["topic_states"] = [(topic, *topic_id, rows) for topic, rows in topics]
    return fields


def _read_endpoint(endpoint: Wire, version: int) -> Endpoint:
    if not 0 <= endpoint.security_protocol < len(SECURITY_PROTOCOLS):
        raise ValueError(f"no security protocol {endpoint.security_protocol}")
    protocol = SECURITY_PROTOCOLS[endpoint.security_protocol]
    listener = protocol if version < 3 else present(endpoint.listener)
    return Endpoint(listener, present(endpoint.host), endpoint.port, protocol)


def _read_broker(broker: Wire, version: int) -> UpdateMetadataBroker:
    if version == 0:
        endpoints = [Endpoint("PLAINTEXT", present(broker.v0_host), broker.v0_port)]
    else:
        endpoints = [_read_endpoint(endpoint, version) for endpoint in present(broker.endpoints)]
    return UpdateMetadataBroker(broker.id, tuple(endpoints), None if version < 2 else broker.rack)


def _read_state(topic: str, state: Wire) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        TopicPartition(topic, state.partition_index),
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        tuple(present(state.isr)),
        state.zk_version,
        tuple(present(state.replicas)),
        tuple(present(state.offline_replicas)),
    )


def _read_request(body: Wire, version: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        version,
        body.controller_id,
        body.controller_epoch,
        body.broker_epoch,
        read_states(body, version >= 5, _read_state),
        tuple(_read_broker(broker, version) for broker in present(body.live_brokers)),
    )


def _response_fields(response: UpdateMetadataResponse, version: int) -> Fields:
    return {"error_code": response.error_code}


def _read_response(body: Wire, version: int) -> UpdateMetadataResponse:
    return UpdateMetadataResponse(body.error_code)


UPDATE_METADATA = Api(
    6,
    "UpdateMetadata",
    0,
    8,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UPDATE_METADATA_REQUEST,
    UPDATE_METADATA_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
