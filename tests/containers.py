"""Parse the Dockerfiles, check them against linter rules, and run their build steps in plain folders."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

FILES = ("Dockerfile", "Dockerfile.java")


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, with its lines joined."""

    name: str
    text: str


def instructions(file: Path) -> list[Instruction]:
    """Return the instructions of a Dockerfile in order."""
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def _all_match(name: str, pattern: str) -> Callable[[Sequence[Instruction]], bool]:
    return lambda found: all(re.search(pattern, each.text) for each in found if each.name == name)


def _runs_of(word: str, *needed: str) -> Callable[[Sequence[Instruction]], bool]:
    return lambda found: all(
        part in each.text for each in found if each.name == "RUN" and word in each.text for part in needed
    )


RULES: dict[str, Callable[[Sequence[Instruction]], bool]] = {
    "hadolint DL3006, DL3007: images have a version": _all_match("FROM", r"^\S+:(?!latest)\S+"),
    "DL3009, DL3015: apt-get installs no more than is named, and leaves no lists": _runs_of(
        "apt-get install", "apt-get update", "-y", "--no-install-recommends", "rm -rf /var/lib/apt/lists/*"
    ),
    "DL3042: pip leaves no cache": _runs_of("pip ", "--no-cache-dir"),
    "DL3000: WORKDIR is absolute": _all_match("WORKDIR", "^/"),
    "DL3002: the last user is not root": lambda found: (
        [each.text for each in found if each.name == "USER"][-1:] not in ([], ["root"])
    ),
    "DL3020: files are copied by COPY": lambda found: all(each.name != "ADD" for each in found),
    "DL3025: ENTRYPOINT and CMD are JSON": lambda found: all(
        each.text.startswith("[") for each in found if each.name in ("ENTRYPOINT", "CMD")
    ),
    "DL4000: no MAINTAINER": lambda found: all(each.name != "MAINTAINER" for each in found),
}
"""The hadolint checks that apply to these files, with hadolint's numbers. hadolint itself is not a Python package."""


REPLACED = ("apt-get", "chown", "useradd")
"""Commands that change the machine. A stage replaces them with empty scripts."""

_ABSOLUTE = re.compile(r"(?<![\w./$}])/(?=[a-z])")


class Stage:
    """A stage of a build: a plain folder replaces the root directory, and a venv provides Python.

    The packages in the folder `dependencies` count as installed.
    """

    def __init__(self, folder: Path, dependencies: str) -> None:
        self.folder = folder
        self.work = folder
        self.command: dict[str, list[str]] = {}
        venv.create(folder / "venv", symlinks=True, with_pip=False)
        self.bin = folder / "venv" / "bin"
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (packages / "dependencies.pth").write_text(f"{dependencies}\n")
        for name in REPLACED:
            (self.bin / name).write_text("#!/bin/sh\n")
            (self.bin / name).chmod(0o755)

    def path(self, text: str) -> Path:
        """Return the local path of a path in the image."""
        return self.folder / text.lstrip("/") if text.startswith("/") else self.work / text

    def run(self, command: str | list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command. A string is run by the shell."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment["PATH"] = f"{self.bin}{os.pathsep}{environment['PATH']}"
        return subprocess.run(
            command,
            shell=isinstance(command, str),
            cwd=self.work,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def inside(self, text: str) -> str:
        """Return a command with its absolute paths moved below the folder."""
        return _ABSOLUTE.sub(f"{self.folder}/", text)


def build(file: Path, context: Path, place: Path, dependencies: str) -> Stage:
    """Run the steps of a Dockerfile in folders below `place`, and return the last stage.

    A failed command raises AssertionError with its output.
    """
    ignored = [line.removeprefix("**/") for line in (context / ".dockerignore").read_text().split()]
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for step in instructions(file):
        words = step.text.split()
        if step.name == "FROM":
            name = words[2] if words[1:2] == ["AS"] else "last"
            stages[name] = stage = Stage(place / name, dependencies)
            continue
        assert stage is not None
        if step.name == "WORKDIR":
            stage.work = stage.path(step.text)
            stage.work.mkdir(parents=True)
        elif step.name == "COPY" and words[0].startswith("--from="):
            shutil.copytree(stages[words[0].removeprefix("--from=")].path(words[1]), stage.path(words[2]))
        elif step.name == "COPY":
            shutil.copytree(
                context / words[0], stage.path(words[1]), dirs_exist_ok=True, ignore=shutil.ignore_patterns(*ignored)
            )
        elif step.name == "RUN":
            done = stage.run(stage.inside(step.text))
            assert done.returncode == 0, f"{step.text}\n{done.stdout}{done.stderr}"
        elif step.name in ("ENTRYPOINT", "CMD"):
            stage.command[step.name] = [stage.inside(word) for word in json.loads(step.text)]
        else:
            assert step.name in ("USER", "VOLUME"), step
    assert stage is not None
    return stage
