"""Measure coverage: which states, messages and errors the simulated runs have reached, and which they have not.

Rule 1: coverage points are derived from the code: rows of state tables, events, error codes of APIs (`codes`), kinds
        of actions by the role of their target, and every `probe` in the sources. If a probe (`probe(name)` in the code)
        is for a trap of controller.md, the probe's name begins with the trap's number.
Rule 2: an unreachable point has its reason in `UNREACHABLE`. The reason is false if a run reaches the point.
Rule 3: counting changes nothing: a run with coverage is the same run, byte for byte.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs
from thespian.actors import WakeupMessage

from actors.controller.controller import ControllerActor
from actors.controller.topic_deletion import TopicDeletionActor
from actors.core.controller import partition_state_machine, replica_state_machine
from actors.core.controller.events import HANDLERS, REQUESTS
from actors.core.coordinator.group_states import PREVIOUS, TABLES
from actors.core.topic.topic_name import GROUP_METADATA
from actors.runtime import Delivery
from actors.simulation.actions import ACTIONS
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import StateChanged
from actors.simulation.schedule import REST, Action
from messages import topic_deletion
from messages.apis import API_BY_REQUEST, APIS, alter_partition
from messages.ask import Ask, Question
from messages.cluster import TopicPartition
from messages.error_names import NAMES
from messages.events import ControllerChange, ControllerShutdown, Reelect, SessionExpired, Startup
from messages.network import Forwarded
from messages.placement import slot
from messages.response_codes import codes_of
from messages.vocabulary import Message

ROLES = LEADER, FOLLOWER, CONTROLLER = ("leader", "follower", "controller")
"""Roles of an action's target: it leads a partition, follows one, or is the controller."""

SOURCES = tuple(Path(__file__).resolve().parents[2] / package for package in ("actors", "messages", "zk_bridge"))
TRAP = re.compile(r"T(\d+) ")
TERM_EVENTS = (Startup, ControllerChange, Reelect, SessionExpired, ControllerShutdown)
"""Controller events that concern its term (`actors.core.controller.failover`)."""

STATES, GROUPS, DELETION, EVENTS, ANSWERED, TRAPS, ACTED, PROBES = (
    "moves of partitions and replicas",
    "group tables",
    "topic deletion",
    "controller events",
    "error codes of APIs",
    "traps of controller.md",
    "actions by role",
    "probes",
)
"""The kinds of points."""


def _by_point(points: Mapping[str, Iterable[str]]) -> Mapping[str, str]:
    """Return the reason or the kind of each point; `points` has the points of each."""
    return {point: each for each, names in points.items() for point in names}


UNREACHABLE = _by_point(
    {
        "A check before the table refuses the request; tests/core/coordinator/test_group.py holds the cell.": (
            "JoinGroup of a new member in Dead",
            *(
                f"{request} in {state}"
                for request in (
                    "JoinGroup of a member",
                    "JoinGroup of a static member without its member id",
                    "SyncGroup",
                    "LeaveGroup",
                )
                for state in ("Empty", "Dead")
            ),
        ),
        "A high watermark moves only with enough in-sync replicas, and what waits for it is answered in the same"
        " turn.": (
            "Produce NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            "WriteTxnMarkers NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        ),
        "A commit of all partitions of a simulated cluster is smaller than max.message.bytes; tests/core/coordinator"
        " holds it.": ("OffsetCommit INVALID_COMMIT_OFFSET_SIZE", "TxnOffsetCommit INVALID_COMMIT_OFFSET_SIZE"),
        "All simulated brokers verify transactions; tests/coordinator/test_transaction_verification.py holds it.": (
            "a transaction coordinator cannot verify",
        ),
        "All simulated nodes have the same single listener; tests/core/broker holds it.": (
            "Metadata LISTENER_NOT_FOUND",
        ),
        "Simulated clients know no topic ids; tests/core/broker and tests/controller/test_topic_ids.py hold it.": (
            *("Metadata UNKNOWN_TOPIC_ID", "Metadata INVALID_REQUEST", "DeleteTopics UNKNOWN_TOPIC_ID"),
            *("Fetch UNKNOWN_TOPIC_ID", "Fetch FETCH_SESSION_TOPIC_ID_ERROR"),
        ),
        "Simulated clients use older versions; tests/coordinator/test_transaction_verification.py holds it.": (
            "TxnOffsetCommit TRANSACTION_ABORTABLE",
            "Produce TRANSACTION_ABORTABLE",
        ),
        "No simulated client names a partition twice; tests/broker holds it.": ("ListOffsets INVALID_REQUEST",),
        "Names of simulated topics are short; tests/broker/test_moves.py holds it.": (
            "AlterReplicaLogDirs INVALID_TOPIC",
        ),
        "Simulated clusters have no users; tests/core/security and tests/public hold it.": (
            *("AlterUserScramCredentials NONE", "AlterUserScramCredentials DUPLICATE_RESOURCE"),
            "DescribeUserScramCredentials DUPLICATE_RESOURCE",
        ),
        "Simulated nodes keep their endpoint; tests/controller/test_channel.py holds it.": (
            "a broker moves while a request to it is in flight",
        ),
        "The simulation decodes each state itself; tests/zk_bridge holds it.": ("T10 a state znode cannot be decoded",),
        "Simulated clusters speak 2.6 by default; tests/simulation/test_protocol_versions.py holds it.": (
            *(f"AlterPartition {code}" for code in alter_partition.API.codes.split()),
            *("controller AlterPartitionRequest", "LeaderAndIsr INCONSISTENT_TOPIC_ID", "Fetch INCONSISTENT_TOPIC_ID"),
            "a follower truncates where a fetch response shows that its log diverges",
            "a log of an earlier topic with the same name refuses a role",
        ),
        "A dead group is unloaded at once.": ("group Dead to Dead",),
    }
)
"""The reason for which no seed reaches a point, by its name (rule 2)."""

