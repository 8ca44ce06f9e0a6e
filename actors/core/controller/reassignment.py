"""Reassign partitions to other replicas (controller.md 7.7).

A partition's assignment says all: who replicates it, who of them is being added, who is going to be removed. It is on
its way while replicas are added or removed, and the topic's znode has the same, so that any controller continues.

1. Asked for: the new assignment is written and taken over. Replicas that an earlier request had been adding, and that
   are no longer needed, are deleted; one that leads meanwhile, being preferred, is replaced before (Kafka's partition
   has no leader then, KAFKA-14808). The partition's state is watched from now on.
2. Not all of the target in the ISR yet: all replicas hear of the assignment under a new leader epoch, the new ones
   begin to follow. Each change of the state is a reason to look again.
3. All of the target in the ISR: the target alone is the assignment. Who leads outside of it, or is dead, is replaced;
   the others' replicas leave the ISR and are deleted, without waiting for their answers. Then the topic's znode and the
   request are updated, and all brokers are notified.

Rule: a reassignment that breaks off is begun again, at any step: by the next controller, or when a broker of its target
starts. What is asked for and cannot be is taken out of the request, named in the log. The deletion of its topic ends a
reassignment (`end_for_deletion`), so no partition of a queued topic is being reassigned.

Kafka: `KafkaController.processZkPartitionReassignment`, `processApiPartitionReassignment`,
`processListPartitionReassignments`, `processPartitionReassignmentIsrChange`, `onPartitionReassignment`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from actors.core.controller import elections, log_text
from actors.core.controller.batch import RequestBatch, announce
from actors.core.controller.context import (
    ControllerContext,
    ReplicasByBroker,
    origin_replicas,
    reassigned,
    target_replicas,
)
from actors.core.controller.failures import passing
from actors.core.controller.instructions import Enqueue
from actors.core.controller.leadership import Failures, log_failures, read_states, write_states
from actors.core.controller.partition_state_machine import move_partitions
from actors.core.controller.replica_state_machine import move_replicas
from actors.core.controller.slicing import MOVES, chosen, sliced
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.refusal import Refused
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from messages.cluster import (
    LeaderIsrAndControllerEpoch,
    Leadership,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.conversation import AskFailed, Flow, ask
from messages.error_codes import (
    INVALID_REPLICA_ASSIGNMENT,
    NO_REASSIGNMENT_IN_PROGRESS,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.events import PartitionReassignmentIsrChange, ZkPartitionReassignment
from messages.probes import probe
from messages.vocabulary import Message
from messages.zookeeper import (
    GetPartitionStates,
    GetReassignments,
    RemoveReassignments,
    RequestedReassignment,
    SetAssignments,
    StopWatching,
    TopicAssignment,
)

log = logging.getLogger("kafka.controller")

Assignments = Mapping[TopicPartition, ReplicaAssignment]


def begin(context: ControllerContext) -> Flow[None]:
    """A term begins: what is asked for in ZooKeeper, then what else is on its way."""
    on_their_way = dict.fromkeys(context.reassigning)
    asked_for = yield from _requested(context)
    yield from _reassign(context, {tp: context.assignments[tp] for tp in on_their_way if tp not in asked_for})


def requested(context: ControllerContext, event: ZkPartitionReassignment) -> Flow[None]:
    """Handle a request for other replicas."""
    yield from _requested(context)


def resume(context: ControllerContext, broker_ids: Sequence[int]) -> Flow[None]:
    """Brokers started: go on with what waits for them."""
    waiting = {tp: context.assignments[tp] for tp in context.reassigning}
    yield from _reassign(
        context, {tp: each for tp, each in waiting.items() if not set(broker_ids).isdisjoint(target_replicas(each))}
    )


def end_for_deletion(context: ControllerContext, topics: Iterable[str]) -> Flow[frozenset[str]]:
    """End the reassignments of topics that are going to be deleted: every replica, also one that was being added, is a
    replica of the topic from now on and is deleted with it (trap T1; docs/explanation/decisions.md).

    The topics' znodes say so before anything is deleted, and the requests leave /admin/reassign_partitions. A later
    request for these partitions is refused, because their topic is queued. Returns the topics that were being
    reassigned.
    """
    wanted = frozenset(topics)
    moving = [tp for tp in context.reassigning if tp.topic in wanted]
    if not moving:
        return frozenset()
    probe("T1 the deletion of a topic ends its reassignments")
    log.info(
        "%s Cancelling the reassignment of %s: the topic is being deleted", context.tag, ", ".join(map(str, moving))
    )
    ended = {tp: ReplicaAssignment(context.assignments[tp].replicas) for tp in moving}
    failures = yield from _write(context, ended)
    log_failures(context, "end the reassignment of", failures)
    for partition, assignment in ended.items():
        context.set_assignment(partition, assignment)
    yield from _stop_watching(moving)
    answer = yield from ask(GetReassignments())
    requests = [each for each in answer.requested if each.partition.topic in wanted]
    if requests:
        yield from _forget(context, requests)
    return frozenset(tp.topic for tp in moving)


def isr_changed(context: ControllerContext, event: PartitionReassignmentIsrChange) -> Flow[None]:
    """The state of a partition that is being reassigned changed, maybe by our hand: is its target in the ISR now?

    Then others may have come as far, whose events wait: MOVES of them are looked at, and finished in the same requests.
    """
    partition = TopicPartition(event.topic, event.partition)
    if partition not in context.reassigning:
        return
    complete = yield from _caught_up(context, [partition])
    if complete:
        probe("the target of a reassignment joins the ISR")
        others = list(islice((tp for tp in context.reassigning if tp != partition), MOVES))
        complete += yield from _caught_up(context, others)
    yield from _finish(context, complete)


def alter(context: ControllerContext, request: AlterPartitionReassignmentsRequest) -> Flow[Message]:
    """A client asks for other replicas, or for none: the latest counts, also where the znode has asked before."""
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    refusals: dict[TopicPartition, Refused] = {}
    for topic in request.topics:
        for number, target in ((each.partition_index, each.replicas) for each in topic.partitions):
            partition = TopicPartition(topic.name, number)
            try:
                wanted[partition] = _planned(context, partition, target, alive=True)
            except Refused as refused:
                refusals[partition] = refused
    answer = yield from ask(GetReassignments())
    overtaken = [each for each in answer.requested if each.partition in wanted]
    if overtaken:
        probe("a requested reassignment replaces that of the znode")
        yield from _forget(context, overtaken)
    failures = yield from _reassign(context, wanted)
    refusals.update((tp, Refused(why, UNKNOWN_SERVER_ERROR)) for tp, why in failures.items())

    def result(partition: TopicPartition) -> ReassignablePartitionResponse:
        refused = refusals.get(partition)
        if refused is None:
            return ReassignablePartitionResponse(partition.partition, NONE)
        return ReassignablePartitionResponse(partition.partition, refused.code, str(refused))

    return AlterPartitionReassignmentsResponse(
        NONE,
        responses=tuple(
            ReassignableTopicResponse(
                topic.name,
                tuple(result(TopicPartition(topic.name, each.partition_index)) for each in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def listed(context: ControllerContext, request: ListPartitionReassignmentsRequest) -> Flow[Message]:
    """Which partitions are on their way."""
    partitions: Iterable[TopicPartition] = context.reassigning
    if request.topics is not None:
        asked = dict.fromkeys(TopicPartition(each.name, n) for each in request.topics for n in each.partition_indexes)
        partitions = (tp for tp in asked if tp in context.reassigning)
    by_topic: dict[str, list[OngoingPartitionReassignment]] = {}
    for partition in partitions:
        each = context.assignments[partition]
        by_topic.setdefault(partition.topic, []).append(
            OngoingPartitionReassignment(partition.partition, each.replicas, each.adding, each.removing)
        )
    yield from ()
    return ListPartitionReassignmentsResponse(
        NONE, topics=tuple(OngoingTopicReassignment(name, tuple(found)) for name, found in by_topic.items())
    )


def _requested(context: ControllerContext) -> Flow[Assignments]:
    """Start or continue the requests in /admin/reassign_partitions; return the accepted ones."""
    answer = yield from ask(GetReassignments())
    wanted: dict[TopicPartition, ReplicaAssignment] = {}
    hopeless: list[RequestedReassignment] = []
    for each in answer.requested:
        try:
            wanted[each.partition] = _planned(context, *each, alive=False)
        except Refused as refused:
            log.error("%s Rejecting the reassignment of partition %s to replicas %s: %s", context.tag, *each, refused)
            hopeless.append(each)
    failures = yield from _reassign(context, wanted)
    hopeless += [each for each in answer.requested if each.partition in failures]
    if hopeless:
        yield from _forget(context, hopeless)
    return wanted


def _planned(
    context: ControllerContext, partition: TopicPartition, target: tuple[int, ...] | None, alive: bool
) -> ReplicaAssignment:
    """The assignment on its way to the target; None takes a reassignment back. Raises Refused, in Kafka's order.

    `alive`: who is to be added has to be there. Kafka takes lists from ZooKeeper as they are.
    """
    current = context.assignment(partition)
    if target is not None:
        _check_replicas(target)
        missing = [r for r in reassigned(current, target).adding if r not in context.online_brokers]
        if alive and missing:
            raise Refused(
                f"Replica assignment has brokers that are not alive. Replica list: {missing}, live broker list:"
                f" {sorted(context.online_brokers)}",
                INVALID_REPLICA_ASSIGNMENT,
            )
    elif partition not in context.reassigning:
        raise Refused("No partition reassignment is in progress.", NO_REASSIGNMENT_IN_PROGRESS)
    if partition.topic in context.queued:
        raise Refused("The topic is being deleted.", UNKNOWN_TOPIC_OR_PARTITION)
    if not current.replicas:
        raise Refused("The partition does not exist.", UNKNOWN_TOPIC_OR_PARTITION)
    return reassigned(current, origin_replicas(current) if target is None else target)


def _check_replicas(replicas: tuple[int, ...]) -> None:
    """Raises Refused for an empty list or duplicate brokers."""
    if not replicas:
        raise Refused("Empty replica list specified in partition reassignment.", INVALID_REPLICA_ASSIGNMENT)
    if len(set(replicas)) < len(replicas):
        raise Refused(f"Duplicate replica ids in the replica list: {list(replicas)}", INVALID_REPLICA_ASSIGNMENT)
    if min(replicas) < 0:
        raise Refused(f"Invalid broker id in replica list: {list(replicas)}", INVALID_REPLICA_ASSIGNMENT)


def _reassign(context: ControllerContext, assignments: Assignments) -> Flow[Failures]:
    """onPartitionReassignment: bring these partitions a step on; whose assignment could not be written, and why."""
    failures: Failures = {}
    if not assignments:
        return failures
    changed = {tp: each for tp, each in assignments.items() if context.assignments[tp] != each}
    failures = yield from _write(context, changed)
    log_failures(context, "reassign", failures)
    unneeded: ReplicasByBroker = {}
    for partition, assignment in changed.items():
        if partition not in failures:
            for broker_id in context.assignments[partition].replicas:
                if broker_id not in assignment.replicas:
                    probe("a reassignment is replaced before its end")
                    unneeded.setdefault(broker_id, []).append(partition)
            context.set_assignment(partition, assignment)
            log.info(
                "%s Successfully updated assignment of partition %s to %s",
                *(context.tag, partition, log_text.assignment(assignment)),
            )
    stranded = [tp for tp in changed if tp in context.leadership and context.leadership[tp].leader in unneeded]
    stranded = [tp for tp in stranded if tp in unneeded[context.leadership[tp].leader]]
    yield from move_partitions(context, stranded, PartitionState.ONLINE)
    yield from _delete_replicas(context, unneeded)
    begun = [tp for tp in assignments if tp not in failures]
    complete = yield from _caught_up(context, begun)
    done = frozenset(complete)
    waiting = [tp for tp in begun if tp not in done]
    yield from _raise_epochs(context, waiting, {tp: context.assignments[tp].replicas for tp in waiting})
    fresh: ReplicasByBroker = {}
    for partition in waiting:
        for broker_id in context.assignments[partition].adding:
            if context.replica_state(broker_id, partition) is ReplicaState.NON_EXISTENT:
                fresh.setdefault(broker_id, []).append(partition)
    yield from move_replicas(context, fresh, ReplicaState.NEW)
    yield from _finish(context, complete)
    return failures


def _caught_up(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[list[TopicPartition]]:
    """Those of which the whole target is in the ISR, or which only changed their order; the others are watched."""
    moving = yield from chosen(lambda tp: tp in context.reassigning, partitions)
    behind = frozenset(moving)
    isrs: dict[TopicPartition, tuple[int, ...]] = {}

    def look(part: Sequence[TopicPartition]) -> Flow[None]:
        read = yield from ask(GetPartitionStates(tuple(part), watch=True))
        isrs.update((tp, state.isr) for tp, state, _ in read.states if state is not None)

    yield from sliced(look, moving)
    return [
        tp
        for tp in partitions
        if tp not in behind or (tp in isrs and set(target_replicas(context.assignments[tp])) <= set(isrs[tp]))
    ]


def _finish(context: ControllerContext, partitions: Sequence[TopicPartition]) -> Flow[None]:
    """All of the target is in the ISR: the rest goes (step 3)."""
    if not partitions:
        return
    added: ReplicasByBroker = {}
    removed: ReplicasByBroker = {}
    for partition in partitions:
        for grouped, broker_ids in (
            (added, context.assignments[partition].adding),
            (removed, context.assignments[partition].removing),
        ):
            for broker_id in broker_ids:
                grouped.setdefault(broker_id, []).append(partition)
    yield from move_replicas(context, added, ReplicaState.ONLINE)
    hosting = {tp: context.assignments[tp].replicas for tp in partitions}
    for partition in partitions:
        context.set_assignment(partition, ReplicaAssignment(target_replicas(context.assignments[partition])))
    led = yield from chosen(lambda tp: tp in context.leadership, partitions)
    staying = yield from chosen(lambda tp: _leader_stays(context, tp), led)
    kept = frozenset(staying)
    leaving = [tp for tp in led if tp not in kept]
    if leaving:
        probe("a reassignment moves the leader away")
    yield from move_partitions(context, leaving, PartitionState.ONLINE, elections.reassign)
    yield from _raise_epochs(context, staying, hosting)
    yield from _delete_replicas(context, removed)
    failures = yield from _write(context, {tp: context.assignments[tp] for tp in partitions})
    log_failures(context, "write the assignment", failures)
    yield from _stop_watching(partitions)
    yield from _forget(context, [RequestedReassignment(tp, context.assignments[tp].replicas) for tp in partitions])
    log.info(
        "%s Removing partitions %s from the list of reassigned partitions in zookeeper",
        *(context.tag, log_text.listed(partitions)),
    )
    yield from announce(context, partitions=partitions)


def _stop_watching(partitions: Iterable[TopicPartition]) -> Flow[None]:
    """Stop watching the states of these partitions."""
    keys = tuple(f"{tp.topic}/{tp.partition}" for tp in partitions)
    yield from ask(StopWatching((PartitionReassignmentIsrChange.__name__,), keys))


def _leader_stays(context: ControllerContext, partition: TopicPartition) -> bool:
    leader = context.leadership[partition].leader
    return leader in context.assignments[partition].replicas and context.is_online(leader, partition)


def _raise_epochs(
    context: ControllerContext, partitions: Sequence[TopicPartition], hosting: Mapping[TopicPartition, Sequence[int]]
) -> Flow[None]:
    """Same leader, next leader epoch; and all replicas hear the assignment, those added as new ones.

    The ISR stays as it is, without brokers that no longer host the partition: the leader may add one until it hears of
    this, and Kafka 3.9.1 leaves it there, where it can become the last member of an ISR from which no leader can be
    elected.
    """
    batch, failures = RequestBatch(context), Failures()

    def hosted(partition: TopicPartition, isr: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(replica for replica in isr if replica in hosting[partition]) or isr

    def rise(part: Sequence[TopicPartition]) -> Flow[None]:
        remaining = part
        while remaining:
            states = yield from read_states(context, remaining, failures)
            updates = [
                Leadership(
                    tp,
                    LeaderIsrAndControllerEpoch(
                        state.leader, state.leader_epoch + 1, hosted(tp, state.isr), context.epoch, state.zk_version
                    ),
                )
                for tp, state in states.items()
            ]
            written, remaining = yield from write_states(context, updates, failures)
            for partition, state in written:
                assignment = context.assignments[partition]
                known = tuple(r for r in assignment.replicas if r not in assignment.adding)
                batch.add_leader_and_isr(known, partition, state, assignment, is_new=False)
                batch.add_leader_and_isr(assignment.adding, partition, state, assignment, is_new=True)

    yield from sliced(rise, partitions)
    log_failures(context, "send a reassignment", failures)
    yield from batch.send()


def _delete_replicas(context: ControllerContext, replicas: ReplicasByBroker) -> Flow[None]:
    """Out of the ISR, and gone: who is asked to delete them is not waited for."""
    for state in (
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        yield from move_replicas(context, replicas, state)


def _write(context: ControllerContext, assignments: Assignments) -> Flow[Failures]:
    """Write these assignments into their topics' znodes; which could not be, and why.

    All topics at once; where that is refused, each for itself, so that one costs the others nothing.
    """
    by_topic: dict[str, dict[int, ReplicaAssignment]] = {}
    for (topic, number), assignment in assignments.items():
        by_topic.setdefault(topic, {})[number] = assignment
    topics = [
        TopicAssignment(
            topic,
            tuple(
                PartitionAssignment(n, changed.get(n, each)) for n, each in context.topic_assignment(topic).partitions
            ),
        )
        for topic, changed in by_topic.items()
    ]
    failures: Failures = {}
    if not topics or (yield from _written(context, topics)) == "":
        return failures
    probe("assignments are written topic by topic")
    for each in topics:
        why = yield from _written(context, [each])
        if why:
            failures.update((TopicPartition(each.topic, number), why) for number in by_topic[each.topic])
    return failures


def _written(context: ControllerContext, topics: Iterable[TopicAssignment]) -> Flow[str]:
    """Why these could not be written; empty if they were."""
    try:
        yield from ask(SetAssignments(tuple(topics), context.epoch_zk_version))
    except AskFailed as error:
        return str(passing(error))
    return ""


def _forget(context: ControllerContext, requests: Sequence[RequestedReassignment]) -> Flow[None]:
    """Take requests out of /admin/reassign_partitions; then watch for its creation, the only change that is
    reported."""
    left = yield from ask(RemoveReassignments(tuple(requests), context.epoch_zk_version))
    if not left.there:
        yield Enqueue(ZkPartitionReassignment())


EVENTS: dict[type, Callable[..., Flow[None]]] = {
    ZkPartitionReassignment: requested,
    PartitionReassignmentIsrChange: isr_changed,
}
