"""The command `kafka-actors`, and the path of the internal packages.

In the wheel the internal packages are in `kafka_actors/_internal`, which is on no other import path; in the repository
they are in the repository. Our processes run the entry point, which puts this path in front of everything else.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
ROOT = _HERE / "_internal" if (_HERE / "_internal").is_dir() else _HERE.parents[1]
ENTRY_POINT = ROOT / "actors" / "cli" / "__main__.py"


def command_line(*arguments: str) -> list[str]:
    """The command line by which this Python runs `kafka-actors ...` in a process of its own."""
    return [sys.executable, "-P", str(ENTRY_POINT), *arguments]


def main() -> None:
    """Be `kafka-actors`: this process is ours alone."""
    runpy.run_path(str(ENTRY_POINT), run_name="__main__")
