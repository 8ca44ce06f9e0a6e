"""The figures of a summary equal those counted by hand in tests/spark/failover.py."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from actors.cli.app import run
from actors.runtime.trace.recorder import Recorder
from messages.trace.endings import KILLED
from messages.trace.files.errors import NotATrace
from messages.trace.files.runs import RunRecords, find_runs
from messages.trace.files.segments import SUFFIX
from messages.trace.files.writer import RunWriter
from messages.trace.schema import INPUTS, STOPPED
from messages.trace.text import compress
from spark.pack import Packing, is_packed, manifest
from spark.results import Summary
from spark.section_names import BRIEF
from spark.source import TraceSource
from spark.summary import summarise
from tests.spark import failover
from tests.trace.small_system import Small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with good and damaged runs.

    It has both traces of the failover (the killed one with a torn tail), a run with a malformed line and damage, and a
    file that is no trace.
    """
    folder = tmp_path_factory.mktemp("cluster{x}[y]")
    assert failover.record(folder) == (26, 11)
    killed, ended = find_runs(folder).runs
    with killed.paths[0].open("ab") as file:
        file.write(b"\x5b\x2a\x4d\x18 torn")
    writer = RunWriter(folder / "c", msgspec.structs.replace(ended.header, run="node1-damaged"))
    writer.write(compress([b'[1,"sent","long"]']), 1, 0)
    writer.write(compress([b"[2]"]), 1, 1)
    writer.close()
    [damaged] = (folder / "c").glob(f"*{SUFFIX}")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    (folder / f"stranger{SUFFIX}").write_bytes(b"no trace")
    return folder


@pytest.fixture(scope="module")
def summary(session: SparkSession, folder: Path) -> Summary:
    return summarise(folder, session, partial=True)


def test_runs_are_listed_with_their_ending(summary: Summary) -> None:
    assert [(run.node, run.deliveries, run.ending) for run in summary["runs"]] == [(0, 26, KILLED), (1, 11, STOPPED)]
    assert [round(run.last_at - run.first_at) for run in summary["runs"]] == [25, 10]


def test_only_unreadable_runs_are_reported(summary: Summary) -> None:
    assert summary.malformed == 1
    [damage] = summary.damage
    assert "node1-damaged" in damage and "byte" in damage and "checksum" in damage
    assert len(summary.unreadable) == 1 and "stranger" in summary.unreadable[0]
    assert sum(row.count for row in summary["messages"]) == 37


def test_a_duplicate_run_is_reported_and_counted_once(session: SparkSession, tmp_path: Path) -> None:
    failover.record(tmp_path)
    shutil.copytree(tmp_path / "b", tmp_path / "b-again")
    twice = summarise(tmp_path, session, partial=True, only=("runs", "messages"))
    assert sum(row.count for row in twice["messages"]) == 37
    assert len(twice.damage) == 2 and all("2 times" in damage for damage in twice.damage)


def test_few_records_need_no_compiled_code(session: SparkSession, tmp_path: Path) -> None:
    failover.record(tmp_path)
    metrics = session._jvm.org.apache.spark.metrics.source.CodegenMetrics
    before = metrics.METRIC_COMPILATION_TIME().getCount()
    assert len(summarise(tmp_path, session, only=("episodes",))["episodes"]) > 0
    assert metrics.METRIC_COMPILATION_TIME().getCount() == before


def test_messages_by_actor_and_type(summary: Summary) -> None:
    found = {(row.actor, row.type): row for row in summary["messages"]}
    assert {key: row.count for key, row in found.items()} == {
        ("BrokerChannelActor", "Received"): 8,
        ("BrokerChannelActor", "StartChannel"): 4,
        ("BrokerChannelActor", "TransmitFailed"): 2,
        ("ControllerActor", "Answer"): 6,
        ("ControllerActor", "BrokerChange"): 1,
        ("ControllerActor", "Forwarded"): 1,
        ("ControllerActor", "Reelect"): 1,
        ("ControllerActor", "Startup"): 2,
        ("ControllerActor", "TopicChange"): 1,
        ("ControllerActor", "UpdateMetadataResponseReceived"): 1,
        ("outside:network", "Transmit"): 10,
    }
    transmit = found["outside:network", "Transmit"]
    assert (transmit.seconds, transmit.longest_ms, transmit.waited_s, transmit.failed) == (2.5, 250.0, 5.0, 0)
    assert found["ControllerActor", "TopicChange"].failed == 1


def test_controller_events_are_counted_by_node_and_type(summary: Summary) -> None:
    assert [(row.node, row.type, row.count) for row in summary["events"]] == [
        (0, "BrokerChange", 1),
        (0, "Startup", 1),
        (0, "TopicChange", 1),
        (0, "UpdateMetadataResponseReceived", 1),
        (1, "ControlledShutdown", 1),
        (1, "Reelect", 1),
        (1, "Startup", 1),
    ]


def test_controller_requests_are_counted_by_broker(summary: Summary) -> None:
    assert [(r.node, r.broker, r.type, r.count, r.partitions, r.retransmissions) for r in summary["requests"]] == [
        (0, 0, "LeaderAndIsrRequest", 1, 2, 0),
        (0, 1, "LeaderAndIsrRequest", 2, 3, 0),
        (0, 1, "StopReplicaRequest", 1, 1, 0),
        (0, 1, "UpdateMetadataRequest", 1, 2, 2),
        (0, 2, "LeaderAndIsrRequest", 1, 2, 0),
        (1, 1, "LeaderAndIsrRequest", 1, 2, 0),
        (1, 1, "UpdateMetadataRequest", 1, 1, 0),
    ]


