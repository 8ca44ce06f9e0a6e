"""The page of a recorded trace: random access, steps, lanes, critical paths, states, histories, and damaged traces."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import msgspec
import pytest
from click.testing import CliRunner

from actors.cli import trace_show
from actors.cli.why import page_command
from actors.node import process
from actors.page import recorded as recorded_page
from actors.page.critical_path import ANSWER, APPEND, FOLLOWER, WATERMARK
from actors.page.lanes import interest_of
from actors.page.log_lines import log_lines
from actors.page.recorded import RecordedPage
from actors.page.recorded_trace import Interest, RecordedTrace
from actors.page.subject_histories import LiveLags
from actors.public.simulated import SimulatedCluster
from actors.trace.debugger import Debugger
from actors.trace.explanation import MOST_SHOWN
from actors.trace.filters import names_broker
from actors.trace.links import CauseFinder
from actors.trace.reader import TraceDelivery, open_trace
from messages.facts.declarations import NodeRun
from messages.facts.trace_facts import gather
from messages.trace.files.runs import find_runs
from messages.trace.schema import SCHEMA_VERSION
from tests.page import late_record
from tests.trace import altering

Key = tuple[str, int]
UNFINISHED = {"unfinished": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("late")
    late_record.live(made)
    return made


@pytest.fixture(scope="module")
def recorded(folder: Path) -> RecordedTrace:
    return RecordedTrace(open_trace(folder))


@pytest.fixture(scope="module")
def page(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RecordedPage]:
    served = RecordedPage(open_trace(folder), cache=tmp_path_factory.mktemp("cache"))
    served.wait()
    yield served
    served.stop()


def ask(page: RecordedPage, what: str, **query: object) -> Any:
    found = answer(page, what, **query)
    return ask(page, what, **query) if found == UNFINISHED else found


def answer(page: RecordedPage, what: str, **query: object) -> Any:
    with urlopen(f"{page.url}api/{what}?{urlencode(query)}") as body:
        return msgspec.json.decode(body.read())


def key(delivery: TraceDelivery) -> Key:
    return delivery.run.name, delivery.seq


def in_order(recorded: RecordedTrace) -> list[TraceDelivery]:
    return sorted((each for run in recorded.trace.runs for each in run.deliveries()), key=recorded.position)


def slowest(page: RecordedPage) -> dict[str, Any]:
    found: dict[str, Any] = ask(page, "slow", api="Produce")["requests"][0]
    return found


# ------------------------------------------------------------------------------------------------ access


def test_deliveries_before_and_after_any_position_are_those_of_the_whole_trace(recorded: RecordedTrace) -> None:
    whole = in_order(recorded)
    for place in range(0, len(whole), 97):
        position = recorded.position(whole[place])
        assert [key(each) for each in recorded.deliveries_after(position)] == [key(each) for each in whole[place + 1 :]]
        assert [key(each) for each in recorded.deliveries_before(position)] == [
            key(each) for each in whole[:place][::-1]
        ]
        assert recorded.delivery(*key(whole[place])).record == whole[place].record
        at = whole[place].at
        assert recorded.count(recorded.begin, at) == sum(each.at < at for each in whole)


def test_a_stretch_has_the_causes_that_reading_the_whole_trace_finds(recorded: RecordedTrace) -> None:
    finder = CauseFinder(recorded.trace.runs)
    links = {recorded.id_of(each): finder.link(each) for each in in_order(recorded)}
    middle = recorded.begin + 1.0
    stretch = recorded.stretch(middle, middle + 0.1, 1000)
    assert len(stretch.deliveries) > 30 and any(link.crossed for link in stretch.links.values())
    assert all(stretch.links.get(here) == links[here] for here in map(recorded.id_of, stretch.deliveries))
    cut = recorded.stretch(middle, middle + 0.1, 10)
    assert len(cut.deliveries) == 10 and cut.until < middle + 0.1


def test_the_skew_between_clocks_is_estimated_and_subtracted(folder: Path, recorded: RecordedTrace) -> None:
    trace = open_trace(folder)
    for run in trace.runs:
        run.clock_offset += {1: 5.0}.get(run.node, 0.0)
    shifted = RecordedTrace(trace)
    estimate = {(each.node, each.other): each for each in shifted.skews}
    assert abs(estimate[0, 1].seconds - 5.0) <= estimate[0, 1].uncertainty < 0.1 and estimate[0, 1].is_certain
    assert not estimate[0, 2].is_certain and not any(each.is_certain for each in recorded.skews)
    shifts = {run.run.node: shifted.shifts[run.run.name] for run in shifted.runs}
    assert shifts[0] == shifts[2] == 0 and abs(shifts[1] - 5.0) < 0.1
    read = next(each for each in gather([run.run.run for run in shifted.runs]).select(NodeRun, node=1))
    assert abs(read.place.at - shifts[1] - shifted.correct_time(read).place.at) < 1e-6
    assert abs(shifted.begin - recorded.begin) < 0.1 and abs(shifted.end - recorded.end) < 0.1


# ------------------------------------------------------------------------------------------------ requests


def test_the_path_of_the_late_record_names_the_node_that_was_held_up(page: RecordedPage) -> None:
    late = slowest(page)
    assert (late["subject"], late["client_id"]) == ("orders-0", "client")
    assert abs(late["ms"] - late_record.STALLED * 1000) < 100
    ids = {"run": late["run"], "seq": late["seq"], "connection": late["connection"]}
    path = ask(page, "path", **ids, correlation=late["correlation_id"])
    edges = path["edges"]
    assert [edge["stage"] for edge in edges][:1] == [APPEND] and [edge["stage"] for edge in edges][-1:] == [ANSWER]
    assert {FOLLOWER, WATERMARK} <= {edge["stage"] for edge in edges}
    assert all(one["effect"] == other["cause"] and one["end"] <= other["end"] for one, other in pairwise(edges))
    assert abs(path["ms"] - late["ms"]) < 1
    worst = edges[path["gap"]]
    assert worst["ms"] > 0.99 * path["ms"] and worst["node"] == 1
    assert path["reason"].startswith("node 1 handled nothing from ")
    assert [[each["run"], each["seq"]] for each in path["deliveries"]] == [
        edges[0]["cause"],
        *(e["effect"] for e in edges),
    ]


def test_a_request_without_a_follower_has_a_path_too(page: RecordedPage) -> None:
    created = ask(page, "slow", api="CreateTopics")["requests"][0]
    ids = {"run": created["run"], "seq": created["seq"], "connection": created["connection"]}
    path = ask(page, "path", **ids, correlation=created["correlation_id"])
    assert abs(path["ms"] - created["ms"]) < 1 and len(path["edges"]) > 3


# ------------------------------------------------------------------------------------------------ steps and deliveries


@pytest.mark.parametrize("about", ["", "partition:orders-0", "controller", "message:Transmit", "text:orders"])
def test_a_step_back_undoes_a_step(page: RecordedPage, about: str) -> None:
    for by in ("delivery",) if about.startswith("message:") else ("delivery", "event"):
        here = ask(page, "step", at=late_at(page), by=by, about=about)
        later = ask(page, "step", run=here["run"], seq=here["seq"], by=by, about=about)
        assert later["at"] >= here["at"] and (later["run"], later["seq"]) != (here["run"], here["seq"])
        assert ask(page, "step", run=later["run"], seq=later["seq"], by=by, back=1, about=about) == here


def test_frames_that_are_passed_over_have_nothing_of_the_interest(page: RecordedPage) -> None:
    recorded, survey = page._recorded, page._survey
    for about in (
        "partition:orders-0",
        "topic:orders",
        "controller",
        "group:readers",
        "text:orders",
        "actor:GroupActor",
    ):
        interest = interest_of(about, recorded, survey)
        searched = list(recorded.deliveries_after((recorded.begin - 1, -1, 0), interest))
        assert interest.texts and len(searched) > 10
        assert searched == list(recorded.deliveries_after((recorded.begin - 1, -1, 0), interest._replace(texts=())))
        indexes = [run._words for run in recorded.runs]
        is_indexed = [words is not None and words.frames_with(interest.texts) is not None for words in indexes]
        assert is_indexed == [about != "text:orders"] * 3
        for run in recorded.runs:
            run._words, run._searched = None, {}
        assert searched == list(recorded.deliveries_after((recorded.begin - 1, -1, 0), interest))
        for run, words in zip(recorded.runs, indexes, strict=True):
            run._words = words
    nothing = interest_of("group:no such group", recorded, survey).texts
    assert not list(recorded.deliveries_after((recorded.begin - 1, -1, 0), Interest(None, nothing)))


@pytest.mark.parametrize("text", ["InitProducerId", "no such text"])
def test_a_long_search_goes_on_when_it_is_asked_again(
    page: RecordedPage, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    for what, query in (("step", {"at": page._recorded.begin, "about": f"text:{text}"}), ("search", {"text": text})):
        whole = ask(page, what, **query)
        for run in page._recorded.runs:
            run._searched = {}
        with monkeypatch.context() as patch:
            patch.setattr(recorded_page, "MOST_FRAMES", 1)
            assert answer(page, what, **query) == UNFINISHED
            assert ask(page, what, **query) == whole


def test_the_interest_in_a_broker_has_all_that_name_it(page: RecordedPage) -> None:
    concerns = interest_of("broker:1", page._recorded, page._survey).concerns
    assert concerns is not None
    naming = [each for each in in_order(page._recorded) if names_broker(each.payload, 1)]
    assert len(naming) > 100 and all(map(concerns, naming))


def late_at(page: RecordedPage) -> float:
    at: float = slowest(page)["at"]
    return at


def test_a_step_by_fact_goes_to_the_next_fact(page: RecordedPage) -> None:
    killed = ask(page, "step", at=late_at(page), by="fact")
    assert "broker 1 was killed" in killed["text"]
    gone = ask(page, "step", run=killed["run"], seq=killed["seq"], by="fact", about="partition:orders-0")
    assert "orders-0" in gone["text"] and gone["at"] > killed["at"]
    assert ask(page, "step", at=page.end + 1, by="fact") is None


def test_the_lanes_are_around_the_delivery(page: RecordedPage) -> None:
    late = slowest(page)
    lanes = ask(page, "lanes", run=late["run"], seq=late["seq"], most=40, about="partition:orders-0")
    drawn = [(each["run"], each["seq"]) for each in lanes["deliveries"]]
    assert len(drawn) == 40 and (0, late["seq"]) in drawn[18:22]
    assert {(each["run"], each["to"]) for each in lanes["deliveries"]} == {
        (e["run"], e["address"]) for e in lanes["lanes"]
    }
    assert any(each.get("crossed") for each in lanes["deliveries"])
    holes = [bin for bin, queue in enumerate(lanes["strips"][1]["queue"]) if queue > 0.95]
    assert len(holes) > 100 and not any(lanes["strips"][1]["handled"][bin] for bin in holes[1:-1])
    assert "error" not in lanes and ask(page, "lanes", at=late["at"])["deliveries"]


def test_a_delivery_shows_causes_effects_and_the_state_before_and_after(page: RecordedPage) -> None:
    late = slowest(page)
    appended = ask(page, "step", run=late["run"], seq=late["seq"], by="delivery", about="message:AppendBatches")
    place = {"run": appended["run"], "seq": appended["seq"]}
    found = ask(page, "delivery", **place)
    assert [each["seq"] for each in found["causes"]] == [late["seq"]] and found["message"] == "AppendBatches"
    assert "LogMoved" in {each["title"] for each in found["sent"]}
    state = ask(page, "state", **place)
    changes = {each["path"]: (each["before"], each["after"]) for each in state["differences"]}
    assert changes[".partition.leader.log.end"] == (3, 4) and state["actor"] == found["receiver"]


def test_a_state_far_from_a_snapshot_is_shown_when_snapshots_are_stored(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_page, "SNAPSHOTS", 50)
    monkeypatch.setattr(recorded_page._States, "_store_all", lambda states: None)
    served = RecordedPage(open_trace(folder), cache=tmp_path)
    run = served._recorded.runs[0]
    place = {"run": run.run.name, "seq": next(each.seq for each in run.backwards(run.last) if each.actor)}
    assert ask(served, "state", **place)["stored"] == 0
    Debugger(run.run, tmp_path, every=50).store_snapshots(1 << 30)
    served._states._put_first([])  # as when the process has stored all
    replayed, go = [], Debugger.go

    def measure(debugger: Debugger, n: int) -> bool:
        replayed.append(n - debugger.begins(n))
        return go(debugger, n)

    monkeypatch.setattr(Debugger, "go", measure)
    assert "differences" in ask(served, "state", **place)
    assert max(replayed) <= 100
    served.stop()


# ------------------------------------------------------------------------------------------------ subjects


def test_the_picture_is_that_of_the_moment(page: RecordedPage) -> None:
    late = late_at(page)
    assert [each["process"] for each in ask(page, "picture", at=late)["brokers"]] == ["running"] * 3
    assert [each["process"] for each in ask(page, "picture", at=late + 6)["brokers"]][1] == "killed"
    assert ask(page, "partition", name="orders-0", at=late)["isr"] == [0, 1, 2]
    assert "killed" in ask(page, "why", about="partition", name="orders-0")["verdict"]


def test_a_partition_has_offsets_states_and_the_produces_that_waited(page: RecordedPage) -> None:
    found = ask(page, "offsets", name="orders-0")
    leader, follower = found["nodes"][0], found["nodes"][1]
    assert [offset for _, offset in leader["end"]] == [1, 2, 3, 4, 5]
    assert [offset for _, offset in leader["high_watermark"]] == [0, 1, 2, 3, 4]
    late = max(found["produces"], key=lambda each: each["ms"])
    behind = [at for at, offset in follower["fetched"] if offset == 4]
    assert late["at"] + late_record.STALLED - 0.1 < behind[0] < late["at"] + late["ms"] / 1000 + 0.001
    assert [state["isr"] for state in found["states"]] == [[0, 1, 2], [0, 2]]


def test_a_group_has_members_and_rebalances_with_their_causes(page: RecordedPage) -> None:
    found = ask(page, "members", name="readers")
    (member,) = found["members"]
    assert member["client"] == "client" and member["ended"] == "expired" and member["to"] - member["from"] > 6
    states = [each["state"] for each in found["states"]]
    assert {"PreparingRebalance", "Stable"} <= set(states) and states[-1] == "Empty"
    assert any("sent no heartbeat" in each["why"] for each in found["states"])
    (lag,) = ask(page, "lags", name="readers", at=page.end)
    assert (lag["partition"], lag["committed"], lag["end"], lag["lag"]) == ("orders-0", 2, 5, 3)
    assert ask(page, "lags", name="readers", at=lag["at"] - 0.1) == []


@pytest.mark.parametrize("lacking", ["", "LogMoved", "LogRead"])
def test_a_lag_needs_only_one_kind_of_message_about_the_log(folder: Path, lacking: str) -> None:
    """A partition sends LogMoved only to a reader that waits: a record may be appended while none does."""
    lags = LiveLags()
    for each in open_trace(folder).deliveries():
        if each.message != lacking:
            lags.take(each)
    assert [(lag["partition"], lag["end"], lag["lag"]) for lag in lags.of("readers")] == [("orders-0", 5, 3)]


def test_search_finds_subjects_facts_and_messages(page: RecordedPage) -> None:
    found = ask(page, "search", text="orders-0")
    assert ["partition", "orders-0"] in found["subjects"] and found["facts"]
    assert {each["node"] for each in ask(page, "search", text="orders")["deliveries"]} == {0, 1, 2}


def test_two_runs_slide_together_and_the_first_difference_is_marked(
    page: RecordedPage, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "other")
    (removed,) = (run for run in find_runs(tmp_path / "other").runs if run.header.node == 2)
    for path in removed.folder.iterdir():
        path.unlink()
    other = RecordedPage(open_trace(tmp_path / "other"), cache=tmp_path)
    compared = RecordedPage(open_trace(folder), cache=tmp_path, beside=other)
    for each in (other, compared):
        each.wait()
    found = ask(compared, "compare", at=late_at(page))
    ours, theirs = found["sides"]
    assert ours["first"]["node"] == 2 != theirs["first"]["node"] and not found["same"]
    assert ours["at"] - compared._recorded.begin == pytest.approx(theirs["at"] - other._recorded.begin)
    assert all({each["passed"] for each in side["facts"]} == {True, False} for side in (ours, theirs))
    compared._beside = page
    assert ask(compared, "compare", at=late_at(page))["same"]
    for each in (compared, other):
        each.stop()


def test_the_lanes_have_the_lines_that_a_node_logged(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "logged")
    recorded = RecordedTrace(open_trace(tmp_path / "logged"))
    middle = recorded.runs[0].begin + 3.0

    def line(seconds: float, text: str) -> str:
        logged = datetime.fromtimestamp(middle + seconds)
        return f"[{logged:%Y-%m-%d %H:%M:%S},{logged.microsecond // 1000:03d}] {text} (kafka.server)\n"

    own = line(0.5, "WARNING low") + "    a traceback\n" + line(-9999, "INFO of an earlier run")
    (tmp_path / "logged" / "node-0" / "node.log").write_text(own)
    (tmp_path / "logged" / "cluster.log").write_text(
        line(0, "ERROR [Broker id=2] failed") + line(0, "INFO without a node")
    )
    lines = log_lines(recorded)
    assert [(each.run, each.level, each.text) for each in lines] == [
        (2, 2, "[Broker id=2] failed (kafka.server)"),
        (0, 1, "low (kafka.server)"),
    ]
    assert lines[1].at == pytest.approx(middle + 0.5, abs=0.0011)
    page = RecordedPage(recorded.trace, cache=tmp_path / "cache")
    page.wait()
    around = ask(page, "lanes", at=middle, most=500)
    assert (
        [each["text"] for each in around["logs"]]
        == [each.text for each in lines if around["start"] <= each.at <= around["end"]]
        != []
    )
    assert {"run": 2, "node": 2, "address": "outside:log"} in around["lanes"]
    page.stop()


# ------------------------------------------------------------------------------------------------ commands, notebooks


def test_why_names_the_command_that_opens_the_page_at_its_moment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = open_trace(folder).why("partition", "single-0")
    program, *words = shlex.split(page_command(folder, "partition", "single-0", explanation))
    assert program == "kafka-actors" and words[:2] == ["trace", "show"] and explanation.chain[0].at is not None

    class Interrupted:
        def wait(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(trace_show, "threading", SimpleNamespace(Event=Interrupted))
    monkeypatch.setattr(process, "tame", lambda: None)
    output = CliRunner().invoke(trace_show.command, words[2:]).output
    query = urlencode({"at": repr(explanation.chain[0].at), "about": "partition:single-0"})
    assert re.search(rf"http://127\.0\.0\.1:\d+/#/lanes\?{re.escape(query)}\.", output), output


def test_notebooks_show_a_trace_and_an_explanation_as_escaped_html(folder: Path) -> None:
    trace = open_trace(folder)
    assert trace._repr_html_().count("<tr>") == 4
    facts = trace.facts()
    assert facts._repr_html_().count("<tr>") == min(len(facts), MOST_SHOWN) + 1
    explanation = trace.why("partition", "single-0")._replace(verdict="<script>")
    shown = explanation._repr_html_()
    assert "&lt;script&gt;" in shown and "<script>" not in shown and shown.count("<li>") > len(explanation.chain)


# ------------------------------------------------------------------------------------------------ broken traces


def test_a_torn_a_damaged_and_an_older_trace_open_as_far_as_they_are_whole(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    first, second, third = find_runs(broken).runs
    torn = first.paths[-1]
    torn.write_bytes(torn.read_bytes()[:-100])
    altering.damage(second)
    altering.make_older(third)
    recorded = RecordedTrace(open_trace(broken))
    runs = {run.run.name: run for run in recorded.runs}
    assert runs[first.header.run].problem == "", "the end of a killed run may be torn"
    damaged = runs[second.header.run]
    assert damaged.problem and any(damaged.run.name in each and "up to delivery" in each for each in recorded.problems)
    assert any(f"schema version {SCHEMA_VERSION - 1}" in each for each in recorded.problems) and len(runs) == 2
    assert len(list(recorded.deliveries_after((recorded.begin - 1, -1, 0)))) > 0


def test_a_trace_that_is_being_written_opens_as_far_as_it_was_written(tmp_path: Path) -> None:
    with SimulatedCluster(1, directory=tmp_path) as cluster:
        cluster.create_topic("orders")
        cluster.run(12.0)
        recorded = RecordedTrace(open_trace(tmp_path))
        (problem,) = recorded.problems
        assert "still being recorded" in problem and recorded.runs[0].length > 50


def test_a_run_that_cannot_be_replayed_has_no_states_but_all_else(folder: Path, tmp_path: Path) -> None:
    run = find_runs(folder).runs[0]
    rows = altering.rows_of(run)
    appended = next(row for row in rows if row["type"] == "AppendBatches")
    appended["sender"] = "NodeActor.1"
    page = RecordedPage(open_trace(altering.write(tmp_path / "altered", run.header, rows)), cache=tmp_path / "cache")
    page.wait()
    place = {"run": run.header.run, "seq": appended["n"]}
    assert f"diverged at delivery {appended['n']}" in ask(page, "state", **place)["problem"]
    assert ask(page, "delivery", **place)["sender"] == "NodeActor.1"
    page.stop()
