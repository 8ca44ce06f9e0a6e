"""Find the cause of a fact in a trace, then the cause of this cause, back to the first fault, request or action.

Rule 1: a chain consists of facts. For each kind of fact, `CAUSES` has the function that finds the cause of such a fact.
        The chain ends at the first cause, a fact whose cause is None.
Rule 2: a cause lies before its effect and is shown by a recorded delivery; nothing is guessed. If the trace does not
        show the cause of a fact, the chain ends at this fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

from actors.explain import histories
from actors.explain.fact_gathering import TraceFacts
from messages import errors
from messages.cluster import NO_LEADER, TopicPartition, partition_named
from messages.events import NOT_ELECTED, READ_STATE
from messages.facts import declarations
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED

AT_ONCE = 1.0
"""Seconds: facts of two nodes that are not further apart may belong together."""
DISK_FAULTS = ("full_disk", "broken_disk")
SESSION_FAULTS = ("pause", "session_expiry")
FOLLOWER_FAULTS = ("pause", "mute", "slow_disk")


class BrokerGone(NamedTuple):
    """A controller noticed that a broker is not registered in ZooKeeper any more.

    `noticed` is the delivery of the event. If the broker was killed, `late` is the number of seconds from its last
    recorded delivery to `noticed`; otherwise 0.
    """

    place: declarations.TracePosition
    broker: int
    by: int
    event: declarations.ControllerEvent | None
    noticed: declarations.TracePosition
    late: float = 0.0


class BrokerCame(NamedTuple):
    """A controller noticed that a broker has registered in ZooKeeper."""

    place: declarations.TracePosition
    broker: int
    by: int
    event: declarations.ControllerEvent | None


class DeletionBlocked(NamedTuple):
    """A topic cannot be deleted, because the broker `broker` does not delete a replica.

    `code` is the error code of its response; 0 if the broker is not alive.
    """

    place: declarations.TracePosition
    partition: TopicPartition
    broker: int
    code: int


class ReassignmentWaits(NamedTuple):
    """A reassignment waits for a broker that is not in the ISR."""

    place: declarations.TracePosition
    partition: TopicPartition
    broker: int
    isr: tuple[int, ...]


_F = TypeVar("_F")
Fact = Any
MOST_STEPS = 12


def chain_of(facts: TraceFacts, first: Fact) -> list[Fact]:
    """Return the chain of causes: the fact, its cause, the cause of this cause, and so on, at most MOST_STEPS facts."""
    chain, fact = [first], cause_of(facts, first)
    while fact is not None and fact not in chain and len(chain) < MOST_STEPS:
        chain.append(fact)
        fact = cause_of(facts, fact)
    return chain


def cause_of(facts: TraceFacts, fact: Fact) -> Fact | None:
    """Return the cause of a fact; None if this fact is the first cause, or if the trace does not show the cause."""
    find = CAUSES.get(type(fact))
    return None if find is None else find(facts, fact)


def last_before(found: Iterable[_F], place: declarations.TracePosition, run: str | None = None) -> _F | None:
    """Return the last of these facts (sorted by time) up to a position; None if there is none.

    Args:
        run: Only facts of this run of a node are considered; None to consider the facts of all runs.
    """
    last = None
    for each in found:
        at: declarations.TracePosition = each.place  # type: ignore[attr-defined]
        if at > place:
            break
        if run in (None, at.run):
            last = each
    return last


# --------------------------------------------------------------------------------------------------- how a broker went


def broker_gone(facts: TraceFacts, broker: int, until: declarations.TracePosition) -> BrokerGone | None:
    """Return the observation that a broker is gone, if the controllers still saw it as gone at this position.

    Returns:
        None if controllers saw the broker as alive at the position, or had never seen it.
    """
    since: declarations.BrokersRead | None = None
    for seen in facts.seen:
        if seen.place > until:
            break
        if broker in seen.brokers:
            since = None
        elif since is None and any(broker in each.brokers for each in facts.seen if each.place < seen.place):
            since = seen
    if since is None:
        return None
    noticed = since.event.place if since.event is not None else since.place
    gone = BrokerGone(since.place, broker, since.by, since.event, noticed)
    end = _end_of_broker(facts, gone)
    if isinstance(end, declarations.NodeRun) and end.ending == KILLED:
        return gone._replace(late=max(noticed.at - end.place.at, 0.0))
    return gone


def gone_at_end(facts: TraceFacts, broker: int) -> BrokerGone | None:
    """Return the observation that a broker is gone, if it is not registered at the end of the recording."""
    return (
        None if histories.is_registered(facts, broker) else broker_gone(facts, broker, histories.end_of_record(facts))
    )


def _end_of_broker(facts: TraceFacts, gone: BrokerGone) -> Fact | None:
    """Return why the broker disappeared: it failed, it was killed or stopped, or its session ended while it ran."""
    noticed = gone.noticed
    node_run = histories.registered_run(facts, gone.broker, noticed)
    if node_run is None:
        return None
    run = node_run.place.run
    if node_run.end <= noticed.at + AT_ONCE and node_run.ending in (KILLED, STOPPED):
        failed = last_before(facts.failed_nodes, node_run.place, run)
        asked = last_before(facts.stops, node_run.place, run)
        if node_run.end <= noticed.at or failed is not None or asked is not None:
            return failed or node_run
    stopping = last_before(facts.stops, noticed, run)
    if stopping is not None:
        return stopping
    expired = [each for each in facts.sessions if each.place.run == run and each.state == "expired"]
    near = [each for each in expired if each.place.at > noticed.at - AT_ONCE]
    if near:
        return near[0]
    return declarations.RecordingGap(node_run.place, noticed.at - node_run.place.at)


def _gap(facts: TraceFacts, node: int, begin: float, end: float) -> declarations.RecordingGap | None:
    """Return the last gap in the node's recording that overlaps the interval from `begin` to `end`."""
    found = [each for each in facts.gaps if each.place.node == node and each.place.at >= begin and each.began <= end]
    return found[-1] if found else None


