"""A scenario: what operators do to a cluster, step by step, and what ZooKeeper holds after each line of it.

Rule 1: a scenario is a text. Above the line: the steps, those on one line (`;`) one right after the other; after each
        line the cluster comes to rest. Below it: each line again, with what it changed in ZooKeeper and in the logs,
        and what is otherwise in the end than at the beginning: as Apache Kafka 3.9.1 did it, alone.
Rule 2: a step is an action of the simulation (`actors.simulation.actions`), or an entry of `STEPS`. It takes
        words, and a stage (`tests.agreement.stage`) on which it is done: all kinds of clusters take the same steps.
        `@` is the scenario's name and a hyphen: no two have topics of the same name, for where 3.9.1 once had
        trouble in deleting a topic, it does not delete the next one of that name (trap T14).
Rule 3: nodes 0, 1 and 2 hold the replicas. 3 and 4 are there to be controllers, and 3 is when a scenario begins.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import attrs

from actors.simulation.actions import ACTIONS, WORK
from messages.admin_requests import (
    AlterPartitionReassignmentsRequest,
    ElectableTopic,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.cluster import TopicPartition
from messages.data_requests import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
)
from messages.error_codes import NONE
from messages.requests import MetadataRequest
from messages.store import CREATE, DELETE, WriteOp
from messages.wire.batch_records import records
from messages.wire.record_batch import batch_of, whole_batches
from tests.agreement.stage import CONTROLLERS, Stage
from tests.agreement.tree import changed, difference, tree, without_queued, without_terms
from zk_bridge import paths
from zk_bridge.znodes.controller import decode_controller

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
LINE = "----\n"
END = "in the end"

PATIENCE = 90.0
"""Seconds in which a cluster comes to what it should be."""

QUIET = 40
"""Number of equal looks after which a cluster counts as idle, if its expected state is unknown."""

NONE_TEXT = 99
"""Who holds the controller's office while no controller shall be elected."""

MOST_BYTES = 1 << 20


class Disagreement(AssertionError):
    """A cluster did not come to what it should be; the text has what is otherwise."""


# ---------------------------------------------------------------------------------------------------- steps


def office(stage: Stage) -> int | None:
    """Who /controller says is the controller."""
    data = stage.zookeeper.read(paths.CONTROLLER).data
    return None if data is None else decode_controller(paths.CONTROLLER, data)


def wait(stage: Stage, good: Callable[[], bool], what: str) -> None:
    """Let time pass until something is so; raises Disagreement where it is not in time."""
    if not stage.until(good, PATIENCE):
        raise Disagreement(f"{what}: not within {PATIENCE:g} s")


def _start(stage: Stage, node: str) -> None:
    """A node is started, is registered, and answers."""
    stage.start(int(node))

    def answers() -> bool:
        return stage.registered(int(node)) and stage.call(int(node), MetadataRequest(9, (), False)) is not None

    wait(stage, answers, f"node {node} is registered, and answers")


def seat(stage: Stage, node: str) -> None:
    """That node becomes the controller: /controller is deleted while all others who might stand are stopped."""
    others = [each for each in stage.candidates() if each != int(node)]
    if office(stage) == int(node):
        return
    for each in others:
        stage.pause(each)
    stage.write(WriteOp(DELETE, paths.CONTROLLER))
    wait(stage, lambda: office(stage) == int(node), f"node {node} is the controller")
    for each in others:
        stage.resume(each)


def _fall(stage: Stage) -> None:
    """The controller is killed, and none is elected before one is seated."""
    fallen = office(stage)
    assert fallen in CONTROLLERS
    stage.pause(fallen)
    held = json.dumps({"version": 1, "brokerid": NONE_TEXT, "timestamp": "0"}).encode()
    stage.write(WriteOp(DELETE, paths.CONTROLLER), WriteOp(CREATE, paths.CONTROLLER, held))
    stage.kill(fallen)


def _see(stage: Stage, path: str, field: str, wanted: str) -> None:
    """A field of a znode's JSON is as said: how one knows that something is in the middle."""

    def seen() -> bool:
        data = stage.zookeeper.read(path).data
        return bool(data) and json.loads(data).get(field) == json.loads(wanted)

    wait(stage, seen, f"{path} has {field} {wanted}")


