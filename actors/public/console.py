"""The command `kafka-actors`, and the path of the internal packages.

In the wheel the house lies in `kafka_actors/house`, a folder that is on nobody's path but ours; in the repository it is
the repository. What our processes run is its door, which puts it in front of everything else.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
HOUSE = _HERE / "house" if (_HERE / "house").is_dir() else _HERE.parents[1]
DOOR = HOUSE / "actors" / "cli" / "__main__.py"


def command_line(*arguments: str) -> list[str]:
    """The command line by which this Python runs `kafka-actors ...` in a process of its own."""
    return [sys.executable, "-P", str(DOOR), *arguments]


def main() -> None:
    """Be `kafka-actors`: this process is ours alone."""
    runpy.run_path(str(DOOR), run_name="__main__")
