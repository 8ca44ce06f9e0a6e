"""Writes docs/state-machines.md from the tables in actors.core.controller.states; `make docs` runs it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from actors.core.controller.states import PARTITION_TABLE, REPLICA_TABLE, Row, State

FILE = Path(__file__).resolve().parents[2] / "docs" / "state-machines.md"

HEAD = """\
# The two state machines of the controller

Generated from the tables in `actors/core/controller/states.py` by `make docs`; a test keeps it current. The tables are
the law: the controller makes a move only where they allow it, in one place, and logs any other with its subject, from
and to.
"""


def document() -> str:
    """The whole file."""
    return "\n".join([HEAD, *_section("Partitions", PARTITION_TABLE), *_section("Replicas", REPLICA_TABLE)])


def _section(title: str, table: Mapping[State, Row]) -> Iterator[str]:
    yield f"## {title}\n"
    yield "```mermaid"
    yield "stateDiagram-v2"
    for target, row in table.items():
        for previous in row.previous:
            yield f"    {previous.value} --> {target.value}"
    yield "```\n"
    yield "| to | may come from | what is done | requests |"
    yield "| --- | --- | --- | --- |"
    for target, row in table.items():
        previous_names = ", ".join(previous.value for previous in row.previous)
        yield f"| {target.value} | {previous_names} | {row.action} | {row.requests} |"
    yield ""


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
