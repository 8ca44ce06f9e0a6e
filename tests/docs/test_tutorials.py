"""Run the tutorials: write their files, apply their diffs, run their commands, and compare the shown output."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import notebook
from tests.docs.markdown import code_blocks
from tests.layering import ROOT

FOLDER = ROOT / "docs" / "tutorials"
IN_A_CLONE = ("find-a-bug.md", "change-a-rule.md")
"""Tutorials that change the product; they run in a copy of it."""
COPIED = ("actors", "messages", "spark", "zk_bridge", "tests", "pyproject.toml")


def without_numbers(text: str) -> str:
    """Replace each number by "#", because outputs differ in numbers."""
    return re.sub(r"\d+", "#", text)


def missing(expected: str, output: str) -> list[str]:
    """Return the expected lines that the output does not have.

    The parts of a line between "..." are searched separately; white space and numbers are not compared.
    """
    found = without_numbers(" ".join(output.split()))
    lines = [without_numbers(" ".join(line.split())) for line in expected.splitlines()]
    return [line for line in lines if not all(part.strip() in found for part in line.split("..."))]


def clone(folder: Path) -> None:
    """Copy the product and its tests into the folder."""
    ignored = shutil.ignore_patterns("__pycache__", "apache_classes")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=ignored)
        else:
            shutil.copy(ROOT / name, folder / name)


def environment(folder: Path) -> dict[str, str]:
    """Return an environment whose `kafka-actors` and `python` run the code in the folder, or else this repository's."""
    programs = folder.parent / "programs"
    programs.mkdir()
    kafka_actors = programs / "kafka-actors"
    kafka_actors.write_text(f'#!/bin/sh\nexec {sys.executable} -m actors.cli "$@"\n', "utf-8")
    kafka_actors.chmod(0o755)
    code = folder if (folder / "actors").exists() else ROOT
    path = os.pathsep.join((str(programs), str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(code), "COLUMNS": "200"}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.soak, pytest.mark.long] if page.name in IN_A_CLONE else [], id=page.stem)
        for page in sorted(FOLDER.glob("*.md"))
    ],
)
def test_a_tutorial_shows_the_real_output(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    if page.name in IN_A_CLONE:
        clone(folder)
    variables = environment(folder)
    output = ""
    for language, content in code_blocks(page.read_text("utf-8"), "py", "sh", "diff", "text"):
        if language == "py":
            name = re.match(r"# (\w+\.py)\n", content)
            assert name, "the first line names the file"
            (folder / name[1]).write_text(content, "utf-8")
        elif language == "diff":
            command = ["patch", "--strip=1", "--fuzz=0", "--no-backup-if-mismatch"]
            subprocess.run(command, cwd=folder, input=content, text=True, check=True, capture_output=True)
        elif language == "text":
            assert missing(content, output) == [], output
        else:
            done = subprocess.run(
                ["sh", "-ec", content],
                cwd=folder,
                env=variables,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=500,
                check=False,
            )
            output = done.stdout
            assert done.returncode == 0, output


def test_the_notebook_prints_what_it_shows() -> None:
    """`python -m tests.docs.notebook` stores the current output of the cells."""
    cells = list(notebook.executed(json.loads(notebook.NOTEBOOK.read_text("utf-8"))))
    assert len(cells) > 5
    for cell, printed in cells:
        assert without_numbers(printed) == without_numbers(notebook.shown(cell)), "".join(cell["source"])


def test_missing_lines_are_found() -> None:
    assert missing("a 1 ...\n  b ... c 22", "a 7 x\nb y c 3") == []
    assert missing("1 passed\n2 failed", "1 passed") == ["# failed"]
