"""Triage groups failing seeds, compares them with the last report, and shows each with the nearest run that passes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from actors.cli import simulate_explore
from actors.cli.app import run as cli
from actors.core.controller import leadership, reassignment
from actors.simulation import canary
from actors.simulation.canary import run_with_bug
from actors.simulation.run import run
from actors.simulation.schedule import parse
from actors.simulation.triage import Case, digest, groups, page
from actors.trace.reader import open_trace

STALE = parse("brokers 3\nduration 10\nsteady yes\n2 create a 0,1\n4 ask-reassign a 0 1,0")
"""A schedule on which the canary's bug violates an invariant."""


def case(seed: int, invariant: str = "one", lines: str = "1 create a 0\n2 kill 0 for 1") -> Case:
    """Return the case of a failing seed."""
    return Case(seed, invariant, "it is broken", parse(lines), 9, "2.000 kill 0 for 1.000", ("-a", "+b"))


def test_seeds_of_one_invariant_and_one_shape_are_one_group_and_the_last_report_shows_which_are_new() -> None:
    cases = [case(1), case(7, lines="1 create b 1\n5 kill 2 for 3"), case(3, "two"), case(4, lines="1 create a 0")]
    first = groups(cases, {})
    assert [(group["shape"], group["seeds"], group["status"]) for group in first] == [
        ("create, kill", [1, 7], "new"),
        ("create, kill", [3], "new"),
        ("create", [4], "new"),
    ]
    second = groups([case(8), case(9, "three")], {"groups": first})
    assert [(group["invariant"], group["seeds"], group["status"]) for group in second] == [
        ("one", [8], "known"),
        ("three", [9], "new"),
        ("two", [3], "gone"),
        ("one", [4], "gone"),
    ]
    third = groups([], {"groups": second})
    assert [group["invariant"] for group in third] == ["one", "three"], "a group that is gone is reported once"


def test_the_page_is_whole_and_quotes_what_it_shows() -> None:
    report = {"runs": 3, "broken": 1, "checks": {"canary": "found"}, "groups": groups([case(1, "<b>")], {})}
    text = page(report)
    assert "<h2>&lt;b&gt; (new)</h2>" in text and "src=" not in text and "href=" not in text


def test_the_canary_breaks_an_invariant_and_leaves_the_product_as_it_was() -> None:
    assert run(STALE).violation is None
    assert run_with_bug(STALE).violation is not None
    assert reassignment.leadership is leadership


def test_a_canary_that_is_not_found_has_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(canary, "write_states_uncached", leadership.write_states)
    monkeypatch.setattr(simulate_explore, "SEEDS", 1)
    line = ["simulate", "explore", "--seeds", "1", "--duration", "5", "--workers", "1", "--canary"]
    assert cli(line) == 3
    assert "not found within 1 seeds" in capsys.readouterr().out


def test_two_runs_of_one_schedule_leave_the_same_traces() -> None:
    schedule = parse("brokers 2\nseed 4\nduration 4\n1 create a 0,1")
    assert digest(schedule) == digest(schedule)
    assert digest(schedule)[1] != digest(parse("brokers 2\nseed 4\nduration 4\n2 create a 0,1"))[1]


def test_the_reports_name_a_violation_and_the_run_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, report, html = tmp_path / "schedule.txt", tmp_path / "report.json", tmp_path / "report.html"
    file.write_text(STALE.text(), encoding="utf-8")
    options = f"--schedule {file} --workers 1 --json {report} --html {html}"
    with canary.patch_bug():
        assert cli(["simulate", "explore", *options.split()]) == 1
    [group] = json.loads(report.read_text(encoding="utf-8"))["groups"]
    assert group["status"] == "new" and group["shape"] == "create, ask-reassign"
    assert group["passes without"].endswith("ask-reassign a 0 1,0") and any(
        line.startswith("+") for line in group["difference"]
    )
    assert "passes without" in html.read_text(encoding="utf-8")
    assert "new: " in capsys.readouterr().out


def test_a_schedule_that_runs_again_names_the_page_at_its_violation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kept = tmp_path / "schedule.txt", tmp_path / "kept"
    file.write_text(STALE.text(), encoding="utf-8")
    with canary.patch_bug():
        assert cli(["simulate", "--schedule", str(file), "--workers", "1", "--keep", str(kept)]) == 1
    (folder,) = kept.iterdir()
    place, at = re.findall(r"page:   kafka-actors trace show (\S+) --ui --from (\S+)", capsys.readouterr().out)[0]
    times = [delivery.at for delivery in open_trace(folder).deliveries()]
    assert place == str(folder) and min(times) < float(at) <= max(times)


def test_a_file_that_is_no_report_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    file.write_text("[]", encoding="utf-8")
    assert cli(["simulate", "explore", "--duration", "5", "--json", str(file)]) == 1
    assert "is not a report of kafka-actors simulate" in capsys.readouterr().err
