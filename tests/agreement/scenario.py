"""A scenario: the steps of an operator on a cluster, and the changes in ZooKeeper after each line of steps.

Rule 1: a scenario is a text with a dividing line. Above it are the lines of steps. The steps of a line, separated by
        `;`, run without a pause. After each line the cluster becomes idle. Below the dividing line, each line of steps
        has its changes in ZooKeeper and in the logs. At the end are the differences between the end and the beginning.
        A cluster with only Apache Kafka 3.9.1 was recorded.
Rule 2: a step is an action of the simulation (`actors.simulation.actions`) or an entry of `STEPS`. It takes words and
        the cluster (`tests.agreement.cluster`), so all kinds of clusters run the same steps. `@` is replaced by the
        scenario's name and a hyphen, so that topic names are unique. The reason is trap T14: after a deletion
        was ineligible, 3.9.1 does not delete a later topic of that name.
Rule 3: nodes 0, 1 and 2 hold the replicas. Nodes 3 and 4 may become the controller; node 3 is the controller at the
        beginning of a scenario.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from actors.simulation.actions import ACTIONS, WORK
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.elect_leaders import ElectableTopic, ElectLeadersRequest
from messages.apis.fetch import FetchPartition, FetchRequest, FetchResponse
from messages.apis.metadata import MetadataRequest
from messages.apis.produce import ProducePartition, ProduceRequest, ProduceResponse
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.store import CREATE, DELETE, WriteOp
from messages.wire.batch_records import records
from messages.wire.record_batch import batch_of, whole_batches
from tests.agreement.cluster import CONTROLLERS, ScenarioCluster
from tests.agreement.tree import changed, difference, tree, without_queued, without_terms
from zk_bridge import paths
from zk_bridge.controller import decode_controller

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
LINE = "----\n"
END = "in the end"

PATIENCE = 90.0
"""Maximum number of seconds until a cluster has its expected state."""

QUIET = 40
"""Number of equal consecutive states after which a cluster counts as idle, if its expected state is unknown."""

NONE_TEXT = 99
"""Broker id in /controller that prevents the election of a controller."""

MOST_BYTES = 1 << 20


class Disagreement(AssertionError):
    """A cluster did not reach its expected state in time; the text names the condition or the differences."""


# ---------------------------------------------------------------------------------------------------- steps


def office(cluster: ScenarioCluster) -> int | None:
    """Return the controller's id in /controller; None without a controller."""
    data = cluster.zookeeper.read(paths.CONTROLLER).data
    return None if data is None else decode_controller(paths.CONTROLLER, data)


def wait(cluster: ScenarioCluster, good: Callable[[], bool], what: str) -> None:
    """Let time pass until `good()` is true. Raises Disagreement after PATIENCE seconds."""
    if not cluster.until(good, PATIENCE):
        raise Disagreement(f"{what}: not within {PATIENCE:g} s")


def _act(name: str, cluster: Any, *words: str) -> None:
    """Begin an action of the simulation."""
    ACTIONS[name].begin(cluster, words)


def _resume(cluster: Any, node: str) -> None:
    cluster.resume(int(node))


def _start(cluster: ScenarioCluster, node: str) -> None:
    """Start a node and wait until it is registered and responds."""
    cluster.start(int(node))

    def answers() -> bool:
        return cluster.registered(int(node)) and cluster.call(int(node), MetadataRequest(9, (), False)) is not None

    wait(cluster, answers, f"node {node} is registered, and answers")


def seat(cluster: ScenarioCluster, node: str) -> None:
    """Make a node the controller: pause all other candidates and delete /controller."""
    others = [each for each in cluster.candidates() if each != int(node)]
    if office(cluster) == int(node):
        return
    for each in others:
        cluster.pause(each)
    cluster.write(WriteOp(DELETE, paths.CONTROLLER))
    wait(cluster, lambda: office(cluster) == int(node), f"node {node} is the controller")
    for each in others:
        cluster.resume(each)


def _fall(cluster: ScenarioCluster) -> None:
    """Kill the controller; NONE_TEXT in /controller prevents an election until `seat` deletes it."""
    fallen = office(cluster)
    assert fallen in CONTROLLERS
    cluster.pause(fallen)
    held = json.dumps({"version": 1, "brokerid": NONE_TEXT, "timestamp": "0"}).encode()
    cluster.write(WriteOp(DELETE, paths.CONTROLLER), WriteOp(CREATE, paths.CONTROLLER, held))
    cluster.kill(fallen)


