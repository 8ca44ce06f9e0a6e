"""The picture of a cluster at a moment, folded from the facts of its traces.

Rule 1: `apply` takes the facts in the order of `timeline`, or as they are read from traces that grow. Facts of several
        nodes may then be late: a state with an older version of the znode, or of a deleted topic, changes nothing.
Rule 2: `changes` returns what changed since its last call, so that open pages need not load the whole picture again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import attrs

from actors.explain.cluster_history import USUAL, node_fault_text
from actors.explain.step_texts import reason_of, text_of
from messages import errors
from messages.cluster import LEADER_DURING_DELETE, NO_LEADER, TopicPartition, partition_named
from messages.error_names import name_of
from messages.facts import declarations
from messages.facts.declarations import Fact, NodeRun, StateWrite, TracePosition
from messages.store import CONNECTED
from messages.trace.endings import KILLED, RUNNING
from messages.trace.schema import STOPPED

FEED = 1000
"""Maximum number of lines in the feed of events."""
REFUSED = 500
"""Maximum number of kinds of refused requests."""
ROWS = 5000
"""Maximum number of partitions in `changes`; above it, pages load the whole picture."""
PAUSE = "pause"

GOOD, ODD, BAD = range(3)
"""The levels of the lines in the feed."""


def timeline(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts of whole runs in order of time; a run is in it at its start, and at its end if it ended."""
    found: list[Fact] = []
    for fact in facts:
        if isinstance(fact, NodeRun):
            found.append(begin_of(fact))
            if fact.ending == RUNNING:
                continue
        found.append(fact)
    return sorted(found, key=lambda fact: fact.place)


def begin_of(node_run: NodeRun) -> NodeRun:
    """Return the fact that a run began."""
    return node_run._replace(place=node_run.place._replace(at=node_run.began, n=0), ending=RUNNING)


@attrs.define
class _Broker:
    id: int
    process: str = "unknown"
    run: str = ""
    live: bool = False
    """Whether it is registered in ZooKeeper, as the last controller read."""
    epoch: int | None = None
    session: str = ""
    since: float = 0.0
    faults: dict[str, float] = attrs.field(factory=dict)

    def plain(self) -> dict[str, Any]:
        faults = [f"{name} ({value:g})" if value else name for name, value in self.faults.items() if name != PAUSE]
        values = {field: getattr(self, field) for field in ("id", "process", "live", "epoch", "session", "since")}
        return {**values, "paused": PAUSE in self.faults, "faults": faults}


@attrs.define
class _Partition:
    leader: int = NO_LEADER
    epoch: int = -1
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    minimum: int = 1
    version: int = -1
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    by: str = ""
    since: float = 0.0


@attrs.define
class _GroupView:
    group: str
    state: str = ""
    coordinator: int = -1
    generation: int | None = None
    since: float = 0.0
    members: dict[str, str] = attrs.field(factory=dict)
    """Client ids by member id."""


@attrs.define
class _Transaction:
    id: str
    state: str
    producer_id: int
    producer_epoch: int
    client: str
    since: float
    partitions: set[TopicPartition] = attrs.field(factory=set)
    groups: set[str] = attrs.field(factory=set)

    def plain(self) -> dict[str, Any]:
        values = attrs.asdict(self, recurse=False)
        return {**values, "partitions": sorted(map(str, self.partitions)), "groups": sorted(self.groups)}


class _Line(NamedTuple):
    """What the feed has for a kind of fact: its subject, its level, and its text (by default that of `why`)."""

    about: str
    name: Callable[[Any], object] = lambda fact: None
    level: Callable[[Any], int] = lambda fact: GOOD
    text: Callable[[Any], str] = text_of


def _of_node(fact: Any) -> int:
    node: int = fact.place.node
    return node


def _odd(fact: object) -> int:
    return ODD


def _bad(fact: object) -> int:
    return BAD


def _refused_subject(fact: declarations.RequestRefused) -> tuple[str, object]:
    about = {TopicPartition: "partition", int: "broker"}.get(type(fact.subject), "topic")
    return about, str(fact.subject)


def _error_subject(fact: declarations.ErrorAnswered) -> tuple[str, object]:
    if fact.group:
        return "consumer-group", fact.group
    if partition_named(fact.subject) is not None:
        return "partition", fact.subject
    return ("producer", fact.client_id) if fact.api == "Produce" else ("cluster", None)


