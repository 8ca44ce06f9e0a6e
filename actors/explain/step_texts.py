"""The text that describes each kind of fact in a chain of causes, and the remedy if the fact is the first cause.

Rule 1: `TEXTS` has a text for each kind of fact, and for its variants. A text can contain the fields of the fact,
        `node` (the id of the node that recorded the fact), and the fields in `_FIELDS`.
Rule 2: facts that can be the first cause of a chain have remedies. The first remedy whose condition holds at the end of
        the recording is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.explain.causes import BrokerCame, BrokerGone, DeletionBlocked, ReassignmentWaits
from actors.explain.fact_gathering import TraceFacts
from actors.explain.histories import (
    ids,
    is_down,
    is_of_last_run,
    is_registered,
    state_history,
)
from actors.explain.situation import Remedy, first_needed
from messages.cluster import NO_LEADER
from messages.error_codes import CONCURRENT_TRANSACTIONS, NONE, NOT_CONTROLLER
from messages.error_names import name_of
from messages.events import NOT_ELECTED
from messages.facts.declarations import (
    EXPIRED,
    JOINED,
    LEFT,
    NOT_JOINED,
    NOT_SYNCED,
    ControllerElected,
    ControllerEvent,
    ControllerResigned,
    ControllerZnodeDeleted,
    CoordinatorPartitionRead,
    ErrorAnswered,
    FetchFailed,
    FollowerLagged,
    GroupHosted,
    GroupMemberAction,
    GroupStateChanged,
    InjectedFaultReturned,
    LogDirectoryFailed,
    LogTruncated,
    NodeFailure,
    NodeFaultChange,
    NodeRun,
    RecordingGap,
    RegistrationTaken,
    ReplicasAssigned,
    ReplicationThrottled,
    RequestRefused,
    SessionChanged,
    StateChangeRefused,
    StateWrite,
    StopRequested,
    TopicDeletionStep,
    TracePosition,
    TransactionDecision,
    TransactionRequest,
)
from messages.store import CONNECTED
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


class StepText(NamedTuple):
    """The text that `why` prints for one kind of fact: a template, and the remedies if the fact is the first cause."""

    words: str
    remedies: tuple[Remedy, ...] = ()


def _down(name: str) -> Callable[[TraceFacts, Any], bool]:
    """Return the condition that the broker in this field of a fact is down; `node` is the node of the fact."""
    return lambda facts, fact: is_down(facts, fact.place.node if name == "node" else getattr(fact, name))


def _unregistered(facts: TraceFacts, fact: Any) -> bool:
    return not is_registered(facts, fact.place.node)


def _disconnected(facts: TraceFacts, changed: SessionChanged) -> bool:
    of_run = [each.state for each in facts.sessions if each.place.run == changed.place.run]
    return of_run[-1:] != [CONNECTED] and is_of_last_run(facts, changed.place)


def _never_registered_again(facts: TraceFacts, taken: RegistrationTaken) -> bool:
    node_runs = [each for each in facts.node_runs if each.place.node == taken.place.node]
    return not any(at > taken.place.at for node_run in node_runs for _, at in node_run.registered)


def _injected_still(facts: TraceFacts, fault: NodeFaultChange) -> bool:
    changes = [each for each in facts.node_faults if (each.place.run, each.fault) == (fault.place.run, fault.fault)]
    return changes[-1].change != "removed" and is_of_last_run(facts, fault.place)


def _out_of_isr(facts: TraceFacts, lagged: FollowerLagged) -> bool:
    history = state_history(facts, lagged.partition)
    return bool(history) and lagged.broker not in history[-1].isr


def _not_joined_again(facts: TraceFacts, action: GroupMemberAction) -> bool:
    return not has_joined(facts, action.group, action.client_id, action.place)


def has_joined(facts: TraceFacts, group: str, client_id: str, since: TracePosition) -> bool:
    """Return whether a client joined a group after a position."""
    actions = [each for each in facts.member_actions if (each.group, each.client_id) == (group, client_id)]
    return any(each.action == JOINED and each.place > since for each in actions)


NO_CAUSE = "; the trace does not show why"
START = (Remedy("Start broker {node} again.", _down("node")),)
FAULT = "Remove the injected fault"

TEXTS: dict[tuple[type, str], StepText] = {
    (NodeRun, KILLED): StepText("broker {node} was killed or crashed (its trace ends without a stop)", START),
    (NodeRun, STOPPED): StepText("broker {node} was stopped", START),
    (NodeRun, ""): StepText("the trace of broker {node} ends: {ending}"),
    (NodeFailure, ""): StepText(
        "broker {node} ended itself ({reason})",
        (Remedy("Repair what the reason names, then start broker {node} again.", _down("node")),),
    ),
    (RegistrationTaken, ""): StepText(
        "a process with the id of broker {node} could not register: another live session (0x{owner:x}) owns"
        " /brokers/ids/{node}",
        (
            Remedy(
                "Stop the other process with broker.id={node}, or give one of them another id.",
                _never_registered_again,
            ),
        ),
    ),
    (LogDirectoryFailed, ""): StepText(
        "the log directory of {partition} on broker {node} failed: {error}",
        (
            Remedy(
                "Repair or replace the disk of broker {node}, then start it again.",
                lambda facts, failed: is_of_last_run(facts, failed.place),
            ),
        ),
    ),
    (StopRequested, ""): StepText("broker {node} was asked to stop (a stop signal or command)", START),
    (SessionChanged, "expired"): StepText(
        "the ZooKeeper session of broker {node} expired while its process ran",
        (
            Remedy(
                "Broker {node} registers again by itself; find who ended the session, or what held it up.",
                lambda facts, expired: _unregistered(facts, expired) and is_of_last_run(facts, expired.place),
            ),
            Remedy("Find who ended the session, or what held it up."),
        ),
    ),
    (SessionChanged, "suspended"): StepText(
        "broker {node} lost its connection to ZooKeeper",
        (Remedy("Repair ZooKeeper or the network between it and the broker.", _disconnected),),
    ),
    (RecordingGap, ""): StepText(
        "broker {node} did not run while its ZooKeeper session ended (its process was suspended or held up for up to"
        " {seconds:.1f} s)",
        (
            Remedy(
                "Let broker {node} continue, and find what suspended it (SIGSTOP, a debugger, swapping, a slow disk).",
                _unregistered,
            ),
            Remedy("Find what suspended broker {node} (SIGSTOP, a debugger, swapping, a slow disk)."),
        ),
    ),
    (NodeFaultChange, ""): StepText(
        "a test injected the fault '{fault}' into broker {node}", (Remedy(f"{FAULT}.", _injected_still),)
    ),
    (InjectedFaultReturned, ""): StepText(
        "a test injected the fault '{fault}' into {api} of client {client_id} at broker {node}",
        (Remedy(f"{FAULT} if it is still there."),),  # the removal of such a fault is not recorded
    ),
    (BrokerGone, "timeout"): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone, {late:.1f} s after its last record: its"
        " ZooKeeper session had to time out first"
    ),
    (BrokerGone, ""): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone",
        (Remedy("Start broker {broker} if it is down.", _down("broker")),),
    ),
    (BrokerCame, ""): StepText("broker {broker} registered, which controller {by} noticed through {event}"),
    (StateWrite, "lost"): StepText("{partition} lost its leader: {by} wrote leader none, ISR {isr}, epoch {epoch}"),
    (StateWrite, "found"): StepText(
        "{by} found in ZooKeeper: {partition} has leader {leader}, ISR {isr}, epoch {epoch}"
    ),
    (StateWrite, ""): StepText("{by} wrote the state of {partition}: leader {leader}, ISR {isr}, epoch {epoch}"),
    (FollowerLagged, "silent"): StepText(
        "leader {leader} removed broker {broker} from the ISR of {partition}: it had offset {end} of {leader_end}, its"
        " last fetch was {fetched_ago:.3f} s ago, and it was not caught up for {caught_up_ago:.3f} s (limit {lag:g} s)",
        (Remedy("Find what slows broker {broker} or its connection to broker {leader}.", _out_of_isr),),
    ),
    (FollowerLagged, "never"): StepText(
        "leader {leader} removed broker {broker} from the ISR of {partition}: it never fetched since broker {leader}"
        " leads (limit {lag:g} s)",
        (
            Remedy("Start broker {broker}.", _down("broker")),
            Remedy("Find why broker {broker} does not fetch from broker {leader}.", _out_of_isr),
        ),
    ),
    (FetchFailed, ""): StepText(
        "broker {node} could not fetch from broker {leader}: {reason}",
        (
            Remedy(
                "Check the network between broker {node} and broker {leader}.",
                lambda facts, failed: is_registered(facts, failed.place.node) and is_registered(facts, failed.leader),
            ),
        ),
    ),
    (ReplicationThrottled, ""): StepText(
        "a throttle limits the replication of {partitions} at broker {node} as {side} to {rate} bytes per second",
        (Remedy("Raise the rate of the throttle, or remove it when the reassignment is complete."),),
    ),
    (StateChangeRefused, "not elected"): StepText("controller {node} could not {what} for {partition}: {why}"),
    (StateChangeRefused, ""): StepText(
        "controller {node} could not {what} for {partition}: {why}",
        (Remedy("Correct what this reason names, then let a new controller be elected."),),
    ),
    (ReplicasAssigned, ""): StepText("the replicas of {partition} were set to {replicas}, adding {adding}"),
    (ReassignmentWaits, ""): StepText(
        "the reassignment of {partition} waits for broker {broker}, which is not in the ISR {isr}",
        (Remedy("Start broker {broker}, or cancel the reassignment.", _down("broker")),),
    ),
    (DeletionBlocked, "gone"): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} is not alive",
        (Remedy("Start broker {broker}.", _down("broker")),),
    ),
    (DeletionBlocked, ""): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} answered {error_name}",
        (Remedy("Repair broker {broker}; the controller tries again when it registers."),),
    ),
    (TopicDeletionStep, "asked"): StepText("the deletion of {topics} was requested at broker {node}"),
    (TopicDeletionStep, "queued"): StepText("the controller queued {topics} for deletion"),
    (TopicDeletionStep, "ineligible"): StepText("{topics} became ineligible for deletion"),
    (TopicDeletionStep, "deleted"): StepText("the znodes of {topics} were removed"),
    (LogTruncated, ""): StepText("broker {node} cut {cut} of {partition} off, which its leader did not have"),
    (ControllerElected, ""): StepText("broker {broker} became controller (epoch {epoch})"),
    (ControllerResigned, ""): StepText("broker {broker} ceased to be controller"),
    (ControllerZnodeDeleted, ""): StepText(
        "/controller was deleted in ZooKeeper by another client, although the session of controller {node} lived",
        (Remedy("Find the client of ZooKeeper that deletes /controller."),),
    ),
    (ControllerEvent, ""): StepText("controller {node} handled {self}"),
    (RequestRefused, ""): StepText(
        "{request} was refused: {reason}", (Remedy("Correct the request as the reason says, and send it again."),)
    ),
    (RequestRefused, "elsewhere"): StepText(
        "{request} was refused: {reason}", (Remedy("Send the request to the controller."),)
    ),
    (ErrorAnswered, "batch"): StepText(
        "broker {node} refused {api} of {sender} for {subject}: {error_name}{sequences}"
    ),
    (ErrorAnswered, ""): StepText("broker {node} answered {api} of {sender} with {error_name}"),
    (GroupHosted, ""): StepText("broker {node} became the coordinator of group {group}, whose log is {log}"),
    (CoordinatorPartitionRead, ""): StepText("broker {node} could not read {unreadable} batches of {partition}"),
    (GroupStateChanged, "PreparingRebalance"): StepText("group {group} began a rebalance"),
    (GroupStateChanged, "Empty"): StepText("group {group} has no members"),
    (GroupStateChanged, ""): StepText("group {group} became {state}"),
    (GroupMemberAction, JOINED): StepText("client {client_id} joined group {group}"),
    (GroupMemberAction, LEFT): StepText("client {client_id} left group {group}"),
    (GroupMemberAction, EXPIRED): StepText(
        "client {client_id} sent no heartbeat to group {group} for its session timeout of {timeout_s:g} s",
        (Remedy("Start the client again, or find what keeps it from sending heartbeats.", _not_joined_again),),
    ),
    (GroupMemberAction, NOT_JOINED): StepText("the time to join group {group} was over"),
    (GroupMemberAction, NOT_SYNCED): StepText("the time to synchronise group {group} was over"),
    (TransactionDecision, "timeout"): StepText(
        "the coordinator aborted the transaction of {transactional_id} (producer epoch {producer_epoch}): its timeout"
        " was over",
        (Remedy("End transactions within transaction.timeout.ms, or raise it."),),
    ),
    (TransactionDecision, "fenced"): StepText(
        "the coordinator aborted the transaction of {transactional_id}: a new producer with its id began"
    ),
    (TransactionDecision, ""): StepText("the coordinator {ended} the transaction of {transactional_id}"),
    (TransactionRequest, "begun"): StepText(
        "{sender} began with transactional id {transactional_id}: InitProducerId returned producer id {producer_id},"
        " epoch {producer_epoch}"
    ),
    (TransactionRequest, ""): StepText("{sender} sent {api} for {transactional_id}"),
    (TransactionRequest, "fences"): StepText(
        "{sender} began a new producer with transactional id {transactional_id} (InitProducerId), which fences others"
    ),
    (TransactionRequest, "refused"): StepText(
        "{api} of {sender} for {transactional_id} (producer epoch {producer_epoch}) was refused: {error_name}"
    ),
}
"""(Kind of fact, variant) -> its text. A variant without an entry has the text of the variant ""."""

_VARIANTS: dict[type, Callable[[Any], str]] = {
    NodeRun: lambda run: run.ending,
    SessionChanged: lambda changed: changed.state,
    BrokerGone: lambda gone: "timeout" if gone.late else "",
    StateWrite: lambda state: "found" if state.read else "lost" if state.leader == NO_LEADER else "",
    FollowerLagged: lambda lagged: "never" if lagged.end < 0 else "silent",
    DeletionBlocked: lambda blocked: "" if blocked.code else "gone",
    TopicDeletionStep: lambda step: step.step,
    ErrorAnswered: lambda error: "batch" if error.subject else "",
    GroupStateChanged: lambda changed: changed.state,
    GroupMemberAction: lambda action: action.action,
    StateChangeRefused: lambda refused: "not elected" if refused.why.startswith(NOT_ELECTED) else "",
    RequestRefused: lambda refused: "elsewhere" if refused.code == NOT_CONTROLLER else "",
    TransactionDecision: lambda decision: (
        "" if decision.commit or decision.api == "EndTxn" else "fenced" if decision.api else "timeout"
    ),
    TransactionRequest: lambda request: _request_variant(request.api, request.code),
}


def _request_variant(api: str, code: int) -> str:
    if api == "InitProducerId":
        return {NONE: "begun", CONCURRENT_TRANSACTIONS: "fences"}.get(code, "refused")
    return "refused" if code else ""


def _sender(fact: Any) -> str:
    return f"client {fact.client_id}" if fact.client_id else "a client"


def _sequences(error: ErrorAnswered) -> str:
    """Return the producer id, epoch and sequence number of a refused batch as text; "" if there is no batch."""
    if error.batch is None:
        return ""
    producer, epoch, sequence, expected = error.batch
    wanted = f", expected {expected}" if expected >= 0 else ""
    return f" (producer id {producer}, epoch {epoch}, sequence {sequence}{wanted})"


def _throttled(throttle: ReplicationThrottled) -> str:
    """Return the throttled partitions as text."""
    return ", ".join(
        f"all partitions of {topic}" if numbers is None else ", ".join(f"{topic}-{number}" for number in numbers)
        for topic, numbers in throttle.topics.items()
        if numbers != ()
    )


def cut_off(cut: LogTruncated) -> str:
    """Return the offsets that a truncation removed, as text."""
    return f"offsets {cut.to} to {cut.end - 1}" if cut.end > cut.to else f"what came from offset {cut.to} on"


def reason_of(refused: RequestRefused) -> str:
    """Return why a request was refused, with the name of the error code."""
    return f"{refused.why} ({name_of(refused.code)})" if refused.why else name_of(refused.code)


_FIELDS: dict[type, Callable[[Any], dict[str, Any]]] = {
    DeletionBlocked: lambda blocked: {"error_name": name_of(blocked.code)},
    ErrorAnswered: lambda error: {
        "error_name": name_of(error.code),
        "sender": _sender(error),
        "sequences": _sequences(error),
    },
    GroupMemberAction: lambda action: {
        "client_id": action.client_id or action.member or "?",
        "timeout_s": action.timeout_ms / 1000,
    },
    LogTruncated: lambda cut: {"cut": cut_off(cut)},
    ReplicationThrottled: lambda throttle: {"partitions": _throttled(throttle)},
    RequestRefused: lambda refused: {"reason": reason_of(refused)},
    TransactionDecision: lambda decision: {"ended": "committed" if decision.commit else "aborted"},
    TransactionRequest: lambda request: {"error_name": name_of(request.code), "sender": _sender(request)},
}


def text_of(fact: Any) -> str:
    """Return the text for a fact in a chain of causes."""
    return _template(fact).words.format(**_values(fact))


def remedy_for(facts: TraceFacts, fact: Any) -> str:
    """Return the advice for operators if this fact is the first cause; "" if none is needed any more."""
    return first_needed(_template(fact).remedies, facts, fact, _values(fact))


def _template(fact: Any) -> StepText:
    kind = type(fact)
    variant = _VARIANTS[kind](fact) if kind in _VARIANTS else ""
    return TEXTS.get((kind, variant)) or TEXTS[kind, ""]


def _values(fact: Any) -> dict[str, Any]:
    values = {name: _shown(value) for name, value in fact._asdict().items()}
    more = _FIELDS.get(type(fact))
    return {**values, "node": fact.place.node, "self": fact, **({} if more is None else more(fact))}


def _shown(value: Any) -> Any:
    """Return a fact's value as a text shows it: broker ids as `[1, 2]`, names as `a, b`."""
    if type(value) is tuple:
        return ids(value) if all(isinstance(each, int) for each in value) else ", ".join(map(str, value))
    return "an event that is not recorded" if value is None else value
