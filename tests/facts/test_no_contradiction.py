"""`why`, a summary, the report's timeline and `check` say the same about one recording, to the delivery."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from actors.explain.explanations import LAST
from actors.explain.subjects import SUBJECTS
from actors.explain.verdicts import shutdown_of, verdict_of
from actors.public.simulated import SimulatedCluster
from actors.simulation import recorded_cluster
from actors.simulation.actions import FAULTS, NAMED, invent
from actors.simulation.monitors.families import FAMILIES
from actors.simulation.monitors.monitor import Monitor, observes
from actors.simulation.observed_cluster import ObservedCluster
from actors.simulation.observed_facts import ControllerEpochWritten, PartitionStateWritten, ResponseSent
from actors.simulation.run import run
from messages import errors
from messages.cluster import LeaderIsrAndControllerEpoch
from messages.facts import histories
from messages.facts.declarations import ErrorAnswered, StateWrite
from messages.facts.trace_facts import TraceFacts, facts_before, gather
from messages.response_codes import codes_of
from messages.trace.files.runs import Run, find_runs
from spark.drawing import Box
from spark.questions import failovers
from spark.timeline import Timeline
from tests.cli.test_why_situations import cluster, create, delete, others
from tests.facts.summaries import summary_of
from tests.facts.test_situations import fail_over, produce


def expire_a_session(running: SimulatedCluster, leader: int, follower: int) -> None:
    running.expire_session(leader)
    running.wait_for(lambda: running.leader_of("t") == follower and leader in running.isr_of("t"))


def create_again(running: SimulatedCluster, leader: int, follower: int) -> None:
    delete(running, "t")
    running.run(5.0)
    create(running, "t", leader, follower)


def kill_the_controller(running: SimulatedCluster, leader: int, follower: int) -> None:
    first = running.controller_id
    assert first is not None
    running.kill(first)
    running.wait_for(lambda: running.controller_id not in (None, first))
    running.start_broker(first)
    running.run(5.0)


def let_a_follower_lag(running: SimulatedCluster, leader: int, follower: int) -> None:
    running.partition_network(leader, follower)
    produce(running, leader)
    running.wait_for(lambda: running.isr_of("t") == [leader])
    running.heal_network()
    running.wait_for(lambda: follower in running.isr_of("t"))
    running.run(10.0)


def stop_the_leader(running: SimulatedCluster, leader: int, follower: int) -> None:
    running.stop_broker(leader)
    running.wait_for(lambda: running.leader_of("t") == follower)
    running.run(5.0)


def lose_the_only_replica(running: SimulatedCluster, leader: int, follower: int) -> None:
    create(running, "alone", leader)
    running.kill(leader)
    running.run(20.0)


SCRIPTS = (
    *(fail_over, expire_a_session, create_again, kill_the_controller, let_a_follower_lag),
    *(stop_the_leader, lose_the_only_replica),
)


def times(text: str) -> list[float]:
    """Return the times in a verdict whose clock is `repr`."""
    return [float(found) for found in re.findall(r"\d{9,}\.\d+", text)]


def answer(facts: TraceFacts, kind: str, subject: object, question: str) -> list[tuple[float, int, int]]:
    """Return the positions of the lines with which `why` answers a question."""
    [find] = [find for words, find in SUBJECTS[kind].questions if words.startswith(question)]
    return [(each.place.at, each.place.node, each.place.n) for each in find(facts, subject) if each.place is not None]


def contradictions(facts: TraceFacts) -> Iterator[str]:
    """Yield what the readers say differently about the time before the whole cluster was stopped, if it was."""
    stopped = shutdown_of(facts)
    facts = facts if stopped is None else facts_before(facts, stopped)
    summary = summary_of(facts)
    chart = Timeline(summary, (), None).chart()
    boxes = {lane.label: [mark for mark in lane.marks if isinstance(mark, Box)] for lane in chart.lanes}
    end = max(run.last_at for run in summary["runs"])

    elections = [(row.at, row.node) for row in summary["elections"]]
    named = [(at, node) for at, node, _ in answer(facts, "controller", None, "Which broker was controller")]
    if not set(elections) <= set(named):
        yield f"terms: the summary has {elections}, why {named}"
    if sorted(box.begin for box in boxes.get("controller", ())) != sorted(at for at, _ in elections):
        yield f"terms: the summary has {elections}, the timeline {boxes['controller']}"

    for broker in sorted({row.broker for row in summary["episodes"]}):
        rows = [row for row in summary["episodes"] if row.broker == broker]
        said = verdict_of(facts, "broker", broker, repr).text
        if (rows[-1].back_at is None) != said.startswith(f"broker {broker} has been gone since"):
            yield f"broker {broker}: the summary has {rows[-1]}, why: {said}"
        if said.startswith(f"broker {broker} has been gone") and times(said)[0] != rows[-1].died_at:
            yield f"broker {broker}: the summary has {rows[-1]}, why: {said}"
        if said.startswith(f"broker {broker} was gone from") and times(said)[:2] != [
            rows[-1].died_at,
            rows[-1].back_at,
        ]:
            yield f"broker {broker}: the summary has {rows[-1]}, why: {said}"
        drawn = [
            (round(box.begin, 6), round(box.end, 6)) for box in boxes.get(f"broker {broker}", ()) if box.colour == "bad"
        ]
        gone = [(row.died_at + row.seen_s, end if row.back_at is None else row.back_at) for row in rows]
        if drawn != [(round(begin, 6), round(until, 6)) for begin, until in gone]:
            yield f"broker {broker}: the summary has {gone}, the timeline {drawn}"

    for partition in facts.states:
        topic, number = partition
        lost = [each for each in failovers.lost_leaders(facts) if each.outage.partition == partition]
        row = next((row for row in summary["unavailable"] if (row.topic, row.partition) == (topic, number)), None)
        if (0 if row is None else row.windows) != len(lost):
            yield f"{partition}: the summary has {row}, there are {lost}"
        if verdict_of(facts, "topic", topic, repr).text.startswith(("topic", "no node")):
            continue  # it is deleted, or being deleted
        said = verdict_of(facts, "partition", partition, repr).text
        if " has had no leader since " in said and (row is None or times(said)[0] != row.since_at):
            yield f"{partition}: the summary has {row}, why: {said}"
        if row is not None and row.still_leaderless and " no leader " not in said and " never had " not in said:
            yield f"{partition}: the summary has {row}, why: {said}"
        if " had no leader from " in said and times(said)[:2] not in [[o.since, o.until] for o, _ in lost]:
            yield f"{partition}: the summary has {lost}, why: {said}"
        current = [
            each
            for each in histories.incarnations(facts, partition)
            if each == histories.state_history(facts, partition)
        ]
        own = [o for o, _ in lost if current and o.first in current[0] and o.first.event is not None]
        listed = answer(facts, "partition", partition, "When did it have no leader")
        shown = [
            (o.place if o.after is None else o.after.place) for o in own if o.after is None or o.after.event is not None
        ]
        if listed != [(each.at, each.node, each.n) for each in sorted(shown)][-LAST:]:
            yield f"{partition}: the summary has {shown}, why {listed}"
        left = re.match(r"broker (\d+) has been out of the ISR .* since", said)
        out = [row for row in summary["out_of_isr"] if row.back_at is None]
        if left is not None and not any(
            (row.broker, row.left_at * 10 // 1) == (int(left[1]), times(said)[0] * 10 // 1) for row in out
        ):
            yield f"{partition}: the summary has {out}, why: {said}"


def test_readers_of_one_recording_agree(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        for script in SCRIPTS:
            script(running, *((leader, follower) if running.leader_of("t") == leader else (follower, leader)))
            running.run(2.0)
    facts = gather(find_runs(tmp_path).runs)
    assert len(facts.terms) >= 2 and len(failovers.deaths(facts)) >= 5 and len(failovers.lost_leaders(facts)) >= 4
    assert [*contradictions(facts)] == []


class CheckedFacts(Monitor):
    """What `check` reads from a trace, beside what it finds."""

    last: ClassVar[CheckedFacts]

    def __init__(self, observed: ObservedCluster) -> None:
        super().__init__(observed)
        self.written: set[tuple[object, ...]] = set()
        self.terms: set[tuple[int, int | None]] = set()
        self.errors: Counter[tuple[int, str, int]] = Counter()
        CheckedFacts.last = self

    @observes
    def _written(self, fact: PartitionStateWritten) -> None:
        self.written.add((fact.partition, *plain(fact.after)))

    @observes
    def _elected(self, fact: ControllerEpochWritten) -> None:
        self.terms.add((fact.after, self.observed.node_of_session(fact.session)))

    @observes
    def _answered(self, fact: ResponseSent) -> None:
        api = type(fact.request).__name__.removesuffix("Request")
        self.errors.update((fact.node, api, code) for code in codes_of(fact.response) if code != errors.NONE)


def plain(state: LeaderIsrAndControllerEpoch) -> tuple[object, ...]:
    return state.zk_version, state.leader, state.leader_epoch, state.isr


def contradictions_of_check(facts: TraceFacts, runs: Sequence[Run], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield what `check` says, or reads, differently."""
    monkeypatch.setattr(recorded_cluster, "FAMILIES", (*FAMILIES, CheckedFacts))
    yield from (f"{each.invariant.name}: {each.text}" for each in recorded_cluster.check(runs).violations)
    checked = CheckedFacts.last
    states = {(each.partition, each.version, each.leader, each.epoch, each.isr) for each in facts.select(StateWrite)}
    known = {(tp, *plain(each)) for tp, of in checked.znodes.written.items() for same in of.values() for each in same}
    yield from (f"state: only check has the write {each}" for each in checked.written - states)
    yield from (f"state: only the facts have {each}" for each in states - known)
    yield from (f"term: only check has {each}" for each in checked.terms - {(t.epoch, t.broker) for t in facts.terms})
    answered: Counter[tuple[int, str, int]] = Counter()
    for each in facts.select(ErrorAnswered):
        answered[each.place.node, each.api, each.code] += each.times
    yield from (f"refusals: only check has {each}" for each in checked.errors - answered)


def seeds(*numbers: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("seed", numbers)


@seeds(3)
def test_readers_of_a_simulated_cluster_agree(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator found no violation; the readers of the traces agree. Clocks do not drift, for `check`."""
    schedule = invent(seed, duration=30.0, faults=(*FAULTS, *NAMED), records=True, validated=False)
    assert run(attrs.evolve(schedule, clocks=()), tmp_path).violation is None
    runs = find_runs(tmp_path).runs
    facts = gather(runs)
    assert facts.terms
    assert [*contradictions(facts), *contradictions_of_check(facts, runs, monkeypatch)] == []


@pytest.mark.soak
@pytest.mark.long
@seeds(*(seed for seed in range(1, 42) if seed != 3))
def test_readers_of_forty_simulated_clusters_agree(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test_readers_of_a_simulated_cluster_agree(seed, tmp_path, monkeypatch)
