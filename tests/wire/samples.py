"""hypothesis strategies for the messages of every API, and the values that each version of a message can carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from messages.apis import APIS
from messages.cluster import Endpoint, TopicPartition
from messages.requests import (
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveLeader,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from tests.wire import admin_samples, data_samples, group_samples, security_samples, transaction_samples

METADATA, LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, CONTROLLED_SHUTDOWN, API_VERSIONS = 3, 4, 5, 6, 7, 18

EVERY_VERSION = [(api.key, version) for api in APIS for version in range(api.min_version, api.max_version + 1)]

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
topics = st.one_of(st.sampled_from(("a", "b", "t" * 249, "")), texts)
ids = st.lists(int32, max_size=3).map(tuple)
error_codes = st.sampled_from([code.value for code in ErrorCode if code is not ErrorCode.unsupported_version])
partitions = st.builds(TopicPartition, topics, int32)
protocols = st.sampled_from(("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"))
endpoints = st.builds(Endpoint, texts, texts, int32, protocols)


def several(of: st.SearchStrategy[Any], least: int = 0) -> st.SearchStrategy[Any]:
    return st.lists(of, min_size=least, max_size=4).map(tuple)


def leader_and_isr_requests(version: int) -> st.SearchStrategy[Any]:
    state = st.builds(
        LeaderAndIsrPartitionState,
        partitions,
        int32,
        int32,
        int32,
        ids,
        int32,
        ids,
        ids,
        ids,
        st.booleans(),
        st.integers(-128, 127),
    )
    live = st.builds(LiveLeader, int32, texts, int32)
    return st.builds(LeaderAndIsrRequest, st.just(version), int32, int32, int64, several(state), several(live))


def stop_replica_requests(version: int) -> st.SearchStrategy[Any]:
    def with_flags(flags: st.SearchStrategy[bool]) -> st.SearchStrategy[Any]:
        state = st.builds(StopReplicaPartitionState, partitions, int32, flags)
        return st.builds(StopReplicaRequest, st.just(version), int32, int32, int64, several(state))

    if version < 3:
        return st.booleans().flatmap(lambda flag: with_flags(st.just(flag)))
    return with_flags(st.booleans())


def update_metadata_requests(version: int) -> st.SearchStrategy[Any]:
    state = st.builds(UpdateMetadataPartitionState, partitions, int32, int32, int32, ids, int32, ids, ids)
    reachable = several(endpoints)
    if version == 0:
        plaintext = st.builds(Endpoint, texts, texts, int32)
        reachable = st.tuples(several(endpoints), plaintext).map(lambda pair: (*pair[0], pair[1]))
    broker = st.builds(UpdateMetadataBroker, int32, reachable, st.none() | texts)
    return st.builds(UpdateMetadataRequest, st.just(version), int32, int32, int64, several(state), several(broker))


def controlled_shutdown_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(ControlledShutdownRequest, st.just(version), int32, int64)


def metadata_requests(version: int) -> st.SearchStrategy[Any]:
    names = st.none() | several(topics, least=1 if version == 0 else 0)
    return st.builds(MetadataRequest, st.just(version), names, st.booleans())


def api_versions_requests(version: int) -> st.SearchStrategy[Any]:
    return st.builds(ApiVersionsRequest, st.just(version), texts, texts)


REQUESTS: dict[int, Callable[[int], st.SearchStrategy[Any]]] = {
    METADATA: metadata_requests,
    LEADER_AND_ISR: leader_and_isr_requests,
    STOP_REPLICA: stop_replica_requests,
    UPDATE_METADATA: update_metadata_requests,
    CONTROLLED_SHUTDOWN: controlled_shutdown_requests,
    API_VERSIONS: api_versions_requests,
}

partition_errors = several(st.builds(PartitionError, partitions, error_codes))

RESPONSES: dict[int, st.SearchStrategy[Any]] = {
    METADATA: st.builds(
        MetadataResponse,
        several(st.builds(MetadataBroker, int32, texts, int32, st.none() | texts)),
        st.none() | texts,
        int32,
        several(
            st.builds(
                MetadataTopic,
                error_codes,
                topics,
                st.booleans(),
                several(st.builds(MetadataPartition, error_codes, int32, int32, int32, ids, ids, ids)),
            )
        ),
    ),
    LEADER_AND_ISR: st.builds(LeaderAndIsrResponse, error_codes, partition_errors),
    STOP_REPLICA: st.builds(StopReplicaResponse, error_codes, partition_errors),
    UPDATE_METADATA: st.builds(UpdateMetadataResponse, error_codes),
    CONTROLLED_SHUTDOWN: st.builds(ControlledShutdownResponse, error_codes, several(partitions)),
    API_VERSIONS: st.builds(ApiVersionsResponse, error_codes, several(st.builds(ApiVersionRange, int16, int16, int16))),
}


_data_requests, _data_responses = data_samples.samples(int16, int32, int64, texts, error_codes, partitions, several)
REQUESTS |= _data_requests
RESPONSES |= _data_responses

_admin_requests, _admin_responses = admin_samples.samples(int16, int32, texts, ids, error_codes, several)
REQUESTS |= _admin_requests
RESPONSES |= _admin_responses

_group_requests, _group_responses = group_samples.samples(int32, int64, texts, ids, error_codes, partitions, several)
REQUESTS |= _group_requests
RESPONSES |= _group_responses

_security_requests, _security_responses = security_samples.samples(int32, texts, error_codes, several)
REQUESTS |= _security_requests
RESPONSES |= _security_responses

_transaction_requests, _transaction_responses = transaction_samples.samples(
    int32, int64, texts, error_codes, partitions, several
)
REQUESTS |= _transaction_requests
RESPONSES |= _transaction_responses


def by_topic(states: Iterable[Any]) -> tuple[Any, ...]:
    """Sort `states` by topic: topics in the order of their first state, the states of a topic in their order."""
    first: dict[str, int] = {}
    for state in states:
        first.setdefault(state.partition.topic, len(first))
    return tuple(sorted(states, key=lambda state: first[state.partition.topic]))


def request_as_read(request: Any) -> Any:
    """Return `request` as its receiver decodes it: without the fields that its version lacks."""
    version = request.version
    match request:
        case LeaderAndIsrRequest():
            lost: dict[str, Any] = {}
            if version < 1:
                lost["is_new"] = False
            if version < 3:
                lost |= {"adding_replicas": (), "removing_replicas": ()}
            if version < 6:
                lost["leader_recovery_state"] = 0
            states = tuple(attrs.evolve(state, **lost) for state in request.partition_states)
            if version < 2:
                return attrs.evolve(request, broker_epoch=-1, partition_states=states)
            return attrs.evolve(request, partition_states=by_topic(states))
        case StopReplicaRequest():
            states = request.partition_states
            if version < 3:
                states = tuple(attrs.evolve(state, leader_epoch=-1) for state in states)
            if version < 1:
                return attrs.evolve(request, broker_epoch=-1, partition_states=states)
            return attrs.evolve(request, partition_states=by_topic(states))
        case UpdateMetadataRequest():
            states = request.partition_states
            if version < 4:
                states = tuple(attrs.evolve(state, offline_replicas=()) for state in states)
            brokers = tuple(_broker_as_read(broker, version) for broker in request.live_brokers)
            if version < 5:
                return attrs.evolve(request, broker_epoch=-1, partition_states=states, live_brokers=brokers)
            return attrs.evolve(request, partition_states=by_topic(states), live_brokers=brokers)
        case ControlledShutdownRequest() if version < 2:
            return attrs.evolve(request, broker_epoch=-1)
        case MetadataRequest() if version < 4:
            return attrs.evolve(request, allow_auto_topic_creation=True)
        case ApiVersionsRequest() if version < 3:
            return ApiVersionsRequest(version)
    return _of_other_files_as_read(request, version)


def _of_other_files_as_read(message: Any, version: int) -> Any:
    if admin_samples.is_mine(message):
        return admin_samples.as_read(message, version)
    if security_samples.is_mine(message):
        return security_samples.as_read(message, version)
    if transaction_samples.is_mine(message):
        return transaction_samples.as_read(message, version)
    if group_samples.is_mine(message):
        return group_samples.as_read(message, version, by_topic)
    return data_samples.as_read(message, version, by_topic)


def _broker_as_read(broker: UpdateMetadataBroker, version: int) -> UpdateMetadataBroker:
    if version == 0:
        plain = next(endpoint for endpoint in broker.endpoints if endpoint.security_protocol == "PLAINTEXT")
        return UpdateMetadataBroker(broker.id, (attrs.evolve(plain, listener="PLAINTEXT"),))
    if version < 3:
        named = tuple(attrs.evolve(endpoint, listener=endpoint.security_protocol) for endpoint in broker.endpoints)
        return UpdateMetadataBroker(broker.id, named, None if version < 2 else broker.rack)
    return broker


def response_as_read(response: Any, version: int) -> Any:
    """Return `response` as its receiver decodes it in this version."""
    match response:
        case LeaderAndIsrResponse(code, errors) if version >= 5:
            nameless = (PartitionError(TopicPartition("", e.partition.partition), e.error_code) for e in errors)
            return LeaderAndIsrResponse(code, tuple(nameless))
        case MetadataResponse(brokers, cluster_id, controller_id, topics):
            lost: dict[str, Any] = {}
            if version < 5:
                lost["offline_replicas"] = ()
            if version < 7:
                lost["leader_epoch"] = -1
            topics = tuple(
                attrs.evolve(
                    topic,
                    is_internal=topic.is_internal and version >= 1,
                    partitions=tuple(attrs.evolve(partition, **lost) for partition in topic.partitions),
                )
                for topic in topics
            )
            if version < 1:
                brokers = tuple(attrs.evolve(broker, rack=None) for broker in brokers)
            return MetadataResponse(
                brokers, cluster_id if version >= 2 else None, controller_id if version >= 1 else -1, topics
            )
    return _of_other_files_as_read(response, version)
