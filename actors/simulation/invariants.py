"""The invariants of a simulated cluster; some are checked after each step, others when the cluster is idle.

A new invariant is a function and its row in `INVARIANTS`, from which the documentation's table is generated.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs

from actors.broker.partition import PartitionActor
from actors.core.controller.failures import CONSEQUENCES
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.validation import inconsistencies
from actors.simulation import checker, log_invariants, producer_invariants, replication_invariants
from actors.simulation.group_invariants import (
    active_members_stay_in_the_group,
    coordinators_know_the_members,
    fetched_offsets_were_committed,
    group_responses_are_in_the_log,
    silent_members_leave_the_group,
)
from actors.simulation.members import PARTS, AssignmentReceived, SimulatedGroup, SimulatedMember
from actors.simulation.reachability import can_commit, connected, controlled, linked, up_nodes
from actors.simulation.recorded_changes import CERTAIN, VALID_PREVIOUS_STATES, StateChanged
from actors.simulation.replicas import LogView
from actors.simulation.simulated_cluster import UP
from actors.storage.log_directories import CLEAN_MARKER, parse_name
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest
from messages.cluster import LEADER_DURING_DELETE, NO_LEADER, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, BrokerChange
from zk_bridge import paths

HANDLED_ERRORS = tuple(error.__name__ for error in CONSEQUENCES)
"""Errors of controller events that have a handling rule (`actors.core.controller.failures`)."""


@attrs.frozen
class Invariant:
    """An invariant: its name, the source of its rule, and the check, which yields violations."""

    name: str
    rule: str
    check: Callable[[checker.Checker, Any], Iterator[str]]

    @property
    def on(self) -> str:
        """The name of the class of observations that are checked: the type of the check's second parameter."""
        observed: str = list(self.check.__annotations__.values())[1]
        return observed.rpartition(".")[2]


# ---------------------------------------------------------------------------------------------------- each write