def _injected(
    facts: TraceFacts, node: int, kinds: Iterable[str], begin: float, end: float
) -> declarations.NodeFaultChange | None:
    """Return the latest injection of a fault of these kinds that was active at the node between `begin` and `end`.

    Of the node's runs that began before `end`, only the last is considered, because the removal of a fault is not
    recorded while its node is dead.
    """
    node_runs = [node_run for node_run in facts.node_runs if node_run.place.node == node and node_run.began <= end]
    run = max(node_runs, key=lambda node_run: node_run.began).place.run if node_runs else ""
    active: dict[str, declarations.NodeFaultChange] = {}
    for each in facts.node_faults:
        if each.place.run != run or each.fault not in kinds or each.place.at > end:
            continue
        if each.change == "injected":
            active[each.fault] = each
        elif each.change == "removed" and each.place.at < begin:
            active.pop(each.fault, None)
    return max(active.values(), key=lambda each: each.place, default=None)


def _stop_of_run(facts: TraceFacts, node_run: declarations.NodeRun) -> declarations.StopRequested | None:
    return last_before(facts.stops, node_run.place, node_run.place.run) if node_run.ending == STOPPED else None


def _of_failure(facts: TraceFacts, failure: declarations.NodeFailure) -> Fact | None:
    run = failure.place.run
    return last_before(facts.failed_disks, failure.place, run) or last_before(facts.taken_ids, failure.place, run)


def _of_disk(facts: TraceFacts, failed: declarations.LogDirectoryFailed) -> declarations.NodeFaultChange | None:
    return _injected(facts, failed.place.node, DISK_FAULTS, failed.place.at, failed.place.at)


