"""Find the cause of a fact in a trace, then the cause of this cause, back to the first fault, request or action.

Rule 1: a chain consists of facts. For each kind of fact, `CAUSES` has the function that finds the cause of such a fact.
        The chain ends at the first cause, a fact whose cause is None.
Rule 2: a cause lies before its effect and is shown by a recorded delivery; nothing is guessed. If the trace does not
        show the cause of a fact, the chain ends at this fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from messages import errors
from messages.cluster import NO_LEADER, TopicPartition, partition_named
from messages.events import NOT_ELECTED, READ_STATE
from messages.facts import declarations, histories
from messages.facts.trace_facts import TraceFacts, last_before
from messages.store import CONNECTED, EXPIRED, SUSPENDED
from messages.trace.schema import STOPPED

DISK_FAULTS = ("full_disk", "broken_disk")
SESSION_FAULTS = ("pause",)
FOLLOWER_FAULTS = ("pause", "mute", "slow_disk")


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


# --------------------------------------------------------------------------------------------------- how a broker went


def gone_at_end(facts: TraceFacts, broker: int) -> declarations.BrokerGone | None:
    """Return the observation that a broker is gone, if it is not registered at the end of the recording."""
    is_here = histories.is_registered(facts, broker)
    return None if is_here else histories.broker_gone(facts, broker, histories.end_of_record(facts))


def _gap(facts: TraceFacts, node: int, begin: float, end: float) -> declarations.RecordingGap | None:
    """Return the last gap in the node's recording that overlaps the interval from `begin` to `end`."""
    gaps = reversed(facts.select(declarations.RecordingGap, node=node))
    return next((each for each in gaps if each.place.at >= begin and each.began <= end), None)


def _latest_injection(
    facts: TraceFacts, node: int, kinds: Iterable[str], begin: float, end: float
) -> declarations.NodeFaultChange | None:
    """Return the latest injection of a fault of these kinds that was active at the node between `begin` and `end`.

    Of the node's runs that began before `end`, only the last is considered, because the removal of a fault is not
    recorded while its node is dead.
    """
    node_runs = [node_run for node_run in facts.select(declarations.NodeRun, node=node) if node_run.began <= end]
    run = max(node_runs, key=lambda node_run: node_run.began).place.run if node_runs else ""
    active: dict[str, declarations.NodeFaultChange] = {}
    for each in facts.select(declarations.NodeFaultChange):
        if each.place.run != run or each.fault not in kinds or each.place.at > end:
            continue
        if each.change == "injected":
            active[each.fault] = each
        elif each.change == "removed" and each.place.at < begin:
            active.pop(each.fault, None)
    return max(active.values(), key=lambda each: each.place, default=None)


def _stop_of_run(facts: TraceFacts, node_run: declarations.NodeRun) -> declarations.StopRequested | None:
    place = node_run.place
    return facts.last(declarations.StopRequested, place, run=place.run) if node_run.ending == STOPPED else None


def _of_failure(facts: TraceFacts, failure: declarations.NodeFailure) -> Fact | None:
    run = failure.place.run
    return facts.last(declarations.LogDirectoryFailed, failure.place, run=run) or facts.last(
        declarations.RegistrationTaken, failure.place, run=run
    )


def _of_session(facts: TraceFacts, changed: declarations.SessionChanged) -> Fact | None:
    """Return why a session expired.

    The possible causes: a test expired the session, the node did not run, or it had no connection to ZooKeeper. A
    controller noticed the end of the registration that the session owned; while a node is suspended, it notices this
    before the node loses its connection.
    """
    if changed.state != EXPIRED:
        return None
    run, place = changed.place.run, changed.place
    of_run = [each for each in facts.select(declarations.SessionChanged, run=run) if each.place < place]
    connected = next((each.place.at for each in reversed(of_run) if each.state == CONNECTED), 0.0)
    suspended = of_run[-1] if of_run and of_run[-1].state == SUSPENDED else None
    lost = (suspended or changed).place
    ended = [
        each for each in histories.absences(facts, place.node) if histories.end_of_registration(facts, each) == changed
    ]
    noticed = min(ended[0].noticed, lost) if ended else lost
    fault = _latest_injection(facts, place.node, SESSION_FAULTS, noticed.at, place.at)
    expiry = _latest_injection(facts, place.node, ("session_expiry",), connected, place.at)
    gap = facts.last(declarations.RecordingGap, lost, run=run)
    silent = gap if noticed < lost and gap is not None and gap.began <= noticed.at else None
    return expiry or fault or silent or suspended


