"""The Dockerfiles as data: their instructions, and the rules that they keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

FILES = ("Dockerfile", "Dockerfile.java")


class Instruction(NamedTuple):
    """One instruction of a Dockerfile, its lines joined."""

    name: str
    text: str


def instructions(file: Path) -> list[Instruction]:
    """The instructions of a Dockerfile in order."""
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
"""What hadolint checks of what these files use, by its own numbers; hadolint itself is no Python package."""
