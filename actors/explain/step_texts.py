"""The text that describes each kind of fact in a chain of causes, and the remedy if the fact is the first cause.

Rule 1: `TEXTS` has a text for each kind of fact, and for its variants. A text can contain the fields of the fact,
        `node` (the id of the node that recorded the fact), and the fields in `_FIELDS`.
Rule 2: facts that can be the first cause of a chain have remedies. The first remedy whose condition holds at the end of
        the recording is printed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from actors.explain.causes import DeletionBlocked, ReassignmentWaits
from actors.explain.situation import Remedy, first_needed
from messages import errors
from messages.client_quotas import DEFAULT, desanitize
from messages.cluster import NO_LEADER
from messages.error_names import name_of
from messages.events import NOT_ELECTED
from messages.facts import declarations
from messages.facts.histories import is_down, is_of_last_run, is_registered, state_history
from messages.facts.trace_facts import TraceFacts
from messages.store import CONNECTED
from messages.trace.endings import KILLED
from messages.trace.schema import STOPPED


class StepText:
    """The text that `why` prints for one kind of fact: a template, and the remedies if the fact is the first cause."""

    def __init__(self, words: str, *remedies: Remedy) -> None:
        self.words = words
        self.remedies = remedies


def _down(name: str) -> Callable[[TraceFacts, Any], bool]:
    """Return the condition that the broker in this field of a fact is down; `node` is the node of the fact."""
    return lambda facts, fact: is_down(facts, fact.place.node if name == "node" else getattr(fact, name))


def _is_unregistered(facts: TraceFacts, fact: Any) -> bool:
    return not is_registered(facts, fact.place.node)


def _is_disconnected(facts: TraceFacts, changed: declarations.SessionChanged) -> bool:
    of_run = [each.state for each in facts.select(declarations.SessionChanged, run=changed.place.run)]
    return of_run[-1:] != [CONNECTED] and is_of_last_run(facts, changed.place)


def _never_registered_again(facts: TraceFacts, taken: declarations.RegistrationTaken) -> bool:
    node_runs = facts.select(declarations.NodeRun, node=taken.place.node)
    return not any(at > taken.place.at for node_run in node_runs for _, at in node_run.registered)


def _injected_still(facts: TraceFacts, fault: declarations.NodeFaultChange) -> bool:
    changes = facts.select(declarations.NodeFaultChange, run=fault.place.run, fault=fault.fault)
    return changes[-1].change != "removed" and is_of_last_run(facts, fault.place)


def _out_of_isr(facts: TraceFacts, lagged: declarations.FollowerLagged) -> bool:
    history = state_history(facts, lagged.partition)
    return bool(history) and lagged.broker not in history[-1].isr


def not_joined_again(facts: TraceFacts, fact: declarations.GroupMemberAction | declarations.ErrorAnswered) -> bool:
    """Return whether the client of a fact has not joined the fact's group after it."""
    wanted = {"group": fact.group, "client_id": fact.client_id, "action": declarations.JOINED}
    return not any(each.place > fact.place for each in facts.select(declarations.GroupMemberAction, **wanted))


NO_CAUSE = "; the trace does not show why"
START = Remedy("Start broker {node} again.", _down("node"))
BEGIN_LATER = Remedy("Let consumers begin at the log start offset {start}, as auto.offset.reset=earliest does.")
FAULT = "Remove the injected fault"

