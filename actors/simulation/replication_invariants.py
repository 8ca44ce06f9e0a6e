"""Functions that check replication: epochs, ISR, high watermark, and progress under faults.

The table `INVARIANTS` of `actors.simulation.invariants` lists them. Invariants with a time limit allow `SLACK` seconds
more, and apply only to nodes that were healthy for that whole time (`actors.simulation.replicas`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from actors.simulation.exchanges import ResponseSent, accepted_markers
from actors.simulation.group_invariants import accepts
from actors.simulation.replicas import SLACK, HighWatermarkRaised
from actors.simulation.simulated_cluster import node_of
from messages import errors
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.fetch import READ_UNCOMMITTED, FetchRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.list_offsets import ListOffsetsRequest
from messages.apis.offset_commit import OffsetCommitRequest
from messages.apis.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from messages.apis.produce import ACKS_ALL, ProduceRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.sync_group import SyncGroupRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.apis.write_txn_markers import WriteTxnMarkersRequest
from messages.cluster import EPOCH_DURING_DELETE, NO_EPOCH, TopicPartition
from messages.wire.record_batch import whole_batches

if TYPE_CHECKING:
    from actors.simulation.checker import (
        Checker,
        PartitionStateWritten,
        RequestSent,
        Ticked,
        TopicDeleted,
        TopicWritten,
    )

LATE = 40.0
"""Seconds for which a request may wait in a controller's queue for its broker."""

ELECTION = 15.0
"""Seconds within which a healthy controller elects a leader, and healthy brokers a controller."""


# ---------------------------------------------------------------------------------------------------- the ISR


def new_isr_members_have_the_committed_records(law: Checker, change: PartitionStateWritten) -> Iterator[str]:
    """A replica enters the ISR only if its log reaches the high watermark and the start of the leader epoch.

    A replica that lost unflushed data must fetch from its new log end before it enters the ISR. This is checked from
    `SLACK` seconds after the loss on, because until then a fetch that was sent before the loss may be in flight.
    """
    before, after = change.before, change.after
    if before is None or before.leader_epoch != after.leader_epoch:
        return
    leader, now = law.replicas.log(after.leader, change.partition), law.cluster.now
    lost = {node: now - at for node, at in law.power_failed_at.items()}
    if lost and not (
        law.leads_intact(after.leader, change.partition) and law.replicas.healthy_for(law.cluster, after.leader) > SLACK
    ):
        return
    for replica in set(after.isr) - set(before.isr):
        if lost.get(replica, SLACK) < SLACK:
            continue
        log = law.replicas.log(replica, change.partition)
        if log is None or leader is None:
            continue
        if log.end < leader.high_watermark:
            yield (
                f"{change.partition}: {replica} entered the ISR with log end {log.end},"
                f" below the high watermark {leader.high_watermark}"
            )
        if log.end < leader.epoch_start:
            yield (
                f"{change.partition}: {replica} entered the ISR with log end {log.end},"
                f" below the start {leader.epoch_start} of leader epoch {after.leader_epoch}"
            )