# --------------------------------------------------------------------------------------------------------- partitions


def before_of(facts: TraceFacts, state: declarations.StateWrite) -> declarations.StateWrite | None:
    """Return the partition's previous state; None if it is not recorded."""
    pairs = pairwise(histories.state_history(facts, state.partition))
    return next(
        (before for before, after in pairs if (after.place, after.version) == (state.place, state.version)), None
    )


def _of_state(facts: TraceFacts, state: declarations.StateWrite) -> Fact | None:
    """Return why a state was written.

    The cause is a lagging follower, a broker that disappeared or returned, or the event that the controller handled.
    The reason for an unclean election is the loss of the previous leader.
    """
    before = before_of(facts, state)
    if before is not None and before.leader == NO_LEADER and state.leader not in (NO_LEADER, *before.isr):
        return histories.led_since(facts, before)
    event = state.event
    if event is not None and event.kind == "ControlledShutdownRequest" and event.about.isdigit():
        return facts.last(declarations.StopRequested, event.place, node=int(event.about)) or event
    if before is None:
        return event
    moved = [before.leader] if before.leader not in (state.leader, NO_LEADER) else []
    reasons = [
        histories.reason_to_leave(facts, state, broker)
        for broker in (*moved, *before.isr)
        if broker in moved or broker not in state.isr
    ]
    reason = next((each for each in reasons if each not in (None, event)), None)
    came = _registration_of_leader(facts, state) if before.leader == NO_LEADER else None
    return reason or came or event


def _registration_of_leader(facts: TraceFacts, state: declarations.StateWrite) -> declarations.BrokerCame | None:
    """Return the registration by which the new leader became electable."""
    came = None
    for before, seen in pairwise(facts.select(declarations.BrokersRead)):
        if seen.place > state.place:
            break
        if seen.brokers.get(state.leader) not in (None, before.brokers.get(state.leader)):
            came = declarations.BrokerCame(seen.place, state.leader, seen.by, seen.event)
    return came


def _of_lag(facts: TraceFacts, lagged: declarations.FollowerLagged) -> Fact | None:
    """Return why a follower was behind: its process ended, was suspended or slow, or could not reach its leader."""
    place, broker, leader = lagged.place, lagged.broker, lagged.leader
    begin = place.at - max(lagged.lag, lagged.caught_up_ago, 0.0)
    node_runs = [each for each in facts.select(declarations.NodeRun, node=broker) if each.began <= place.at]
    last = max(node_runs, key=lambda each: each.began, default=None)
    if last is not None and last.end <= place.at:
        return facts.last(declarations.NodeFailure, last.place, run=last.place.run) or last
    fault = _latest_injection(facts, broker, FOLLOWER_FAULTS, begin, place.at) or _latest_injection(
        facts, leader, FOLLOWER_FAULTS, begin, place.at
    )
    fetcher = f"broker-{broker}-"
    returned = [
        each
        for each in facts.select(declarations.InjectedFaultReturned, node=leader)
        if each.client_id.startswith(fetcher) and begin <= each.place.at <= place.at
    ]
    gap = _gap(facts, broker, begin, place.at) or _gap(facts, leader, begin, place.at)
    if fault is not None or gap is not None or returned:
        return fault or gap or returned[0]
    failed = [
        each
        for each in facts.select(declarations.FetchFailed, node=broker, leader=leader)
        if begin <= each.place.at <= place.at
    ]
    return failed[0] if failed else None


