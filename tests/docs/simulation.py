"""Write docs/reference/simulator.md from the actions, invariants and known bugs of the code; `make docs` runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from actors.simulation.actions import ACTIONS
from actors.simulation.coincidences import COINCIDENCES, SHARE
from actors.simulation.monitors.families import INVARIANTS
from actors.simulation.swarm import CLUSTERS, DISTANCES, DRIFTS, LATENCIES, NODE_SETTINGS, TOPIC_CONFIGS, WEIGHTS
from tests.simulation.known_bugs import KNOWN_BUGS, UNCOUNTED

FILE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "simulator.md"

WHEN = {
    "PartitionStateWritten": "a partition state is written",
    "TopicWritten": "a topic's znode is changed or deleted",
    "TopicDeleted": "the controller deletes a topic's znode",
    "ControllerEpochWritten": "/controller_epoch is written",
    "RequestSent": "a controller's request is sent",
    "ControllerDeleted": "/controller is deleted",
    "EventHandled": "the controller has handled the event",
    "HandlerFailed": "a message handler fails",
    "HighWatermarkMoved": "a high watermark moves",
    "StateChanged": "a controller changes states of partitions or replicas",
    "AssignmentReceived": "a group member receives its assignment",
    "ClusterAtRest": "the cluster is at rest",
    "UserAuthenticated": "a node has authenticated a user, or refused it",
    "RequestJudged": "an authorizer has judged a request",
    "QuotaUsed": "a request of a user with quotas ends",
    "ResponseSent": "a node responds to a request",
    "HighWatermarkRaised": "a leader raises its high watermark",
    "LogCalled": "a log is opened, is written to or truncated, or its high watermark moves",
    "LogExpired": "the retention removes records",
    "LogCopied": "a node copies a part of a log to another directory",
    "ReplicaSwapped": "a copy replaces its log",
    "PointsWritten": "a node writes its recovery points and log start offsets",
    "StreamBroken": "an idempotent producer receives a response",
    "TransactionBroken": "a transactional producer receives a response",
    "TransactionBegun": "a transactional producer has added its first partitions",
    "StableOffsetSeen": "a leader sends the state of its log to a reader",
    "Ticked": "half a second has passed",
    "ClusterQueried": "the cluster is at rest and has been queried",
}


HEAD = """\
# Actions, invariants and known bugs of the simulator

`make docs` generates this page from `actors/simulation/` and `tests/simulation/known_bugs.txt`; a
test checks that it is up to date. [Deterministic simulation](../explanation/simulation.md) explains
how actions and invariants are used.
"""


def document() -> str:
    """Return the whole page."""
    parts = [HEAD]
    for title, rows in (
        ("Actions", _actions()),
        ("Drawn values", _drawn()),
        ("Coincidences", _coincidences()),
        ("Invariants", _invariants()),
        ("Known bugs", _known_bugs()),
    ):
        parts.append("\n".join([f"## {title}", "", *rows, ""]))
    return "\n".join(parts)


def _actions() -> Iterator[str]:
    yield "| action | group | weight | duration (s) | may last | effect |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for kind in ACTIONS.values():
        lasts = f"{kind.seconds[0]:g} to {kind.seconds[1]:g}" if kind.lasts else ""
        effect = " ".join((kind.do.__doc__ or "").split())
        stays = "yes" if kind.may_last else ""
        yield f"| {kind.name} | {kind.part} | {kind.weight} | {lasts} | {stays} | {effect} |"


def _drawn() -> Iterator[str]:
    yield "A seed draws one of the listed values. A value that is listed twice is drawn twice as often. The"
    yield "first value is the default."
    yield ""
    yield "| drawn | values |"
    yield "| --- | --- |"
    yield f"| brokers and racks | {_listed(f'{brokers} ({racks})' for brokers, racks in CLUSTERS)} |"
    yield f"| `latency` (s) | {_listed(LATENCIES)} |"
    yield f"| `distance` of one pair of nodes, in a quarter of the seeds (s) | {_listed(DISTANCES)} |"
    yield f"| `clock` of each fifth node | {_listed(DRIFTS)} |"
    yield f"| factor of an action's weight | {_listed(WEIGHTS)} |"
    for name, values in NODE_SETTINGS.items():
        yield f"| `set {name}` | {_listed(values)} |"
    for name, values in TOPIC_CONFIGS.items():
        yield f"| `configure` {name} | {_listed(values)} |"


def _coincidences() -> Iterator[str]:
    yield f"A seed draws at most one of these, with a probability of {SHARE:g}."
    yield ""
    yield "| actions | plan |"
    yield "| --- | --- |"
    for row in COINCIDENCES:
        yield f"| {_listed(row.needs)} | {' '.join((row.plan.__doc__ or '').split())} |"


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))


def _invariants() -> Iterator[str]:
    yield "| invariant | rule | checked when |"
    yield "| --- | --- | --- |"
    for row in INVARIANTS:
        yield f"| {row.name} | {row.rule} | {WHEN[row.on.__name__]} |"


def _known_bugs() -> Iterator[str]:
    yield "| bug | source | the patched-in behaviour | violated invariant | seeds until found |"
    yield "| --- | --- | --- | --- | --- |"
    for bug in KNOWN_BUGS:
        seeds = "not measured" if bug.seeds == UNCOUNTED else bug.seeds
        yield f"| {bug.name} | {bug.jira} | {bug.patched} | {bug.breaks} | {seeds} |"
    yield ""
    yield "Each bug has a short schedule. A test patches the bug into the code, runs its schedule, and expects"
    yield "that the invariant in the table is violated. `python -m tests.simulation.known_bugs` counts the"
    yield "seeds until a random schedule finds the bug; this number changes with the code."


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
