"""The exception class names and messages that Kafka's Java tools print for error codes."""

from __future__ import annotations

from messages import errors
from messages.error_names import name_of

PACKAGE = "org.apache.kafka.common.errors."

_EXCEPTIONS: dict[int, tuple[str, str]] = {
    errors.OFFSET_OUT_OF_RANGE: (
        "OffsetOutOfRangeException",
        "The requested offset is not within the range of offsets maintained by the server.",
    ),
    errors.UNKNOWN_TOPIC_OR_PARTITION: (
        "UnknownTopicOrPartitionException",
        "This server does not host this topic-partition.",
    ),
    errors.LEADER_NOT_AVAILABLE: (
        "LeaderNotAvailableException",
        "There is no leader for this topic-partition as we are in the middle of a leadership election.",
    ),
    errors.NOT_LEADER_OR_FOLLOWER: (
        "NotLeaderOrFollowerException",
        "For requests intended only for the leader, this error indicates that the broker is not the current leader."
        " For requests intended for any replica, this error indicates that the broker is not a replica of the topic"
        " partition.",
    ),
    errors.REQUEST_TIMED_OUT: ("TimeoutException", "The request timed out."),
    errors.POLICY_VIOLATION: (
        "PolicyViolationException",
        "Request parameters do not satisfy the configured policy.",
    ),
    errors.KAFKA_STORAGE_ERROR: (
        "KafkaStorageException",
        "Disk error when trying to access log file on the disk.",
    ),
}


def class_of(code: int) -> str:
    """Return the class name of Java's exception for an error code; if it is unknown, the error code's name."""
    return PACKAGE + _EXCEPTIONS[code][0] if code in _EXCEPTIONS else name_of(code)


def message_of(code: int) -> str:
    """Return "class: message" of the exception for an error code, as Java prints the cause of an exception."""
    return f"{class_of(code)}: {_EXCEPTIONS[code][1]}" if code in _EXCEPTIONS else name_of(code)