def _of_truncation(facts: TraceFacts, cut: declarations.LogTruncated) -> declarations.StateWrite | None:
    """Return the election that caused a truncation.

    The cause is the partition's last unclean election before the truncation. If no election was unclean, the result is
    the partition's first change of leader. If the leader did not change before the truncation, the result is None.
    """
    changed = None
    for before, state in pairwise(histories.state_history(facts, cut.partition)):
        if state.place > cut.place:
            break
        if state.leader not in (NO_LEADER, before.leader) and (changed is None or state.leader not in before.isr):
            changed = state
    return changed


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
    failed = [each for each in facts.select(declarations.FetchFailed, node=waits.broker) if each.place > waits.place]
    return failed[0] if failed else histories.assignment_of(facts, waits.partition)


def throttle_of(
    facts: TraceFacts, partition: TopicPartition, follower: int, leader: int
) -> declarations.ReplicationThrottled | None:
    """Return the throttle that limits the replication from the leader to the follower at the end of the recording."""
    last: dict[tuple[int, str], declarations.ReplicationThrottled] = {}
    for each in facts.select(declarations.ReplicationThrottled):
        if histories.is_of_last_run(facts, each.place):
            last[each.place.node, each.side] = each
    found = (last.get((follower, "follower")), last.get((leader, "leader")))
    return next((each for each in found if each is not None and each.concerns(partition)), None)


def refusal_of(
    facts: TraceFacts, partition: TopicPartition, since: declarations.TracePosition
) -> declarations.StateChangeRefused | None:
    """Return the controller's last refusal to change the partition's state since a position, or None."""
    refused = facts.last(declarations.StateChangeRefused, histories.end_of_record(facts), partition=partition)
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
            for each in facts.select(declarations.LogDirectoryFailed)
            if each.place.node in isr and histories.is_of_last_run(facts, each.place)
        ]
        return last_before(failed, refused.place)
    wanted = {"run": refused.place.run, "partition": refused.partition, "what": READ_STATE}
    return facts.last(declarations.StateChangeRefused, refused.place, **wanted)


def _of_blocked(facts: TraceFacts, blocked: DeletionBlocked) -> Fact | None:
    if blocked.code != errors.NONE:
        return facts.last(declarations.LogDirectoryFailed, blocked.place, node=blocked.broker)
    return gone_at_end(facts, blocked.broker)


def _of_step(facts: TraceFacts, step: declarations.TopicDeletionStep) -> Fact | None:
    """Return the recorded request that led to this step of a topic deletion, or else the controller's event."""
    asked = [
        each
        for each in facts.select(declarations.TopicDeletionStep, step="asked")
        if set(each.topics) & set(step.topics)
    ]
    if step.step != "asked":
        return last_before(asked, step.place) or step.event
    return step.event


# -------------------------------------------------------------------------------------------------------- controllers


def _of_election(facts: TraceFacts, elected: declarations.ControllerElected) -> declarations.ControllerResigned | None:
    """Return the end of the previous controller's term."""
    earlier = [each for each in facts.terms if each.place < elected.place]
    return earlier[-1].ended if earlier else None


def _of_resignation(facts: TraceFacts, term: declarations.ControllerResigned) -> Fact | None:
    """Return why a controller's term ended."""
    run, place = term.place.run, term.place
    node_run = next(iter(facts.select(declarations.NodeRun, run=run)), None)
    deleted = facts.last(declarations.ControllerZnodeDeleted, place, run=run)
    kind = term.event.kind if term.event is not None else ""
    if "killed" in term.why:
        return node_run
    if kind == "ControllerShutdown" or "stopped" in term.why:
        failure = facts.last(declarations.NodeFailure, place, run=run)
        return failure or facts.last(declarations.StopRequested, place, run=run) or node_run
    if kind == "SessionExpired" or "session" in term.why:
        return facts.last(declarations.SessionChanged, place, state=EXPIRED, run=run)
    if kind == "Reelect" and deleted is not None:
        return deleted
    return term.event


# ------------------------------------------------------------------------------------------------------------- clients


def _of_error(facts: TraceFacts, error: declarations.ErrorAnswered) -> Fact | None:
    """Return the cause of an error response: an injected fault, or the fact that explains the error code."""
    wanted = {"run": error.place.run, "api": error.api, "client_id": error.client_id, "value": error.code}
    injected = facts.last(declarations.InjectedFaultReturned, error.place, fault="error", **wanted)
    if injected is not None:
        return injected
    find = _CAUSES_OF_CODES.get(error.code)
    return None if find is None else find(facts, error)


