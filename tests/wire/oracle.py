"""Encode the sample messages with kio 0.5.0, an independent codec.

`request_body` and `response_body` convert our messages to kio's fields. kio encodes these fields.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib
import io
import struct
import types
import typing
from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode
from kio.serial import entity_writer
from kio.static.constants import EntityType

from messages.cluster import Endpoint
from messages.requests import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    MetadataRequest,
    MetadataResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from messages.wire import RequestHeader
from tests.wire import admin_samples, data_samples, group_samples, security_samples, transaction_samples

Body = dict[str, Any]

_MODULES = {
    3: "metadata",
    4: "leader_and_isr",
    5: "stop_replica",
    6: "update_metadata",
    7: "controlled_shutdown",
    18: "api_versions",
    **data_samples.MODULES,
    **admin_samples.MODULES,
    **group_samples.MODULES,
    **security_samples.MODULES,
    **transaction_samples.MODULES,
}
_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


def request_frame(header: RequestHeader, request: Any) -> bytes:
    """Return the request's complete frame, encoded by kio."""
    kind = kind_of(header.api_key, header.version, EntityType.request)
    named = {
        "request_api_key": header.api_key,
        "request_api_version": header.version,
        "correlation_id": header.correlation_id,
        "client_id": header.client_id,
    }
    return _frame(kind, named, request_body(request))


def response_frame(header: RequestHeader, response: Any) -> bytes:
    """Return the response's complete frame, encoded by kio."""
    kind = kind_of(header.api_key, header.version, EntityType.response)
    return _frame(kind, {"correlation_id": header.correlation_id}, response_body(response, header.version))


def _frame(kind: type, header: Body, body: Body) -> bytes:
    out = io.BytesIO()
    for part in (entity(kind.__header_schema__, header), entity(kind, body)):  # type: ignore[attr-defined]
        entity_writer(type(part))(out, part)
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def kind_of(api_key: int, version: int, of: EntityType) -> type:
    module = importlib.import_module(f"kio.schema.{_MODULES[api_key]}.v{version}.{of.name}")
    return next(
        kind
        for kind in vars(module).values()
        if getattr(kind, "__type__", None) is of and kind.__module__ == module.__name__
    )


def entity(kind: type, values: Body) -> Any:
    """Build kio's dataclass from a dict. Only fields with a default may be absent from the dict."""
    hints = typing.get_type_hints(kind)
    given = {}
    for field in dataclasses.fields(kind):
        if field.name in values:
            given[field.name] = _value(hints[field.name], field.metadata.get("kafka_type", ""), values[field.name])
    return kind(**given)


def _value(hint: Any, kafka_type: str, value: Any) -> Any:
    if kafka_type == "error_code":
        return ErrorCode(value)
    if kafka_type.startswith("timedelta"):
        return datetime.timedelta(milliseconds=value)
    choices = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if isinstance(value, list) and value and isinstance(value[0], dict):
        inner = next(typing.get_args(choice)[0] for choice in choices if typing.get_origin(choice) is tuple)
        return tuple(entity(inner, item) for item in value)
    return tuple(value) if isinstance(value, list) else value


def _by_topic(states: Iterable[Any]) -> dict[str, list[Any]]:
    topics: dict[str, list[Any]] = {}
    for state in states:
        topics.setdefault(state.partition.topic, []).append(state)
    return topics


def _leader_and_isr_state(state: LeaderAndIsrPartitionState) -> Body:
    return {
        "topic_name": state.partition.topic,
        "partition_index": state.partition.partition,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "partition_epoch": state.zk_version,
        "replicas": list(state.replicas),
        "adding_replicas": list(state.adding_replicas),
        "removing_replicas": list(state.removing_replicas),
        "is_new": state.is_new,
        "leader_recovery_state": state.leader_recovery_state,
    }


def _update_metadata_state(state: UpdateMetadataPartitionState) -> Body:
    return {
        "topic_name": state.partition.topic,
        "partition_index": state.partition.partition,
        "controller_epoch": state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "zk_version": state.zk_version,
        "replicas": list(state.replicas),
        "offline_replicas": list(state.offline_replicas),
    }


def _endpoint(endpoint: Endpoint) -> Body:
    return {
        "port": endpoint.port,
        "host": endpoint.host,
        "listener": endpoint.listener,
        "security_protocol": _PROTOCOL_IDS[endpoint.security_protocol],
    }


def _words(message: Any) -> Body | None:
    """Return kio's fields of a message that one of the sample files covers; None for other messages."""
    for file in (admin_samples, group_samples, security_samples, transaction_samples):
        if file.is_mine(message):
            return file.words(message)
    return data_samples.words(message)