def _leader_is_in_the_isr(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    leader, isr = change.after.leader, change.after.isr
    if leader != NO_LEADER and leader not in isr:
        yield f"{change.partition}: leader {leader} is not in the ISR {isr}"


def _isr_is_within_the_assigned_replicas(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    """Check that each ISR in a written state has only replicas that are assigned or were assigned until recently.

    When another reassignment replaces the current one, the change is in ZooKeeper before the leader learns of it.
    Meanwhile the leader may add a replica that is no longer assigned; the controller removes the replica again.
    """
    replicas = law.assigned.get(change.partition, checker.Assigned(())).replicas
    if any(replica not in replicas and not law.was_assigned(replica, change.partition) for replica in change.after.isr):
        yield f"{change.partition}: ISR {change.after.isr}, assigned replicas {replicas}"


def _isr_is_never_empty(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    if not change.after.isr:
        yield f"{change.partition}: the ISR is empty"


def _no_unclean_election_unless_enabled(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    unclean = law.may_elect_uncleanly(change.partition.topic)
    if before is not None and not unclean and after.leader != NO_LEADER and after.leader not in before.isr:
        yield f"{change.partition}: new leader {after.leader} was not in the ISR {before.isr}"


def _only_the_leader_expands_the_isr(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    if before is None or after.leader_epoch == before.leader_epoch or set(after.isr) <= set(before.isr):
        return
    if after.isr != (after.leader,) or not law.may_elect_uncleanly(change.partition.topic):
        yield f"{change.partition}: the controller added {set(after.isr) - set(before.isr)} to the ISR {before.isr}"


def _leader_epochs_increase_by_one(law: checker.Checker, change: checker.PartitionStateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    if before is None:
        if after.leader_epoch != 0:
            yield f"{change.partition}: the first leader epoch is {after.leader_epoch}, not 0"
    elif after.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
        yield f"{change.partition}: leader epoch {after.leader_epoch} after {before.leader_epoch}"
    elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
        yield f"{change.partition}: leader {after.leader} uses leader epoch {before.leader_epoch} of {before.leader}"


def _only_the_active_controller_elects_leaders(
    law: checker.Checker, change: checker.PartitionStateWritten
) -> Iterator[str]:
    before, after = change.before, change.after
    if before is not None and after.leader_epoch == before.leader_epoch:
        # A leader writes the controller epoch of the last LeaderAndIsr request. It can be newer than the epoch in the
        # state znode: when a replica outside the ISR goes offline, the controller sends LeaderAndIsr without a new
        # state.
        if not before.controller_epoch <= after.controller_epoch <= law.epoch:
            yield f"{change.partition}: the leader changed the controller epoch to {after.controller_epoch}"
    elif change.session != law.epoch_session or after.controller_epoch != law.epoch:
        yield (
            f"{change.partition}: session {change.session:#x} wrote leader epoch {after.leader_epoch} with "
            f"controller epoch "
            f"{after.controller_epoch}; controller epoch {law.epoch} belongs to session {law.epoch_session:#x}"
        )


def _controller_epochs_increase_by_one(law: checker.Checker, change: checker.ControllerEpochWritten) -> Iterator[str]:
    if change.after != change.before + 1:
        yield f"/controller_epoch changed from {change.before} to {change.after}"


# ---------------------------------------------------------------------------------------------------- each request


def _one_controller_per_epoch(law: checker.Checker, change: checker.RequestSent) -> Iterator[str]:
    request = change.request
    known = law.epochs_of.setdefault(request.controller_epoch, request.controller_id)
    if known != request.controller_id:
        yield (
            f"brokers {request.controller_id} and {known} both sent requests with controller epoch "
            f"{request.controller_epoch}"
        )
    if request.controller_epoch > law.epoch:
        yield (
            f"broker {request.controller_id} sent controller epoch {request.controller_epoch}; "
            f"/controller_epoch is {law.epoch}"
        )


def _leader_and_isr_requests_match_zookeeper(law: checker.Checker, change: checker.RequestSent) -> Iterator[str]:
    if not isinstance(change.request, LeaderAndIsrRequest):
        return
    for order in change.request.partition_states:
        sent_states = (order.leader, order.leader_epoch, order.isr)
        written = law.written.get(order.partition, {}).get(order.zk_version, ())
        if not any(sent_states == (state.leader, state.leader_epoch, state.isr) for state in written):
            yield (
                f"{change.target} received {order.partition} {sent_states}, version {order.zk_version}, "
                f"which was never written"
            )


def _sent_leader_epochs_never_decrease(law: checker.Checker, change: checker.RequestSent) -> Iterator[str]:
    request = change.request
    if isinstance(request, StopReplicaRequest):
        return
    sent_states, born, epoch = law.sent_states.setdefault(change.target, {}), law.born, request.controller_epoch
    for state in request.partition_states:
        partition = state.partition
        news = epoch, born.get(partition.topic, 0), state.leader_epoch
        known = sent_states.get(partition)
        if state.leader == LEADER_DURING_DELETE:
            sent_states.pop(partition, None)
        elif partition not in law.states or state.leader_epoch > law.states[partition].leader_epoch:
            continue  # the request waited in the channel, and concerns an earlier topic of the same name
        elif known is None or news >= known:
            sent_states[partition] = news
        elif known[:2] == news[:2]:
            yield f"{change.target} received {partition} with leader epoch {news[2]} after leader epoch {known[2]}"


# ---------------------------------------------------------------------------------------------------- each delivery


def _controllers_delete_only_their_own_znode(law: checker.Checker, change: checker.ControllerDeleted) -> Iterator[str]:
    # Session id 0 means that the server deleted the znode, because the owner's session expired. Do not look up 0 below:
    # the session id of a connecting node is 0, too.
    if change.session in (0, change.owner):
        return
    node = next((m.id for m in law.cluster.machines.values() if m.link and m.link.session_id == change.session), None)
    if node is not None:
        yield f"node {node} deleted /controller of session {change.owner:#x}"


def _elected_controllers_begin_their_term(law: checker.Checker, change: checker.ControllerDeleted) -> Iterator[str]:
    """Check that a broker has begun its term as controller before it gives up /controller.

    There is one exception: another client has raised the epoch since /controller was created, and the broker lost its
    connection before it received the result of the election.
    """
    if change.session == change.owner == law.epoch_session and not law.has_begun:
        yield f"session {change.owner:#x} deleted its /controller before its broker began a term"


def _live_brokers_are_propagated(law: checker.Checker, change: checker.EventHandled) -> Iterator[str]:
    if isinstance(change.event, BrokerChange):
        brokers = change.controller.context.brokers
        for broker in brokers.values():
            sent_states = law.announced.get((change.node, broker.epoch))
            if sent_states is not None and sent_states != tuple(brokers):
                yield (
                    f"controller {change.node} last sent live brokers {sent_states} to broker {broker.id},"
                    f" expected {tuple(brokers)}"
                )


def _preferred_leaders_are_elected(law: checker.Checker, change: checker.EventHandled) -> Iterator[str]:
    if not isinstance(change.event, AutoPreferredReplicaLeaderElection):
        return
    context = change.controller.context
    preferred: dict[int, list[TopicPartition]] = {}
    for partition, assignment in context.assignments.items():
        if assignment.replicas and partition.topic not in context.queued:
            preferred.setdefault(assignment.replicas[0], []).append(partition)
    for broker, mine in preferred.items():
        led = {tp: context.leadership[tp] for tp in mine if tp in context.leadership}
        imbalanced = [tp for tp, state in led.items() if state.leader != broker]
        if 100 * len(imbalanced) > context.settings.leader_imbalance_per_broker_percentage * len(mine):
            for partition in imbalanced:
                state = led[partition]
                untouched = change.before.get(partition) is state
                written = law.states.get(partition)  # the leader may have removed the broker from the ISR meanwhile
                could = broker in state.isr and written is not None and broker in written.isr
                if untouched and could and context.is_online(broker, partition):
                    yield (
                        f"controller {change.node} kept leader {state.leader} of {partition}; {broker} is "
                        f"preferred and in the ISR"
                    )


def _state_changes_are_valid(law: checker.Checker, change: StateChanged) -> Iterator[str]:
    for partition, before in change.before.items():
        if before not in VALID_PREVIOUS_STATES[change.target]:
            what = partition if change.broker is None else f"replica {change.broker} of {partition}"
            yield f"controller {change.node} changed {what} from {before.value} to {change.target.value}"


def _valid_state_changes_are_made(law: checker.Checker, change: StateChanged) -> Iterator[str]:
    if change.target in CERTAIN:
        for partition, state in change.kept.items():
            if state in VALID_PREVIOUS_STATES[change.target]:
                what = partition if change.broker is None else f"replica {change.broker} of {partition}"
                yield f"controller {change.node} did not change {what} from {state.value} to {change.target.value}"


def _no_handler_fails_unexpectedly(law: checker.Checker, change: checker.HandlerFailed) -> Iterator[str]:
    if not change.error.startswith(HANDLED_ERRORS):
        yield f"node {change.node}: {change.message}: {change.error}"


def _one_assignment_per_group_generation(law: checker.Checker, change: AssignmentReceived) -> Iterator[str]:
    group, generation = change.group, change.generation
    if law.is_lossy(law.exchanges.group_partition(group.name)) or group.is_deleted:
        return  # generation numbers may repeat after the group's records are lost or the group is deleted
    if generation == 1:
        group.begin(change.leader)
    leader = group.leaders.setdefault(generation, change.leader)
    ids = group.ids  # a member id may be missing: within a generation, a static member may get a new member id
    unknown = group.has_static and not {leader, change.leader} <= ids.keys()
    if not unknown and ids.get(leader, leader) != ids.get(change.leader, change.leader):
        yield f"generation {generation} of {group.name} has two leaders: {leader} and {change.leader}"
    for part in change.parts:
        owner = group.owners.setdefault((generation, part), change.member)
        if owner != change.member:
            yield f"generation {generation} of {group.name} assigns part {part} to {owner} and to {change.member}"


def _high_watermarks_never_decrease(law: checker.Checker, change: checker.HighWatermarkMoved) -> Iterator[str]:
    if change.after < change.before:
        yield f"node {change.node}: the high watermark of {change.log} fell from {change.before} to {change.after}"


# ---------------------------------------------------------------------------------------------------- at rest


def _all_brokers_are_registered(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    up = connected(law)
    if sorted(law.registered) != up:
        yield f"registered brokers {sorted(law.registered)}, running {up}"
    if law.controller not in up:
        yield f"/controller has broker {law.controller}, running {up}"
    active = sorted(set(law.cluster.controllers()) & set(up))
    if active != [law.controller]:
        yield f"active controllers {active}; /controller has broker {law.controller}"


def _remaining(law: checker.Checker) -> dict[TopicPartition, checker.State]:
    """Return the states of the partitions whose topics are not queued for deletion."""
    return {tp: state for tp, state in law.states.items() if tp.topic not in law.deleting}


def _partitions_have_a_leader(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    up, running = set(up_nodes(law)), connected(law)
    for partition, assigned in law.assigned.items():
        if partition.topic in law.deleting:
            continue
        state = law.states.get(partition)
        if state is None:
            # As in Kafka, a partition that never had a leader gets one only when a broker starts, not by a
            # reassignment.
            electable = set(assigned.replicas) & set(law.created_with[partition]) & up
            if electable:
                yield f"{partition} has no state znode; replicas {sorted(electable)} are running"
            continue
        is_lost = law.has_lost(state.leader, partition)
        if (state.leader not in running or is_lost) and set(state.isr) & up:
            yield (
                f"{partition} has leader {state.leader}{', whose log directory has failed' if is_lost else ''};"
                f" {sorted(set(state.isr) & up)} of the ISR {state.isr} are running"
            )


def _live_replicas_are_in_the_isr(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    """Check that the ISR has all live replicas, and only replicas that run.

    For the partitions in `law.resumed`, live replicas may be missing from the ISR. The leader of such a partition
    continued in its leader epoch after a power failure, and a follower may still have records that the leader lost.
    This follower refuses a batch that begins below the follower's log end offset, and stays out of the ISR.
    """
    able, running = set(controlled(law)), set(connected(law))
    for partition, state in _remaining(law).items():
        if state.leader not in able:
            continue
        replicas = set(law.assigned.get(partition, checker.Assigned(())).replicas)
        must = {replica for replica in replicas & able if linked(law, state.leader, replica)}
        misses = partition not in law.resumed and not must <= set(state.isr)
        if misses or not set(state.isr) <= replicas & running:
            yield f"{partition} has ISR {state.isr}; replicas {sorted(replicas & able)} are running"


def _deleted_topics_are_gone(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    """Check that only absent brokers delay a deletion, and that the partitions of a topic in deletion have no leader.

    If a replica of a queued topic is absent when a controller is elected, the controller does not begin the deletion of
    this topic.
    """
    for topic in law.deleting:
        if not _waits_for_absent(law, topic):
            yield f"{topic} is still queued for deletion"
        elif law.was_queued_before_term(topic):
            continue
        for tp in law.topics.get(topic, {}).values():
            if tp in law.states and law.states[tp].leader != NO_LEADER:
                yield f"{tp} is queued for deletion and has leader {law.states[tp].leader}"
    for path in law.cluster.zookeeper.nodes:
        parts = path.split("/")
        if path.startswith("/config/topics/") and parts[3] not in law.topics:
            yield f"{path} remains of a deleted topic"


def _waits_for_absent(law: checker.Checker, topic: str) -> bool:
    """Return whether a replica of the topic is on a broker that does not exist or that has a lasting fault."""
    up = set(controlled(law))
    assigned = (law.assigned[tp] for tp in law.topics.get(topic, {}).values() if tp in law.assigned)
    return any(not set(each.replicas) <= up for each in assigned)


def _no_request_or_reassignment_is_pending(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    able = set(controlled(law))
    done = [paths.PREFERRED_ELECTION]
    if not any(_waits_for_fault(law, tp, able) for tp in law.assigned):
        done.append(paths.REASSIGNMENTS)
    for path in law.cluster.zookeeper.nodes:
        if path.startswith((f"{paths.ISR_CHANGES}/", f"{paths.LOG_DIR_EVENTS}/")) or path in done:
            yield f"{path} still exists"
    for partition, assigned in law.assigned.items():
        if (assigned.adding or assigned.removing) and not _waits_for_fault(law, partition, able):
            yield f"{partition} is still being reassigned: {assigned}"


def _waits_for_fault(law: checker.Checker, partition: TopicPartition, able: Collection[int]) -> bool:
    """Return whether a lasting fault prevents the end of a reassignment; `able` are the nodes without a fault."""
    replicas = law.assigned[partition].replicas
    state = law.states.get(partition)
    leader = replicas[0] if state is None else state.leader
    return not set(replicas) <= set(able) or not all(linked(law, leader, each) for each in replicas)


def _controller_context_matches_zookeeper(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    able = controlled(law)
    for node, context in law.cluster.controllers().items():
        if node not in connected(law):
            continue
        found = inconsistencies(context)
        yield from (f"controller {node}: {text}" for text in found)
        if context.shutting_down:
            yield f"controller {node} waits for the controlled shutdown of {sorted(context.shutting_down)}"
        if sorted(context.brokers) != sorted(law.registered):
            yield f"controller {node} has brokers {sorted(context.brokers)}; registered are {sorted(law.registered)}"
        epochs = {broker.id: broker.epoch for broker in context.brokers.values()}
        if epochs != law.registered:
            yield f"controller {node} has broker epochs {epochs}; ZooKeeper has {law.registered}"
        assigned = {tp: checker.Assigned(a.replicas, a.adding, a.removing) for tp, a in context.assignments.items()}
        yield from _differences(f"assignments of controller {node}", assigned, law.assigned)
        led = {tp: (s.leader, s.leader_epoch) for tp, s in context.leadership.items()}
        yield from _differences(
            f"leaders of controller {node}", led, {tp: (s.leader, s.leader_epoch) for tp, s in law.states.items()}
        )
        for partition, state in _remaining(law).items():
            expected = PartitionState.ONLINE if state.leader != NO_LEADER else PartitionState.OFFLINE
            if context.partition_state(partition) is not expected:
                yield f"controller {node} has {partition} as {context.partition_state(partition).value}: {state}"
            replicas = law.assigned.get(partition, checker.Assigned(()))
            added = replicas.adding if partition in law.assigned and _waits_for_fault(law, partition, able) else ()
            for broker in replicas.replicas:
                known = context.replica_state(broker, partition)
                if known is ReplicaState.NEW and broker in added:
                    continue  # a reassignment sets new replicas online only when all are in the ISR
                if broker in law.registered and broker in able and known is not ReplicaState.ONLINE:
                    yield f"controller {node} has replica {broker} of {partition} as {known.value}"


def _metadata_responses_match_zookeeper(law: checker.Checker, change: checker.ClusterQueried) -> Iterator[str]:
    true = {
        tp: (state.leader, state.leader_epoch, state.isr, law.assigned[tp].replicas if tp in law.assigned else None)
        for tp, state in _remaining(law).items()
    }
    halted = {topic for topic in law.deleting if _waits_for_absent(law, topic)}
    for node in controlled(law):
        answer = law.metadata.get(node)
        if answer is None:
            yield f"node {node} did not respond to a metadata request"
            continue
        sent_states = {
            TopicPartition(topic.name, each.partition): (each.leader, each.leader_epoch, each.isr, each.replicas)
            for topic in answer.topics
            for each in topic.partitions
        }
        if law.lapsed.get(node) is law.cluster.machines[node].node:
            # The controller sends only existing partitions to a broker that was disconnected. As in Kafka, the broker
            # keeps the metadata of partitions that were deleted meanwhile, even if the topic was created again with
            # fewer partitions.
            sent_states = {tp: state for tp, state in sent_states.items() if tp in true}
        # A deletion does not wait until its UpdateMetadata requests arrive, and the next controller does not know the
        # deleted topic. So a broker may never receive these requests. It may also keep the metadata of a topic whose
        # deletion does not begin, because the topic has an offline replica. Both are as in Kafka, so neither is
        # checked.
        sent_states = {
            tp: state for tp, state in sent_states.items() if not law.is_forgotten(tp.topic) and tp.topic not in halted
        }
        yield from _differences(f"metadata (leader, epoch, ISR, replicas) of node {node}", sent_states, true)
        brokers = sorted(broker.id for broker in answer.brokers)
        if brokers != sorted(law.registered):
            yield f"metadata of node {node} has brokers {brokers}; registered are {sorted(law.registered)}"
        if answer.controller_id != law.controller:
            yield f"metadata of node {node} has controller {answer.controller_id}; it is {law.controller}"


def _broker_roles_match_zookeeper(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    roles: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    running = connected(law)
    for tp, state in _remaining(law).items():
        if state.leader not in running:
            continue  # a broker takes no role for a partition if the leader in LeaderAndIsr is not alive
        for replica in law.assigned.get(tp, checker.Assigned(())).replicas:
            roles.setdefault(replica, {})[tp] = state.leader, state.leader_epoch
    for node in controlled(law):
        machine = law.cluster.machines[node].node
        hosted = [] if machine is None else machine.base.actors(PartitionActor)
        true = roles.get(node, {})
        known = {
            actor.partition.role.partition: (actor.partition.role.leader, actor.partition.role.leader_epoch)
            for actor in hosted
        }
        # A broker may keep a replica that was reassigned to another broker (`_log_directories_match_the_assignment`).
        described = {tp: role for tp, role in known.items() if tp in true}
        yield from _differences(f"roles of node {node}", described, true)


def _directories_in_use_have_no_clean_shutdown_marker(law: checker.Checker, change: checker.Ticked) -> Iterator[str]:
    """Check that a broker would recover its open logs if it were killed now."""
    for machine in law.cluster.machines.values():
        for name in machine.disks.names if machine.state == UP else ():
            is_open = law.opened.get((machine.id, name)) == machine.starts
            if is_open and os.path.exists(machine.disks.path(f"{name}/{CLEAN_MARKER}")):  # noqa: PTH110  # Path takes longer
                yield f"node {machine.id} has opened logs in {name}, which has a {CLEAN_MARKER}"


def _log_directories_match_the_assignment(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    assigned: dict[int, set[TopicPartition]] = {}
    for tp, each in law.assigned.items():
        if tp.topic not in law.deleting:
            for replica in each.replicas:
                assigned.setdefault(replica, set()).add(tp)
    for node in controlled(law):
        wanted = assigned.get(node, set())
        held = set()
        for name in law.cluster.machines[node].disks.logs():
            topic, number, renamed = parse_name(name)
            if renamed != "delete":
                held.add(TopicPartition(topic, number))
        missing = (wanted - held) & law.states.keys()  # brokers do not know a partition before it has its first leader
        yield from (f"node {node} has no log of {tp}" for tp in sorted(missing))
        for tp in sorted(held - wanted):
            # Two exceptions, as in Kafka. A controller does not wait until an absent broker has deleted the replicas
            # that a reassignment removed. A new controller halts the deletion of a topic with an offline replica; live
            # brokers then create the topic's logs again (trap T1).
            halted = tp.topic in law.deleting and _waits_for_absent(law, tp.topic)
            if (node, tp) not in law.moved_away and not halted:
                yield f"node {node} has a log of {tp} but no assigned replica"


def _no_acknowledged_record_is_lost(law: checker.Checker, change: checker.ClusterQueried) -> Iterator[str]:
    for partition, acknowledged in law.acknowledged.items():
        read = law.read.get(partition)
        if law.is_lossy(partition) or not can_commit(law, partition):
            continue
        if read is None:
            yield f"{partition} cannot be read"
            continue
        for offset, each in acknowledged.items():
            if read.get(offset) != each.value:
                yield (
                    f"{partition}: {each.value!r} was acknowledged at offset {offset} ({each.at:.3f} s),"
                    f" but {read.get(offset)!r} was read"
                )


def _consumed_records_stay(law: checker.Checker, change: checker.ClusterQueried) -> Iterator[str]:
    for partition, seen in law.seen.items():
        read = law.read.get(partition)
        if law.is_lossy(partition) or not can_commit(law, partition) or read is None:
            continue
        first = law.first_offset(partition)
        for offset, value in seen.items():
            if offset >= first and read.get(offset) != value:
                yield f"{partition}: a consumer read {value!r} at offset {offset}, where {read.get(offset)!r} is now"


def _groups(law: checker.Checker) -> Iterator[SimulatedGroup]:
    """Yield each group whose partition of __consumer_offsets does not exist, or has a leader that can commit."""
    for group in law.cluster.members.groups.values():
        partition = law.exchanges.group_partition(group.name)
        if partition not in law.states or can_commit(law, partition):
            yield group


def _no_committed_offset_is_lost(law: checker.Checker, change: checker.ClusterQueried) -> Iterator[str]:
    for group in _groups(law):
        if group.fetched is None:
            yield f"the committed offsets of {group.name} cannot be read"
        elif not law.is_lossy(law.exchanges.group_partition(group.name)):
            for part, number in () if group.is_deleted else group.committed.items():
                found = group.fetched.get(part)
                if found != number and found not in group.unsure:
                    yield f"{group.name} committed {number} for part {part}, but {found} was fetched"


def _is_stranded(law: checker.Checker, member: SimulatedMember, partition: TopicPartition) -> bool:
    """Return whether a member cannot leave its former coordinator, because of a lasting fault.

    A broker that the controller cannot reach does not know that it has lost the group's partition. It cannot store a
    generation, and responds REBALANCE_IN_PROGRESS after the timeout. The member then joins at this broker again, as
    Kafka's clients do.
    """
    node = law.cluster.machines[member.coordinator].node if member.coordinator in law.cluster.machines else None
    hosted = () if node is None or member.coordinator in controlled(law) else node.base.actors(PartitionActor)
    return any(
        each.partition.role.partition == partition and each.partition.role.leader == member.coordinator
        for each in hosted
    )


def _group_members_match_the_live_consumers(law: checker.Checker, change: checker.ClusterQueried) -> Iterator[str]:
    some_are_away = len(connected(law)) < len(law.cluster.machines)
    for group in _groups(law):
        described, partition = group.described, law.exchanges.group_partition(group.name)
        members = [each for each in group.living.values() if not _is_stranded(law, each, partition)]
        living = sorted(member.id for member in members)
        # A member whose FindCoordinator requests went only to absent brokers may still be joining now.
        if some_are_away and described is not None and any(member.joining for member in members):
            continue
        if described is None:
            yield f"no broker describes {group.name}"
        elif described.group_state not in (("Stable",) if living else ("Empty", "Dead")):
            yield f"{group.name} is in state {described.group_state}; its live consumers are {living}"
        elif sorted(member.member_id for member in described.members) != living:
            yield (
                f"{group.name} has members {[each.member_id for each in described.members]};"
                f" its live consumers are {living}"
            )
        elif living and sorted(part for member in members for part in member.parts) != [*range(PARTS)]:
            yield f"{group.name} has an incomplete assignment: { {each.id: each.parts for each in members} }"


def _logs_of_the_isr_are_identical(law: checker.Checker, change: checker.ClusterAtRest) -> Iterator[str]:
    """Check the logs of replicas that can reach their leader, from the highest of their log start offsets on.

    Each replica applies the retention by itself, so one replica may have deleted records that another still has.
    The partitions in `law.resumed` are not checked. The leader of such a partition lost power, and registered again
    before a controller noticed. It remains the leader in the same leader epoch and appends other records at the offsets
    that it lost. Its followers cannot detect this. Where bits have flipped, unreadable bytes may follow the log's end.
    """
    up = set(controlled(law))
    for partition, state in _remaining(law).items():
        if not law.is_written(partition) or state.leader not in up or partition in law.resumed or partition in law.lost:
            continue
        nodes = [node for node in state.isr if node in up and linked(law, state.leader, node)]
        logs = {node: law.replicas.log(node, partition) or LogView() for node in nodes}
        for node, log in logs.items():
            if log.start < logs[state.leader].start:
                yield f"{partition}: {node} has log start offset {log.start}, its leader {logs[state.leader].start}"
        first = max([law.deleted.get(partition, 0), *(log.start for log in logs.values())])
        disks = {node: law.cluster.machines[node].disks for node in nodes}
        ends = {node: logs[node].end for node in nodes}
        until = ends if partition in law.damaged else {}
        held = {node: (ends[node], disks[node].records_of(str(partition), first, until.get(node))) for node in nodes}
        if len(set(held.values())) > 1:
            yield (
                f"{partition}: the logs of its ISR differ from offset {first} on; log end offset and bytes by node: "
                f"{ {node: (end, len(data)) for node, (end, data) in held.items()} }"
            )


def _differences(what: str, described: Mapping[Any, Any], true: Mapping[Any, Any]) -> Iterator[str]:
    if described == true:
        return
    for key in sorted(set(described) | set(true)):
        if described.get(key) != true.get(key):
            yield f"{what} differ from ZooKeeper: {key}: {described.get(key)}, expected {true.get(key)}"


# ---------------------------------------------------------------------------------------------------- the table

INVARIANTS: tuple[Invariant, ...] = (
    Invariant("leader is in the ISR", "controller.md 3.2", _leader_is_in_the_isr),
    Invariant("ISR is within the assigned replicas", "controller.md 2.4, 7.7", _isr_is_within_the_assigned_replicas),
    Invariant("ISR is never empty", "controller.md 3.3", _isr_is_never_empty),
    Invariant("no unclean election unless enabled", "controller.md 3.2.2", _no_unclean_election_unless_enabled),
    Invariant("only the leader expands the ISR", "broker.md 3.2, KAFKA-9672", _only_the_leader_expands_the_isr),
    Invariant("leader epochs increase by one", "controller.md 3.2.1", _leader_epochs_increase_by_one),
    Invariant(
        "only the active controller elects leaders",
        "controller.md 2.5.1, KAFKA-6082",
        _only_the_active_controller_elects_leaders,
    ),
    Invariant("controller epochs increase by one", "controller.md 2.5.4", _controller_epochs_increase_by_one),
    Invariant("one controller per epoch", "controller.md 2.5.4", _one_controller_per_epoch),
    Invariant("LeaderAndIsr requests match ZooKeeper", "controller.md 3.1", _leader_and_isr_requests_match_zookeeper),
    Invariant(
        "controllers delete only their own /controller",
        "controller.md 7.1.3, KAFKA-6082",
        _controllers_delete_only_their_own_znode,
    ),
    Invariant("elected controllers begin their term", "controller.md 7.1", _elected_controllers_begin_their_term),
    Invariant("state changes are valid", "controller.md 3.1, 3.3", _state_changes_are_valid),
    Invariant("valid state changes are made", "controller.md 3.1, 3.3", _valid_state_changes_are_made),
    Invariant("live brokers are propagated", "controller.md 7.5, KAFKA-13225", _live_brokers_are_propagated),
    Invariant("preferred leaders are elected", "controller.md 7.6, KAFKA-10149", _preferred_leaders_are_elected),
    Invariant("sent leader epochs never decrease", "controller.md 5, KAFKA-9212", _sent_leader_epochs_never_decrease),
    Invariant(
        "no handler fails unexpectedly",
        "`validate()` of each actor; controller.md 1.1.3",
        _no_handler_fails_unexpectedly,
    ),
    Invariant("high watermarks never decrease", "broker.md 3.5", _high_watermarks_never_decrease),
    Invariant("one assignment per group generation", "broker.md 6.5", _one_assignment_per_group_generation),
    Invariant(
        "new ISR members have the committed records",
        "broker.md 3.2",
        replication_invariants.new_isr_members_have_the_committed_records,
    ),
    Invariant("lagging replicas leave the ISR", "broker.md 3.1", replication_invariants.lagging_replicas_leave_the_isr),
    Invariant(
        "high watermarks need min.insync.replicas",
        "broker.md 3.5, Kafka 3.9 `Partition.maybeIncrementLeaderHW`",
        replication_invariants.high_watermarks_need_min_insync_replicas,
    ),
    Invariant(
        "high watermarks are in the logs of the ISR",
        "broker.md 3.5, KIP-497",
        replication_invariants.high_watermarks_are_in_the_logs_of_the_isr,
    ),
    Invariant(
        "consumers read committed records",
        "broker.md 3.7, KIP-98",
        replication_invariants.consumers_read_committed_records,
    ),
    Invariant(
        "acks=all needs min.insync.replicas", "broker.md 3.6", replication_invariants.acks_all_needs_min_insync_replicas
    ),
    Invariant(
        "acks=all waits for the high watermark",
        "broker.md 3.6",
        replication_invariants.acks_all_waits_for_the_high_watermark,
    ),
    Invariant(
        "new partitions have live ISR members",
        "controller.md 3.1",
        replication_invariants.new_partitions_have_live_isr_members,
    ),
    Invariant(
        "only the active controller changes topics",
        "controller.md 2.5, KAFKA-6082",
        replication_invariants.only_the_active_controller_changes_topics,
    ),
    Invariant(
        "preferred leaders are looked for", "controller.md 7.6", replication_invariants.preferred_leaders_are_looked_for
    ),
    Invariant("groups answer what their log has", "broker.md 6.5", group_responses_are_in_the_log),
    Invariant(
        "directories in use have no clean shutdown marker",
        "broker.md 5.4",
        _directories_in_use_have_no_clean_shutdown_marker,
    ),
    Invariant("deleted topics leave no logs", "controller.md 6.1", replication_invariants.deleted_topics_leave_no_logs),
    Invariant(
        "only unassigned replicas are deleted",
        "controller.md 6.1, 7.7",
        replication_invariants.only_unassigned_replicas_are_deleted,
    ),
    Invariant(
        "brokers leave the ISR before they stop",
        "controller.md 7.4",
        replication_invariants.brokers_leave_the_isr_before_they_stop,
    ),
    Invariant(
        "stale requests are refused", "broker.md 1.1, 1.2, 3.7, 6.5", replication_invariants.stale_requests_are_refused
    ),
    Invariant("silent members leave the group", "broker.md 6.5", silent_members_leave_the_group),
    Invariant("active members stay in the group", "broker.md 6.5", active_members_stay_in_the_group),
    Invariant("coordinators know the members", "broker.md 1.6, 6.5", coordinators_know_the_members),
    Invariant("fetched offsets were committed", "broker.md 6.5", fetched_offsets_were_committed),
    Invariant(
        "responses to idempotent producers agree",
        "broker.md 5.3, KIP-98",
        producer_invariants.responses_to_streams_agree,
    ),
    Invariant("last stable offsets never decrease", "KIP-98", producer_invariants.stable_offsets_never_decrease),
    Invariant(
        "unfinished transactions are unstable",
        "transactions.md 3.1, KIP-98",
        log_invariants.unfinished_transactions_are_unstable,
    ),
    Invariant(
        "readers hear of aborted transactions",
        "transactions.md 3.3, KIP-98",
        log_invariants.readers_receive_aborted_transactions,
    ),
    Invariant(
        "replicas of the ISR keep committed records",
        "broker.md 4.4, KIP-101",
        log_invariants.in_sync_replicas_keep_committed_records,
    ),
    Invariant("damaged replicas do not lead", "broker.md 5.6.7", log_invariants.damaged_replicas_do_not_lead),
    Invariant(
        "log start offsets survive restarts",
        "broker.md 5.1, KIP-107",
        log_invariants.log_start_offsets_survive_restarts,
    ),
    Invariant(
        "waiting fetches end when there is data",
        "broker.md 3.7, DelayedFetch",
        log_invariants.waiting_fetches_end_when_there_is_data,
    ),
    Invariant("recovery points are durable", "broker.md 5.1", log_invariants.recovery_points_are_durable),
    Invariant("zombie producers are fenced", "KIP-98, KIP-360", producer_invariants.zombies_are_fenced),
    Invariant(
        "leaders are elected in time", "controller.md 7.1, 7.5", replication_invariants.leaders_are_elected_in_time
    ),
    Invariant(
        "all brokers are registered with one active controller",
        "controller.md 7.1, broker.md 7.2",
        _all_brokers_are_registered,
    ),
    Invariant("deleted topics are gone", "controller.md 6.1", _deleted_topics_are_gone),
    Invariant("partitions with a live ISR member have a leader", "controller.md 3.2, 7.5", _partitions_have_a_leader),
    Invariant("broker roles match ZooKeeper", "broker.md 2.1, KAFKA-14154", _broker_roles_match_zookeeper),
    Invariant("live replicas are in the ISR", "broker.md 3.2", _live_replicas_are_in_the_isr),
    Invariant(
        "no request or reassignment is pending", "controller.md 1.5, 7.6, 7.7", _no_request_or_reassignment_is_pending
    ),
    Invariant(
        "controller context matches ZooKeeper", "controller.md 7.2, trap T12", _controller_context_matches_zookeeper
    ),
    Invariant("metadata responses match ZooKeeper", "broker.md 3.9", _metadata_responses_match_zookeeper),
    Invariant("no acknowledged record is lost", "broker.md 3.5, 3.6", _no_acknowledged_record_is_lost),
    Invariant("consumed records stay", "broker.md 3.5", _consumed_records_stay),
    Invariant(
        "idempotent producers write each record once, in order",
        "broker.md 5.3, KIP-98",
        producer_invariants.streams_are_whole,
    ),
    Invariant("readers see whole transactions", "KIP-98", producer_invariants.readers_see_whole_transactions),
    Invariant(
        "transactional records have a transactional id",
        "transactions.md 3.2, KIP-98",
        producer_invariants.transactional_records_have_a_transactional_id,
    ),
    Invariant("transactions end", "KIP-98, KAFKA-12671", producer_invariants.transactions_end),
    Invariant("input is processed once", "KIP-98, KIP-447", producer_invariants.input_is_processed_once),
    Invariant("groups are what their log says", "KIP-98", producer_invariants.groups_equal_their_log),
    Invariant("no committed offset is lost", "broker.md 6.5", _no_committed_offset_is_lost),
    Invariant("group members match the live consumers", "broker.md 6.5", _group_members_match_the_live_consumers),
    Invariant("logs of the ISR are identical", "broker.md 4.4, 4.5", _logs_of_the_isr_are_identical),
    Invariant("log directories match the assignment", "broker.md 2.2, 5.1", _log_directories_match_the_assignment),
)
"""All invariants, in the order in which violations of an idle cluster are reported."""