_FEED: dict[type, _Line] = {
    NodeRun: _Line(
        "broker",
        _of_node,
        lambda run: {RUNNING: GOOD, STOPPED: ODD}.get(run.ending, BAD),
        lambda run: f"broker {run.place.node} started" if run.ending == RUNNING else text_of(run),
    ),
    declarations.NodeFailure: _Line("broker", _of_node, _bad),
    declarations.RegistrationTaken: _Line("broker", _of_node, _bad),
    declarations.LogDirectoryFailed: _Line("broker", _of_node, _bad),
    declarations.StopRequested: _Line("broker", _of_node, _odd),
    declarations.RecordingGap: _Line("broker", _of_node, _odd),
    declarations.SessionChanged: _Line("broker", _of_node, _odd),
    declarations.NodeFaultChange: _Line("broker", _of_node, _odd, node_fault_text),
    declarations.BrokerCame: _Line("broker", lambda came: came.broker),
    declarations.BrokerGone: _Line("broker", lambda gone: gone.broker, _bad),
    declarations.ControllerElected: _Line("controller"),
    declarations.ControllerResigned: _Line(
        "controller", level=_odd, text=lambda ended: text_of(ended) + (f": {ended.why}" if ended.why else "")
    ),
    declarations.FollowerLagged: _Line("partition", lambda lagged: lagged.partition, _odd),
    declarations.StateChangeRefused: _Line("partition", lambda refused: refused.partition, _bad),
    declarations.ReplicasAssigned: _Line("partition", lambda assigned: assigned.partition),
    declarations.LogTruncated: _Line("partition", lambda cut: cut.partition, _odd),
    declarations.LogStartMoved: _Line("partition", lambda moved: moved.partition),
    declarations.OverridesChanged: _Line("cluster"),
    declarations.TopicDeletionStep: _Line("topic", lambda step: step.topics[0]),
    declarations.GroupHosted: _Line("consumer-group", lambda hosted: hosted.group),
    declarations.GroupStateChanged: _Line("consumer-group", lambda changed: changed.group),
    declarations.GroupMemberAction: _Line("consumer-group", lambda action: action.group),
    declarations.TransactionDecision: _Line(
        "transaction", lambda decided: decided.transactional_id, lambda decided: GOOD if decided.commit else ODD
    ),
}
"""Kinds of facts that are in the feed as they are. States of partitions and refused requests are added by `apply`."""


