"""ControlledShutdown (API key 7): versions 0-3. Version 0 alone has a request header without client id (`codec`)."""

from __future__ import annotations

from messages.cluster import TopicPartition
from messages.requests import ControlledShutdownRequest, ControlledShutdownResponse
from messages.wire.api import Api, Fields
from messages.wire.schema import CONTROLLED_SHUTDOWN_REQUEST, CONTROLLED_SHUTDOWN_RESPONSE, Wire, present


def _request_fields(request: ControlledShutdownRequest, version: int) -> Fields:
    return {"broker_id": request.broker_id, "broker_epoch": request.broker_epoch}


def _read_request(body: Wire, version: int) -> ControlledShutdownRequest:
    return ControlledShutdownRequest(version, body.broker_id, body.broker_epoch)


def _response_fields(response: ControlledShutdownResponse, version: int) -> Fields:
    return {"error_code": response.error_code, "remaining_partitions": response.remaining_partitions}


def _read_response(body: Wire, version: int) -> ControlledShutdownResponse:
    remaining = (
        TopicPartition(present(partition.topic_name), partition.partition_index)
        for partition in present(body.remaining_partitions)
    )
    return ControlledShutdownResponse(body.error_code, tuple(remaining))


CONTROLLED_SHUTDOWN = Api(
    7,
    "ControlledShutdown",
    0,
    3,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CONTROLLED_SHUTDOWN_REQUEST,
    CONTROLLED_SHUTDOWN_RESPONSE,
    _request_fields,
    _read_request,
    _response_fields,
    _read_response,
)
