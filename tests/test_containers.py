"""The Dockerfiles keep the rules of a linter, and the release workflow the project's versions."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.containers import FILES, RULES, instructions
from tests.layering import ROOT


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("rule", RULES)
def test_a_dockerfile_keeps_the_rules(file: str, rule: str) -> None:
    assert RULES[rule](instructions(ROOT / file))


def test_a_dockerfile_without_them_breaks_all_but_the_absent(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM python\nMAINTAINER me\nWORKDIR a\nADD . .\nRUN apt-get install x\nRUN pip install x\nCMD x\n"
    )
    found = instructions(tmp_path / "Dockerfile")
    assert [name for name, rule in RULES.items() if rule(found)] == []


def test_the_release_builds_and_checks_every_declared_python() -> None:
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    versions = [
        each.rpartition(" :: ")[2] for each in classifiers if each.startswith("Programming Language :: Python :: 3.")
    ]
    assert all(f"cp{version.replace('.', '')}-manylinux" in workflow for version in versions) and len(versions) >= 3
    steps = ["-m build --sdist", "-m cibuildwheel", "twine check --strict dist/*", "attest-build-provenance"]
    places = [workflow.index(step) for step in steps]
    assert places == sorted(places)
    assert "vars.PUBLISH == 'true'" in workflow