def _of_session(facts: TraceFacts, changed: declarations.SessionChanged) -> Fact | None:
    """Return why a session expired.

    The possible causes: the node did not run, a test expired the session, or the node had no connection to ZooKeeper.
    """
    place = changed.place
    if changed.state != "expired":
        return None
    of_run = [each for each in facts.sessions if each.place.run == place.run and each.place < place]
    suspended = of_run[-1] if of_run and of_run[-1].state == "suspended" else None
    lost = suspended or changed
    injected = _injected(facts, place.node, SESSION_FAULTS, place.at - AT_ONCE, place.at)
    gap = last_before(facts.gaps, lost.place, place.run)
    if gap is not None and lost.place.at - gap.place.at > AT_ONCE:
        gap = None
    if injected is None and gap is not None and _noticed_before(facts, place.node, lost.place):
        return gap
    return injected or suspended


def _noticed_before(facts: TraceFacts, broker: int, place: declarations.TracePosition) -> bool:
    """Return whether a controller noticed the end of the broker's session before the broker lost its connection."""
    noticed = [
        after.event.place.at
        for before, after in pairwise(facts.seen)
        if broker in before.brokers and broker not in after.brokers and after.event is not None
    ]
    return bool(noticed) and min(noticed, key=lambda at: abs(at - place.at)) <= place.at


def _of_gap(facts: TraceFacts, gap: declarations.RecordingGap) -> declarations.NodeFaultChange | None:
    return _injected(facts, gap.place.node, ("pause",), gap.began - AT_ONCE, gap.began + AT_ONCE)


# --------------------------------------------------------------------------------------------------------- partitions


def before_of(facts: TraceFacts, state: declarations.StateWrite) -> declarations.StateWrite | None:
    """Return the partition's previous state; None if it is not recorded."""
    before = None
    for each in histories.state_history(facts, state.partition):
        if each.place == state.place and each.version == state.version:
            return before
        before = each
    return None


def _of_state(facts: TraceFacts, state: declarations.StateWrite) -> Fact | None:
    """Return why a state was written.

    The cause is a lagging follower, a broker that disappeared or returned, or the event that the controller handled.
    """
    before = before_of(facts, state)
    left = [broker for broker in before.isr if broker not in state.isr] if before is not None else []
    if state.event is None and not state.read:
        lagged = [each for each in facts.lagged if each.partition == state.partition and each.broker in left]
        return last_before(lagged, state.place)
    event = state.event
    if event is not None and event.kind == "ControlledShutdownRequest" and event.about.isdigit():
        stops = [each for each in facts.stops if each.place.node == int(event.about)]
        return last_before(stops, event.place) or event
    if before is not None:
        moved = [before.leader] if before.leader not in (state.leader, NO_LEADER) else []
        for broker in (*moved, *left):
            failed = [each for each in facts.failed_disks if each.place.node == broker]
            disk = last_before(failed, state.place)
            gone = broker_gone(facts, broker, state.place)
            if gone is not None:
                return gone
            if disk is not None and event is not None and event.kind in _DISK_EVENTS:
                return disk
        if before.leader == NO_LEADER:
            came = _registration_of_leader(facts, state)
            if came is not None:
                return came
    return event


_DISK_EVENTS = ("LogDirEventNotification", "LeaderAndIsrResponseReceived")


def _registration_of_leader(facts: TraceFacts, state: declarations.StateWrite) -> BrokerCame | None:
    """Return the registration by which the new leader became electable."""
    before: declarations.BrokersRead | None = None
    came = None
    for seen in facts.seen:
        if seen.place > state.place:
            break
        if before is not None and seen.brokers.get(state.leader) not in (None, before.brokers.get(state.leader)):
            came = BrokerCame(seen.place, state.leader, seen.by, seen.event)
        before = seen
    return came


