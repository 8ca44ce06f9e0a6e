"""The steps of the Dockerfiles, run in a folder and a virtual environment: there is no Docker daemon in the tests.

Steps for a system's root (SYSTEM) are left out, and what the last step runs is stopped again.
"""

from __future__ import annotations

import json
import os
import subprocess
import venv
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest

from tests.layering import PACKAGES, ROOT
from tests.public.test_wheel import dependencies
from tests.soak.containers import FILES, instructions

pytestmark = pytest.mark.soak

SYSTEM = ("apt-get", "useradd")


@pytest.mark.parametrize("file", FILES)
def test_the_steps_of_a_dockerfile_give_a_cluster(file: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True, with_pip=True)
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(dependencies() + "\n")
    source = tmp_path / "source"
    for name in PACKAGES:
        copytree(ROOT / name, source / name, ignore=ignore_patterns("__pycache__", "*.so"))
    copytree(ROOT / ".ci", source / ".ci")
    for name in ("pyproject.toml", "README.md", "LICENSE", "LICENSES"):
        (source / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "data").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{environment['PATH']}"

    def run(command: str) -> str:
        for folder in ("/source", "/wheels", "/data"):
            command = command.replace(f" {folder}", f" {tmp_path}{folder}").replace(
                f"(ls {folder}", f"(ls {tmp_path}{folder}"
            )
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=source,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    steps = {"ENTRYPOINT": "", "CMD": ""}
    for step in instructions(ROOT / file):
        if step.name == "RUN" and not step.text.startswith(SYSTEM):
            run(step.text)
        elif step.name in steps:
            steps[step.name] = " ".join(json.loads(step.text))
    started = json.loads(run(f"{steps['ENTRYPOINT']} {steps['CMD']} --port 0 --json --detach"))
    assert len(started["brokers"]) == 3
    run("kafka-actors down --dir /data/cluster")