def _isr_below_minimum(facts: TraceFacts, error: declarations.ErrorAnswered) -> Fact | None:
    """Return what made the ISR smaller than min.insync.replicas, a state or a config; None if it is large enough."""
    partition = partition_named(error.subject)
    if partition is None:
        return None
    minimum = minimum_of(facts, partition, error.place)
    since: declarations.StateWrite | None = None
    for state in histories.state_history(facts, partition):
        if state.place > error.place:
            break
        since = (since or state) if len(state.isr) < minimum else None
    raised = _config("min.insync.replicas")(facts, error)
    return raised if raised is not None and since is not None and raised.place > since.place else since


RETENTION = ("retention.ms", "retention.bytes", "log.retention.ms", "log.retention.bytes", "cleanup.policy")


def _config(*names: str) -> Callable[[TraceFacts, declarations.ErrorAnswered], declarations.OverridesChanged | None]:
    """Return a function that finds the last change of these configs before an error."""
    return lambda facts, error: changed_config(facts, partition_named(error.subject), error.place, names)


def changed_config(
    facts: TraceFacts, partition: TopicPartition | None, until: declarations.TracePosition, names: Sequence[str]
) -> declarations.OverridesChanged | None:
    """Return the last change of these configs up to a position, of the partition's topic, of this node or of all."""
    resources = "broker <default>", f"broker {until.node}", f"topic {partition and partition.topic}"
    changes = [each for each in facts.select(declarations.OverridesChanged) if each.resource in resources]
    return last_before((each for each in changes if not each.changes.keys().isdisjoint(names)), until)


def _log_start(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.LogStartMoved | None:
    partition = partition_named(error.subject)
    return facts.last(declarations.LogStartMoved, error.place, partition=partition, run=error.place.run)


def _of_log_start(facts: TraceFacts, moved: declarations.LogStartMoved) -> declarations.OverridesChanged | None:
    """Return the last change of the topic's retention before records were removed."""
    is_expiry = moved.how == declarations.RETAINED
    return changed_config(facts, moved.partition, moved.place, RETENTION) if is_expiry else None


def minimum_of(facts: TraceFacts, partition: TopicPartition, until: declarations.TracePosition) -> int:
    """Return the last recorded min.insync.replicas of a partition; 1 if none is recorded."""
    found = facts.last(declarations.MinInsyncReplicas, until, partition=partition)
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


def _epoch_change(facts: TraceFacts, error: declarations.ErrorAnswered) -> Fact | None:
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
        *(each for each in facts.select(declarations.TransactionDecision) if not each.loaded),
        *(each for each in facts.select(declarations.TransactionRequest, api="InitProducerId", code=errors.NONE)),
    ]
    newer = [
        each
        for each in found
        if each.producer_id == producer_id and each.producer_epoch > epoch and each.place <= until
    ]
    return min(newer, key=lambda each: each.place, default=None)