def _see(cluster: ScenarioCluster, path: str, field: str, wanted: str) -> None:
    """Wait until a field of a znode's JSON has a value; this shows that an operation is under way."""

    def seen() -> bool:
        data = cluster.zookeeper.read(path).data
        return bool(data) and json.loads(data).get(field) == json.loads(wanted)

    wait(cluster, seen, f"{path} has {field} {wanted}")


def _produce(cluster: ScenarioCluster, topic: str, number: str, *values: str) -> None:
    """Write records with acks=all; each must be acknowledged before the next is sent."""
    partition = TopicPartition(topic, int(number))
    for value in values:
        batch = batch_of([(b"key", value.encode())], round(time.time() * 1000))
        request = ProduceRequest(8, None, -1, 10_000, (ProducePartition(partition, batch),))

        def acknowledged(request: ProduceRequest = request) -> bool:
            leader = _leader(cluster, partition)
            answer = None if leader is None else cluster.call(leader, request)
            return isinstance(answer, ProduceResponse) and answer.partitions[0].error_code == NONE

        wait(cluster, acknowledged, f"{value} is acknowledged")


def _cancel(cluster: ScenarioCluster, topic: str, number: str) -> None:
    """Send the controller a request to cancel a reassignment."""
    part = ReassignablePartition(int(number), None)
    cluster.ask_controller(AlterPartitionReassignmentsRequest(0, 15_000, (ReassignableTopic(topic, (part,)),)))


def _ask_elect(cluster: ScenarioCluster, topic: str, number: str) -> None:
    """Send the controller a request to elect the preferred leader."""
    cluster.ask_controller(ElectLeadersRequest(2, (ElectableTopic(topic, (int(number),)),), 15_000))


STEPS: dict[str, Callable[..., None]] = {
    **{name: partial(_act, name) for name, action in ACTIONS.items() if action.part == WORK and not action.lasts},
    "kill": partial(_act, "kill"),
    "stop": partial(_act, "roll"),
    "start": _start,
    "pause": partial(_act, "pause"),
    "resume": _resume,
    "seat": seat,
    "fall": _fall,
    "see": _see,
    "cancel": _cancel,
    "ask-elect": _ask_elect,
    "produce": _produce,
}
"""The steps of scenarios: first word -> the function that runs the step on a cluster with the other words."""


# ---------------------------------------------------------------------------------------------------- scenarios


@attrs.frozen
class Scenario:
    """A scenario: its text above the dividing line, its lines of steps, and the outcome of Apache's cluster.

    `settings` are additional settings of the nodes (`set NAME VALUE`). `aside` are paths that are not compared, because
    3.9.1 leaves data there that it should delete (`aside PATH WHY`).
    """

    name: str
    above: str
    settings: tuple[tuple[str, str], ...]
    aside: tuple[str, ...]
    lines: tuple[str, ...]
    outcome: str

    def outcome_of(self, changes: list[tuple[str, ...]]) -> str:
        """Return the text below the dividing line: each line of steps, and its changes."""
        said = []
        for line, found in zip((*self.lines, END), changes, strict=True):
            said += [f"{line}:", *(f"  {each}" for each in found)]
        return "".join(f"{each}\n" for each in said)

    def changes(self) -> list[tuple[str, ...]]:
        """Return the changes in the outcome. Raises ValueError if the outcome has other lines of steps."""
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
    """Return the scenario in a file."""
    above, _, outcome = file.read_text(encoding="utf-8").replace("@", f"{file.stem}-").partition(LINE)
    lines = [line for line in above.splitlines() if line and not line.startswith("#")]
    settings = tuple((words[1], words[2]) for line in lines if (words := line.split())[0] == "set")
    aside = tuple(words[1] for line in lines if (words := line.split())[0] == "aside")
    steps = tuple(line for line in lines if line.split()[0] not in ("set", "aside"))
    return Scenario(file.stem, above, settings, aside, steps, outcome)


def write(scenario: Scenario, outcome: str) -> None:
    """Write the outcome below the dividing line of a scenario's file."""
    (file,) = (file for file in FILES if file.stem == scenario.name)
    file.write_text((scenario.above + LINE + outcome).replace(f"{scenario.name}-", "@"), encoding="utf-8")


