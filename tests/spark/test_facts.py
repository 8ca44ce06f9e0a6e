"""The table of facts that Spark reads has the facts that `why` reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from messages.facts.trace_facts import gather
from messages.trace.files.runs import find_runs
from spark.errors import BadOption
from spark.source import TraceSource
from tests.cli.test_why_situations import cluster, create, others


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record the failure of a leader and its return."""
    folder = tmp_path_factory.mktemp("lived")
    with cluster(folder) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(leader)
        running.wait_for(lambda: running.leader_of("t") == follower)
        running.start_broker(leader)
        running.run(5.0)
    return folder


def test_the_table_of_facts_has_the_facts_that_why_reads(session: SparkSession, lived: Path) -> None:
    session.dataSource.register(TraceSource)
    reader = session.read.format(TraceSource.name()).option("table", "facts")
    table = reader.load(str(lived))
    facts = [each for run in find_runs(lived).runs for each in gather((run,)).all()]
    read = table.select("run", "n", "event_id", "at", "kind")
    assert rows(read) == sorted(
        ((each.place.run, each.place.n, each.place.event_id, each.place.at, type(each).__name__) for each in facts),
        key=repr,
    )
    epochs = table.where("kind = 'ControllerElected'").selectExpr("int(get_json_object(fields, '$.epoch')) as epoch")
    assert sorted(row.epoch for row in epochs.collect()) == [each.epoch for each in gather(find_runs(lived).runs).terms]
    with pytest.raises(BadOption, match="table='tales' is not a table"):
        TraceSource({"path": str(lived), "table": "tales"}).schema()