def _produce(stage: Stage, topic: str, number: str, *values: str) -> None:
    """Records are written with acks=all, each acknowledged before the next."""
    partition = TopicPartition(topic, int(number))
    for value in values:
        batch = batch_of([(b"key", value.encode())], round(time.time() * 1000))
        request = ProduceRequest(8, None, -1, 10_000, (ProducePartition(partition, batch),))

        def acknowledged(request: ProduceRequest = request) -> bool:
            leader = _leader(stage, partition)
            answer = None if leader is None else stage.call(leader, request)
            return isinstance(answer, ProduceResponse) and answer.partitions[0].error_code == NONE

        wait(stage, acknowledged, f"{value} is acknowledged")


def _cancel(stage: Stage, topic: str, number: str) -> None:
    """The controller is asked to end a reassignment where it began."""
    part = ReassignablePartition(int(number), None)
    stage.ask_controller(AlterPartitionReassignmentsRequest(0, 15_000, (ReassignableTopic(topic, (part,)),)))


def _ask_elect(stage: Stage, topic: str, number: str) -> None:
    """The controller is asked for the preferred leader."""
    stage.ask_controller(ElectLeadersRequest(2, (ElectableTopic(topic, (int(number),)),), 15_000))


STEPS: dict[str, Callable[..., None]] = {
    **{name: action.do for name, action in ACTIONS.items() if action.part == WORK and action.undo is None},
    "kill": ACTIONS["kill"].do,
    "stop": ACTIONS["roll"].do,
    "start": _start,
    "pause": ACTIONS["pause"].do,
    "resume": ACTIONS["pause"].undo or _start,
    "seat": seat,
    "fall": _fall,
    "see": _see,
    "cancel": _cancel,
    "ask-elect": _ask_elect,
    "produce": _produce,
}
"""The steps of scenarios: first word -> the function that runs the step on a stage with the other words."""


# ---------------------------------------------------------------------------------------------------- scenarios


@attrs.frozen
class Scenario:
    """A scenario's name, what stands above its line, its lines of steps, and below it what Apache alone did.

    `settings`: of the nodes, beside the usual ones (`set NAME VALUE`). `aside`: paths that are not compared, as 3.9.1
    leaves there what it should not (`aside PATH WHY`).
    """

    name: str
    above: str
    settings: tuple[tuple[str, str], ...]
    aside: tuple[str, ...]
    lines: tuple[str, ...]
    outcome: str

    def outcome_of(self, changes: list[tuple[str, ...]]) -> str:
        """What stands below the line: each line of steps, and what changed by it."""
        said = []
        for line, found in zip((*self.lines, END), changes, strict=True):
            said += [f"{line}:", *(f"  {each}" for each in found)]
        return "".join(f"{each}\n" for each in said)

    def changes(self) -> list[tuple[str, ...]]:
        """The changes in the outcome. Raises ValueError if it does not belong to these lines."""
        found: list[list[str]] = []
        for line in self.outcome.splitlines():
            if line.startswith("  "):
                found[-1].append(line.strip())
            else:
                found.append([])
        changes = [tuple(each) for each in found]
        if len(changes) != len(self.lines) + 1 or self.outcome_of(changes) != self.outcome:
            raise ValueError(f"{self.name}: what stands below the line is of other steps: let Apache do these")
        return changes


def read(file: Path) -> Scenario:
    """The scenario in a file."""
    above, _, outcome = file.read_text(encoding="utf-8").replace("@", f"{file.stem}-").partition(LINE)
    lines = [line for line in above.splitlines() if line and not line.startswith("#")]
    settings = tuple((words[1], words[2]) for line in lines if (words := line.split())[0] == "set")
    aside = tuple(words[1] for line in lines if (words := line.split())[0] == "aside")
    steps = tuple(line for line in lines if line.split()[0] not in ("set", "aside"))
    return Scenario(file.stem, above, settings, aside, steps, outcome)


def write(scenario: Scenario, outcome: str) -> None:
    """Write what stands below a scenario's line."""
    (file,) = (file for file in FILES if file.stem == scenario.name)
    file.write_text((scenario.above + LINE + outcome).replace(f"{scenario.name}-", "@"), encoding="utf-8")


SCENARIOS = sorted((read(file) for file in FILES), key=lambda each: (each.settings, each.name))
"""All of them, those with the same settings one after the other."""

INTERRUPTED = [
    each for each in SCENARIOS if not any(re.search(r"\b(ask-\w+|cancel|fall|seat)\b", line) for line in each.lines)
]
"""Those in which the controller may be lost after any line. What it was asked for would be lost with it."""


