"""`simulate`: a schedule that cannot be carried out is refused in words; one that breaks nothing ends well."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cli.app import run


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("brokers three", "line 2"),
        ("set nonsense 1", "no such setting"),
        ("0 dance 1", "no deed 'dance'"),
        ("0 kill", "0.000 kill: missing a required argument"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(
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