TEXTS: dict[tuple[type, str], StepText] = {
    (declarations.NodeRun, KILLED): StepText(
        "broker {node} was killed or crashed (its trace ends without a stop)", START
    ),
    (declarations.NodeRun, STOPPED): StepText("broker {node} was stopped", START),
    (declarations.NodeRun, ""): StepText("the trace of broker {node} ends: {ending}"),
    (declarations.NodeFailure, ""): StepText(
        "broker {node} ended itself ({reason})",
        Remedy("Repair what the reason names, then start broker {node} again.", _down("node")),
    ),
    (declarations.RegistrationTaken, ""): StepText(
        "a process with the id of broker {node} could not register: another live session (0x{owner:x}) owns"
        " /brokers/ids/{node}",
        Remedy(
            "Stop the other process with broker.id={node}, or give one of them another id.",
            _never_registered_again,
        ),
    ),
    (declarations.LogDirectoryFailed, ""): StepText(
        "the log directory of {partition} on broker {node} failed: {error}",
        Remedy(
            "Repair or replace the disk of broker {node}, then start it again.",
            lambda facts, failed: is_of_last_run(facts, failed.place),
        ),
    ),
    (declarations.StopRequested, ""): StepText("broker {node} was asked to stop (a stop signal or command)", START),
    (declarations.SessionChanged, "expired"): StepText(
        "the ZooKeeper session of broker {node} expired while its process ran",
        Remedy(
            "Broker {node} registers again by itself; find who ended the session, or what held it up.",
            lambda facts, expired: _is_unregistered(facts, expired) and is_of_last_run(facts, expired.place),
        ),
        Remedy("Find who ended the session, or what held it up."),
    ),
    (declarations.SessionChanged, "suspended"): StepText(
        "broker {node} lost its connection to ZooKeeper",
        Remedy("Repair ZooKeeper or the network between it and the broker.", _is_disconnected),
    ),
    (declarations.RecordingGap, ""): StepText(
        "broker {node} did not run while its ZooKeeper session ended (its process was suspended or held up for up to"
        " {seconds:.1f} s)",
        Remedy(
            "Let broker {node} continue, and find what suspended it (SIGSTOP, a debugger, swapping, a slow disk).",
            _is_unregistered,
        ),
        Remedy("Find what suspended broker {node} (SIGSTOP, a debugger, swapping, a slow disk)."),
    ),
    (declarations.NodeFaultChange, ""): StepText(
        "a test injected the fault '{fault}' into broker {node}", Remedy(f"{FAULT}.", _injected_still)
    ),
    (declarations.InjectedFaultReturned, ""): StepText(
        "a test injected the fault '{fault}' into {api} of client {client_id} at broker {node}",
        Remedy(f"{FAULT} if it is still there."),  # the removal of such a fault is not recorded
    ),
    (declarations.BrokerGone, "timeout"): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone, {late:.1f} s after its last record: its"
        " ZooKeeper session had to time out first"
    ),
    (declarations.BrokerGone, ""): StepText(
        "controller {by} noticed through {event} that broker {broker} was gone",
        Remedy("Start broker {broker} if it is down.", _down("broker")),
    ),
    (declarations.BrokerCame, ""): StepText(
        "broker {broker} registered, which controller {by} noticed through {event}"
    ),
    (declarations.StateWrite, "lost"): StepText(
        "{partition} lost its leader: {by} wrote leader none, ISR {isr}, epoch {epoch}"
    ),
    (declarations.StateWrite, "found"): StepText(
        "{by} found in ZooKeeper: {partition} has leader {leader}, ISR {isr}, epoch {epoch}"
    ),
    (declarations.StateWrite, ""): StepText(
        "{by} wrote the state of {partition}: leader {leader}, ISR {isr}, epoch {epoch}"
    ),
    (declarations.FollowerLagged, "silent"): StepText(
        "leader {leader} removed broker {broker} from the ISR of {partition}: it had offset {end} of {leader_end}, its"
        " last fetch was {fetched_ago:.3f} s ago, and it was not caught up for {caught_up_ago:.3f} s (limit {lag:g} s)",
        Remedy("Find what slows broker {broker} or its connection to broker {leader}.", _out_of_isr),
    ),
    (declarations.FollowerLagged, "never"): StepText(
        "leader {leader} removed broker {broker} from the ISR of {partition}: it never fetched since broker {leader}"
        " leads (limit {lag:g} s)",
        Remedy("Start broker {broker}.", _down("broker")),
        Remedy("Find why broker {broker} does not fetch from broker {leader}.", _out_of_isr),
    ),
    (declarations.FetchFailed, ""): StepText(
        "broker {node} could not fetch from broker {leader}: {reason}",
        Remedy(
            "Check the network between broker {node} and broker {leader}.",
            lambda facts, failed: is_registered(facts, failed.place.node) and is_registered(facts, failed.leader),
        ),
    ),
    (declarations.ReplicationThrottled, ""): StepText(
        "a throttle limits the replication of {partitions} at broker {node} as {side} to {rate} bytes per second",
        Remedy("Raise the rate of the throttle, or remove it when the reassignment is complete."),
    ),
    (declarations.StateChangeRefused, "not elected"): StepText(
        "controller {node} could not {what} for {partition}: {why}"
    ),
    (declarations.StateChangeRefused, ""): StepText(
        "controller {node} could not {what} for {partition}: {why}",
        Remedy("Correct what this reason names, then let a new controller be elected."),
    ),
    (declarations.ReplicasAssigned, ""): StepText(
        "the replicas of {partition} were set to {replicas}, adding {adding}"
    ),
    (ReassignmentWaits, ""): StepText(
        "the reassignment of {partition} waits for broker {broker}, which is not in the ISR {isr}",
        Remedy("Start broker {broker}, or cancel the reassignment.", _down("broker")),
    ),
    (DeletionBlocked, "gone"): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} is not alive",
        Remedy("Start broker {broker}.", _down("broker")),
    ),
    (DeletionBlocked, ""): StepText(
        "replica {broker} of {partition} cannot be deleted: broker {broker} answered {error_name}",
        Remedy("Repair broker {broker}; the controller tries again when it registers."),
    ),
    (declarations.OverridesChanged, ""): StepText(
        "the config of {resource} was changed at broker {node}: {changes}",
        Remedy("Set the config of {resource} back, or let its clients obey it."),
    ),
    (declarations.TopicDeletionStep, "asked"): StepText("the deletion of {topics} was requested at broker {node}"),
    (declarations.TopicDeletionStep, "queued"): StepText("the controller queued {topics} for deletion"),
    (declarations.TopicDeletionStep, "ineligible"): StepText("{topics} became ineligible for deletion"),
    (declarations.TopicDeletionStep, "deleted"): StepText("the znodes of {topics} were removed"),
    (declarations.LogTruncated, ""): StepText(
        "broker {node} cut {cut} of {partition} off, which its leader did not have"
    ),
    (declarations.LogStartMoved, declarations.RETAINED): StepText(
        "broker {node} removed the records of {partition} before offset {start}, because its retention was over{by}",
        Remedy("Raise retention.ms or retention.bytes if records must live longer."),
    ),
    (declarations.LogStartMoved, "requested"): StepText(
        "client {client_id} deleted the records of {partition} before offset {start} by a DeleteRecords request to"
        " broker {node}",
        BEGIN_LATER,
    ),
    (declarations.LogPartCleaned, ""): StepText(
        "broker {node} cleaned offsets {first} to {last} of {partition}: {after} of {before} bytes remained, with the"
        " last record of each key",
        Remedy("Take compact out of cleanup.policy if each record must stay."),
    ),
    (declarations.ClientThrottled, ""): StepText(
        "broker {node} throttled client {client_id} of user {user} {times_text}, for up to {longest_ms} ms: it used"
        " more than {quota}={bound:g} of {owner}",
        Remedy("Raise the quota: kafka-actors configs --alter --add-config {quota}=... {entity}."),
    ),
    (declarations.LogStartMoved, ""): StepText(
        "broker {node} removed the records of {partition} before offset {start}: a client deleted records, or the log"
        " of its leader begins there",
        BEGIN_LATER,
    ),
    (declarations.ControllerElected, ""): StepText("broker {broker} became controller (epoch {epoch})"),
    (declarations.ControllerResigned, ""): StepText("broker {broker} ceased to be controller"),
    (declarations.ControllerZnodeDeleted, ""): StepText(
        "/controller was deleted in ZooKeeper by another client, although the session of controller {node} lived",
        Remedy("Find the client of ZooKeeper that deletes /controller."),
    ),
    (declarations.ControllerEvent, ""): StepText("controller {node} handled {self}"),
    (declarations.RequestRefused, ""): StepText(
        "{request} was refused: {reason}", Remedy("Correct the request as the reason says, and send it again.")
    ),
    (declarations.RequestRefused, "elsewhere"): StepText(
        "{request} was refused: {reason}", Remedy("Send the request to the controller.")
    ),
    (declarations.OperationDenied, ""): StepText(
        "{principal} may not {operation} {resource} {name}, which {api} of {sender} needed: no ACL allows it",
        Remedy(
            "If it should, add an ACL: kafka-actors acls --add --allow-principal '{principal}'"
            " --operation {operation} {option}."
        ),
    ),
    (declarations.OperationDenied, "denied"): StepText(
        "{principal} may not {operation} {resource} {name}, which {api} of {sender} needed: an ACL denies it"
        " ({denied_by})",
        Remedy("If it should, remove this ACL: a denial goes before each permission."),
    ),
    (declarations.AuthenticationFailures, ""): StepText(
        "clients failed to authenticate with {mechanism} on listener {listener} of broker {node}",
        Remedy("Compare the client's user, password and mechanism, or its certificate, with those of the listener."),
    ),
    (declarations.AuthenticationFailures, "none"): StepText(
        "clients of listener {listener} of broker {node} sent something other than an authentication",
        Remedy("Set the client's security.protocol to that of the listener."),
    ),
    (declarations.ErrorAnswered, "batch"): StepText(
        "broker {node} refused {api} of {sender} for {subject}: {error_name}{sequences}"
    ),
    (declarations.ErrorAnswered, ""): StepText("broker {node} answered {api} of {sender} with {error_name}"),
    (declarations.GroupHosted, ""): StepText(
        "broker {node} became the coordinator of group {group}, whose log is {log}"
    ),
    (declarations.CoordinatorPartitionRead, ""): StepText(
        "broker {node} could not read {unreadable} batches of {partition}"
    ),
    (declarations.GroupStateChanged, "PreparingRebalance"): StepText("group {group} began a rebalance"),
    (declarations.GroupStateChanged, "Empty"): StepText("group {group} has no members"),
    (declarations.GroupStateChanged, ""): StepText("group {group} became {state}"),
    (declarations.GroupMemberAction, declarations.JOINED): StepText("client {client_id} joined group {group}{because}"),
    (declarations.GroupMemberAction, declarations.LEFT): StepText("client {client_id} left group {group}{because}"),
    (declarations.GroupMemberAction, declarations.EXPIRED): StepText(
        "client {client_id} sent no heartbeat to group {group} for its session timeout of {timeout_s:g} s",
        Remedy("Start the client again, or find what keeps it from sending heartbeats.", not_joined_again),
    ),
    (declarations.GroupMemberAction, declarations.NOT_JOINED): StepText("the time to join group {group} was over"),
    (declarations.GroupMemberAction, declarations.NOT_SYNCED): StepText(
        "the time to synchronise group {group} was over"
    ),
    (declarations.TransactionDecision, "timeout"): StepText(
        "the coordinator aborted the transaction of {transactional_id} (producer epoch {producer_epoch}): its timeout"
        " was over",
        Remedy("End transactions within transaction.timeout.ms, or raise it."),
    ),
    (declarations.TransactionDecision, "fenced"): StepText(
        "the coordinator aborted the transaction of {transactional_id}: a new producer with its id began"
    ),
    (declarations.TransactionDecision, ""): StepText("the coordinator {ended} the transaction of {transactional_id}"),
    (declarations.TransactionRequest, "begun"): StepText(
        "{sender} began with transactional id {transactional_id}: InitProducerId returned producer id {producer_id},"
        " epoch {producer_epoch}"
    ),
    (declarations.TransactionRequest, ""): StepText("{sender} sent {api} for {transactional_id}"),
    (declarations.TransactionRequest, "fences"): StepText(
        "{sender} began a new producer with transactional id {transactional_id} (InitProducerId), which fences others"
    ),
    (declarations.TransactionRequest, "refused"): StepText(
        "{api} of {sender} for {transactional_id} (producer epoch {producer_epoch}) was refused: {error_name}"
    ),
}
"""(Kind of fact, variant) -> its text. A variant without an entry has the text of the variant ""."""

