"""Following the traces of a running cluster: after interruptions, the tables equal those of a single reading."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from actors.cli.app import run
from messages.trace.files.runs import find_runs
from messages.trace.files.segments import SUFFIX
from spark.follow import land, only_follower
from spark.source import SCHEMA, GrowingTraces, TraceSource
from spark.summary import summarise
from tests.cluster.processes import OURS, Running, start_up
from tests.spark import failover
from tests.waiting import until


def _alike(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal, apart from floats that were added in another order."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    return bool(one == other)


LOST = (("_checkpoint/commits",), ("_checkpoint/commits", "_spark_metadata"))
"""Folders in which the last batch's file is missing after a late kill, and after an earlier one."""


@pytest.mark.soak
@pytest.mark.long
def test_a_batch_that_was_broken_off_is_landed_once(session: SparkSession, tmp_path: Path) -> None:
    traces, kept = tmp_path / "traces", tmp_path / "kept"
    node = failover.first(traces)
    for lost in LOST:
        node.recorder.flush()
        land(session, traces, kept)
        for place in lost:
            last = max((kept / place).glob("[0-9]*"), key=lambda file: int(file.name))
            last.unlink()
            last.with_name(f".{last.name}.crc").unlink()
        node.deliver(failover.CONTROLLER, failover.events.BrokerChange())
    node.recorder.close()
    failover.second(traces / "late").recorder.close()
    land(session, traces, kept)
    session.dataSource.register(TraceSource)
    read = session.read.format(TraceSource.name()).load(str(traces))
    assert read.count() == 26 + len(LOST) + 1 + 12
    assertDataFrameEqual(session.read.schema(SCHEMA).parquet(str(kept)), read)


def test_offsets_end_behind_whole_frames_of_each_segment_once(tmp_path: Path) -> None:
    node = failover.first(tmp_path / "a")
    node.recorder.flush()
    reader = GrowingTraces(tmp_path)
    nothing = reader.initialOffset()
    first = reader.latestOffset(nothing)
    [segment] = (tmp_path / "a").glob(f"*{SUFFIX}")
    assert first == {segment.name: segment.stat().st_size} and reader.latestOffset(first) == first
    assert [each.value.end for each in reader.partitions(nothing, first)] == [segment.stat().st_size]
    node.deliver(failover.CONTROLLER, failover.events.BrokerChange())
    node.recorder.close()
    shutil.copytree(tmp_path / "a", tmp_path / "copy")
    with segment.open("ab") as file:
        file.write(b"\x5b\x2a\x4d\x18 torn")
    second = reader.latestOffset(first)
    [grown] = reader.partitions(first, second)
    assert (grown.value.start, grown.value.end) == (first[segment.name], second[segment.name])
    assert sum(batch.num_rows for batch in reader.read(grown)) == 2
    for folder in ("a", "copy"):
        shutil.rmtree(tmp_path / folder)
    assert list(reader.read(grown)) == [] == reader.partitions(first, second), "removed to keep within bounds"
    assert reader.latestOffset(second) == second


ASKED = ("messages", "requests", "leadership", "queue")


@pytest.mark.spark_cluster
@pytest.mark.soak
@pytest.mark.long
def test_killed_in_the_middle_of_a_clusters_run_it_ends_with_the_tables_of_one_reading(
    session: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "cluster", tmp_path / "out.json"
    cluster, line = start_up(folder, tmp_path / "up", "--zookeeper", "memory", "--port", "0", "--brokers", "2")
    command = [*OURS, "summary", str(folder), "--follow", "--keep", str(tmp_path / "kept"), "--json", str(out)]
    command += [each for question in ASKED for each in ("--only", question)]

    def answered(following: Running) -> dict[str, Any]:
        assert following.process.poll() is None, following.output
        found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {"runs": [], "leadership": []}
        return found

    first = Running(command, tmp_path / "first")
    until(lambda: answered(first)["runs"], what="the first tables", timeout=90)
    started = psutil.Process(first.process.pid).children(recursive=True)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait(20)
    until(lambda: [each for each in started if each.is_running()], lambda left: not left, "nothing is left of it", 20)
    out.unlink()

    host = line["brokers"][0]
    admin = AdminClient({"bootstrap.servers": f"{host['host']}:{host['port']}"})
    admin.create_topics([NewTopic("late", 3, 2)])["late"].result(30)
    again = Running(command, tmp_path / "again")
    until(lambda: [row for row in answered(again)["leadership"] if row["topic"] == "late"], what="late", timeout=90)
    assert cluster.stop() == 0
    until(lambda: {row["ending"] for row in answered(again)["runs"]}, lambda ends: ends == {"stopped"}, "the end", 90)
    again.send(signal.SIGINT)
    assert again.process.wait(20) == 130

    assert len(find_runs(folder).runs) == 2
    batch = json.loads(json.dumps(summarise(folder, session, only=ASKED).as_dict()))
    assert _alike(json.loads(out.read_text()), batch)
    kept = json.loads(json.dumps(summarise(tmp_path / "kept", session, only=ASKED).as_dict()))
    assert _alike(kept, batch), "what was landed can be asked later"


def test_one_at_a_time_follows_into_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    with only_follower(kept):
        assert run(["summary", str(tmp_path), "--follow", "--keep", str(kept)]) == 1
    assert capsys.readouterr().err.endswith(f"another --follow keeps what it reads in {kept}: one at a time may\n")
    with only_follower(kept):
        pass


def test_what_is_kept_is_for_following(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["summary", str(tmp_path), "--keep", str(tmp_path / "kept")]) == 2
    assert "--keep needs --follow" in capsys.readouterr().err
