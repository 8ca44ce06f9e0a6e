"""Invariants of the simulated cluster: those of each step, and those of a cluster at rest.

A row has a name, the source of its rule, the change on which it is checked, and a function that names violations.
A new invariant is a new row: `INVARIANTS` is the whole list, and the documentation's table is drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from actors.broker.partition import PartitionActor
from actors.core.controller.failures import CONSEQUENCES
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.validation import inconsistencies
from actors.simulation.checker import (
    Answered,
    Assigned,
    Checker,
    ControllerDeleted,
    EpochWritten,
    Failed,
    Handled,
    Marked,
    Ordered,
    Rested,
    State,
    StateWritten,
)
from actors.simulation.cluster import UP
from actors.simulation.members import PARTS, Dealt
from actors.simulation.moves import LEGAL, Moved
from actors.storage.log_directories import parse_name
from messages.cluster import LEADER_DURING_DELETE, NO_LEADER, TopicPartition
from messages.events import AutoPreferredReplicaLeaderElection, BrokerChange
from messages.requests import LeaderAndIsrRequest, StopReplicaRequest
from zk_bridge import paths

FORESEEN = tuple(error.__name__ for error in CONSEQUENCES)
"""What an event may fail by (`actors.core.controller.failures`)."""


@attrs.frozen
class Invariant:
    """One invariant: its name, the source of its rule, the change on which it is checked, and its check."""

    name: str
    rule: str
    on: type
    check: Callable[[Checker, Any], Iterator[str]]


# ---------------------------------------------------------------------------------------------------- each write


def _leader_in_isr(law: Checker, change: StateWritten) -> Iterator[str]:
    leader, isr = change.after.leader, change.after.isr
    if leader != NO_LEADER and leader not in isr:
        yield f"{change.partition} is led by {leader}, ISR {isr}"


def _isr_in_assignment(law: Checker, change: StateWritten) -> Iterator[str]:
    replicas = law.assigned.get(change.partition, Assigned(())).replicas
    if not set(change.after.isr) <= set(replicas):
        yield f"{change.partition} has ISR {change.after.isr}, and replicas {replicas}"


def _isr_is_never_empty(law: Checker, change: StateWritten) -> Iterator[str]:
    if not change.after.isr:
        yield f"{change.partition} has no ISR"


def _clean_elections(law: Checker, change: StateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    unclean = law.configs.get(change.partition.topic, {}).get("unclean.leader.election.enable") == "true"
    if before is not None and not unclean and after.leader != NO_LEADER and after.leader not in before.isr:
        yield f"{change.partition} is led by {after.leader}, which was not in ISR {before.isr}"


def _isr_grows_by_its_leader(law: Checker, change: StateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    if before is not None and after.leader_epoch != before.leader_epoch and not set(after.isr) <= set(before.isr):
        yield f"{change.partition}: a controller brought {set(after.isr) - set(before.isr)} into ISR {before.isr}"


def _leader_epochs(law: Checker, change: StateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    if before is None:
        if after.leader_epoch != 0:
            yield f"{change.partition} begins with leader epoch {after.leader_epoch}"
    elif after.leader_epoch not in (before.leader_epoch, before.leader_epoch + 1):
        yield f"{change.partition}: leader epoch {after.leader_epoch} after {before.leader_epoch}"
    elif after.leader != before.leader and after.leader_epoch == before.leader_epoch:
        yield f"{change.partition}: {after.leader} leads in {before.leader}'s epoch {before.leader_epoch}"


def _state_by_the_controller(law: Checker, change: StateWritten) -> Iterator[str]:
    before, after = change.before, change.after
    if before is not None and after.leader_epoch == before.leader_epoch:
        if after.controller_epoch != before.controller_epoch:
            yield f"{change.partition}: a leader wrote controller epoch {after.controller_epoch}, not the one it had"
    elif change.session != law.epoch_session or after.controller_epoch != law.epoch:
        yield (
            f"{change.partition}: session {change.session:#x} wrote epoch {after.leader_epoch} as controller of epoch "
            f"{after.controller_epoch}; epoch {law.epoch} is session {law.epoch_session:#x}'s"
        )


def _controller_epochs(law: Checker, change: EpochWritten) -> Iterator[str]:
    if change.after != change.before + 1:
        yield f"/controller_epoch went from {change.before} to {change.after}"


# ---------------------------------------------------------------------------------------------------- each request


def _one_controller_per_epoch(law: Checker, change: Ordered) -> Iterator[str]:
    request = change.request
    known = law.epochs_of.setdefault(request.controller_epoch, request.controller_id)
    if known != request.controller_id:
        yield f"{request.controller_id} and {known} send requests of controller epoch {request.controller_epoch}"
    if request.controller_epoch > law.epoch:
        yield f"{request.controller_id} sends controller epoch {request.controller_epoch}; the highest is {law.epoch}"


def _orders_as_written(law: Checker, change: Ordered) -> Iterator[str]:
    if not isinstance(change.request, LeaderAndIsrRequest):
        return
    for order in change.request.partition_states:
        sent_states = (order.leader, order.leader_epoch, order.isr)
        written = law.written.get(order.partition, {}).get(order.zk_version, ())
        if not any(sent_states == (state.leader, state.leader_epoch, state.isr) for state in written):
            yield f"{change.target} received {order.partition} {sent_states}, version {order.zk_version}; never written"


def _sent_epochs_are_monotonic(law: Checker, change: Ordered) -> Iterator[str]:
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
        elif known is None or news >= known:
            sent_states[partition] = news
        elif known[:2] == news[:2]:
            yield f"{change.target} received {partition} in epoch {news[2]}, after epoch {known[2]}"


# ---------------------------------------------------------------------------------------------------- each delivery


def _controllers_delete_only_their_own_znode(law: Checker, change: ControllerDeleted) -> Iterator[str]:
    node = next((m.id for m in law.cluster.machines.values() if m.link and m.link.session_id == change.session), None)
    if node is not None and change.session != change.owner:
        yield f"node {node} deleted /controller, which session {change.owner:#x} had made"


def _who_lives_is_known(law: Checker, change: Handled) -> Iterator[str]:
    if isinstance(change.event, BrokerChange):
        brokers = change.controller.context.brokers
        for broker in brokers.values():
            sent_states = law.announced.get((change.node, broker.epoch))
            if sent_states is not None and sent_states != tuple(brokers):
                yield f"controller {change.node} last sent {sent_states} to broker {broker.id}, not {tuple(brokers)}"


def _the_preferred_lead(law: Checker, change: Handled) -> Iterator[str]:
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
                written = law.states.get(partition)  # its leader may have taken it out since: what is written counts
                could = broker in state.isr and written is not None and broker in written.isr
                if untouched and could and context.is_online(broker, partition):
                    yield f"controller {change.node} left {partition} to {state.leader}, though {broker} could lead it"


def _legal_moves_only(law: Checker, change: Moved) -> Iterator[str]:
    for partition, before in change.before.items():
        if before not in LEGAL[change.target]:
            what = partition if change.broker is None else f"replica {change.broker} of {partition}"
            yield f"controller {change.node} moved {what} from {before.value} to {change.target.value}"


def _no_handler_fails(law: Checker, change: Failed) -> Iterator[str]:
    if not change.error.startswith(FORESEEN):
        yield f"node {change.node}: {change.message}: {change.error}"


def _one_generation_at_a_time(law: Checker, change: Dealt) -> Iterator[str]:
    group, generation = change.group, change.generation
    if law.power_failed:
        return  # what a group was may be gone with the log that lost its end: it begins anew
    if generation == 1 and group.leaders.get(1) != change.leader:  # Kafka forgets a group that is empty
        group.leaders.clear()
        group.owners.clear()
    leader = group.leaders.setdefault(generation, change.leader)
    if leader != change.leader:
        yield f"generation {generation} of {group.name} was dealt out by {leader}, and by {change.leader}"
    for part in change.parts:
        owner = group.owners.setdefault((generation, part), change.member)
        if owner != change.member:
            yield f"part {part} of {group.name} is {owner}'s and {change.member}'s in generation {generation}"


def _high_watermarks_only_rise(law: Checker, change: Marked) -> Iterator[str]:
    if change.after < change.before:
        yield f"node {change.node}: the high watermark of {change.log} fell from {change.before} to {change.after}"


# ---------------------------------------------------------------------------------------------------- at rest


def _up(law: Checker) -> list[int]:
    return [machine.id for machine in law.cluster.machines.values() if machine.state == UP]


def _all_members_are_present(law: Checker, change: Rested) -> Iterator[str]:
    up = _up(law)
    if sorted(law.registered) != up:
        yield f"registered are {sorted(law.registered)}, up are {up}"
    if law.controller not in up:
        yield f"/controller names {law.controller}, up are {up}"
    active = sorted(law.cluster.controllers())
    if active != [law.controller]:
        yield f"{active} hold themselves for the controller, which is {law.controller}"


def _remaining(law: Checker) -> dict[TopicPartition, State]:
    """The states of the partitions whose topics are not to be deleted."""
    return {tp: state for tp, state in law.states.items() if tp.topic not in law.deleting}


def _what_can_be_led_is_led(law: Checker, change: Rested) -> Iterator[str]:
    up = set(_up(law))
    for partition, assigned in law.assigned.items():
        if partition.topic in law.deleting:
            continue
        state = law.states.get(partition)
        if state is None:
            if set(assigned.replicas) & up:
                yield f"{partition} has no state, though {sorted(set(assigned.replicas) & up)} could lead"
        elif state.leader not in up and set(state.isr) & up:
            yield f"{partition} is led by {state.leader}, though {sorted(set(state.isr) & up)} of ISR {state.isr} live"


def _all_replicas_catch_up(law: Checker, change: Rested) -> Iterator[str]:
    up = set(_up(law))
    for partition, state in _remaining(law).items():
        replicas = set(law.assigned.get(partition, Assigned(())).replicas)
        if state.leader in up and set(state.isr) != replicas & up:
            yield f"{partition} has ISR {state.isr}, though {sorted(replicas & up)} live"


def _the_deleted_is_gone(law: Checker, change: Rested) -> Iterator[str]:
    """A deletion waits only for replicas on brokers that do not exist, and nothing leads such a topic meanwhile."""
    for topic in law.deleting:
        if not _waits_for_absent(law, topic):
            yield f"{topic} is still to be deleted"
        for tp in law.topics.get(topic, {}).values():
            if tp in law.states and law.states[tp].leader != NO_LEADER:
                yield f"{tp} is still to be deleted, and led by {law.states[tp].leader}"
    for path in law.cluster.zookeeper.nodes:
        parts = path.split("/")
        if path.startswith("/config/topics/") and parts[3] not in law.topics:
            yield f"{path} is left of a topic that is gone"


def _waits_for_absent(law: Checker, topic: str) -> bool:
    """Whether a replica of the topic is on a broker that does not exist."""
    up = set(_up(law))
    assigned = (law.assigned[tp] for tp in law.topics.get(topic, {}).values() if tp in law.assigned)
    return any(not set(each.replicas) <= up for each in assigned)


def _nothing_is_left_waiting(law: Checker, change: Rested) -> Iterator[str]:
    for path in law.cluster.zookeeper.nodes:
        if path.startswith((f"{paths.ISR_CHANGES}/", f"{paths.LOG_DIR_EVENTS}/")) or path in (
            paths.REASSIGNMENTS,
            paths.PREFERRED_ELECTION,
        ):
            yield f"{path} is still there"
    for partition, assigned in law.assigned.items():
        if assigned.adding or assigned.removing:
            yield f"{partition} is still on its way: {assigned}"


def _the_controller_knows(law: Checker, change: Rested) -> Iterator[str]:
    for node, context in law.cluster.controllers().items():
        found = inconsistencies(context)
        yield from (f"controller {node}: {text}" for text in found)
        if sorted(context.brokers) != sorted(law.registered):
            yield f"controller {node} knows brokers {sorted(context.brokers)}, registered are {sorted(law.registered)}"
        epochs = {broker.id: broker.epoch for broker in context.brokers.values()}
        if epochs != law.registered:
            yield f"controller {node} knows broker epochs {epochs}, ZooKeeper {law.registered}"
        assigned = {tp: Assigned(a.replicas, a.adding, a.removing) for tp, a in context.assignments.items()}
        yield from _differences(f"controller {node} knows of assignments", assigned, law.assigned)
        led = {tp: (s.leader, s.leader_epoch) for tp, s in context.leadership.items()}
        yield from _differences(
            f"controller {node} knows of leaders", led, {tp: (s.leader, s.leader_epoch) for tp, s in law.states.items()}
        )
        for partition, state in _remaining(law).items():
            expected = PartitionState.ONLINE if state.leader != NO_LEADER else PartitionState.OFFLINE
            if context.partition_state(partition) is not expected:
                yield f"controller {node} has {partition} as {context.partition_state(partition).value}: {state}"
            for broker in law.assigned.get(partition, Assigned(())).replicas:
                known = context.replica_state(broker, partition)
                if broker in law.registered and known is not ReplicaState.ONLINE:
                    yield f"controller {node} has replica {broker} of {partition} as {known.value}"


def _metadata_is_zookeepers(law: Checker, change: Answered) -> Iterator[str]:
    true = {
        tp: (state.leader, state.leader_epoch, state.isr, law.assigned[tp].replicas if tp in law.assigned else None)
        for tp, state in _remaining(law).items()
    }
    for node in _up(law):
        answer = law.metadata.get(node)
        if answer is None:
            yield f"node {node} does not answer"
            continue
        sent_states = {
            TopicPartition(topic.name, each.partition): (each.leader, each.leader_epoch, each.isr, each.replicas)
            for topic in answer.topics
            for each in topic.partitions
        }
        if law.lapsed.get(node) is law.cluster.machines[node].node:
            # A broker that was disconnected receives what exists, and never what was deleted meanwhile: Kafka's
            # brokers keep a topic that was deleted then, too.
            sent_states = {tp: state for tp, state in sent_states.items() if tp.topic in law.topics}
        yield from _differences(f"node {node} has other leader, epoch, ISR and replicas", sent_states, true)
        brokers = sorted(broker.id for broker in answer.brokers)
        if brokers != sorted(law.registered):
            yield f"node {node} has brokers {brokers}; registered are {sorted(law.registered)}"
        if answer.controller_id != law.controller:
            yield f"node {node} says that {answer.controller_id} is controller; it is {law.controller}"


def _roles_are_zookeepers(law: Checker, change: Rested) -> Iterator[str]:
    roles: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
    for tp, state in _remaining(law).items():
        for replica in law.assigned.get(tp, Assigned(())).replicas:
            roles.setdefault(replica, {})[tp] = state.leader, state.leader_epoch
    for node in _up(law):
        machine = law.cluster.machines[node].node
        hosted = [] if machine is None else machine.base.actors(PartitionActor)
        true = roles.get(node, {})
        known = {actor.known.partition: (actor.known.leader, actor.known.leader_epoch) for actor in hosted}
        # Who has a replica of what was moved elsewhere may still think so (`_disks_hold_what_they_should`).
        said = {tp: role for tp, role in known.items() if tp in true}
        yield from _differences(f"node {node} has roles", said, true)


def _disks_hold_what_they_should(law: Checker, change: Rested) -> Iterator[str]:
    assigned: dict[int, set[TopicPartition]] = {}
    for tp, each in law.assigned.items():
        if tp.topic not in law.deleting:
            for replica in each.replicas:
                assigned.setdefault(replica, set()).add(tp)
    for node in _up(law):
        wanted = assigned.get(node, set())
        held = set()
        for name in law.cluster.machines[node].disks.logs():
            topic, number, renamed = parse_name(name)
            if renamed != "delete":
                held.add(TopicPartition(topic, number))
        yield from (f"node {node} has no log of {tp}" for tp in sorted(wanted - held))
        for tp in sorted(held - wanted):
            # As Kafka's, a controller does not wait for a broker that is away to delete what was moved elsewhere.
            # After a failover it halts a topic with an offline replica, and the others are made again (trap T1).
            halted = tp.topic in law.deleting and _waits_for_absent(law, tp.topic)
            if (node, tp) not in law.moved_away and not halted:
                yield f"node {node} has a log of {tp}, of which it has no replica"


def _nothing_acknowledged_is_lost(law: Checker, change: Answered) -> Iterator[str]:
    if law.power_failed:
        return
    up = set(_up(law))
    for partition, acknowledged in law.acknowledged.items():
        state, read = law.states.get(partition), law.read.get(partition)
        if state is None or state.leader not in up:
            continue
        if read is None:
            yield f"{partition} cannot be read"
            continue
        for offset, each in acknowledged.items():
            if read.get(offset) != each.value:
                yield (
                    f"{partition}: {each.value!r} was acknowledged at {offset} ({each.at:.3f} s), where"
                    f" {read.get(offset)!r} is"
                )


def _no_commit_is_lost(law: Checker, change: Answered) -> Iterator[str]:
    for group in law.cluster.members.groups.values():
        if group.fetched is None:
            yield f"what {group.name} has committed cannot be read"
        elif not law.power_failed:
            for part, number in group.committed.items():
                found = group.fetched.get(part)
                if found != number and found not in group.unsure:
                    yield f"{group.name} has committed {number} of part {part}, and {found} is read back"


def _groups_hold_who_lives(law: Checker, change: Answered) -> Iterator[str]:
    for group in law.cluster.members.groups.values():
        said = group.described
        living = sorted(member.id for member in group.living.values())
        if said is None:
            yield f"no broker describes {group.name}"
        elif said.group_state not in (("Stable",) if living else ("Empty", "Dead")):
            yield f"{group.name} is {said.group_state}; its living members are {living}"
        elif sorted(member.member_id for member in said.members) != living:
            yield f"{group.name} has members {[each.member_id for each in said.members]}; living are {living}"
        elif living and sorted(part for member in group.living.values() for part in member.parts) != [*range(PARTS)]:
            yield f"{group.name} is divided into { {each.id: each.parts for each in group.living.values()} }"


def _replicas_are_equal(law: Checker, change: Rested) -> Iterator[str]:
    up = set(_up(law))
    for partition, state in _remaining(law).items():
        if not law.is_written(partition):
            continue
        first = law.deleted.get(partition, 0)
        machines = law.cluster.machines
        held = {node: machines[node].disks.records_of(str(partition), first) for node in state.isr if node in up}
        if len(set(held.values())) > 1:
            yield f"{partition}: the logs of its ISR differ: { {node: len(data) for node, data in held.items()} }"


def _differences(what: str, said: Mapping[Any, Any], true: Mapping[Any, Any]) -> Iterator[str]:
    if said == true:
        return
    for key in sorted(set(said) | set(true)):
        if said.get(key) != true.get(key):
            yield f"{what} otherwise than ZooKeeper: {key}: {said.get(key)}, not {true.get(key)}"


# ---------------------------------------------------------------------------------------------------- the table

INVARIANTS: tuple[Invariant, ...] = (
    Invariant("leader in ISR", "controller.md 3.2: a leader is chosen from the ISR", StateWritten, _leader_in_isr),
    Invariant("ISR within the assignment", "controller.md 2.4, 7.7", StateWritten, _isr_in_assignment),
    Invariant("ISR is never empty", "controller.md 3.3: the last member stays", StateWritten, _isr_is_never_empty),
    Invariant("clean elections", "controller.md 3.2.2", StateWritten, _clean_elections),
    Invariant("only a leader enlarges the ISR", "broker.md 3.2, KAFKA-9672", StateWritten, _isr_grows_by_its_leader),
    Invariant("leader epochs grow by one", "controller.md 3.2.1", StateWritten, _leader_epochs),
    Invariant("only the controller elects", "controller.md 2.5.1, KAFKA-6082", StateWritten, _state_by_the_controller),
    Invariant("controller epochs grow by one", "controller.md 2.5.4", EpochWritten, _controller_epochs),
    Invariant("one controller per epoch", "controller.md 2.5.4", Ordered, _one_controller_per_epoch),
    Invariant("orders are what was written", "controller.md 3.1: written, then sent", Ordered, _orders_as_written),
    Invariant(
        "controllers delete only their own znode",
        "controller.md 7.1.3, KAFKA-6082",
        ControllerDeleted,
        _controllers_delete_only_their_own_znode,
    ),
    Invariant("legal moves only", "controller.md 3.1, 3.3", Moved, _legal_moves_only),
    Invariant("who lives is known", "controller.md 7.5, KAFKA-13225", Handled, _who_lives_is_known),
    Invariant("the preferred lead", "controller.md 7.6, KAFKA-10149", Handled, _the_preferred_lead),
    Invariant("sent epochs are monotonic", "controller.md 5, KAFKA-9212", Ordered, _sent_epochs_are_monotonic),
    Invariant(
        "no handler fails",
        "every actor's validate(), and what no rule foresees (controller.md 1.1.3)",
        Failed,
        _no_handler_fails,
    ),
    Invariant("high watermarks only rise", "broker.md 3.5", Marked, _high_watermarks_only_rise),
    Invariant("one generation at a time", "broker.md 6.5", Dealt, _one_generation_at_a_time),
    Invariant("all members are present", "controller.md 7.1, broker.md 7.2", Rested, _all_members_are_present),
    Invariant("the deleted is gone", "controller.md 6.1", Rested, _the_deleted_is_gone),
    Invariant("what can be led is led", "controller.md 3.2, 7.5", Rested, _what_can_be_led_is_led),
    Invariant("roles are ZooKeeper's", "broker.md 2.1, KAFKA-14154", Rested, _roles_are_zookeepers),
    Invariant("all replicas catch up", "broker.md 3.2", Rested, _all_replicas_catch_up),
    Invariant("nothing is left waiting", "controller.md 1.5, 7.6, 7.7", Rested, _nothing_is_left_waiting),
    Invariant("the controller knows", "controller.md 7.2, trap T12", Rested, _the_controller_knows),
    Invariant("metadata are ZooKeeper's", "broker.md 3.9", Answered, _metadata_is_zookeepers),
    Invariant("nothing acknowledged is lost", "broker.md 3.5, 3.6", Answered, _nothing_acknowledged_is_lost),
    Invariant("no commit is lost", "broker.md 6.5", Answered, _no_commit_is_lost),
    Invariant("groups hold who lives", "broker.md 6.5", Answered, _groups_hold_who_lives),
    Invariant("replicas are equal", "broker.md 4.4, 4.5", Rested, _replicas_are_equal),
    Invariant("disks hold what they should", "broker.md 2.2, 5.1", Rested, _disks_hold_what_they_should),
)
"""Every law of the simulation."""