_VARIANTS: dict[type, Callable[[Any], str]] = {
    declarations.NodeRun: lambda run: run.ending,
    declarations.SessionChanged: lambda changed: changed.state,
    declarations.BrokerGone: lambda gone: "timeout" if gone.late else "",
    declarations.StateWrite: lambda state: "found" if state.read else "lost" if state.leader == NO_LEADER else "",
    declarations.FollowerLagged: lambda lagged: "never" if lagged.end < 0 else "silent",
    DeletionBlocked: lambda blocked: "" if blocked.code else "gone",
    declarations.TopicDeletionStep: lambda step: step.step,
    declarations.LogStartMoved: lambda moved: moved.how if moved.client_id is None else "requested",
    declarations.ErrorAnswered: lambda error: "batch" if error.subject else "",
    declarations.GroupStateChanged: lambda changed: changed.state,
    declarations.GroupMemberAction: lambda action: action.action,
    declarations.StateChangeRefused: lambda refused: "not elected" if refused.why.startswith(NOT_ELECTED) else "",
    declarations.RequestRefused: lambda refused: "elsewhere" if refused.code == errors.NOT_CONTROLLER else "",
    declarations.OperationDenied: lambda denied: "denied" if denied.denied_by else "",
    declarations.AuthenticationFailures: lambda failed: "" if failed.mechanism else "none",
    declarations.TransactionDecision: lambda decision: (
        "" if decision.commit or decision.api == "EndTxn" else "fenced" if decision.api else "timeout"
    ),
    declarations.TransactionRequest: lambda request: _request_variant(request.api, request.code),
}


