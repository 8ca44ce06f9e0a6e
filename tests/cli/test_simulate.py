"""`simulate`: an invalid schedule is rejected with its error, and a schedule without faults succeeds."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.cli.app import run
from actors.public.console import command_line


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("brokers three", "line 2"),
        ("set nonsense 1", "unknown node setting"),
        ("0 dance 1", "unknown action 'dance'"),
        ("0 kill", "0.000 kill: missing a required argument"),
        ("0 kill 3 for 1", "0.000 kill 3 for 1.000: '3' is not a node; the nodes are 0 to 2"),
        ("0 create t0 0,1 1,7", "'7' is not a node"),
        ("0 partition 0,9 1,zk for 1", "'9' is not a node or zk"),
        ("0 fill 0 2 for 1", "'2' is not a disk"),
        ("0 elect t0 first", "'first' is not a number"),
        ("0 slow 0 1 long for 1", "'long' is not a number of seconds"),
    ],
)
def test_impossible_schedules_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, why: str
) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text(f"duration 5\n{line}\n", encoding="utf-8")
    assert run(["simulate", "--schedule", str(file)]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert why in said and "bug" not in said


def test_a_schedule_that_breaks_nothing_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schedule.txt"
    file.write_text("brokers 2\nduration 5\nset num_partitions 2\n", encoding="utf-8")
    assert run(["simulate", "--schedule", str(file), "--keep", str(tmp_path / "kept")]) == 0
    assert "0 broken" in capsys.readouterr().out
    assert not (tmp_path / "kept").exists()


def test_the_installed_command_has_processes_of_its_own(tmp_path: Path) -> None:
    line = command_line("simulate", "--seeds", "2", "--duration", "5", "--workers", "2", "--keep", str(tmp_path))
    done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 seeds" in done.stdout
