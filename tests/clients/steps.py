"""The steps of a client's script, and how a script reports them.

A script is called with the bootstrap servers and a prefix for its topics and groups. It prints `version TEXT`, and then
one line for each step, in the order of STEPS: `NAME ok`, `NAME - REASON` if the client has no such call, or
`NAME failed REASON`. The scripts in other languages print the same lines.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

STEPS = (
    *("cluster", "create-topic", "describe-topic", "describe-configs", "alter-configs", "create-partitions"),
    *("produce", "produce-gzip", "produce-idempotent", "list-offsets", "offsets-for-times", "consume", "headers"),
    *("group-consume", "commit", "list-groups", "describe-group", "transaction", "delete-group", "delete-topic"),
)
"""The steps in the order of a script."""

RECORDS = 10
"""Number of records of each kind: plain, compressed, and of an idempotent producer."""


class NoSuchCall(Exception):
    """The client has no call for the step."""


def check(found: object, expected: object) -> None:
    """Raise AssertionError if a result is not the expected one."""
    if found != expected:
        raise AssertionError(f"{found!r} instead of {expected!r}")


def arguments() -> tuple[str, str]:
    """Return the bootstrap servers and the prefix."""
    return sys.argv[1], sys.argv[2]


def report(name: str, outcome: Exception | None) -> None:
    """Print the line of a step."""
    if outcome is None:
        line = f"{name} ok"
    elif isinstance(outcome, NoSuchCall):
        line = f"{name} - {outcome}"
    else:
        line = f"{name} failed {type(outcome).__name__}: {' '.join(str(outcome).split())[:300]}"
    print(line, flush=True)


def run(version: str, steps: dict[str, Callable[[], None]]) -> None:
    """Run the steps one after the other, and report each."""
    print(f"version {version}", flush=True)
    for name in STEPS:
        try:
            steps[name]()
            report(name, None)
        except Exception as error:
            report(name, error)


async def run_async(version: str, steps: dict[str, Callable[[], Awaitable[None]]]) -> None:
    """Run the steps of a client for asyncio."""
    print(f"version {version}", flush=True)
    for name in STEPS:
        try:
            await steps[name]()
            report(name, None)
        except Exception as error:
            report(name, error)