RARE = _by_point(
    {
        "One write to ZooKeeper must succeed and lose its response; tests/zk_bridge/test_bridge.py holds it.": (
            "T7 a created state counts although its response was lost",
            "a written state counts although its response was lost",
        ),
        "ZooKeeper must refuse or lose one request of many.": (
            "a controller reads a state that a newer controller wrote",
            "a controller deletes its own /controller after its term",
            "the term of a controller cannot begin",
            "assignments are written topic by topic",
            "InitProducerId COORDINATOR_NOT_AVAILABLE",
        ),
        "A StopReplica request must meet a broker that registered again; tests/controller/test_topics.py holds it.": (
            "T6 an error of a whole StopReplica request fails its deletions",
            "a broker refuses a deletion that was meant for its earlier registration",
        ),
        "It takes two elections while a follower is cut off; tests/broker/test_following.py holds it.": (
            "a follower asks about an older epoch",
            "a follower refuses data of another leader epoch",
        ),
        "All members that have joined must leave before the time-out of the rebalance;"
        " tests/core/coordinator/test_group.py holds it.": (
            "a rebalance goes on with static members that have not joined",
        ),
        "A marker must arrive while an offset of its transaction is stored;"
        " tests/core/coordinator/test_transactional_offsets.py holds it.": (
            "a transaction ends before the log has answered its offsets",
        ),
        "A coordinator must lose its partition, and lead it again, while a marker is on its way; tests/core/transaction"
        " holds it.": ("news of a marker of an older transaction",),
        "The leader must change again within the milliseconds of a load; tests/coordinator holds both.": (
            "a coordinator gives up a partition that it loads",
            "a coordinator gives up a partition of transactions that it loads",
        ),
        "A follower must lag for replica.lag.time.max.ms while a reassignment waits for another one;"
        " tests/core/broker/test_leader.py holds the shrink.": ("ISR shrinks while a reassignment is under way",),
        "The controller must move within milliseconds of a cancellation;"
        " tests/simulation/test_replication_invariants.py holds it.": (
            "a new controller deletes what an interrupted reassignment left over",
        ),
        "An internal topic must be created while fewer brokers are alive than it needs;"
        " tests/core/broker/test_auto_topic_creation.py holds it.": ("Metadata INVALID_REPLICATION_FACTOR",),
        "/latest_producer_id_block must be unreadable; tests/coordinator holds it.": (
            "InitProducerId UNKNOWN_SERVER_ERROR",
        ),
        "A request must have epoch -1 in an open transaction; tests/core/coordinator/test_transactional_offsets.py"
        " holds it.": ("TxnOffsetCommit UNKNOWN_SERVER_ERROR",),
        "The log must time out in the second in which a static member is replaced.": (
            "JoinGroup REBALANCE_IN_PROGRESS",
        ),
    }
)
"""The reason for which few seeds reach a point, by its name; it stays true if a run reaches the point."""

# ------------------------------------------------------------------------------------------------------ the points


