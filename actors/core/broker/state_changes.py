"""The lines that a broker writes to state-change.log, in Kafka's wording.

Rule 1: a request that is refused, as a whole or for one partition, is logged with its controller and the reason
        (`IGNORED`).
Rule 2: a change of an ISR is logged before the write, and again when ZooKeeper has accepted or refused the write. The
        first line of a shrink has the leader's offsets. For each out-of-sync replica it has the log end offset, and the
        time at which the replica was last caught up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from actors.core.broker.leader import NEVER, Leader
from messages import errors
from messages.apis.update_metadata import ControllerRequest
from messages.cluster import TopicPartition


class Origin(NamedTuple):
    """The controller request to which a line of the node's log refers.

    It has the request's name, the controller's id and epoch, and the correlation id.
    """

    name: str
    controller_id: int
    epoch: int
    correlation_id: int

    @classmethod
    def of_request(cls, request: ControllerRequest, correlation_id: int) -> Origin:
        """Return the origin of a request."""
        name = type(request).__name__.removesuffix("Request")
        return cls(name, request.controller_id, request.controller_epoch, correlation_id)


IGNORED: dict[int, str] = {
    errors.KAFKA_STORAGE_ERROR: "as the local replica for the partition is in an offline log directory",
    errors.UNKNOWN_TOPIC_OR_PARTITION: "as itself is not in assigned replica list {replicas}",
    errors.STALE_CONTROLLER_EPOCH: "since its associated leader epoch {asked} {than} the current leader epoch{known}",
    errors.FENCED_LEADER_EPOCH: "since its associated leader epoch {asked} {than} the current leader epoch{known}",
}
"""The reason for ignoring an order for one partition, by error code."""


def refused_line(origin: Origin, code: int, request: ControllerRequest, newest: int, broker_epoch: int) -> str:
    """Return the log line for a request that is refused as a whole.

    Args:
        origin: The request's sender.
        code: The error code.
        request: The request.
        newest: The newest known controller epoch.
        broker_epoch: This broker's epoch.
    """
    if code == errors.STALE_BROKER_EPOCH:
        return (
            f"Received {origin.name} request with broker epoch {request.broker_epoch} smaller than the current broker"
            f" epoch {broker_epoch}"
        )
    return (
        f"Ignoring {origin.name} request from controller {origin.controller_id} with correlation id"
        f" {origin.correlation_id} since its controller epoch {origin.epoch} is old. Latest known controller epoch is"
        f" {newest}"
    )


def ignored_line(
    origin: Origin,
    partition: TopicPartition,
    code: int,
    asked: int,
    known: int,
    replicas: Iterable[int] = (),
    how: str = "",
) -> str:
    """Return the line for a partition whose new state in a request is ignored.

    Args:
        origin: The request's sender.
        partition: The partition.
        code: The error code.
        asked: The leader epoch in the request.
        known: The leader epoch that is known here.
        replicas: The assigned replicas, if this broker is not among them.
        how: A detail of the request, such as a deletion.
    """
    than = "matches" if asked == known else "is smaller than"
    reason = IGNORED.get(code, f"with error {code}").format(
        asked=asked, than=than, known="" if asked == known else f" {known}", replicas=_join_ids(replicas)
    )
    return (
        f"Ignoring {origin.name} request {how}from controller {origin.controller_id} with correlation id"
        f" {origin.correlation_id} epoch {origin.epoch} for partition {partition} {reason}"
    )


def stopped_fetchers(origin: Origin, count: int, leading: bool) -> str:
    """Return the line which says that the fetchers of `count` partitions were stopped.

    If `leading` is true, this broker leads the partitions now; otherwise they have a new leader.
    """
    if leading:
        return (
            f"Stopped fetchers as part of {origin.name} request correlationId {origin.correlation_id} from controller"
            f" {origin.controller_id} epoch {origin.epoch} as part of the become-leader transition for {count}"
            " partitions"
        )
    return (
        f"Stopped fetchers as part of become-follower request from controller {origin.controller_id} epoch"
        f" {origin.epoch} with correlation id {origin.correlation_id} for {count} partitions"
    )


def changing_isr(leader: Leader, isr: Collection[int], now: float, now_ms: int) -> str:
    """Return the line to log before a new ISR is written (rule 2).

    Args:
        leader: The leader's state.
        isr: The new ISR.
        now: Seconds of the node's clock.
        now_ms: The wall clock in milliseconds.
    """
    out = [replica for replica in leader.isr if replica not in isr]
    change = f"from {_join_ids(leader.isr)} to {_join_ids(isr)}"
    if not out:
        return f"Expanding ISR {change}"
    behind = []
    for replica in out:
        follower = leader.followers.get(replica)
        if follower is not None:
            since = follower.caught_up_at
            caught_up_ms = 0 if since == NEVER else now_ms - round(1000 * (now - since))
            offset = follower.log_end_offset
            behind.append(f"(brokerId: {replica}, endOffset: {offset}, lastCaughtUpTimeMs: {caught_up_ms})")
    return (
        f"Shrinking ISR {change}. Leader: (highWatermark: {leader.log.high_watermark},"
        f" endOffset: {leader.log.end}). Out of sync replicas: {' '.join(behind)}."
    )


def changed_isr(leader: Leader, written: bool) -> str:
    """Return the line to log after an ISR write; `written` is whether ZooKeeper accepted the write (rule 2)."""
    if not written:
        return f"Cached zkVersion {leader.zk_version} not equal to that in zookeeper, skip updating ISR"
    below = " (under-min-isr)" if len(leader.isr) < leader.required_isr else ""
    return f"ISR updated to {_join_ids(leader.isr)}{below} and version updated to {leader.zk_version}"


def _join_ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))
