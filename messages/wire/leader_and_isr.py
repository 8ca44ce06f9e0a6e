"""LeaderAndIsr (API key 4): versions 0-7.

Rule 1: partitions are grouped by topic from v2 on, on the wire only.
Rule 2: topic ids (v5+) are not ours: requests carry the zero id beside the name. Responses of v5+ carry *only* the id,
        so their partitions come back under the id's text ("" for the zero id) and go out in one group of the zero id.
"""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.requests import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LiveLeader,
    PartitionError,
)
from messages.wire.api import Api, Fields
from messages.wire.schema import LEADER_AND_ISR_REQUEST, LEADER_AND_ISR_RESPONSE, Wire, grouped, present, read_states

_STATE_NAMES = (
    ("topic_name", "partition.topic"),
    ("partition_index", "partition.partition"),
    ("partition_epoch", "zk_version"),
)
_ERROR_NAMES = (("topic_name", "partition.topic"), ("partition_index", "partition.partition"))


def _request_fields(request: LeaderAndIsrRequest, version: int) -> Fields:
    leader = LEADER_AND_ISR_REQUEST.row(version, ("live_leaders",), (("host_name", "host"),))
    fields: dict[str, object] = {
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "live_leaders": [leader(live) for live in request.live_leaders],
    }
    if version < 2:
        row = LEADER_AND_ISR_REQUEST.row(version, ("ungrouped_partition_states",), _STATE_NAMES)
        fields["ungrouped_partition_states"] = [row(state) for state in request.partition_states]
    else:
        row = LEADER_AND_ISR_REQUEST.row(version, ("topic_states", "partition_states"), _STATE_NAMES)
        topics = grouped(request.partition_states, row).items()
        topic_id = () if version < 5 else (None,)
        fields["topic_states"] = [(topic, *topic_id, rows) for topic, rows in topics]
    return fields


def _read_state(topic: str, state: Wire) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        TopicPartition(topic, state.partition_index),
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        tuple(present(state.isr)),
        state.partition_epoch,
        tuple(present(state.replicas)),
        tuple(present(state.adding_replicas)),
        tuple(present(state.removing_replicas)),
        state.is_new,
        state.leader_recovery_state,
    )


def _read_request(body: Wire, version: int) -> LeaderAndIsrRequest:
    return LeaderAndIsrRequest(
        version,
        body.controller_id,
        body.controller_epoch,
        body.broker_epoch,
        read_states(body, version >= 2, _read_state),
        tuple(LiveLeader(live.broker_id, present(live.host_name), live.port) for live in present(body.live_leaders)),
    )


def _response_fields(response: LeaderAndIsrResponse, version: int) -> Fields:
    if version < 5:
        row = LEADER_AND_ISR_RESPONSE.row(version, ("partition_errors",), _ERROR_NAMES)
        errors = [row(error) for error in response.partition_errors]
        return {"error_code": response.error_code, "partition_errors": errors}
    row = LEADER_AND_ISR_RESPONSE.row(version, ("topics", "partition_errors"), _ERROR_NAMES)
    errors = [row(error) for error in response.partition_errors]
    return {"error_code": response.error_code, "topics": [(None, errors)] if errors else []}


def _read_response(body: Wire, version: int) -> LeaderAndIsrResponse:
    if version < 5:
        named = [(error.topic_name, error) for error in present(body.partition_errors)]
    else:
        named = [
            (str(topic.topic_id or ""), error)
            for topic in present(body.topics)
            for error in present(topic.partition_errors)
        ]
    errors = (
        PartitionError(TopicPartition(present(topic), error.partition_index), error.error_code)
        for topic, error in named
    )
    return LeaderAndIsrResponse(body.error_code, tuple(errors))


LEADER_AND_ISR = Api(
    4,
    "LeaderAndIsr",
    0,
    7,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LEADER_AND_ISR_REQUEST,
    LEADER_AND_ISR_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
