"""`kafka-actors check` finds in a recorded trace a planted bug, as the monitors do in a run, and nothing without it."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from actors.cli.check import command
from actors.page.recorded_trace import RecordedTrace
from actors.public.kafka_cluster import KafkaCluster
from actors.simulation.recorded_cluster import check
from actors.simulation.run import run
from actors.simulation.schedule import parse
from actors.trace.reader import Trace, TraceRun
from messages.trace.files.runs import find_runs
from tests.simulation.mutants.catalogue import BY_NAME

LIFE = parse("""
    brokers 3
    duration 14
    records yes
    set min_insync_replicas 2
    1 join g 0
    2 create a 0,1,2
    2 create x 0,1,2 1,2,0
    4 produce x 0 for 8
    4 transact id0 for 8
    5 cut 0 1 for 3
    5 cut 0 2 for 3
    5.5 burst a 0 5 100
    7 kill 2 for 3
    9 delete x
    11 send-group OffsetCommit:group_id=@group;generation_id=1;member_id=stranger a 0 g
    """)

BUGS = {
    "acks=all is answered by the leader alone": "acks=all needs min.insync.replicas",
    "commits are answered before they are in the log": "groups answer what their log has",
    "commit of an unknown member is accepted": "stale requests are refused",
    "leader epoch is not raised at an election": "leader epochs increase by one",
}
"""A mutant -> an invariant that the trace of LIFE violates with it."""


def record(folder: Path) -> Path:
    """Record LIFE without a check."""
    run(LIFE, folder, only=())
    return folder


def test_a_trace_without_a_bug_violates_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(command, [str(record(tmp_path)), "--all"], standalone_mode=False)
    assert result.return_value == 0, result.output
    checked = check(find_runs(tmp_path).runs)
    assert not checked.violations and len(checked.checked) >= 28 and not checked.checked.keys() & checked.not_checked


def test_a_clock_that_is_ahead_changes_nothing(tmp_path: Path) -> None:
    runs = [
        attrs.evolve(each, header=replace(each.header, clock_offset=each.header.clock_offset + each.header.node * 0.2))
        for each in find_runs(record(tmp_path)).runs
    ]
    shifts = RecordedTrace(Trace(tmp_path, tuple(map(TraceRun, runs)))).shifts
    assert check(runs).violations and not check(runs, shifts).violations


@pytest.mark.parametrize("name", BUGS)
def test_a_trace_shows_a_planted_bug(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    BY_NAME[name].apply(monkeypatch)
    violations = check(find_runs(record(tmp_path)).runs).violations
    assert BUGS[name] in {each.invariant.name for each in violations}


def test_the_report_of_a_failed_test_names_the_violated_invariant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BY_NAME["commit of an unknown member is accepted"].apply(monkeypatch)
    cluster = KafkaCluster(directory=tmp_path / "cluster")
    cluster._trace_dir = record(tmp_path / "trace")
    assert "violated: stale requests are refused" in cluster.diagnosis()
