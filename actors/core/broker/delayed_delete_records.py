"""Delay the responses to DeleteRecords requests until all replicas have deleted the records (broker.md 9.7 row 95).

Rule 1: only records of topics with `cleanup.policy=delete` are deleted, and at most up to the high watermark.
Rule 2: the low watermark is the least log start offset of all replicas. The response follows when the low watermark has
        reached the offset of the request. If the request's deadline passes or the leadership ends first, the response
        has an error code.

Kafka: `Partition.deleteRecordsOnLeader`, `DelayedDeleteRecords`.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.core.broker.leader import Leader
from actors.core.broker.partition_effects import Address, Send
from actors.core.broker.replica_log import ReplicaLog
from messages import errors
from messages.apis.delete_records import DeletedRecords
from messages.cluster import TopicPartition
from messages.partition import LogTrimmed, TrimLog

HIGH_WATERMARK = -1
"""The offset in a request that means the high watermark."""


class DelayedDeleteRecords(NamedTuple):
    """A DeleteRecords request that waits: its sender, and its deadline in seconds by the node's clock."""

    sender: Address
    request: TrimLog
    deadline: float


def delete_verdict(offset: int, is_leader: bool, deletes: bool, high_watermark: int) -> int:
    """Return NONE if a request may delete the records before `offset`, otherwise the error code (rule 1).

    `deletes` is whether the topic's cleanup.policy contains `delete`.
    """
    if not is_leader:
        return errors.NOT_LEADER_OR_FOLLOWER
    if not deletes:
        return errors.POLICY_VIOLATION
    return errors.NONE if 0 <= offset <= high_watermark else errors.OFFSET_OUT_OF_RANGE


def low_watermark(log: ReplicaLog, leader: Leader) -> int:
    """Return the least log start offset of all replicas."""
    return min((log.start, *[follower.log_start_offset for follower in leader.followers.values()]))


def deletion_verdict(request: TrimLog, deadline: float, log_start: int, low: int, now: float) -> int | None:
    """Return the response's error code (the code NONE means success), or None while the request waits (rule 2)."""
    if low >= (log_start if request.offset == HIGH_WATERMARK else request.offset):
        return errors.NONE
    return errors.REQUEST_TIMED_OUT if deadline <= now else None


def deleted(partition: TopicPartition, sender: Address, request: TrimLog, error_code: int, low: int = -1) -> Send:
    """Return the response to a DeleteRecords request."""
    return Send(sender, LogTrimmed(request.request, request.index, DeletedRecords(partition, error_code, low)))