SCENARIOS = sorted((read(file) for file in FILES), key=lambda each: (each.settings, each.name))
"""All scenarios; those with the same settings are adjacent, so that they can share a cluster."""

INTERRUPTED = [
    each for each in SCENARIOS if not any(re.search(r"\b(ask-\w+|cancel|fall|seat)\b", line) for line in each.lines)
]
"""Scenarios in which the controller may be lost after any line: without requests to it, which would also be lost."""


class Play:
    """A run of a scenario on a cluster."""

    def __init__(self, cluster: ScenarioCluster, scenario: Scenario) -> None:
        self.cluster = cluster
        self.scenario = scenario
        self._written: set[TopicPartition] = set()
        seat(cluster, str(CONTROLLERS[0]))
        self._epoch = int(cluster.zookeeper.read(paths.CONTROLLER_EPOCH).data or b"0")
        self._began = self._before = self.look()
        assert paths.DELETE_TOPICS in self._began
        assert not any(path.startswith((f"{paths.TOPICS}/", f"{paths.DELETE_TOPICS}/")) for path in self._began)

    def check(self, falling: float | None = None) -> None:
        """Run all lines and compare the state after each line with Apache's. Raises Disagreement.

        `falling` is the time in seconds after each line at which the controller is killed and the other one elected.
        Then the comparison leaves out the epochs and the controller's id. Before the last line it also leaves out
        topics queued for deletion: a new controller does not start deleting a topic with an unavailable replica.
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

            if not self.cluster.until(as_wanted, PATIENCE):
                otherwise = difference(alike(wanted, last), alike(seen, last))
                raise Disagreement("\n".join((f"{self.scenario.name}, otherwise after {line!r}:", *otherwise)))

    def record(self) -> str:
        """Run all lines and return the outcome: the changes of each line."""
        changes = []
        for line in self.scenario.lines:
            self._do(line)
            seen: list[dict[str, str]] = []

            def idle_violations(seen: list[dict[str, str]] = seen) -> bool:
                seen.append(self.look())
                return len(seen) >= QUIET and all(each == seen[-1] for each in seen[-QUIET:])

            wait(self.cluster, idle_violations, f"{line!r} comes to rest")
            changes.append(difference(self._before, seen[-1]))
            self._before = seen[-1]
        return self.scenario.outcome_of([*changes, difference(self._began, self._before)])

    def look(self) -> dict[str, str]:
        """Return the data of compared znodes, and the records of the existing partitions that `produce` wrote to."""
        held = tree(self.cluster.zookeeper.walk(), self._epoch)
        for path in self.scenario.aside:
            held.pop(path, None)
        there = [each for each in sorted(self._written) if paths.partition_state(each) in held]
        return held | {str(partition): self._read(partition) for partition in there}

    def _change_controllers(self, seconds: float) -> None:
        self.cluster.run(seconds)
        fallen = office(self.cluster)
        _fall(self.cluster)
        (other,) = set(CONTROLLERS) - {fallen}
        seat(self.cluster, str(other))
        _start(self.cluster, str(fallen))

    def _do(self, line: str) -> None:
        for step in line.split(";"):
            name, *words = step.split()
            STEPS[name](self.cluster, *words)
            if name == "produce":
                self._written.add(TopicPartition(words[0], int(words[1])))

    def _read(self, partition: TopicPartition) -> str:
        leader = _leader(self.cluster, partition)
        request = FetchRequest(11, -1, 0, 0, (FetchPartition(partition, 0, MOST_BYTES),), MOST_BYTES)
        answer = None if leader is None else self.cluster.call(leader, request)
        if not isinstance(answer, FetchResponse) or not answer.partitions or answer.partitions[0].error_code != NONE:
            return "cannot be read"
        data = answer.partitions[0].body.data if answer.partitions[0].body.size else b""
        found = []
        for position, header in whole_batches(data):
            batch = bytes(data[position : position + header.size])
            found += [(each.value or b"").decode() for each in records(batch, header)]
        return f"holds {' '.join(found)}".rstrip()


def _leader(cluster: ScenarioCluster, partition: TopicPartition) -> int | None:
    data = cluster.zookeeper.read(paths.partition_state(partition)).data
    leader = -1 if data is None else int(json.loads(data)["leader"])
    return None if leader < 0 else leader