def _request_variant(api: str, code: int) -> str:
    if api == "InitProducerId":
        return {errors.NONE: "begun", errors.CONCURRENT_TRANSACTIONS: "fences"}.get(code, "refused")
    return "refused" if code else ""


def _sender(fact: Any) -> str:
    return f"client {fact.client_id}" if fact.client_id else "a client"


def _sequences(error: declarations.ErrorAnswered) -> str:
    """Return the producer id, epoch and sequence number of a refused batch as text; "" if there is no batch."""
    if error.batch is None:
        return ""
    producer, epoch, sequence, expected = error.batch
    wanted = f", expected {expected}" if expected >= 0 else ""
    return f" (producer id {producer}, epoch {epoch}, sequence {sequence}{wanted})"


def _acl_option(denied: declarations.OperationDenied) -> str:
    """Return the option of `kafka-actors acls` that names the resource."""
    words = re.sub("(?<=[a-z])(?=[A-Z])", "-", denied.resource).lower()
    return "--cluster" if words == "cluster" else f"--{words} {denied.name}"


def _entity_option(owner: str) -> str:
    """Return the options of `kafka-actors configs` that name the owner of a quota, such as users/u/clients/c."""
    kinds_and_names = owner.split("/")
    pairs = zip(kinds_and_names[::2], kinds_and_names[1::2], strict=True)
    return " ".join(
        f"--entity-type {kind} " + ("--entity-default" if name == DEFAULT else f"--entity-name '{desanitize(name)}'")
        for kind, name in pairs
    )