@cache
def universe() -> Mapping[str, str]:
    """Return all coverage points with their kinds."""
    rows = (*partition_state_machine.TABLE.rows, *replica_state_machine.TABLE.rows)
    questions = (each for each in vars(topic_deletion).values() if isinstance(each, type))
    names: dict[str, Iterable[str]] = {
        STATES: (_move(each, row.target) for row in rows for each in row.previous),
        GROUPS: (
            *(f"group {each.value} to {state.value}" for state, previous in PREVIOUS.items() for each in previous),
            *(name for cells in TABLES.values() for name in cells.probes.values()),
        ),
        DELETION: (_deletion_point(each) for each in questions if issubclass(each, Question) and each is not Question),
        EVENTS: map(_event, (*TERM_EVENTS, *HANDLERS, *REQUESTS)),
        ANSWERED: (_answer(api.name, code) for api in APIS for code in api.codes.split()),
        ACTED: (_action_text(kind.name, role) for kind in ACTIONS.values() if kind.weight for role in ROLES),
    }
    of_probes = {name: TRAPS if TRAP.match(name) else PROBES for name in probes()}
    return {**_by_point(names), **of_probes}


def probes() -> Iterator[str]:
    """Yield the names of the probes in the sources."""
    for file in sorted(file for package in SOURCES for file in package.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "probe(" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "probe":
                    yield from _texts(node.args[0])


def _texts(node: ast.expr) -> Iterator[str]:
    """Yield the constant texts of a probe's argument. Names that code composes are listed in tables instead."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body)
        yield from _texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


_move = "{0.value} to {1.value}".format
_deletion_point = "deletion {0.__name__}".format
_event = "controller {0.__name__}".format
_answer = "{} {}".format
_action_text = "{} of a {}".format
"""Functions that name a point: by two states, a question, an event, an API and a code, an action and a role."""

# ---------------------------------------------------------------------------------------------------- counting


class Collector:
    """Counts how often one simulated run reaches each coverage point."""

    def __init__(self, observed: ObservedCluster) -> None:
        self.counts: Counter[str] = Counter()
        self._observed = observed

    def count_state_change(self, fact: StateChanged) -> None:
        """Count the state changes of a controller."""
        self.counts.update(_move(before, fact.target) for before in fact.before.values())

    def probe(self, name: str) -> None:
        """Count a probe."""
        self.counts[name] += 1

    def observe(self, node: int, delivery: Delivery) -> None:
        """Count a message that was delivered on a node."""
        message = delivery.message
        if delivery.actor_class == ControllerActor.__name__:
            if isinstance(message, WakeupMessage):
                message = message.payload
            elif isinstance(message, Forwarded):
                message = message.request.request
            self.counts[_event(type(message))] += 1
        elif delivery.actor_class == TopicDeletionActor.__name__ and isinstance(message, Ask):
            self.counts[_deletion_point(type(message.question))] += 1

    def count_error_codes(self, request: Message, response: Message | None) -> None:
        """Count the error codes of a response to another host."""
        if response is not None:
            api = API_BY_REQUEST[type(request)].name
            for code in set(codes_of(response)):
                self.counts[_answer(api, NAMES.get(code, str(code)))] += 1

    def action(self, action: Action) -> None:
        """Count an action before it runs, by the roles of the nodes that it concerns."""
        if action.name != REST:
            for role in {role for node, partitions in self._targets(action) for role in self._roles(node, partitions)}:
                self.counts[_action_text(action.name, role)] += 1

    def _targets(self, action: Action) -> Iterator[tuple[int, tuple[TopicPartition, ...]]]:
        """Yield the nodes that an action concerns, with the partitions that it concerns there."""
        observed, znodes = self._observed, self._observed.znodes
        arguments = _arguments(action)
        topic, group = arguments.get("topic"), arguments.get("group")
        partitions = tuple(znodes.assigned)
        if topic in znodes.topics:
            numbers = znodes.topics[topic]
            number = int(arguments["number"]) if group is None and "number" in arguments else -1
            partitions = (numbers[number],) if number in numbers else tuple(numbers.values())
        elif group is not None and topic is None:
            count = len(znodes.topics.get(GROUP_METADATA, ()))
            partitions = (TopicPartition(GROUP_METADATA, slot(group) % count),) if count else ()
        words = [arguments[name] for name in ("node", "one", "other", "replicas") if name in arguments]
        nodes = {int(word) for words_of in words for word in words_of.replace(" ", ",").split(",") if word.isdecimal()}
        for node in sorted(nodes or observed.cluster.machines):
            yield node, partitions

    def _roles(self, node: int, partitions: tuple[TopicPartition, ...]) -> Iterator[str]:
        znodes = self._observed.znodes
        if znodes.controller == node:
            yield CONTROLLER
        for partition in partitions:
            state, assigned = znodes.states.get(partition), znodes.assigned.get(partition)
            if state is not None and state.leader == node:
                yield LEADER
            elif assigned is not None and node in assigned.replicas:
                yield FOLLOWER


def _arguments(action: Action) -> dict[str, str]:
    """Return an action's arguments by name; several values of one name are joined by spaces."""
    return {name: " ".join(values) for name, values in ACTIONS[action.name].arguments(action.args).items()}


# ---------------------------------------------------------------------------------------------------- the report


@attrs.frozen
class Report:
    """The coverage of several runs: how often they reached each point. `everything` maps each point to its kind."""

    counts: Mapping[str, int]
    everything: Mapping[str, str] = attrs.field(factory=universe)
    reasons: Mapping[str, str] = UNREACHABLE
    rare: Mapping[str, str] = RARE

    @property
    def reached(self) -> list[str]:
        """Return the reached points, in the order of `everything`."""
        return [name for name in self.everything if self.counts.get(name)]

    @property
    def percent(self) -> float:
        """The share of reached points, in percent."""
        return 100 * len(self.reached) / max(len(self.everything), 1)

    @property
    def missing(self) -> list[str]:
        """Return the points that were not reached and have no reason for this in `why`."""
        why = self.why
        return [name for name in self.everything if not self.counts.get(name) and name not in why]

    @property
    def why(self) -> Mapping[str, str]:
        """A map from each point that need not be reached to the reason."""
        return {**self.rare, **self.reasons}

    @property
    def idle_actions(self) -> list[str]:
        """Return the actions that never ran on any target and have no reason for this in `why`."""
        why, roles = self.why, dict[str, list[str]]()
        for name, kind in self.everything.items():
            if kind == ACTED and name not in why:
                roles.setdefault(name.partition(" ")[0], []).append(name)
        return [action for action, names in roles.items() if not any(self.counts.get(name) for name in names)]

    @property
    def false_reasons(self) -> list[str]:
        """Return the points in `UNREACHABLE` that were reached, or that do not exist."""
        unknown = [name for name in self.rare if name not in self.everything]
        return [name for name in self.reasons if name not in self.everything or self.counts.get(name)] + unknown

    @property
    def undeclared(self) -> list[str]:
        """Return the error codes that a node returned for an API, but that the API's declaration lacks.

        Error codes of failed handlers are left out.
        """
        apis = {api.name for api in APIS}
        codes = frozenset(NAMES.values()) - {"UNKNOWN_SERVER_ERROR"}
        return sorted(
            name
            for name in self.counts.keys() - self.everything.keys()
            if name.partition(" ")[0] in apis and name.partition(" ")[2] in codes
        )

    def summary(self) -> str:
        """Return a summary in one line."""
        return (
            f"coverage: {len(self.reached)} of {len(self.everything)} reached ({self.percent:.1f} %), "
            f"{len(self.everything) - len(self.reached) - len(self.missing)} have a reason, {len(self.missing)} missing"
        )

    def document(self) -> dict[str, Any]:
        """Return the report for JSON."""
        by_kind: dict[str, dict[str, int]] = {}
        for name, kind in self.everything.items():
            by_kind.setdefault(kind, {})[name] = self.counts.get(name, 0)
        return {
            "reached": len(self.reached),
            "universe": len(self.everything),
            "percent": round(self.percent, 2),
            "missing": self.missing,
            "false reasons": self.false_reasons,
            "undeclared error codes": self.undeclared,
            "idle actions": self.idle_actions,
            "reasons": dict(self.why),
            "counts": by_kind,
        }

    def text(self) -> str:
        """Return the report as Markdown: points that were not reached, then counts of the others."""
        lines = ["# Coverage", "", self.summary(), "", "| never reached | kind | reason |", "| --- | --- | --- |"]
        why = self.why
        for name, kind in self.everything.items():
            if not self.counts.get(name):
                lines.append(f"| {name} | {kind} | {why.get(name, 'none')} |")
        lines += ["", "| reached | kind | times |", "| --- | --- | --- |"]
        lines += [f"| {name} | {self.everything[name]} | {self.counts[name]} |" for name in self.reached]
        return "\n".join(lines) + "\n"
