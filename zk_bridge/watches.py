"""Which change of which node is which event (controller.md 1.2): the table, and who is to be told.

Rule 1: the watch on the server is one-shot, but each watcher is told of a path once until it asks again: what happens
        in between it will see when it asks, because the bridge arms before it reads.
Rule 2: a change that has no event in the table ends the watch: the node must be asked about again.
Rule 3: after an interruption every watch is armed again, and its watchers are told as if it had fired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from messages.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    Reelect,
    TopicChange,
    TopicDeletion,
)
from messages.store import CHILDREN_CHANGED, NODE_DELETED
from zk_bridge import paths
from zk_bridge.conversations import Arm

NODE = "node"
CHILD = "child"


class Row(NamedTuple):
    """One row of the table. `path` ends in `/*` where a key follows, which becomes the event's first field."""

    path: str
    kind: str
    created: type | None
    deleted: type | None
    changed: type | None
    children: type | None
    key: Callable[[str], Any] | None = None


WATCHES = (
    #   path                           kind   created           deleted  changed           children            key
    Row(paths.CONTROLLER, NODE, ControllerChange, Reelect, ControllerChange, None),
    Row(paths.BROKER_IDS, CHILD, None, None, None, BrokerChange),
    Row(f"{paths.BROKER_IDS}/*", NODE, None, None, BrokerModifications, None, int),
    Row(paths.TOPICS, CHILD, None, None, None, TopicChange),
    Row(f"{paths.TOPICS}/*", NODE, None, None, PartitionModifications, None, str),
    Row(paths.DELETE_TOPICS, CHILD, None, None, None, TopicDeletion),
    Row(paths.ISR_CHANGES, CHILD, None, None, None, IsrChangeNotification),
    Row(paths.LOG_DIR_EVENTS, CHILD, None, None, None, LogDirEventNotification),
)
"""All watches of the controller, row by row of controller.md 1.2."""

_BY_PATH = {(row.path, row.kind): row for row in WATCHES}


def row_of(path: str, kind: str) -> Row:
    """The row for a path. Raises KeyError where the table has none: nobody could be told."""
    exact = _BY_PATH.get((path, kind))
    return exact or _BY_PATH[path.rpartition("/")[0] + "/*", kind]


class _Watch:
    """What is watched of one path: its row, its key, and its watchers, each with whether it has been told."""

    __slots__ = ("arms", "key", "row", "told", "watchers")

    def __init__(self, row: Row, key: tuple[Any, ...], arms: str) -> None:
        self.row = row
        self.key = key
        self.arms = arms  # the field of Arm by which it was armed: data, exists or children
        self.watchers: list[Any] = []
        self.told: list[bool] = []


class Told(NamedTuple):
    """An event to be sent."""

    watcher: Any
    event: Any


class WatchTable:
    """Who watches what. Watchers are compared by equality only: actor addresses cannot be hashed."""

    def __init__(self) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}

    def arm(self, watcher: Any, request: Arm) -> None:
        """`watcher` is about to ask about the paths of `request`, and is to be told of the next change."""
        for arms, kind in (("data", NODE), ("exists", NODE), ("children", CHILD)):
            for path in getattr(request, arms):
                watch = self._watches.get((path, kind))
                if watch is None:
                    row = row_of(path, kind)
                    key = (row.key(path.rpartition("/")[2]),) if row.key else ()
                    watch = self._watches[path, kind] = _Watch(row, key, arms)
                elif arms == "exists":
                    watch.arms = arms
                for index, known in enumerate(watch.watchers):
                    if known == watcher:
                        watch.told[index] = False
                        break
                else:
                    watch.watchers.append(watcher)
                    watch.told.append(False)

    def fired(self, path: str, change: str, generation: int) -> Iterator[Told]:
        """The server says that `path` changed. Yields the events for those who have not been told yet."""
        for kind in (NODE, CHILD):
            watch = self._watches.get((path, kind))
            if watch is None or ((kind == CHILD) != (change == CHILDREN_CHANGED) and change != NODE_DELETED):
                continue
            event_class = getattr(watch.row, change)
            if event_class is None:
                del self._watches[path, kind]
            else:
                yield from self._tell(watch, event_class(*watch.key, generation))

    def armed(self) -> Arm:
        """All watches, to be armed anew after an interruption."""
        by_field: dict[str, list[str]] = {"data": [], "exists": [], "children": []}
        for (path, _), watch in self._watches.items():
            by_field[watch.arms].append(path)
        return Arm(tuple(by_field["data"]), tuple(by_field["exists"]), tuple(by_field["children"]))

    def interrupted(self, request: Arm, present: tuple[bool, ...], generation: int) -> Iterator[Told]:
        """`request`, a whole table's, has been armed anew: yields every watch's event as if it had fired.

        `present` says which paths of `request.exists` are there: an absent node counts as deleted.
        """
        there = dict(zip(request.exists, present, strict=True))
        for kind, node_paths in ((NODE, (*request.data, *request.exists)), (CHILD, request.children)):
            for path in node_paths:
                watch = self._watches.get((path, kind))
                if watch is None:
                    continue
                row = watch.row
                event_class = row.children if kind == CHILD else row.changed if there.get(path, True) else row.deleted
                if event_class is not None:
                    yield from self._tell(watch, event_class(*watch.key, generation))

    def forget(self, watcher: Any, event: str, keys: Iterable[str] | None) -> None:
        """Drop the watches of `watcher` whose event is named `event` (and whose key, as text, is among `keys`)."""
        chosen = None if keys is None else set(keys)
        for place, watch in list(self._watches.items()):
            row = watch.row
            named = any(
                cls is not None and cls.__name__ == event
                for cls in (row.created, row.deleted, row.changed, row.children)
            )
            if not named or (chosen is not None and not {str(part) for part in watch.key} <= chosen):
                continue
            for index in reversed(range(len(watch.watchers))):
                if watch.watchers[index] == watcher:
                    del watch.watchers[index], watch.told[index]
            if not watch.watchers:
                del self._watches[place]

    def watchers(self) -> list[Any]:
        """Everybody who watches anything, each once."""
        found: list[Any] = []
        for watch in self._watches.values():
            for watcher in watch.watchers:
                if not any(watcher == known for known in found):
                    found.append(watcher)
        return found

    def clear(self) -> None:
        """Forget everything: the session is dead."""
        self._watches.clear()

    def _tell(self, watch: _Watch, event: Any) -> Iterator[Told]:
        for index, watcher in enumerate(watch.watchers):
            if not watch.told[index]:
                watch.told[index] = True
                yield Told(watcher, event)