def lagging_replicas_leave_the_isr(law: Checker, change: Ticked) -> Iterator[str]:
    """A replica is not in the ISR if it lacks records that its leader had 1.5 * replica.lag.time.max.ms ago.

    A replica is excepted if it entered the ISR after that time. Such a replica may lack records above the high
    watermark, which does not advance while the ISR is smaller than min.insync.replicas. A replica is also excepted if
    its broker was unhealthy after that time and also had a power failure, even an earlier one. A power failure loses
    unflushed records.
    """
    replicas, cluster = law.replicas, law.cluster
    lag = next(iter(cluster.machines.values())).settings.replica_lag_time_max_ms / 1000
    long = 1.5 * lag + SLACK
    for partition in replicas.with_records.values():
        state = law.states.get(partition)
        if state is None or len(state.isr) < 2 or state.leader not in cluster.machines:
            continue
        if partition.topic in law.deleting:
            continue
        logs = replicas.logs_of(partition)
        leader = logs.get(state.leader)
        if leader is None or all(node in logs and logs[node].end >= leader.end for node in state.isr):
            continue  # every replica has all records: this is so for most partitions most of the time
        if law.led_for(state.leader, partition) < long or law.was_led_before(state.leader, partition):
            continue
        if replicas.healthy_for(cluster, state.leader) < long:
            continue
        had = leader.end_at(cluster.now - long)
        for replica in state.isr:
            end = logs[replica].end if replica in logs else 0
            since = law.in_sync_since.get((replica, partition), 0.0)
            if replica in law.power_failed_at:  # the leader notices the loss when the replica fetches again
                since = max(since, replicas.unhealthy_at.get(replica, 0.0))
            if replica != state.leader and end < had and cluster.now - since > long:
                yield (
                    f"{partition}: {replica} is in the ISR {state.isr} with log end {end}; leader {state.leader} had"
                    f" {had} records {long:g} s ago, and replica.lag.time.max.ms is {lag:g} s"
                )


# ---------------------------------------------------------------------------------------------------- commits


def high_watermarks_need_min_insync_replicas(law: Checker, change: HighWatermarkRaised) -> Iterator[str]:
    """A leader commits only records that at least min.insync.replicas logs have, and none while the ISR is smaller.

    The number of logs is not checked while a topic is being deleted: a follower may then have deleted its log before
    the leader handles the follower's last fetch.
    """
    partition = change.partition
    required = law.least_insync(partition)
    if required < 2 or law.may_lack(partition):
        return
    holders = law.replicas.holders(partition, change.after)
    if len(holders) < required and partition.topic not in law.deleting:
        yield (
            f"{partition}: leader {change.node} raised the high watermark to {change.after}, which only {holders}"
            f" have; min.insync.replicas is {required}"
        )
    state = law.states.get(partition)
    settled = 3.0
    if (
        state is not None
        and state.leader == change.node
        and len(state.isr) < required
        and law.cluster.now - law.written_at.get(partition, 0.0) > settled
        and law.led_for(change.node, partition) > settled
        and law.replicas.healthy_for(law.cluster, change.node) > settled
    ):
        yield (
            f"{partition}: leader {change.node} raised the high watermark to {change.after} with ISR {state.isr};"
            f" min.insync.replicas is {required}"
        )


def high_watermarks_are_in_the_logs_of_the_isr(law: Checker, change: HighWatermarkRaised) -> Iterator[str]:
    """A leader commits only records that each ISR member has. Replicas that are just being added count as members."""
    yield from _beyond_the_isr(law, change.node, change.partition, change.after)


def _beyond_the_isr(law: Checker, node: int, partition: TopicPartition, high_watermark: int) -> Iterator[str]:
    """Yield a violation for each ISR member that lacks committed records of a leader.

    Replicas that a reassignment removes are not checked. The leader may receive the target replicas before they are
    written to ZooKeeper; it then no longer waits for the other replicas.
    """
    state = law.states.get(partition)
    if state is None or state.leader != node or not law.led_for(node, partition) or law.may_lack(partition):
        return
    if law.was_led_before(node, partition) or partition.topic in law.deleting:
        return
    removing = law.assigned[partition].removing if partition in law.assigned else ()
    for replica in set(state.isr).difference(removing):
        log = law.replicas.log(replica, partition)
        if log is not None and log.end < high_watermark and not law.cluster.machines[replica].disks.hurt:
            yield (
                f"{partition}: leader {node} has high watermark {high_watermark}; {replica} of the ISR {state.isr} has"
                f" log end {log.end}"
            )


