"""`kafka_actors.trace`: the contents of a cluster's trace, and the errors for wrong arguments and damaged files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from actors.public import trace
from actors.runtime.trace.replayer import Replay
from actors.runtime.trace.state import displayed_state, state_of
from actors.trace.moment import ACTORS
from messages.trace.files.runs import RunRecords, find_runs
from messages.trace.schema import DELIVERIES
from tests.trace import cluster_life


def test_deliveries_are_those_of_all_runs_by_time(lived: Path) -> None:
    recorded = trace.open(lived)
    runs = find_runs(lived).runs
    records = [record for run in runs for record in RunRecords(run) if record.kind in DELIVERIES]
    deliveries = list(recorded.deliveries())
    assert len(deliveries) == len(records) > 2000
    assert [each.at for each in deliveries] == sorted(each.at for each in deliveries)
    for run in recorded.runs:
        assert [each.seq for each in deliveries if each.run is run] == list(
            range(1, 1 + sum(each.run is run for each in deliveries))
        )


def test_a_delivery_has_its_values(lived: Path) -> None:
    recorded = trace.open(lived).select(node=cluster_life.CONTROLLER)
    first = next(recorded.deliveries())
    assert (first.seq, first.kind, first.cause, first.sender) == (1, "outside", None, "outside:process")
    assert (first.message, first.receiver, first.actor) == ("StartNode", "NodeActor.1", "NodeActor")
    assert first.payload["settings"]["node_id"] == cluster_life.CONTROLLER
    assert first.has_payload and first.payload_bytes > 1000 and first.error is None
    assert first.waited_ms == first.took_ms == 0.0
    assert first.time == recorded.runs[0].started
    started = next(delivery for delivery in recorded.deliveries() if delivery.message == "StartBridge")
    assert started.cause == 1
    assert repr(started) == f"<delivery {started.seq} of node 2: StartBridge to ZkBridgeActor.2>"


def test_runs_have_their_header_and_their_end(lived: Path) -> None:
    recorded = trace.open(lived)
    assert [run.node for run in recorded.runs] == [0, 0, 0, 1, 2]
    assert {run.ending for run in recorded.runs} <= {"stopped", "killed"}
    assert all(run.settings["node_id"] == run.node and not run.faults for run in recorded.runs)


@pytest.mark.parametrize("seq", [1, 100, 777, 1500])
def test_a_state_is_that_of_a_replay(lived: Path, seq: int) -> None:
    recorded = trace.open(lived)
    (run,) = recorded.select(node=2).runs
    replay = Replay(run.run, ACTORS, until=seq)
    assert replay.result().ok
    moment = recorded.at(seq, node=2)
    assert moment.actors == tuple(str(ref) for ref in replay.base.living())
    for address in moment.actors:
        actor = replay.base.instance_of(replay.base.address_of(address))
        assert moment.state(address) == displayed_state(state_of(actor))
    assert moment.state("NodeActor") == moment.state("NodeActor.1")
    hosted = [name for name in moment.actors if name.startswith("PartitionActor.")]
    for name in hosted:
        partition = moment.state(name)["partition"]["role"]["partition"]
        assert moment.state(f"PartitionActor:{partition['topic']}-{partition['partition']}") == moment.state(name)


def test_facts_and_answers_lead_to_deliveries(lived: Path) -> None:
    recorded = trace.open(lived)
    facts = list(recorded.facts())
    assert {"StateWrite", "ControllerElected", "NodeRun", "RequestRefused", "LogTruncated"} <= {
        fact.kind for fact in facts
    }
    assert [fact.at for fact in facts] == sorted(fact.at for fact in facts)
    (run,) = recorded.select(node=2).runs
    written = next(fact for fact in facts if fact.kind == "StateWrite" and fact.node == 2)
    assert run.delivery(written.seq).at == written.at
    assert written.text.startswith("StateWrite partition=")
    verdict, chain, answers = recorded.why("partition", "pair-0")
    assert verdict.startswith("broker 1 has been out of the ISR [0] of pair-0 since ")
    assert chain[-1].text.startswith("broker 1 was killed")
    assert answers[0].question == "Which broker leads it, and why?"
    line = answers[0].lines[0]
    assert line.run is not None and line.seq is not None
    assert recorded.only_run(run=line.run).delivery(line.seq).seq == line.seq
    assert recorded.why("cluster") and recorded.why("broker", 0)


def test_arrow_has_a_row_for_each_record(lived: Path) -> None:
    pytest.importorskip("pyarrow")
    table = trace.open(lived).select(node=1).arrow().read_all()
    assert table.num_rows == sum(1 for run in find_runs(lived).runs if run.header.node == 1 for _ in RunRecords(run))
    assert {"n", "type", "actor"} <= set(table.column_names)


def test_arrow_without_pyarrow_names_the_extra(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.trace.reader.find_spec", lambda name: None)
    with pytest.raises(trace.MissingExtra, match=r"extra 'spark'.*pip install pyarrow"):
        trace.open(lived).arrow()


def test_wrong_use_names_the_thing(lived: Path, tmp_path: Path) -> None:
    with pytest.raises(trace.NotATrace, match="no such folder"):
        trace.open(tmp_path / "missing")
    with pytest.raises(trace.NotATrace, match="contains no recorded run"):
        trace.open(tmp_path)
    recorded = trace.open(lived)
    with pytest.raises(
        trace.NotATrace,
        match=r"holds 5 runs. Select one by its id \(--run\) or its node \(--node\). The runs are node0-",
    ):
        recorded.at(3)
    with pytest.raises(trace.NotATrace, match=r"no recorded run of node 9\. It contains the runs node0-"):
        recorded.select(node=9)
    with pytest.raises(trace.NotReplayable, match="there is no delivery 99999"):
        recorded.at(99999, node=2).actors
    with pytest.raises(trace.NotReplayable, match="-1 is neither"):
        recorded.at(-1, node=2).actors
    with pytest.raises(trace.ActorNotFound, match=r"not exactly one actor Missing; the actors are NodeActor\.1"):
        recorded.at(9, node=2).state("Missing")
    with pytest.raises(trace.TraceError, match="has no delivery 5000"):
        recorded.only_run(node=2).delivery(5000)
    for about, name in (("weather", None), ("broker", "x"), ("partition", "pair"), ("cluster", "x"), ("topic", None)):
        with pytest.raises(ValueError, match=about):
            recorded.why(about, name)


def test_damage_is_raised_after_what_can_be_read(lived: Path, tmp_path: Path) -> None:
    shutil.copytree(lived / "node-1", tmp_path / "node-1")
    (segment,) = (tmp_path / "node-1").rglob("*.trace.zst")
    content = bytearray(segment.read_bytes())
    content[-40] ^= 1
    segment.write_bytes(content)
    read = []
    with pytest.raises(trace.TraceError, match=r"node1-.*, byte \d+: the checksum"):
        for delivery in trace.open(tmp_path).deliveries():
            read.append(delivery)
    assert [each.seq for each in read] == list(range(1, 1 + len(read)))
