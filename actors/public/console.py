"""The entry point of the command `kafka-actors`."""

from __future__ import annotations

import sys
from pathlib import Path

_HERE = Path(__file__).resolve().parent
_IN_WHEEL = (_HERE / "_internal").is_dir()
COMMANDS = "kafka_actors._internal.actors.cli" if _IN_WHEEL else "actors.cli"
"""The package that runs as `kafka-actors`. Not imported here: a user's program imports this module."""
ENTRY_POINT = (_HERE / "_internal" / "actors" if _IN_WHEEL else _HERE.parent) / "cli" / "__main__.py"
"""The same package as a file, for `spark-submit`."""


def command_line(*arguments: str) -> list[str]:
    """Return the command line that runs `kafka-actors ...` with this Python in a separate process."""
    return [sys.executable, "-P", "-m", COMMANDS, *arguments]


def main() -> None:
    """Run `kafka-actors` in this process."""
    import runpy  # imported here, to keep `import kafka_actors` fast

    runpy.run_module(COMMANDS, run_name="__main__")