def consumers_read_committed_records(law: Checker, change: ResponseSent) -> Iterator[str]:
    """Consumers receive only records below the high watermark (READ_COMMITTED: below the last stable offset)."""
    request = change.request
    if not isinstance(request, FetchRequest) or request.replica_id >= 0:
        return
    for result in change.response.partitions:
        if result.error_code != errors.NONE:
            continue
        yield from _beyond_the_isr(law, change.node, result.partition, result.high_watermark)
        if result.last_stable_offset > result.high_watermark:
            yield (
                f"{result.partition}: leader {change.node} has last stable offset {result.last_stable_offset},"
                f" beyond its high watermark {result.high_watermark}"
            )
        limit = result.high_watermark if request.isolation_level == READ_UNCOMMITTED else result.last_stable_offset
        data = result.body.data if result.body.size else b""
        last = max((header.last_offset for _, header in whole_batches(data)), default=-1)
        if last >= limit:
            yield (
                f"{result.partition}: leader {change.node} sent a consumer offset {last}; the limit of its isolation"
                f" level {request.isolation_level} is {limit}"
            )


def acks_all_needs_min_insync_replicas(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A leader acknowledges with acks=all only records that at least min.insync.replicas logs have.

    If the ISR is too small for the whole time of a request, the leader must refuse the request and not let it time out.
    This is checked only for healthy leaders: if a leader's connection to ZooKeeper is disturbed, the leader may learn
    late that its write of the ISR succeeded.
    """
    request = change.request
    if not isinstance(request, ProduceRequest) or request.acks != ACKS_ALL:
        return
    for result in change.response.partitions:
        required, state = law.least_insync(result.partition), law.states.get(result.partition)
        gone = law.was_deleted_since(result.partition.topic, change.at)
        if (
            result.error_code == errors.REQUEST_TIMED_OUT
            and state is not None
            and len(state.isr) < required
            and law.written_at[result.partition] < change.at - SLACK
            and law.led_for(change.node, result.partition) > law.cluster.now - change.at + SLACK
            and law.replicas.healthy_for(law.cluster, change.node) > law.cluster.now - change.at + SLACK
            and not gone
        ):
            yield (
                f"{result.partition}: leader {change.node} appended records with acks=all, which timed out; its ISR was"
                f" {state.isr} all the time, and min.insync.replicas is {required}"
            )
        if result.error_code == errors.NONE and not gone and not law.may_lack(result.partition):
            holders = law.replicas.holders(result.partition, result.base_offset + 1)
            if len(holders) < required:
                yield (
                    f"{result.partition}: leader {change.node} acknowledged offset {result.base_offset} with acks=all,"
                    f" which only {holders} have; min.insync.replicas is {required}"
                )


def acks_all_waits_for_the_high_watermark(law: Checker, change: ResponseSent) -> Iterator[str]:
    """For acks=all, a leader acknowledges only records below its high watermark."""
    request = change.request
    if not isinstance(request, ProduceRequest) or request.acks != ACKS_ALL:
        return
    for result in change.response.partitions:
        log = law.replicas.log(change.node, result.partition)
        if result.error_code != errors.NONE or log is None or law.was_deleted_since(result.partition.topic, change.at):
            continue
        if log.high_watermark <= result.base_offset and not law.is_lossy(result.partition):
            yield (
                f"{result.partition}: leader {change.node} acknowledged offset {result.base_offset} with acks=all;"
                f" its high watermark is {log.high_watermark}"
            )


# ---------------------------------------------------------------------------------------------------- controllers


def deleted_topics_leave_no_logs(law: Checker, change: TopicDeleted) -> Iterator[str]:
    """The controller deletes a topic's znode only after all its replicas have deleted their logs."""
    for partition, replicas in change.replicas.items():
        for replica in replicas:
            machine = law.cluster.machines.get(replica)
            if machine is not None and not law.power_failed and machine.disks.has_log(str(partition)):
                yield f"topic {change.topic} is deleted from ZooKeeper, and node {replica} has the log of {partition}"


def only_unassigned_replicas_are_deleted(law: Checker, change: RequestSent) -> Iterator[str]:
    """A controller deletes only replicas of topics queued for deletion, and replicas that are no longer assigned."""
    request, cluster = change.request, law.cluster
    if not isinstance(request, StopReplicaRequest) or request.controller_epoch < law.epoch:
        return
    target = node_of(change.target)
    for stop in request.partition_states:
        partition = stop.partition
        if not stop.delete_partition or partition.topic not in law.topics:
            continue
        assigned = law.assigned.get(partition)
        free = assigned is None or target not in assigned.replicas or target in assigned.removing
        since = max(law.free_at.get((target, partition), -LATE), law.deleted_at.get(partition.topic, -LATE))
        if not free and partition.topic not in law.deleting and cluster.now - since > LATE:
            yield f"{change.target} is to delete {partition}, of which it is a replica: {assigned}"


def brokers_leave_the_isr_before_they_stop(law: Checker, change: ResponseSent) -> Iterator[str]:
    """When the controller permits a broker to stop, the broker is in no ISR that has other members.

    The exception: a leader adds the broker to an ISR while the controller handles the request. The controller reads the
    partition states once and writes only the states whose ISR has the broker (Kafka 2.6
    `ReplicaStateMachine.removeReplicasFromIsr`), and a fetch in flight can bring the broker back afterwards. KIP-841
    rules this out in later versions.
    """
    request, response = change.request, change.response
    if not isinstance(request, ControlledShutdownRequest):
        return
    if response.error_code != errors.NONE or response.remaining_partitions or change.node != law.controller:
        return
    for partition, state in law.states.items():
        if request.broker_id in state.isr and len(state.isr) > 1 and partition.topic not in law.deleting:
            before = change.states.get(partition)
            added_at = law.in_sync_since.get((request.broker_id, partition), 0.0)
            if before is not None and before.leader_epoch == state.leader_epoch and added_at >= change.at:
                continue
            yield f"{request.broker_id} may stop, and is in the ISR {state.isr} of {partition}"


def new_partitions_have_live_isr_members(law: Checker, change: PartitionStateWritten) -> Iterator[str]:
    """Each ISR member of a new partition is registered, or was registered recently.

    The invariant fails if the member has been unregistered for more than ELECTION seconds of the controller's term.
    """
    now, term = law.cluster.now, law.controlled_for()
    for replica in change.after.isr if change.before is None else ():
        dead = now - law.unregistered_at.get(replica, 0.0)
        if replica not in law.registered and min(dead, term) > ELECTION:
            yield f"{change.partition}: the ISR {change.after.isr} has {replica}, which is dead for {dead:.1f} s"


def only_the_active_controller_changes_topics(law: Checker, change: TopicWritten) -> Iterator[str]:
    """Of the brokers, only the active controller changes or deletes a topic's znode."""
    links = (machine.link for machine in law.cluster.machines.values() if machine.link is not None)
    node = next((node_of(link.host) for link in links if link.session_id == change.session), None)
    if node is not None and change.session != law.epoch_session:
        yield (
            f"{change.topic}: node {node} wrote the topic in session {change.session:#x}; controller epoch {law.epoch}"
            f" belongs to session {law.epoch_session:#x}"
        )


def preferred_leaders_are_looked_for(law: Checker, change: Ticked) -> Iterator[str]:
    """A controller checks for leader imbalance at intervals of `leader.imbalance.check.interval.seconds`."""
    node, cluster = law.controller, law.cluster
    if node not in cluster.machines or not cluster.machines[node].settings.auto_leader_rebalance_enable:
        return
    every = cluster.machines[node].settings.leader_imbalance_check_interval_seconds * 1.03 + ELECTION
    last = law.balanced_at.get(node, 0.0)
    since = min(law.controlled_for(), cluster.now - last, law.replicas.healthy_for(cluster, node))
    if since > every and node in cluster.controllers():
        yield f"controller {node} has not checked its leaders for {cluster.now - last:.1f} s"


# ---------------------------------------------------------------------------------------------------- epochs


def stale_requests_are_refused(law: Checker, change: ResponseSent) -> Iterator[str]:
    """A process refuses requests with older controller, broker or leader epochs, or with older generations."""
    request, response, accepted = change.request, change.response, change.accepted
    match request:
        case LeaderAndIsrRequest() | StopReplicaRequest() | UpdateMetadataRequest():
            assert accepted is not None
            if response.error_code != errors.NONE:
                return
            name = type(request).__name__.removesuffix("Request")
            for what in ("controller_epoch", "broker_epoch"):
                sent, known = getattr(request, what), getattr(accepted, what)
                if 0 <= sent < known:
                    yield f"node {change.node} accepted {name} with {what} {sent} after {known}"
            if isinstance(request, UpdateMetadataRequest):
                return
            codes = {each.partition: each.error_code for each in response.partition_errors}
            for state in request.partition_states:
                known, sent = accepted.leader_epochs.get(state.partition, -1), state.leader_epoch
                if sent in (EPOCH_DURING_DELETE, NO_EPOCH):
                    continue
                if codes.get(state.partition, errors.NONE) == errors.NONE and sent < known:
                    yield f"node {change.node} accepted {name} for {state.partition}, leader epoch {sent} after {known}"
        case FetchRequest() | ListOffsetsRequest() | OffsetForLeaderEpochRequest():
            if accepted is None:
                return
            sent_epochs = {part.partition: part.current_leader_epoch for part in request.partitions}
            for result in response.partitions:
                sent, known = sent_epochs.get(result.partition, -1), accepted.leader_epochs.get(result.partition, -1)
                if result.error_code == errors.NONE and 0 <= sent < known:
                    yield (
                        f"node {change.node} answered {type(request).__name__} for {result.partition} with leader epoch"
                        f" {sent} after {known}"
                    )
        case WriteTxnMarkersRequest():
            for partition, marker in accepted_markers(request, response):
                known, sent = change.markers.get((marker.producer_id, partition), -1), marker.coordinator_epoch
                if 0 <= sent < known and not law.was_deleted_since(partition.topic, change.at):
                    yield f"node {change.node} accepted a marker of {partition}, coordinator epoch {sent} after {known}"
        case HeartbeatRequest() | SyncGroupRequest() | OffsetCommitRequest():
            is_accepted = accepts(request, response)
            known_ids = law.exchanges.member_ids.get(request.group_id, ())
            # A Heartbeat is accepted from any member while the group is being loaded.
            is_named = bool(request.member_id) and not isinstance(request, HeartbeatRequest)
            if is_accepted and is_named and request.member_id not in known_ids:
                yield (
                    f"node {change.node} accepted {type(request).__name__} of {request.group_id} from"
                    f" {request.member_id!r}, which was never a member"
                )
            if is_accepted and 0 <= request.generation_id < change.generation and not law.power_failed:
                yield (
                    f"node {change.node} accepted {type(request).__name__} of {request.group_id} with generation"
                    f" {request.generation_id} after {change.generation}"
                )


# ---------------------------------------------------------------------------------------------------- progress


def leaders_are_elected_in_time(law: Checker, change: Ticked) -> Iterator[str]:
    """Healthy brokers elect a controller, and a healthy controller elects leaders, also under lasting faults."""
    cluster, replicas = law.cluster, law.replicas
    well = [node for node in law.registered if replicas.healthy_for(cluster, node) > ELECTION]
    if law.controller not in law.registered and well and law.uncontrolled_for() > ELECTION:
        yield f"there is no controller for {law.uncontrolled_for():.1f} s, and {well} are healthy"
    if law.controller not in well or law.controlled_for() < ELECTION:
        return
    for partition, since in law.leaderless_since.items():
        state, seconds = law.states[partition], cluster.now - since
        able = [node for node in state.isr if node in well]
        if able and seconds > ELECTION and partition.topic not in law.deleting:
            yield (
                f"{partition} has leader {state.leader} for {seconds:.1f} s, and {able} of its"
                f" ISR {state.isr} are healthy, as is controller {law.controller}"
            )
