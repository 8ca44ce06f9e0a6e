"""The text that describes each kind of fact in a chain of causes, and the remedy if the fact is the first cause.

Rule 1: `TEXTS` has a text for each kind of fact, and for its variants. A text can contain the fields of the fact,
        `node` (the id of the node that recorded the fact), and the fields in `_FIELDS`.
Rule 2: facts that can be the first cause of a chain have a remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from actors.explain.causes import BrokerCame, BrokerGone, DeletionBlocked, ReassignmentWaits
from actors.explain.histories import ids
from messages.cluster import NO_LEADER
from messages.error_codes import CONCURRENT_TRANSACTIONS, NONE
from messages.error_names import name_of
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
    RequestRefused,
    SessionChanged,
    StateWrite,
    StopRequested,
    TopicDeletionStep,
    TransactionDecision,
    TransactionRequest,
)
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


class StepText(NamedTuple):
    """The text that `why` prints for one kind of fact: a template, and a remedy if the fact is the first cause."""

    words: str
    remedy: str = ""


START = "Start broker {node} again."
FAULT = "Remove the injected fault."

TEXTS: dict[tuple[type, str], StepText] = {
    (NodeRun, KILLED): StepText("broker {node} was killed or crashed (its trace ends without a stop)", START),
    (NodeRun, STOPPED): StepText("broker {node} was stopped", START),
    (NodeRun, ""): StepText("the trace of broker {node} ends: {ending}"),
    (NodeFailure, ""): StepText(
        "broker {node} ended itself ({reason})", "Repair what the reason names, then start broker {node} again."
    ),
    (RegistrationTaken, ""): StepText(
        "a process with the id of broker {node} could not register: another live session (0x{owner:x}) owns"
        " /brokers/ids/{node}",
        "Stop the other process with broker.id={node}, or give one of them another id.",
    ),
    (LogDirectoryFailed, ""): StepText(
        "the log directory of {partition} on broker {node} failed: {error}",
        "Repair or replace the disk of broker {node}, then start it again.",
    ),
    (StopRequested, ""): StepText("broker {node} was asked to stop (a stop signal or command)", START),
    (SessionChanged, "expired"): StepText(
        "the ZooKeeper session of broker {node} expired while its process ran",
        "Broker {node} registers again by itself; find who ended the session, or what held it up.",
    ),
    (SessionChanged, "suspended"): StepText(
        "broker {node} lost its connection to ZooKeeper", "Repair ZooKeeper or the network between it and the broker."
    ),
    (RecordingGap, ""): StepText(
        "broker {node} did not run while its ZooKeeper session ended (its process was suspended or held up for up to"
        " {seconds:.1f} s)",
        "Let broker {node} continue, and find what suspended it (SIGSTOP, a debugger, swapping, a slow disk).",
    ),
    (NodeFaultChange, ""): StepText("a test injected the fault '{fault}' into broker {node}", FAULT),
    (InjectedFaultReturned, ""): StepText(
        "a test injected the fault '{fault}' into {api} of client {client_id} at broker {node}", FAULT
    ),
    (BrokerGone, "timeout"): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone, {late:.1f} s after its last record: its"
        " ZooKeeper session had to time out first"
    ),
    (BrokerGone, ""): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone", "Start broker {broker} if it is down."
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
        "Find what slows broker {broker} or its connection to broker {leader}.",
    ),
    (FollowerLagged, "never"): StepText(
        "leader {leader} removed broker {broker} from the ISR of {partition}: it never fetched since broker {leader}"
        " leads (limit {lag:g} s)",
        "Start broker {broker}, or find why it does not fetch from broker {leader}.",
    ),
    (FetchFailed, ""): StepText(
        "broker {node} could not fetch from broker {leader}: {reason}",
        "Repair the network between broker {node} and broker {leader}.",
    ),
    (ReplicasAssigned, ""): StepText("the replicas of {partition} were set to {replicas}, adding {adding}"),
    (ReassignmentWaits, ""): StepText(
        "the reassignment of {partition} waits for broker {broker}, which is not in the ISR {isr}",
        "Start broker {broker}, or cancel the reassignment.",
    ),
    (DeletionBlocked, "gone"): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} is not alive", "Start broker {broker}."
    ),
    (DeletionBlocked, ""): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} answered {error_name}",
        "Repair broker {broker}; the controller tries again when it registers.",
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
        "Find the client of ZooKeeper that deletes /controller.",
    ),
    (ControllerEvent, ""): StepText("controller {node} handled {self}"),
    (RequestRefused, ""): StepText(
        "{request} was refused: {reason}", "Correct the request as the reason says, and send it again."
    ),
    (ErrorAnswered, "batch"): StepText(
        "broker {node} refused {api} of {sender} for {subject}: {error_name}{sequences}"
    ),
    (ErrorAnswered, ""): StepText("broker {node} answered {api} of {sender} with {error_name}"),
    (GroupHosted, ""): StepText("broker {node} became the coordinator of group {group}, whose log is {log}"),
    (GroupStateChanged, "PreparingRebalance"): StepText("group {group} began a rebalance"),
    (GroupStateChanged, "Empty"): StepText("group {group} has no members"),
    (GroupStateChanged, ""): StepText("group {group} became {state}"),
    (GroupMemberAction, JOINED): StepText("client {client_id} joined group {group}"),
    (GroupMemberAction, LEFT): StepText("client {client_id} left group {group}"),
    (GroupMemberAction, EXPIRED): StepText(
        "client {client_id} sent no heartbeat to group {group} for its session timeout of {timeout_s:g} s",
        "Start the client again, or find what keeps it from sending heartbeats.",
    ),
    (GroupMemberAction, NOT_JOINED): StepText("the time to join group {group} was over"),
    (GroupMemberAction, NOT_SYNCED): StepText("the time to synchronise group {group} was over"),
    (TransactionDecision, "timeout"): StepText(
        "the coordinator aborted the transaction of {transactional_id} (producer epoch {producer_epoch}): its timeout"
        " was over",
        "End transactions within transaction.timeout.ms, or raise it.",
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
    RequestRefused: lambda refused: {"reason": reason_of(refused)},
    TransactionDecision: lambda decision: {"ended": "committed" if decision.commit else "aborted"},
    TransactionRequest: lambda request: {"error_name": name_of(request.code), "sender": _sender(request)},
}


def text_of(fact: Any) -> str:
    """Return the text for a fact in a chain of causes."""
    return _template(fact).words.format(**_values(fact))


def remedy_for(fact: Any) -> str:
    """Return the advice for operators if this fact is the first cause; "" if there is none."""
    return _template(fact).remedy.format(**_values(fact))


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
