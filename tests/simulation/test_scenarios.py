"""A transcript (tests/scenarios) has a schedule above its dividing line and all events of the run below it.

`pytest tests/simulation/test_scenarios.py --rewrite-scenarios` rewrites the text below the lines; review the diff. A
scenario begins with its subject: a section of the protocol's notes, and for the situations of controller.md 6.2 the
words in the table's first column.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.simulation.run import run
from actors.simulation.schedule import parse
from tests.layering import ROOT

FILES = sorted((ROOT / "tests" / "scenarios").glob("*.txt"))
LINE = "----\n"
NOTES = (ROOT / "docs" / "protocol" / "controller.md").read_text(encoding="utf-8")


def situations() -> list[str]:
    """Return the first column of the table in controller.md 6.2."""
    table = NOTES.partition("### 6.2 Situations")[2].partition("\n### ")[0]
    return [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_has_this_transcript(file: Path, pytestconfig: pytest.Config) -> None:
    above, _, below = file.read_text(encoding="utf-8").partition(LINE)
    transcript: list[str] = []
    outcome = run(parse(above), transcript=transcript)
    happened = "\n".join(transcript) + "\n"
    if pytestconfig.getoption("rewrite_scenarios"):
        file.write_text(above + LINE + happened, encoding="utf-8")
    assert outcome.violation is None, outcome.violation
    assert happened == below or pytestconfig.getoption("rewrite_scenarios"), "look at it with --rewrite-scenarios"


def test_the_reassignment_of_one_replica_costs_three_epochs_and_its_request_one_event() -> None:
    """controller.md 7.7 ends with this count. The controller's own writes to the znodes cause no further changes."""
    transcript = (
        (ROOT / "tests/scenarios/7.7-reassignment-of-one-replica.txt").read_text(encoding="utf-8").partition(LINE)[2]
    )
    assert re.findall(r"node-\d set .*\"leader\":(\d),.*\"leader_epoch\":(\d),\"isr\":\[(.*?)\]", transcript) == [
        ("1", "1", "1"),
        ("1", "1", "1,2"),
        ("2", "2", "1,2"),
        ("2", "3", "2"),
    ]
    assert re.findall(r"node-\d (set|delete) (/brokers/topics/a|/admin/reassign_partitions)\b(?!/)", transcript) == [
        ("set", "/brokers/topics/a"),
        ("set", "/brokers/topics/a"),
        ("delete", "/admin/reassign_partitions"),
    ]


def test_every_situation_of_the_notes_has_its_transcript() -> None:
    said = "\n".join(file.read_text(encoding="utf-8").partition(LINE)[0] for file in FILES)
    lacking = [row for row in situations() if f'"{row}"' not in said]
    sections = re.findall(r"(?m)^### (7\.\d) ", NOTES)
    lacking += [section for section in sections if f"controller.md {section}" not in said]
    assert sections and not lacking