def _of_lag(facts: TraceFacts, lagged: declarations.FollowerLagged) -> Fact | None:
    """Return why a follower was behind: its process ended, was suspended or slow, or could not reach its leader."""
    place, broker, leader = lagged.place, lagged.broker, lagged.leader
    begin = place.at - max(lagged.lag, lagged.caught_up_ago, 0.0) - AT_ONCE
    node_runs = [each for each in facts.node_runs if each.place.node == broker and each.began <= place.at]
    last = max(node_runs, key=lambda each: each.began, default=None)
    if last is not None and last.end <= place.at:
        return last_before(facts.failed_nodes, last.place, last.place.run) or last
    fault = _injected(facts, broker, FOLLOWER_FAULTS, begin, place.at) or _injected(
        facts, leader, FOLLOWER_FAULTS, begin, place.at
    )
    fetcher = f"broker-{broker}-"
    returned = [
        each
        for each in facts.faults
        if each.place.node == leader and each.client_id.startswith(fetcher) and begin <= each.place.at <= place.at
    ]
    gap = _gap(facts, broker, begin, place.at) or _gap(facts, leader, begin, place.at)
    if fault is not None or gap is not None or returned:
        return fault or gap or returned[0]
    failed = [
        each
        for each in facts.failed_fetches
        if each.place.node == broker and each.leader == leader and begin <= each.place.at <= place.at
    ]
    return failed[0] if failed else None


def _of_truncation(facts: TraceFacts, cut: declarations.LogTruncated) -> declarations.StateWrite | None:
    """Return the election that caused a truncation.

    The cause is the partition's last unclean election before the truncation. If no election was unclean, the result is
    the partition's first change of leader. If the leader did not change before the truncation, the result is None.
    """
    changed = None
    before: declarations.StateWrite | None = None
    for state in histories.state_history(facts, cut.partition):
        if state.place > cut.place:
            break
        if before is not None and state.leader not in (NO_LEADER, before.leader):
            unclean = state.leader not in before.isr
            changed = state if unclean or changed is None else changed
        before = state
    return changed


def _of_unclean(facts: TraceFacts, state: declarations.StateWrite) -> Fact | None:
    """Return why a state was written. For an unclean election, the reason is the loss of the previous leader."""
    before = before_of(facts, state)
    if before is not None and before.leader == NO_LEADER and state.leader not in (NO_LEADER, *before.isr):
        return since_without_leader(facts, before)
    return _of_state(facts, state)


def since_without_leader(facts: TraceFacts, state: declarations.StateWrite) -> declarations.StateWrite:
    """Return the first state of the leaderless interval to which `state` belongs."""
    first = state
    for each in reversed(
        [each for each in histories.state_history(facts, state.partition) if each.place <= state.place]
    ):
        if each.leader != NO_LEADER:
            break
        first = each
    return first


def _of_assignment(facts: TraceFacts, assigned: declarations.ReplicasAssigned) -> declarations.ControllerEvent | None:
    return assigned.event


def waits_for(facts: TraceFacts, partition: TopicPartition) -> ReassignmentWaits | None:
    """Return the broker for which a reassignment waits."""
    assigned, history = histories.assignment_of(facts, partition), histories.state_history(facts, partition)
    if assigned is None or not (assigned.adding or assigned.removing):
        return None
    in_sync = history[-1].isr if history else ()
    missing = [broker for broker in histories.target_of(assigned) if broker not in in_sync]
    return ReassignmentWaits(assigned.place, partition, missing[0], in_sync) if missing else None


def _of_waiting(facts: TraceFacts, waits: ReassignmentWaits) -> Fact | None:
    """Return what holds a reassignment up: a missing broker, a throttle, failed fetches, or else the reassignment."""
    gone = gone_at_end(facts, waits.broker)
    if gone is not None:
        return gone
    history = histories.state_history(facts, waits.partition)
    throttle = throttle_of(facts, waits.partition, waits.broker, history[-1].leader if history else NO_LEADER)
    if throttle is not None:
        return throttle
    failed = [each for each in facts.failed_fetches if each.place.node == waits.broker and each.place > waits.place]
    return failed[0] if failed else histories.assignment_of(facts, waits.partition)