class Play:
    """A scenario being played on a stage."""

    def __init__(self, stage: Stage, scenario: Scenario) -> None:
        self.stage = stage
        self.scenario = scenario
        self._written: set[TopicPartition] = set()
        seat(stage, str(CONTROLLERS[0]))
        self._epoch = int(stage.zookeeper.read(paths.CONTROLLER_EPOCH).data or b"0")
        self._began = self._before = self.look()
        assert paths.DELETE_TOPICS in self._began
        assert not any(path.startswith((f"{paths.TOPICS}/", f"{paths.DELETE_TOPICS}/")) for path in self._began)

    def check(self, falling: float | None = None) -> None:
        """Play it all, and come to what Apache came to, after each line. Raises Disagreement.

        `falling`: seconds after each line at which the controller is killed, and the other one elected. Then what shows
        how far the first one had come is not compared: epochs, who is controller, and before the end the topics that
        are to be deleted, for a new controller does not begin with those of which a replica is down.
        """
        wanted, seen = self._began, dict[str, str]()

        def alike(held: dict[str, str], last: bool) -> dict[str, str]:
            if falling is None:
                return held
            return without_terms(held if last else without_queued(held))

        *changes, _ = self.scenario.changes()
        for number, (line, change) in enumerate(zip(self.scenario.lines, changes, strict=True), 1):
            self._do(line)
            if falling is not None:
                self._change_controllers(falling)
            wanted = changed(wanted, change)
            last = number == len(changes)

            def as_wanted(wanted: dict[str, str] = wanted, last: bool = last) -> bool:
                nonlocal seen
                before, seen = seen, self.look()
                return alike(seen, last) == alike(wanted, last) == alike(before, last)

            if not self.stage.until(as_wanted, PATIENCE):
                otherwise = difference(alike(wanted, last), alike(seen, last))
                raise Disagreement("\n".join((f"{self.scenario.name}, otherwise after {line!r}:", *otherwise)))

    def record(self) -> str:
        """Play it all, and tell what changed."""
        changes = []
        for line in self.scenario.lines:
            self._do(line)
            seen: list[dict[str, str]] = []

            def at_rest(seen: list[dict[str, str]] = seen) -> bool:
                seen.append(self.look())
                return len(seen) >= QUIET and all(each == seen[-1] for each in seen[-QUIET:])

            wait(self.stage, at_rest, f"{line!r} comes to rest")
            changes.append(difference(self._before, seen[-1]))
            self._before = seen[-1]
        return self.scenario.outcome_of([*changes, difference(self._began, self._before)])

    def look(self) -> dict[str, str]:
        """What is there: in ZooKeeper, by path, and the records of the partitions that were written to."""
        held = tree(self.stage.zookeeper.walk(), self._epoch)
        for path in self.scenario.aside:
            held.pop(path, None)
        there = [each for each in sorted(self._written) if paths.partition_state(each) in held]
        return held | {str(partition): self._read(partition) for partition in there}

    def _change_controllers(self, seconds: float) -> None:
        self.stage.run(seconds)
        fallen = office(self.stage)
        _fall(self.stage)
        (other,) = set(CONTROLLERS) - {fallen}
        seat(self.stage, str(other))
        _start(self.stage, str(fallen))

    def _do(self, line: str) -> None:
        for step in line.split(";"):
            name, *words = step.split()
            STEPS[name](self.stage, *words)
            if name == "produce":
                self._written.add(TopicPartition(words[0], int(words[1])))

    def _read(self, partition: TopicPartition) -> str:
        leader = _leader(self.stage, partition)
        request = FetchRequest(11, -1, 0, 0, (FetchPartition(partition, 0, MOST_BYTES),), MOST_BYTES)
        answer = None if leader is None else self.stage.call(leader, request)
        if not isinstance(answer, FetchResponse) or not answer.partitions or answer.partitions[0].error_code != NONE:
            return "cannot be read"
        data = answer.partitions[0].body.data if answer.partitions[0].body.size else b""
        found = []
        for position, header in whole_batches(data):
            batch = bytes(data[position : position + header.size])
            found += [(each.value or b"").decode() for each in records(batch, header)]
        return f"holds {' '.join(found)}".rstrip()


def _leader(stage: Stage, partition: TopicPartition) -> int | None:
    data = stage.zookeeper.read(paths.partition_state(partition)).data
    leader = -1 if data is None else int(json.loads(data)["leader"])
    return None if leader < 0 else leader
