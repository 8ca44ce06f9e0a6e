"""ZooKeeper's tree as text that is equal for two clusters that agree.

Rule: only data that depends on clocks, machines and versions is left out, and each omission has its reason here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from zk_bridge import paths

Fields = dict[str, Any]

UNSEEN: dict[str, str] = {
    "/zookeeper": "the server's own",
    "/kafka-actors": "where our nodes say how they are watched; Kafka's tools never look there",
    "/migration": "3.9.1 prepares for a quorum",
    "/cluster/id": "chance",
    paths.PRODUCER_IDS: "who asked for producer ids, and how often",
}
"""Pattern of znodes that are not compared, with their subtrees -> the reason."""

DROPPED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        f"{paths.BROKER_IDS}/.*",
        ("timestamp", "host", "port", "jmx_port", "endpoints"),
        "a clock, and where a process listens",
    ),
    (
        paths.CONTROLLER,
        ("timestamp", "version", "kraftControllerEpoch"),
        "a clock; 3.9.1 writes version 2, 2.6 writes 1",
    ),
    (f"{paths.TOPICS}/[^/]*", ("version",), "3.9.1 writes version 3, which may hold a topic id; 2.6 writes 2"),
)
"""(pattern of a path, fields of its JSON that are not compared, reason)."""

GONE = "is gone"

_TERMS = re.compile(r'"(leader|controller)_epoch": -?\d+, ')
_NUMBERED = re.compile(r"\d{10}$")
"""The counter that ZooKeeper appends to the name of a sequential znode."""


def _state(state: Fields, epoch: int) -> Fields:
    """Sort the ISR, and count the controller epoch from `epoch`, the epoch at the scenario's beginning."""
    return {**state, "isr": sorted(state["isr"]), "controller_epoch": state["controller_epoch"] - epoch}


def _epoch(number: int, epoch: int) -> int:
    return number - epoch


ALTERED: tuple[tuple[str, Callable[[Any, int], Any]], ...] = (
    (r"/brokers/topics/[^/]*/partitions/\d*/state", _state),
    (paths.CONTROLLER_EPOCH, _epoch),
)
"""(pattern of a path, function of its JSON and of the controller epoch to count from; it returns the compared JSON)."""


def tree(nodes: Iterable[tuple[str, bytes | None]], epoch: int) -> dict[str, str]:
    """Return the content of each compared znode by its path. `epoch` is the controller epoch to count from."""
    found: dict[str, list[str]] = {}
    for path, data in nodes:
        if not any(re.fullmatch(f"{pattern}(/.*)?", path) for pattern in UNSEEN):
            found.setdefault(_NUMBERED.sub("*", path), []).append(_held(path, data, epoch))
    return {path: " ".join(sorted(held)) for path, held in found.items()}


def _held(path: str, data: bytes | None, epoch: int) -> str:
    if not data:
        return ""
    try:
        value = json.loads(data)
    except ValueError:
        return data.decode(errors="replace")
    for pattern, names, _ in DROPPED:
        if re.fullmatch(pattern, path) and isinstance(value, dict):
            value = {name: each for name, each in value.items() if name not in names}
    for pattern, alter in ALTERED:
        if re.fullmatch(pattern, path):
            value = alter(value, epoch)
    return json.dumps(value, sort_keys=True)


def difference(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """Return one line for each path whose content differs in `now`. A removed subtree has one line."""
    lost = {path for path in before if path not in now}
    gone = [(path, GONE) for path in lost if path.rpartition("/")[0] not in lost]
    new = [(path, held) for path, held in now.items() if before.get(path) != held]
    return tuple(f"{path} {held}".rstrip() for path, held in sorted(gone + new))


def changed(before: Mapping[str, str], lines: Iterable[str]) -> dict[str, str]:
    """Return `before` with these differences applied."""
    now = dict(before)
    for line in lines:
        path, _, held = line.partition(" ")
        if held == GONE:
            now = {each: there for each, there in now.items() if each != path and not each.startswith(f"{path}/")}
        else:
            now[path] = held
    return now


def without_terms(nodes: Mapping[str, str]) -> dict[str, str]:
    """Return the znodes without the controller's id, and without controller epochs and leader epochs."""
    kept = {path: held for path, held in nodes.items() if path not in (paths.CONTROLLER, paths.CONTROLLER_EPOCH)}
    return {path: _TERMS.sub("", held) for path, held in kept.items()}


def without_queued(nodes: Mapping[str, str]) -> dict[str, str]:
    """Return the znodes without topics queued for deletion; the progress of a deletion depends on when it was tried."""
    queued = "|".join(
        re.escape(path.rpartition("/")[2]) for path in nodes if path.startswith(f"{paths.DELETE_TOPICS}/")
    )
    theirs = re.compile(rf"/(brokers/topics|config/topics|admin/delete_topics)/({queued})(/.*)?|({queued})-\d+")
    return {path: held for path, held in nodes.items() if not queued or not theirs.fullmatch(path)}