def _rebalance_before(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.GroupStateChanged | None:
    states = [
        each
        for each in facts.select(declarations.GroupStateChanged, run=error.place.run, group=error.group)
        if each.state in ("PreparingRebalance", "Empty", "Dead")
    ]
    return last_before(states, error.place)


def _coordinator_moved(facts: TraceFacts, error: declarations.ErrorAnswered) -> declarations.StateWrite | None:
    hosted = facts.last(declarations.GroupHosted, error.place, group=error.group)
    return None if hosted is None else _log_led(facts, hosted.log, error.place)


_CAUSES_OF_CODES: dict[int, Callable[[TraceFacts, declarations.ErrorAnswered], Fact | None]] = {
    errors.NOT_ENOUGH_REPLICAS: _isr_below_minimum,
    errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: _isr_below_minimum,
    errors.OFFSET_OUT_OF_RANGE: _log_start,
    errors.MESSAGE_TOO_LARGE: _config("max.message.bytes", "message.max.bytes"),
    errors.RECORD_LIST_TOO_LARGE: _config("segment.bytes", "log.segment.bytes"),
    errors.INVALID_TIMESTAMP: _config("message.timestamp.difference.max.ms", "log.message.timestamp.difference.max.ms"),
    errors.INVALID_RECORD: _config("cleanup.policy", "log.cleanup.policy"),
    errors.NOT_LEADER_OR_FOLLOWER: _leader_changed,
    errors.LEADER_NOT_AVAILABLE: _leader_changed,
    errors.FENCED_LEADER_EPOCH: _leader_changed,
    errors.KAFKA_STORAGE_ERROR: lambda facts, error: facts.last(
        declarations.LogDirectoryFailed, error.place, run=error.place.run
    ),
    errors.INVALID_PRODUCER_EPOCH: _epoch_change,
    errors.PRODUCER_FENCED: _epoch_change,
    errors.ILLEGAL_GENERATION: _rebalance_before,
    errors.UNKNOWN_MEMBER_ID: _rebalance_before,
    errors.REBALANCE_IN_PROGRESS: _rebalance_before,
    errors.NOT_COORDINATOR: _coordinator_moved,
    errors.COORDINATOR_NOT_AVAILABLE: _coordinator_moved,
}
"""Error code -> the function that finds its cause. Other errors are caused by the request itself."""


def _of_group_state(facts: TraceFacts, changed: declarations.GroupStateChanged) -> Fact | None:
    """Return why a group's state changed: a member's action in the same event, or the last load of the group."""
    same = {"run": changed.place.run, "event_id": changed.place.event_id}
    actions = facts.select(declarations.GroupMemberAction, group=changed.group, **same)
    if actions:
        return last_before(actions, changed.place)
    return facts.last(declarations.GroupHosted, changed.place, group=changed.group)


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
    wanted = {"run": decision.place.run, "event_id": decision.place.event_id, "api": decision.api}
    name = decision.transactional_id
    return next(iter(facts.select(declarations.TransactionRequest, transactional_id=name, **wanted)), None)


def _of_transaction_request(facts: TraceFacts, request: declarations.TransactionRequest) -> Fact | None:
    """Return the TransactionDecision or InitProducerId request that fenced a rejected request's producer, or None."""
    if request.code not in (errors.INVALID_PRODUCER_EPOCH, errors.PRODUCER_FENCED):
        return None
    return raised_epoch(facts, request.producer_id, request.producer_epoch, request.place)


CAUSES: dict[type, Callable[[TraceFacts, Any], Fact | None]] = {
    declarations.BrokerGone: histories.end_of_registration,
    declarations.NodeRun: _stop_of_run,
    declarations.NodeFailure: _of_failure,
    declarations.LogDirectoryFailed: lambda facts, failed: _latest_injection(
        facts, failed.place.node, DISK_FAULTS, failed.place.at, failed.place.at
    ),
    declarations.SessionChanged: _of_session,
    declarations.RecordingGap: lambda facts, gap: _latest_injection(
        facts, gap.place.node, SESSION_FAULTS, gap.began, gap.place.at
    ),
    declarations.StateWrite: _of_state,
    declarations.FollowerLagged: _of_lag,
    declarations.LogTruncated: _of_truncation,
    declarations.LogStartMoved: _of_log_start,
    declarations.LogPartCleaned: lambda facts, cleaned: changed_config(
        facts, cleaned.partition, cleaned.place, ("cleanup.policy",)
    ),
    declarations.ReplicasAssigned: lambda facts, assigned: assigned.event,
    ReassignmentWaits: _of_waiting,
    DeletionBlocked: _of_blocked,
    declarations.StateChangeRefused: _of_refusal,
    declarations.TopicDeletionStep: _of_step,
    declarations.ControllerElected: _of_election,
    declarations.ControllerResigned: _of_resignation,
    declarations.ErrorAnswered: _of_error,
    declarations.GroupStateChanged: _of_group_state,
    declarations.GroupHosted: lambda facts, hosted: _log_led(facts, hosted.log, hosted.place),
    declarations.TransactionDecision: _of_decision,
    declarations.TransactionRequest: _of_transaction_request,
}
"""Kind of fact -> the function that finds its cause. Faults, requests and acts of operators have none."""