class Picture:
    """The picture of a cluster."""

    def __init__(self) -> None:
        self.at = 0.0
        self._cluster: dict[str, Any] = {"controller": None, "controller_epoch": None, "controller_since": 0.0}
        self._brokers: dict[int, _Broker] = {}
        self._topics: dict[str, dict[int, _Partition]] = {}
        self._deleted: dict[str, TracePosition] = {}
        self._groups: dict[str, _GroupView] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._refused: dict[tuple[object, ...], dict[str, Any]] = {}
        self._feed: dict[int, dict[str, Any]] = {}
        """Lines by number, in order."""
        self._number = 0
        self._joined: tuple[object, ...] = ()
        """What the last line of the feed is about, so that the same change of more partitions needs no line."""
        self._changed: set[str] = set()
        self._rows: dict[TopicPartition, None] = {}
        self._lines: dict[int, None] = {}

    # ------------------------------------------------------------------------------------------------ fold

    def apply(self, fact: Fact) -> None:
        """Add a fact to the picture."""
        self.at = max(self.at, fact.place.at)
        handler = self._HANDLERS.get(type(fact))
        kept = handler(self, fact) if handler is not None else None
        if kept is not False and type(fact) in _FEED:
            self._tell(fact)

    def _node_run(self, run: NodeRun) -> bool:
        broker = self._broker(run.place.node)
        if run.ending == RUNNING:
            if run.began < broker.since:
                return False
            broker.process, broker.run, broker.since = "running", run.place.run, run.began
            return True
        if broker.run not in ("", run.place.run):
            return False
        words = {KILLED: "killed", STOPPED: "stopped"}
        broker.process, broker.since = words.get(run.ending, f"not recorded: {run.ending}"), run.place.at
        broker.faults.pop(PAUSE, None)
        if self._cluster["controller"] == broker.id:
            self._set_controller(None, self._cluster["controller_epoch"], run.place.at)
        return True

    def _brokers_read(self, read: declarations.BrokersRead) -> None:
        for id in {*read.brokers, *(id for id, broker in self._brokers.items() if broker.live)}:
            broker, epoch = self._broker(id), read.brokers.get(id)
            if epoch is None:
                self._tell(declarations.BrokerGone(read.place, id, read.by, read.event, read.place))
            elif not broker.live or broker.epoch != epoch:
                self._tell(declarations.BrokerCame(read.place, id, read.by, read.event))
            broker.live, broker.epoch = epoch is not None, broker.epoch if epoch is None else epoch

    def _apply_election(self, elected: declarations.ControllerElected) -> None:
        if elected.epoch >= (self._cluster["controller_epoch"] or 0):
            self._set_controller(elected.broker, elected.epoch, elected.place.at)

    def _apply_resignation(self, resigned: declarations.ControllerResigned) -> bool:
        if self._cluster["controller"] != resigned.broker:  # a candidate, which records the end of its session, too
            return False
        self._set_controller(None, self._cluster["controller_epoch"], resigned.place.at)
        return True

    def _set_controller(self, id: int | None, epoch: int | None, since: float) -> None:
        self._cluster = {"controller": id, "controller_epoch": epoch, "controller_since": since}
        self._changed.add("cluster")

    def _session(self, changed: declarations.SessionChanged) -> bool:
        self._broker(changed.place.node).session = changed.state
        return changed.state != CONNECTED

    def _node_fault(self, fault: declarations.NodeFaultChange) -> None:
        faults = self._broker(fault.place.node).faults
        if fault.change == "removed":
            faults.pop(fault.fault, None)
        else:
            faults[fault.fault] = fault.value

    def _state(self, state: StateWrite) -> None:
        partition = self._partition(state.partition, state.place)
        if partition is None or 0 <= state.version <= partition.version:
            return
        before = partition.leader, partition.isr
        if before[0] != state.leader:
            partition.since = state.taken
        partition.leader, partition.epoch, partition.isr = state.leader, state.epoch, state.isr
        partition.version, partition.by = state.version, state.by
        if state.read or (before[0] == state.leader and set(before[1]) == set(state.isr)):
            return
        level = BAD if state.leader == NO_LEADER else ODD if set(before[1]) - set(state.isr) else GOOD
        joined = state.place.run, state.place.event_id, level
        self._line(state, "partition", str(state.partition), level, joined=joined)

    def _apply_assignment(self, assigned: declarations.ReplicasAssigned) -> bool:
        partition = self._partition(assigned.partition, assigned.place)
        if partition is None:
            return False
        before = partition.replicas
        partition.replicas, partition.adding = assigned.replicas, assigned.adding
        partition.removing = assigned.removing
        return assigned.written and before not in ((), assigned.replicas)

    def _apply_metadata(self, cached: declarations.MetadataCached) -> None:
        for state in cached.states:
            if state.leader == LEADER_DURING_DELETE:
                if self._topics.pop(state.partition.topic, None) is not None:
                    self._changed.add("removed")
                continue
            row = self._partition(state.partition, cached.place)
            if row is not None:
                if row.leader != state.leader:
                    row.since = cached.place.at
                row.leader, row.epoch, row.isr = state.leader, state.leader_epoch, state.isr
                row.version, row.replicas = state.zk_version, state.replicas
                row.by = f"controller {cached.controller}" if cached.controller is not None else row.by
        if cached.controller is not None:
            if cached.controller != self._cluster["controller"]:
                self._set_controller(cached.controller, cached.controller_epoch, cached.place.at)
            for id in {*cached.brokers, *self._brokers}:
                self._broker(id).live = id in cached.brokers

    def _minimum(self, minimum: declarations.MinInsyncReplicas) -> None:
        partition = self._partition(minimum.partition, minimum.place)
        if partition is not None:
            partition.minimum = minimum.replicas

    def _deletion(self, step: declarations.TopicDeletionStep) -> None:
        for topic in step.topics if step.step == "deleted" else ():
            self._deleted[topic] = step.place
            if self._topics.pop(topic, None) is not None:
                self._changed.add("removed")

    def _apply_group_host(self, hosted: declarations.GroupHosted) -> None:
        self._group(hosted.group).coordinator = hosted.place.node

    def _group_state(self, changed: declarations.GroupStateChanged) -> None:
        group = self._group(changed.group)
        group.state, group.since = changed.state, changed.place.at
        if changed.state in ("Empty", "Dead"):
            group.members.clear()
        if changed.state == "Dead":
            del self._groups[changed.group]

    def _member(self, action: declarations.GroupMemberAction) -> None:
        if action.action in (declarations.LEFT, declarations.EXPIRED):
            self._group(action.group).members.pop(action.member, None)

    def _apply_member(self, admitted: declarations.GroupMemberAdmitted) -> None:
        group = self._group(admitted.group)
        if admitted.generation != group.generation:
            group.generation = admitted.generation
            group.members.clear()
        group.members[admitted.member] = admitted.client_id

    def _apply_transaction_request(self, request: declarations.TransactionRequest) -> None:
        if request.code != errors.NONE or request.api not in ("AddPartitionsToTxn", "AddOffsetsToTxn"):
            return
        self._changed.add("transactions")
        id, producer = request.transactional_id, (request.producer_id, request.producer_epoch)
        open = self._transactions.get(id)
        if open is None or (open.producer_id, open.producer_epoch) != producer or open.state != "Ongoing":
            open = _Transaction(id, "Ongoing", *producer, request.client_id, request.place.at)
            self._transactions[id] = open
        open.partitions.update(request.partitions)
        if request.group:
            open.groups.add(request.group)

    def _apply_decision(self, decided: declarations.TransactionDecision) -> None:
        self._changed.add("transactions")
        id = decided.transactional_id
        known = self._transactions.pop(id, None)
        if decided.partitions:
            state = "PrepareCommit" if decided.commit else "PrepareAbort"
            since, client = (decided.place.at, "") if known is None else (known.since, known.client)
            open = _Transaction(id, state, decided.producer_id, decided.producer_epoch, client, since)
            open.partitions.update(decided.partitions)
            self._transactions[id] = open

    def _apply_marker(self, marked: declarations.TransactionMarked) -> None:
        open = self._transactions.get(marked.transactional_id)
        if open is not None and open.state != "Ongoing":
            open.partitions.difference_update(marked.partitions)
            if not open.partitions:
                del self._transactions[marked.transactional_id]
            self._changed.add("transactions")

    def _request_refused(self, fact: declarations.RequestRefused) -> None:
        about, name = _refused_subject(fact)
        self._refuse(fact, fact.request, name_of(fact.code), "", reason_of(fact), about, name)

    def _error(self, fact: declarations.ErrorAnswered) -> None:
        if (fact.api, fact.code) not in USUAL:
            about, name = _error_subject(fact)
            subject = fact.subject or fact.group
            self._refuse(fact, fact.api, name_of(fact.code), fact.client_id, subject, about, name, fact.times)

    def _apply_denial(self, fact: declarations.OperationDenied) -> None:
        what = f"{fact.principal} may not {fact.operation} {fact.resource} {fact.name}"
        error = "AUTHORIZATION_FAILED"
        self._refuse(fact, fact.api, error, fact.client_id, what, "client", fact.principal, fact.times)

    def _refuse(
        self, fact: Any, api: str, error: str, client: str, what: str, about: str, name: object, times: int = 1
    ) -> None:
        key = api, error, client
        times += self._refused.pop(key, {"times": 0})["times"]
        subject = {"what": what, "about": about, "name": name, "at": fact.place.at, "node": fact.place.node}
        self._refused[key] = {"api": api, "error": error, "client": client, "times": times, **subject}
        self._line(fact, about, name, ODD, joined=key)
        if len(self._refused) > REFUSED:
            del self._refused[next(iter(self._refused))]
        self._changed.add("refused")

    _HANDLERS: ClassVar[dict[type, Callable[[Picture, Any], bool | None]]] = {
        NodeRun: _node_run,
        declarations.BrokersRead: _brokers_read,
        declarations.ControllerElected: _apply_election,
        declarations.ControllerResigned: _apply_resignation,
        declarations.SessionChanged: _session,
        declarations.NodeFaultChange: _node_fault,
        StateWrite: _state,
        declarations.ReplicasAssigned: _apply_assignment,
        declarations.MetadataCached: _apply_metadata,
        declarations.MinInsyncReplicas: _minimum,
        declarations.TopicDeletionStep: _deletion,
        declarations.GroupHosted: _apply_group_host,
        declarations.GroupStateChanged: _group_state,
        declarations.GroupMemberAction: _member,
        declarations.GroupMemberAdmitted: _apply_member,
        declarations.TransactionRequest: _apply_transaction_request,
        declarations.TransactionDecision: _apply_decision,
        declarations.TransactionMarked: _apply_marker,
        declarations.RequestRefused: _request_refused,
        declarations.ErrorAnswered: _error,
        declarations.OperationDenied: _apply_denial,
    }
    """Kind of fact -> the method that folds it. If it returns False, the fact is not in the feed."""

    def _broker(self, id: int) -> _Broker:
        self._changed.add("brokers")
        return self._brokers.setdefault(id, _Broker(id))

    def _group(self, name: str) -> _GroupView:
        self._changed.add("groups")
        return self._groups.setdefault(name, _GroupView(name))

    def _partition(self, partition: TopicPartition, place: TracePosition) -> _Partition | None:
        """Return the partition that a fact changes; None if its topic was deleted later."""
        deleted = self._deleted.get(partition.topic)
        if deleted is not None and place < deleted:
            return None
        self._rows[partition] = None
        return self._topics.setdefault(partition.topic, {}).setdefault(partition.partition, _Partition())

    def _tell(self, fact: object) -> None:
        line = _FEED[type(fact)]
        name = line.name(fact)
        self._line(fact, line.about, None if name is None else str(name), line.level(fact), line.text)

    def _line(
        self,
        fact: Any,
        about: str,
        name: object,
        level: int,
        text: Callable[[Any], str] = text_of,
        joined: tuple[object, ...] = (),
    ) -> None:
        """Add a line to the feed; one that is `joined` with the last line is only counted there."""
        if joined and joined == self._joined:
            self._feed[self._number]["more"] += 1
        else:
            self._number += 1
            place: TracePosition = fact.place
            where = {"n": self._number, "at": place.at, "node": place.node, "run": place.run, "delivery": place.n}
            what = {"text": text(fact), "about": about, "name": name, "level": level, "more": 0}
            self._feed[self._number] = {**where, **what}
            if len(self._feed) > FEED:
                del self._feed[next(iter(self._feed))]
        self._joined = joined
        self._lines[self._number] = None

    # ------------------------------------------------------------------------------------------------ as JSON

    def whole(self) -> dict[str, Any]:
        """Return the whole picture as plain values."""
        lists: dict[tuple[int, ...], int] = {}
        topics = []
        for name, partitions in self._topics.items():
            rows = [*partitions.values()]
            numbers = [*partitions]
            minimums = [row.minimum for row in rows]
            topics.append(
                {
                    "name": name,
                    "numbers": None if numbers == [*range(len(numbers))] else numbers,
                    "leaders": [row.leader for row in rows],
                    "isrs": [lists.setdefault(row.isr, len(lists)) for row in rows],
                    "replicas": [lists.setdefault(row.replicas, len(lists)) for row in rows],
                    "minimums": minimums[0] if len({*minimums}) == 1 else minimums,
                }
            )
        small = {name: self._section(name) for name in ("cluster", "brokers", "groups", "transactions", "refused")}
        return {"at": self.at, **small, "lists": [*lists], "topics": topics, "feed": [*self._feed.values()]}

    def changes(self) -> dict[str, Any] | None:
        """Return the changed sections as plain values; None if pages should load the whole picture."""
        changed, rows, lines = self._changed, self._rows, self._lines
        self._changed, self._rows, self._lines = set(), {}, {}
        if len(rows) > ROWS or "removed" in changed:
            return None
        found: dict[str, Any] = {name: self._section(name) for name in sorted(changed)}
        if rows:
            found["rows"] = [
                [*partition, row.leader, row.isr, row.replicas, row.minimum]
                for partition in rows
                if (row := self._topics.get(partition.topic, {}).get(partition.partition)) is not None
            ]
        if lines:
            found["feed"] = [self._feed[number] for number in lines if number in self._feed]
        return {"at": self.at, **found} if found else {}

    def partition(self, name: str) -> dict[str, Any]:
        """Return what the picture has about a partition. Raises ValueError if it has none of this name."""
        partition = partition_named(name)
        row = self._topics.get(partition.topic, {}).get(partition.partition) if partition is not None else None
        if row is None:
            raise ValueError(f"the traces have no partition {name}")
        return attrs.asdict(row, recurse=False)

    def _section(self, name: str) -> object:
        match name:
            case "cluster":
                return self._cluster
            case "brokers":
                return [self._brokers[id].plain() for id in sorted(self._brokers)]
            case "groups":
                return [attrs.asdict(self._groups[group]) for group in sorted(self._groups)]
            case "transactions":
                return [self._transactions[id].plain() for id in sorted(self._transactions)]
        return [*reversed(self._refused.values())]
