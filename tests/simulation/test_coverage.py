"""Coverage points come from the code, each run counts the points that it reaches, and the report lists the rest."""

from __future__ import annotations

import faulthandler
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.simulate_explore import command
from actors.simulation.actions import FAULTS, NAMED, invent
from actors.simulation.coverage import ACTED, ROLES, TRAP, UNREACHABLE, Report, probes
from actors.simulation.run import run
from actors.simulation.schedule import parse
from messages.apis import APIS
from messages.error_names import NAMES
from messages.probes import collecting, probe

ROOT = Path(__file__).resolve().parents[2]
ALL = (*FAULTS, *NAMED)

# ---------------------------------------------------------------------------------------------------- points


def test_every_api_has_codes_of_kafka() -> None:
    assert all(api.codes and set(api.codes.split()) <= set(NAMES.values()) for api in APIS)


def test_every_trap_has_a_probe() -> None:
    text = (ROOT / "docs" / "protocol" / "controller.md").read_text(encoding="utf-8")
    traps = set(re.findall(r"^- \*\*T(\d+)\*\*", text, re.MULTILINE))
    assert {match[1] for name in probes() if (match := TRAP.match(name))} == traps


def test_a_reason_belongs_to_something_that_is_counted() -> None:
    assert not Report({}).false_reasons
    assert all(reason.endswith(".") for reason in UNREACHABLE.values())


def test_a_reason_is_false_where_a_run_reaches_the_point() -> None:
    report = Report(
        {"a": 1}, {"a": "probes", "b": "probes", "c": "probes"}, {"a": "Never.", "b": "Never.", "d": "No."}, {}
    )
    assert report.false_reasons == ["a", "d"]
    assert report.missing == ["c"]


def test_a_probe_counts_only_while_something_collects() -> None:
    counts = Counter[str]()
    probe("before")
    with collecting(lambda name: counts.update((name,))):
        probe("meanwhile")
    probe("after")
    assert counts == {"meanwhile": 1}


# ---------------------------------------------------------------------------------------------------- runs


SCHEDULE = """
    brokers 3
    duration 14
    records yes
    2 create a 0,1,2 1,2,0
    6 cut 0 1 for 2
    6 cut 1 2 for 2
    9 reassign a 0 1,2,0
    10 send-admin DescribeConfigs,CreateTopics:name=@topic,ElectLeaders:name=absent a 0 g0
    11 send-data Fetch:current_leader_epoch-1,Produce:acks=2,ListOffsets:partition=absent a 0 g0
    12 send-stale LeaderAndIsr:controller_epoch-1,StopReplica:broker_epoch-1 a 0 g0
    """
SMALL = {
    **{f"{action} of a {role}": ACTED for action in ("cut", "reassign", "send-admin") for role in ROLES},
    **dict.fromkeys(("NonExistentPartition to NewPartition", "NewPartition to OnlinePartition"), "states"),
    **dict.fromkeys(("controller TopicChange", "controller ZkPartitionReassignment"), "events"),
    **dict.fromkeys(("Produce INVALID_REQUIRED_ACKS", "ListOffsets UNKNOWN_TOPIC_OR_PARTITION"), "answers"),
    **dict.fromkeys(("LeaderAndIsr STALE_CONTROLLER_EPOCH", "StopReplica STALE_BROKER_EPOCH"), "answers"),
}
"""The points that SCHEDULE must reach."""


def reached(without: str = "no action") -> Report:
    """Run SCHEDULE without the lines of an action and return the coverage of SMALL."""
    schedule = parse("\n".join(line for line in SCHEDULE.splitlines() if without not in line))
    outcome = run(schedule, covered=True)
    assert outcome.violation is None, outcome.violation
    return Report(outcome.reached, SMALL, {}, {})


def test_a_schedule_reaches_the_small_universe_and_misses_an_action_that_is_left_out() -> None:
    assert reached().missing == []
    without = reached("cut")
    assert without.idle_actions == ["cut"] and without.percent < 95
    assert without.missing == [name for name in SMALL if name.startswith("cut ")]


AT_ONCE = """
    brokers 3
    duration 20
    2 create a 0,1 1,2
    3 join g0 0
    10 send-group own-group,stuck-group a 0 g0
    16 send-admin moving-topic a 0 g0
    """


def test_a_node_handles_what_arrives_while_it_stalls_at_once() -> None:
    """Only requests that queued during a stall meet a dead group, a group without assignments, or a moving topic."""
    outcome = run(parse(AT_ONCE), covered=True)
    assert outcome.violation is None, outcome.violation
    cells = ("OffsetCommit", "TxnOffsetCommit", "OffsetDelete", "DeleteGroups")
    expected = {f"{request} in {state}" for request in cells for state in ("Dead", "CompletingRebalance")}
    assert {*expected, "Heartbeat in Dead", "CreatePartitions REASSIGNMENT_IN_PROGRESS"} <= outcome.reached.keys()


def test_counting_changes_nothing(tmp_path: Path) -> None:
    schedule = invent(1, duration=12.0, faults=ALL, records=True)
    found = []
    for covered in (False, True):
        folder = tmp_path / str(covered)
        run(schedule, folder, covered=covered)
        found.append(
            {file.relative_to(folder): file.read_bytes() for file in folder.rglob("trace/*") if file.is_file()}
        )
    assert found[0] == found[1] and found[0]


@pytest.mark.soak
@pytest.mark.long
def test_two_hundred_seeds_reach_nearly_everything_and_the_rest_has_a_reason(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # this run exceeds the time limit of a test
    file = tmp_path / "coverage.json"
    arguments = ["--seeds", "200", "--duration", "60", "--faults", "all", "--records", "--require", "95%"]
    result = CliRunner().invoke(command, [*arguments, "--coverage", str(file)], standalone_mode=False)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert result.return_value == 0, result.output
    assert report["percent"] >= 95 and not report["missing"]