def throttle_of(
    facts: TraceFacts, partition: TopicPartition, follower: int, leader: int
) -> declarations.ReplicationThrottled | None:
    """Return the throttle that limits the replication from the leader to the follower at the end of the recording."""
    last: dict[tuple[int, str], declarations.ReplicationThrottled] = {}
    for each in facts.throttles:
        if histories.is_of_last_run(facts, each.place):
            last[each.place.node, each.side] = each
    found = (last.get((follower, "follower")), last.get((leader, "leader")))
    return next((each for each in found if each is not None and each.concerns(partition)), None)


def refusal_of(
    facts: TraceFacts, partition: TopicPartition, since: declarations.TracePosition
) -> declarations.StateChangeRefused | None:
    """Return the controller's last refusal to change the partition's state since a position, or None."""
    refused = last_before(
        [each for each in facts.refusals if each.partition == partition], histories.end_of_record(facts)
    )
    return None if refused is None or refused.place < since else refused


def _of_refusal(facts: TraceFacts, refused: declarations.StateChangeRefused) -> Fact | None:
    """Return why a state change was refused: a failed disk of the ISR, or the failed read of the state in this term."""
    if refused.what == READ_STATE:
        return None
    if refused.why.startswith(NOT_ELECTED):
        history = histories.state_history(facts, refused.partition)
        isr = history[-1].isr if history else ()
        failed = [
            each
            for each in facts.failed_disks
            if each.place.node in isr and histories.is_of_last_run(facts, each.place)
        ]
        return last_before(failed, refused.place)
    read = [each for each in facts.refusals if (each.partition, each.what) == (refused.partition, READ_STATE)]
    return last_before(read, refused.place, refused.place.run)


def _of_blocked(facts: TraceFacts, blocked: DeletionBlocked) -> Fact | None:
    if blocked.code != errors.NONE:
        failed = [each for each in facts.failed_disks if each.place.node == blocked.broker]
        return last_before(failed, blocked.place)
    return gone_at_end(facts, blocked.broker)


def _of_step(facts: TraceFacts, step: declarations.TopicDeletionStep) -> Fact | None:
    """Return the recorded request that led to this step of a topic deletion, or else the controller's event."""
    asked = [each for each in facts.deletions if each.step == "asked" and set(each.topics) & set(step.topics)]
    if step.step != "asked":
        return last_before(asked, step.place) or step.event
    return step.event


# -------------------------------------------------------------------------------------------------------- controllers


def _of_election(facts: TraceFacts, elected: declarations.ControllerElected) -> declarations.ControllerResigned | None:
    """Return the end of the previous controller's term."""
    earlier = [each for each in facts.elected if each.place < elected.place]
    return end_of_term(facts, earlier[-1]) if earlier else None


def _of_resignation(facts: TraceFacts, term: declarations.ControllerResigned) -> Fact | None:
    """Return why a controller's term ended."""
    run, place = term.place.run, term.place
    node_run = next((each for each in facts.node_runs if each.place.run == run), None)
    deleted = last_before(facts.deleted_controllers, place, run)
    kind = term.event.kind if term.event is not None else ""
    if "killed" in term.why:
        return node_run
    if kind == "ControllerShutdown" or "stopped" in term.why:
        failure = last_before(facts.failed_nodes, place, run)
        return failure or last_before(facts.stops, place, run) or node_run
    if kind == "SessionExpired" or "session" in term.why:
        return last_before([each for each in facts.sessions if each.state == "expired"], place, run)
    if kind == "Reelect" and deleted is not None:
        return deleted
    return term.event


def end_of_term(facts: TraceFacts, elected: declarations.ControllerElected) -> declarations.ControllerResigned | None:
    """Return the recorded end of this term; None if there is none."""
    for each in facts.terms():
        if each.place.run == elected.place.run and each.place > elected.place:
            return each if isinstance(each, declarations.ControllerResigned) else None
    return None


# ------------------------------------------------------------------------------------------------------------- clients


