"""When an append to a coordinator's log fails, translate the error code into the one that the client receives."""

from __future__ import annotations

from collections.abc import Mapping

from messages import errors

COMMON_CODES: Mapping[int, int] = {
    errors.UNKNOWN_TOPIC_OR_PARTITION: errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_ENOUGH_REPLICAS: errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: errors.COORDINATOR_NOT_AVAILABLE,
    errors.NOT_LEADER_OR_FOLLOWER: errors.NOT_COORDINATOR,
    errors.KAFKA_STORAGE_ERROR: errors.NOT_COORDINATOR,
}
"""Error of the log -> client error code for all requests. Each kind of request adds its own."""