def request_body(request: Any) -> Body:
    """Return kio's fields of `request`, including those that the version lacks."""
    elsewhere = _words(request)
    if elsewhere is not None:
        return elsewhere
    match request:
        case LeaderAndIsrRequest(_, controller, controller_epoch, broker_epoch, states, live):
            return {
                "controller_id": controller,
                "controller_epoch": controller_epoch,
                "broker_epoch": broker_epoch,
                "type_": 0,
                "ungrouped_partition_states": [_leader_and_isr_state(state) for state in states],
                "topic_states": [
                    {
                        "topic_name": topic,
                        "topic_id": None,
                        "partition_states": [_leader_and_isr_state(state) for state in group],
                    }
                    for topic, group in _by_topic(states).items()
                ],
                "live_leaders": [{"broker_id": x.broker_id, "host_name": x.host, "port": x.port} for x in live],
            }
        case StopReplicaRequest(_, controller, controller_epoch, broker_epoch, states):
            return {
                "controller_id": controller,
                "controller_epoch": controller_epoch,
                "broker_epoch": broker_epoch,
                "delete_partitions": any(state.delete_partition for state in states),
                "ungrouped_partitions": [
                    {"topic_name": s.partition.topic, "partition_index": s.partition.partition} for s in states
                ],
                "topics": [
                    {"name": topic, "partition_indexes": [state.partition.partition for state in group]}
                    for topic, group in _by_topic(states).items()
                ],
                "topic_states": [
                    {
                        "topic_name": topic,
                        "partition_states": [
                            {
                                "partition_index": state.partition.partition,
                                "leader_epoch": state.leader_epoch,
                                "delete_partition": state.delete_partition,
                            }
                            for state in group
                        ],
                    }
                    for topic, group in _by_topic(states).items()
                ],
            }
        case UpdateMetadataRequest(version, controller, controller_epoch, broker_epoch, states, brokers):
            live = [
                {"id_": b.id, "endpoints": [_endpoint(endpoint) for endpoint in b.endpoints], "rack": b.rack}
                for b in brokers
            ]
            if version == 0:
                for entry, broker in zip(live, brokers, strict=True):
                    plain = next(e for e in broker.endpoints if e.security_protocol == "PLAINTEXT")
                    entry |= {"v0_host": plain.host, "v0_port": plain.port}
            return {
                "controller_id": controller,
                "controller_epoch": controller_epoch,
                "broker_epoch": broker_epoch,
                "ungrouped_partition_states": [_update_metadata_state(state) for state in states],
                "topic_states": [
                    {
                        "topic_name": topic,
                        "topic_id": None,
                        "partition_states": [_update_metadata_state(state) for state in group],
                    }
                    for topic, group in _by_topic(states).items()
                ],
                "live_brokers": live,
            }
        case ControlledShutdownRequest(_, broker, epoch):
            return {"broker_id": broker, "broker_epoch": epoch}
        case MetadataRequest(version, topics, auto):
            if topics is None and version == 0:
                topics = ()
            return {
                "topics": None if topics is None else [{"name": name} for name in topics],
                "allow_auto_topic_creation": auto,
                "include_cluster_authorized_operations": False,
                "include_topic_authorized_operations": False,
            }
        case ApiVersionsRequest(_, name, software_version):
            return {"client_software_name": name, "client_software_version": software_version}
    raise TypeError(type(request))


def response_body(response: Any, version: int) -> Body:
    """Return kio's fields of `response`, including those that the version lacks."""
    elsewhere = _words(response)
    if elsewhere is not None:
        return elsewhere
    match response:
        case LeaderAndIsrResponse(code, errors) | StopReplicaResponse(code, errors):
            listed = [
                {
                    "topic_name": error.partition.topic,
                    "partition_index": error.partition.partition,
                    "error_code": error.error_code,
                }
                for error in errors
            ]
            grouped = [{"topic_id": None, "partition_errors": listed}] if listed else []
            return {"error_code": code, "partition_errors": listed, "topics": grouped}
        case UpdateMetadataResponse(code):
            return {"error_code": code}
        case ControlledShutdownResponse(code, remaining):
            listed = [{"topic_name": p.topic, "partition_index": p.partition} for p in remaining]
            return {"error_code": code, "remaining_partitions": listed}
        case ApiVersionsResponse(code, spans):
            listed = [{"api_key": s.api_key, "min_version": s.min_version, "max_version": s.max_version} for s in spans]
            return {"error_code": code, "api_keys": listed, "throttle_time": 0}
        case MetadataResponse(brokers, cluster_id, controller_id, topics):
            return {
                "throttle_time": 0,
                "brokers": [{"node_id": b.id, "host": b.host, "port": b.port, "rack": b.rack} for b in brokers],
                "cluster_id": cluster_id,
                "controller_id": controller_id,
                "topics": [
                    {
                        "error_code": topic.error_code,
                        "name": topic.name,
                        "is_internal": topic.is_internal,
                        "partitions": [
                            {
                                "error_code": p.error_code,
                                "partition_index": p.partition,
                                "leader_id": p.leader,
                                "leader_epoch": p.leader_epoch,
                                "replica_nodes": list(p.replicas),
                                "isr_nodes": list(p.isr),
                                "offline_replicas": list(p.offline_replicas),
                            }
                            for p in topic.partitions
                        ],
                    }
                    for topic in topics
                ],
            }
    raise TypeError(type(response))