def _of_error(facts: TraceFacts, error: declarations.ErrorAnswered) -> Fact | None:
    """Return the cause of an error response: an injected fault, or the fact that explains the error code."""
    returned = [
        each
        for each in facts.faults
        if (each.place.run, each.api, each.client_id) == (error.place.run, error.api, error.client_id)
        and each.fault == "error"
        and each.value == error.code
    ]
    injected = last_before(returned, error.place)
    if injected is not None:
        return injected
    find = _CAUSES_OF_CODES.get(error.code)
    return None if find is None else find(facts, error)


def _isr_below_minimum(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.StateWrite | None:
    """Return the state write that made the ISR smaller than min.insync.replicas; None if the ISR is large enough."""
    partition = partition_named(error.subject)
    if partition is None:
        return None
    minimum = minimum_of(facts, partition, error.place)
    since: declarations.StateWrite | None = None
    for state in histories.state_history(facts, partition):
        if state.place > error.place:
            break
        small = len(state.isr) < minimum
        since = (since or state) if small else None
    return since


def minimum_of(facts: TraceFacts, partition: TopicPartition, until: declarations.TracePosition) -> int:
    """Return the last recorded min.insync.replicas of a partition; 1 if none is recorded."""
    found = last_before([each for each in facts.minimums if each.partition == partition], until)
    return 1 if found is None else found.replicas


def _leader_changed(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.StateWrite | None:
    partition = partition_named(error.subject)
    return None if partition is None else next(reversed(_leaders(facts, partition, error.place)), None)


def _leaders(
    facts: TraceFacts, partition: TopicPartition, until: declarations.TracePosition
) -> list[declarations.StateWrite]:
    """Return the partition's first state, and each later state with another leader than before, up to `until`."""
    found: list[declarations.StateWrite] = []
    for state in histories.state_history(facts, partition):
        if state.place <= until and (not found or state.leader != found[-1].leader):
            found.append(state)
    return found


def _fenced(facts: TraceFacts, error: declarations.ErrorAnswered) -> Fact | None:
    """Return the change that raised the producer's epoch above the epoch in the refused request."""
    if error.batch is None:
        return None
    producer, epoch = error.batch.producer_id, error.batch.producer_epoch
    return raised_epoch(facts, producer, epoch, error.place)


def raised_epoch(facts: TraceFacts, producer_id: int, epoch: int, until: declarations.TracePosition) -> Fact | None:
    """Return the first fact up to `until` that gave this producer id an epoch above `epoch`.

    The fact is a TransactionDecision or a successful InitProducerId request.
    """
    found: list[declarations.TransactionDecision | declarations.TransactionRequest] = [
        *(each for each in facts.decisions if not each.loaded),
        *(each for each in facts.transaction_requests if (each.api, each.code) == ("InitProducerId", errors.NONE)),
    ]
    newer = [
        each
        for each in found
        if each.producer_id == producer_id and each.producer_epoch > epoch and each.place <= until
    ]
    return min(newer, key=lambda each: each.place, default=None)


def _rebalanced(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.GroupStateChanged | None:
    states = [
        each
        for each in facts.group_states
        if each.group == error.group and each.state in ("PreparingRebalance", "Empty", "Dead")
    ]
    return last_before(states, error.place, error.place.run)


def _coordinator_moved(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.StateWrite | None:
    hosted = last_before([each for each in facts.hosted if each.group == error.group], error.place)
    return None if hosted is None else _log_led(facts, hosted.log, error.place)


def _disk_of(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.LogDirectoryFailed | None:
    return last_before(facts.failed_disks, error.place, error.place.run)


_CAUSES_OF_CODES: dict[int, Callable[[TraceFacts, declarations.ErrorAnswered], Fact | None]] = {
    errors.NOT_ENOUGH_REPLICAS: _isr_below_minimum,
    errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _isr_below_minimum,
    errors.NOT_LEADER_OR_FOLLOWER: _leader_changed,
    errors.LEADER_NOT_AVAILABLE: _leader_changed,
    errors.FENCED_LEADER_EPOCH: _leader_changed,
    errors.KAFKA_STORAGE_ERROR: _disk_of,
    errors.INVALID_PRODUCER_EPOCH: _fenced,
    errors.PRODUCER_FENCED: _fenced,
    errors.ILLEGAL_GENERATION: _rebalanced,
    errors.UNKNOWN_MEMBER_ID: _rebalanced,
    errors.REBALANCE_IN_PROGRESS: _rebalanced,
    errors.NOT_COORDINATOR: _coordinator_moved,
    errors.COORDINATOR_NOT_AVAILABLE: _coordinator_moved,
}
"""Error code -> the function that finds its cause. Other errors are caused by the request itself."""


def _of_group_state(facts: TraceFacts, changed: declarations.GroupStateChanged) -> Fact | None:
    """Return why a group's state changed: a member's action in the same event, or the last load of the group."""
    same = changed.place.run, changed.place.event_id
    actions = [
        each
        for each in facts.member_actions
        if each.group == changed.group and (each.place.run, each.place.event_id) == same
    ]
    if actions:
        return last_before(actions, changed.place)
    return last_before([each for each in facts.hosted if each.group == changed.group], changed.place)


def _of_hosted(facts: TraceFacts, hosted: declarations.GroupHosted) -> declarations.StateWrite | None:
    return _log_led(facts, hosted.log, hosted.place)


def _log_led(
    facts: TraceFacts, log: TopicPartition, until: declarations.TracePosition
) -> declarations.StateWrite | None:
    """Return the last change of the leader of a coordinator's partition.

    The election of the partition's first leader does not count as a change.
    """
    return next(reversed(_leaders(facts, log, until)[1:]), None)


def _of_decision(
    facts: TraceFacts, decision: declarations.TransactionDecision
) -> declarations.TransactionRequest | None:
    """Return the request that ended a transaction; None if a timeout ended it."""
    if decision.loaded or not decision.api:
        return None
    name, api = decision.transactional_id, decision.api
    asked = [each for each in facts.transaction_requests if (each.transactional_id, each.api) == (name, api)]
    same = [each for each in asked if each.place.event_id == decision.place.event_id]
    return same[-1] if same else last_before(asked, decision.place)


def _of_transaction_request(facts: TraceFacts, request: declarations.TransactionRequest) -> Fact | None:
    """Return the TransactionDecision or InitProducerId request that fenced a rejected request's producer, or None."""
    if request.code not in (errors.INVALID_PRODUCER_EPOCH, errors.PRODUCER_FENCED):
        return None
    return raised_epoch(facts, request.producer_id, request.producer_epoch, request.place)


CAUSES: dict[type, Callable[[TraceFacts, Any], Fact | None]] = {
    BrokerGone: _end_of_broker,
    declarations.NodeRun: _stop_of_run,
    declarations.NodeFailure: _of_failure,
    declarations.LogDirectoryFailed: _of_disk,
    declarations.SessionChanged: _of_session,
    declarations.RecordingGap: _of_gap,
    declarations.StateWrite: _of_unclean,
    declarations.FollowerLagged: _of_lag,
    declarations.LogTruncated: _of_truncation,
    declarations.ReplicasAssigned: _of_assignment,
    ReassignmentWaits: _of_waiting,
    DeletionBlocked: _of_blocked,
    declarations.StateChangeRefused: _of_refusal,
    declarations.TopicDeletionStep: _of_step,
    declarations.ControllerElected: _of_election,
    declarations.ControllerResigned: _of_resignation,
    declarations.ErrorAnswered: _of_error,
    declarations.GroupStateChanged: _of_group_state,
    declarations.GroupHosted: _of_hosted,
    declarations.TransactionDecision: _of_decision,
    declarations.TransactionRequest: _of_transaction_request,
}
"""Kind of fact -> the function that finds its cause. Faults, requests and acts of operators have none."""
