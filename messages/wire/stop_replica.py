"""StopReplica (API key 5): versions 0-4.

Rule: before v3 one flag says for all partitions whether they are deleted, and leader epochs are not on the wire; so a
request that mixes deletion and mere stopping has no bytes there, and the controller sends two (controller.md 4).
"""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.requests import (
    PartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from messages.wire.api import Api, Fields
from messages.wire.schema import STOP_REPLICA_REQUEST, STOP_REPLICA_RESPONSE, Wire, grouped, present, read_states

_NAMES = (("topic_name", "partition.topic"), ("partition_index", "partition.partition"))


def _request_fields(request: StopReplicaRequest, version: int) -> Fields:
    states = request.partition_states
    fields: dict[str, object] = {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
    }
    if version >= 3:
        row = STOP_REPLICA_REQUEST.row(version, ("topic_states", "partition_states"), _NAMES)
        fields["topic_states"] = list(grouped(states, row).items())
        return fields
    flags = {state.delete_partition for state in states}
    if len(flags) > 1:
        raise ValueError("before version 3, all partitions of a request are deleted or none is")
    fields["delete_partitions"] = True in flags
    if version == 0:
        row = STOP_REPLICA_REQUEST.row(version, ("ungrouped_partitions",), _NAMES)
        fields["ungrouped_partitions"] = [row(state) for state in states]
    else:
        fields["topics"] = list(grouped(states, lambda state: state.partition.partition).items())
    return fields


def _read_state(topic: str, state: Wire) -> StopReplicaPartitionState:
    partition = TopicPartition(topic, state.partition_index)
    return StopReplicaPartitionState(partition, state.leader_epoch, state.delete_partition)


def _read_request(body: Wire, version: int) -> StopReplicaRequest:
    if version >= 3:
        states = read_states(body, True, _read_state)
    else:
        if version == 0:
            ungrouped = present(body.ungrouped_partitions)
            partitions = [TopicPartition(present(state.topic_name), state.partition_index) for state in ungrouped]
        else:
            partitions = [
                TopicPartition(name, index)
                for topic in present(body.topics)
                for name in [present(topic.name)]
                for index in present(topic.partition_indexes)
            ]
        delete = body.delete_partitions
        states = tuple([StopReplicaPartitionState(partition, delete_partition=delete) for partition in partitions])
    return StopReplicaRequest(version, body.controller_id, body.controller_epoch, body.broker_epoch, states)


def _response_fields(response: StopReplicaResponse, version: int) -> Fields:
    row = STOP_REPLICA_RESPONSE.row(version, ("partition_errors",), _NAMES)
    return {"error_code": response.error_code, "partition_errors": [row(error) for error in response.partition_errors]}


def _read_response(body: Wire, version: int) -> StopReplicaResponse:
    errors = (
        PartitionError(TopicPartition(present(error.topic_name), error.partition_index), error.error_code)
        for error in present(body.partition_errors)
    )
    return StopReplicaResponse(body.error_code, tuple(errors))


STOP_REPLICA = Api(
    5,
    "StopReplica",
    0,
    4,
    StopReplicaRequest,
    StopReplicaResponse,
    STOP_REPLICA_REQUEST,
    STOP_REPLICA_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