def test_elections_are_listed_with_their_epoch(summary: Summary) -> None:
    assert [(row.node, row.epoch) for row in summary["elections"]] == [(0, 1), (1, 2)]
    assert not summary["compared"], "there is nothing to compare with"


def test_the_failover_is_explained(summary: Summary, folder: Path) -> None:
    """Broker 2 has no trace, so it died when the controller missed it.

    Node 0 was killed, and node 1 was elected instead.
    """
    begin = {run.node: run.first_at - 1 for run in summary["runs"]}
    first, second = summary["episodes"]
    # node 0 receives BrokerChange in its 20th delivery, node 1 Reelect in its 3rd; no run says when it registered
    assert (first.broker, first.seen_by, first.after, first.was_controller) == (2, 0, "BrokerChange", False)
    assert (second.broker, second.seen_by, second.after, second.was_controller) == (0, 1, "Elected", True)
    assert [round(first.died_at - begin[0]), round(second.died_at - begin[1])] == [20, 3]
    assert (first.seen_s, first.partitions, first.ending, second.ending) == (0, 0, None, None)


def test_the_source_gives_what_is_packed(session: SparkSession, folder: Path, tmp_path: Path) -> None:
    """Spark's data source for traces and the packed Parquet files have the same rows, with the same types."""
    session.dataSource.register(TraceSource)
    read = session.read.format(TraceSource.name()).load(str(folder))
    Packing(folder, tmp_path / "packed").finish()
    packed = session.read.schema(read.schema).parquet(str(tmp_path / "packed"))
    assertDataFrameEqual(read, packed)
    assert read.where("kind = 'malformed'").count() == 1
    assert read.where("states is not null and size(states) > 0").count() == 10


def test_one_question_to_what_is_packed_has_the_same_answer(
    session: SparkSession, summary: Summary, folder: Path, tmp_path: Path
) -> None:
    packed = tmp_path / "packed"
    assert not is_packed(packed)
    assert Packing(folder, packed).finish() == 39
    assert is_packed(packed)
    alone = summarise(packed, session, only=("episodes",), partial=True)
    assert alone["episodes"] == summary["episodes"] and alone["runs"] == summary["runs"]
    assert (alone.malformed, alone.unreadable, alone.damage) == (1, summary.unreadable, summary.damage)
    assert not alone["messages"] and not alone["leadership"]


def test_pack_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failover.record(tmp_path / "traces")
    assert run(["trace", "pack", str(tmp_path / "traces"), str(tmp_path / "packed")]) == 0
    assert capsys.readouterr().out == f"38 rows written, of 2 runs, in {tmp_path / 'packed'}\n"
    (tmp_path / "empty").mkdir()
    assert run(["trace", "pack", str(tmp_path / "empty"), str(tmp_path / "none")]) == 1
    assert "contains no recorded run" in capsys.readouterr().err


def test_packing_again_writes_what_has_grown(tmp_path: Path) -> None:
    traces, packed = tmp_path / "traces", tmp_path / "packed"
    node = failover.first(traces)
    node.recorder.flush()
    assert Packing(traces, packed).finish() == 26
    assert Packing(traces, packed).finish() == 0
    node.deliver(failover.CONTROLLER, failover.events.BrokerChange())
    node.recorder.flush()
    assert Packing(traces, packed).finish() == 27, "the slice that has grown"
    node.recorder.close()
    failover.second(traces / "late").recorder.close()
    assert Packing(traces, packed).finish() == 28 + 12
    assert len(list(packed.glob("*.parquet"))) == 2
    assert [(run.node, run.ending) for run in manifest(packed).runs] == [(0, STOPPED), (1, STOPPED)]


def test_a_summary_becomes_json(summary: Summary) -> None:
    assert json.loads(json.dumps(summary.as_dict()))["elections"][1]["epoch"] == 2


def test_an_empty_folder_has_an_empty_summary(session: SparkSession, tmp_path: Path) -> None:
    empty = summarise(tmp_path, session)
    assert set(empty.answers) == set(BRIEF) and not any(empty.answers.values())
    assert (empty.malformed, empty.unreadable, empty.damage) == (0, (), ())


def test_a_run_of_another_schema_is_refused_by_its_version(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.trace.recorder.SCHEMA_VERSION", 99)
    Recorder(tmp_path, node=0).close()
    refused = summarise(tmp_path, session, partial=True, only=("runs",))
    assert not refused["runs"] and not refused.damage
    [why] = refused.unreadable
    assert "schema version 99" in why


def test_a_run_of_inputs_with_snapshots_has_a_row_for_every_delivery(session: SparkSession, tmp_path: Path) -> None:
    small = Small(tmp_path, detail=INPUTS)
    small.live()
    small.recorder.close()
    summary = summarise(tmp_path, session, only=("runs", "messages"))
    [run] = summary["runs"]
    assert (run.detail, run.ending, run.deliveries) == (INPUTS, STOPPED, small.base.n)
    assert not summary.malformed and not summary.damage
    [workers] = [row.count for row in summary["messages"] if (row.actor, row.type) == ("Worker", "StopReplicaRequest")]
    [recorded] = find_runs(tmp_path).runs
    assert workers == sum((r.actor, r.type) == ("Worker", "StopReplicaRequest") for r in RunRecords(recorded)) > 10


def test_a_folder_that_is_not_there_is_named(session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="nowhere"):
        summarise(tmp_path / "nowhere", session)