def _throttled_text(throttle: declarations.ReplicationThrottled) -> str:
    """Return the throttled partitions as text."""
    return ", ".join(
        f"all partitions of {topic}" if numbers is None else ", ".join(f"{topic}-{number}" for number in numbers)
        for topic, numbers in throttle.topics.items()
        if numbers != ()
    )


def cut_off(cut: declarations.LogTruncated) -> str:
    """Return the offsets that a truncation removed, as text."""
    return f"offsets {cut.to} to {cut.end - 1}" if cut.end > cut.to else f"what came from offset {cut.to} on"


def reason_of(refused: declarations.RequestRefused) -> str:
    """Return why a request was refused, with the name of the error code."""
    return f"{refused.why} ({name_of(refused.code)})" if refused.why else name_of(refused.code)


_FIELDS: dict[type, Callable[[Any], dict[str, Any]]] = {
    DeletionBlocked: lambda blocked: {"error_name": name_of(blocked.code)},
    declarations.ErrorAnswered: lambda error: {
        "error_name": name_of(error.code),
        "sender": _sender(error),
        "sequences": _sequences(error),
    },
    declarations.GroupMemberAction: lambda action: {
        "client_id": action.client_id or action.member or "?",
        "timeout_s": action.timeout_ms / 1000,
        "because": f" ({action.reason})" if action.reason else "",
    },
    declarations.ClientThrottled: lambda each: {
        "times_text": times_text(each.times),
        "entity": _entity_option(each.owner),
    },
    declarations.LogPartCleaned: lambda cleaned: {"last": cleaned.end - 1},
    declarations.LogStartMoved: lambda moved: {"by": f" ({moved.setting})" if moved.setting else ""},
    declarations.LogTruncated: lambda cut: {"cut": cut_off(cut)},
    declarations.ReplicationThrottled: lambda throttle: {"partitions": _throttled_text(throttle)},
    declarations.RequestRefused: lambda refused: {"reason": reason_of(refused)},
    declarations.OperationDenied: lambda denied: {"sender": _sender(denied), "option": _acl_option(denied)},
    declarations.TransactionDecision: lambda decision: {"ended": "committed" if decision.commit else "aborted"},
    declarations.TransactionRequest: lambda request: {"error_name": name_of(request.code), "sender": _sender(request)},
}


