"""The Dockerfiles pass linter rules, their steps run, and the release workflow builds each declared Python version.

No Docker daemon is needed: the steps run in plain folders, without commands that change the machine (apt-get, useradd).
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import attrs
import pytest

from tests.containers import FILES, RULES, build, instructions
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


@pytest.mark.parametrize(
    ("file", "zookeeper"),
    [
        pytest.param("Dockerfile", "memory", marks=[pytest.mark.soak, pytest.mark.long]),
        pytest.param("Dockerfile.java", "127.0.0.1:", marks=[pytest.mark.java, pytest.mark.soak, pytest.mark.long]),
    ],
)
def test_the_steps_of_a_dockerfile_make_a_cluster(file: str, zookeeper: str, tmp_path: Path) -> None:
    image = build(ROOT / file, ROOT, tmp_path, str(Path(attrs.__file__).parents[1]))
    run = [*image.command["ENTRYPOINT"], *image.command["CMD"], "--port", "0", "--detach", "--json"]
    ready = image.run([str(image.bin / run[0]), *run[1:]])
    try:
        assert ready.returncode == 0, ready.stdout + ready.stderr
        assert json.loads(ready.stdout)["zookeeper"].startswith(zookeeper)
    finally:
        down = image.run([str(image.bin / run[0]), "down", "--dir", str(image.path("/data/cluster"))])
    assert down.returncode == 0, down.stdout + down.stderr


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
