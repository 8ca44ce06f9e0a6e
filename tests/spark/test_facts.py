"""The table of facts that Spark reads has the facts that `why` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from messages.facts.trace_facts import gather
from messages.trace.files.runs import find_runs
from spark.errors import BadOption
from spark.source import TraceSource
from tests.cli.test_why_situations import cluster, create, others


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


def test_the_table_of_facts_has_the_facts_that_why_reads(lived: Path) -> None:
    source = TraceSource({"path": str(lived), "table": "facts"})
    reader: Any = source.reader(source.schema())
    table = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    facts = [each for run in find_runs(lived).runs for each in gather((run,)).all()]
    assert sorted(
        (tuple(row[name] for name in ("run", "n", "event_id", "at", "kind")) for row in table), key=repr
    ) == sorted(
        ((each.place.run, each.place.n, each.place.event_id, each.place.at, type(each).__name__) for each in facts),
        key=repr,
    )
    epochs = [json.loads(row["fields"])["epoch"] for row in table if row["kind"] == "ControllerElected"]
    assert sorted(epochs) == [each.epoch for each in gather(find_runs(lived).runs).terms]
    with pytest.raises(BadOption, match="table='tales' is not a table"):
        TraceSource({"path": str(lived), "table": "tales"}).schema()