def ids(brokers: Sequence[int]) -> str:
    """Return broker ids as text: [1, 2]."""
    return f"[{', '.join(map(str, brokers))}]"


def times_text(times: int) -> str:
    """Return a number of occurrences as text: once, 3 times."""
    return "once" if times == 1 else f"{times} times"


def text_of(fact: object) -> str:
    """Return the text for a fact in a chain of causes."""
    return _template(fact).words.format(**values_of(fact))


def remedy_for(facts: TraceFacts, fact: object) -> str:
    """Return the advice for operators if this fact is the first cause; "" if none is needed any more."""
    return first_needed(_template(fact).remedies, facts, fact, values_of(fact))


def _template(fact: object) -> StepText:
    kind = type(fact)
    variant = _VARIANTS[kind](fact) if kind in _VARIANTS else ""
    return TEXTS.get((kind, variant)) or TEXTS[kind, ""]


def values_of(fact: Any) -> dict[str, Any]:
    """Return the fields of a fact for a text, with `node` and what `_FIELDS` adds."""
    values = {name: _value_text(value) for name, value in fact._asdict().items()}
    more = _FIELDS.get(type(fact))
    return {**values, "node": fact.place.node, "self": fact, **({} if more is None else more(fact))}


def _value_text(value: object) -> object:
    """Return a fact's value as a text shows it: broker ids as `[1, 2]`, names as `a, b`."""
    if type(value) is dict:
        return ", ".join(f"{name} removed" if to is None else f"{name}={to}" for name, to in value.items())
    if type(value) is tuple:
        return ids(value) if all(isinstance(each, int) for each in value) else ", ".join(map(str, value))
    return "an event that is not recorded" if value is None else value
