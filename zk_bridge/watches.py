"""Map changes of znodes to controller events (controller.md 1.2), and find the actors that watch a znode.

The rows are taken from the declarations of the events (`messages.events`), grouped by path.

Rule 1: a watch on the server is one-shot. After a watcher is notified of a change of a path, it is not notified of this
        path again until it requests the path again. The new request also returns changes since the notification,
        because the bridge sets the watch before it reads.
Rule 2: a change without an event in the table ends the watch. The watcher must request the node again.
Rule 3: after an interruption every watch is set again, and reports only what has changed meanwhile. Otherwise 10,000
        topics would cause 10,000 events at a reconnect. Exception: watches that are independent of a controller's term
        behave as if they had fired. So a candidate that could not read /controller while ZooKeeper was unavailable
        reads it after the reconnect.
Rule 4: if a node existed before an interruption and its data is different afterwards, the node may have been deleted
        and created again. The server then reports only a data change, so the bridge notifies the watchers of the
        creation, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, get_type_hints

from thespian.actors import ActorAddress

from messages.ask import AskFailed, Done
from messages.events import EVENTS
from messages.store import CHILDREN_CHANGED, NODE_CHANGED, NODE_CREATED, NODE_DELETED, Watches
from messages.vocabulary import Message
from messages.zookeeper import (
    AclChangeNotification,
    ExtendedAclChangeNotification,
    StartWatching,
    StopWatching,
    TokenChangeNotification,
)
from zk_bridge.conversations import Conversation, DropWatches, Read, Starter

NODE = "node"
CHILD = "child"
ANY = "*"


class WatchRow(NamedTuple):
    """A row of the watch table: a path, and the event for each kind of change.

    Attributes:
        path: The path, with a `*` for each key.
        kind: NODE or CHILD.
        events: Kind of change -> class of event.
        keys: Functions that convert the texts at the `*` to the first fields of the event.
        of_term: Whether the watch begins and ends with a controller's term (`messages.events.Watch`).
    """

    path: str
    kind: str
    events: dict[str, type]
    keys: tuple[Callable[[str], Any], ...]
    of_term: bool = True

    def key(self, path: str) -> tuple[Any, ...] | None:
        """Return the parts of `path` at the positions of `*` in this row's path, converted by `keys`.

        None if the row does not match the path.
        """
        mine, theirs = self.path.split("/"), path.split("/")
        if len(mine) != len(theirs) or any(ANY != part != other for part, other in zip(mine, theirs, strict=True)):
            return None
        texts = (other for part, other in zip(mine, theirs, strict=True) if part == ANY)
        return tuple(of(text) for of, text in zip(self.keys, texts, strict=True))

    def path_of(self, key: str) -> str:
        """Return this row's path with each `*` replaced by the next part of `key`; "/" separates the parts."""
        texts = iter(key.split("/"))
        return "/".join(next(texts, "") if part == ANY else part for part in self.path.split("/"))


def rows(events: Iterable[Any]) -> tuple[WatchRow, ...]:
    """Return the table that these event classes declare."""
    table: dict[tuple[str, str], WatchRow] = {}
    for event in events:
        if event.watch is None:
            continue
        path, changes, of_term = event.watch
        kind = CHILD if changes == (CHILDREN_CHANGED,) else NODE
        hints = get_type_hints(event)
        keys = tuple(hints[name] for name in event.__match_args__[: path.count(ANY)])
        row = table.setdefault((path, kind), WatchRow(path, kind, {}, keys, of_term))
        row.events.update(dict.fromkeys(changes, event))
    return tuple(table.values())


WATCHES = rows((*EVENTS, AclChangeNotification, ExtendedAclChangeNotification, TokenChangeNotification))
"""All watches: those of the controller, row by row of controller.md 1.2, and those of ACLs and delegation tokens."""


class _Watch:
    """A watched path: its row in the watch table, the names that the `*` in the row matched, and the watching actors.

    `notified` has one boolean for each watcher: whether the watcher was notified. `present` is whether the znode
    existed at the last read; None if unknown.
    """

    __slots__ = ("arms", "key", "present", "row", "notified", "watchers")

    def __init__(self, row: WatchRow, key: tuple[Any, ...], arms: str) -> None:
        self.row = row
        self.key = key
        self.arms = arms  # the kind of read that set this watch: data, exists or children (the fields of Watches)
        self.present: bool | None = None
        self.watchers: list[ActorAddress] = []
        self.notified: list[bool] = []


class Notification(NamedTuple):
    """A message that the bridge has to send to an actor because a znode or the session changed."""

    watcher: ActorAddress
    event: Message


class WatchTable:
    """The watched paths with the actors that watch them.

    Watchers are compared by equality, because actor addresses cannot be hashed.
    """

    def __init__(self, table: Iterable[WatchRow] = WATCHES) -> None:
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._rows: dict[tuple[str, int], list[WatchRow]] = {}
        for row in table:
            self._rows.setdefault((row.kind, row.path.count("/")), []).append(row)

    def arm(self, watcher: ActorAddress, request: Watches) -> None:
        """Add `watcher` to the watches of the paths in `request`, so that it is notified of the next change.

        Raises:
            AskFailed: The watch table has no event for a path.
        """
        for arms, kind in (("data", NODE), ("exists", NODE), ("children", CHILD)):
            for path in getattr(request, arms):
                watch = self._watches.get((path, kind))
                if watch is None:
                    watch = self._watches[path, kind] = _Watch(*self._row(path, kind), arms)
                elif arms == "exists":
                    watch.arms = arms
                for index, known in enumerate(watch.watchers):
                    if known == watcher:
                        watch.notified[index] = False
                        break
                else:
                    watch.watchers.append(watcher)
                    watch.notified.append(False)

    def store_existence(self, request: Watches, present: tuple[bool, ...]) -> None:
        """Store which paths of `request.exists` exist, after `request` was executed."""
        for path, there in zip(request.exists, present, strict=True):
            watch = self._watches.get((path, NODE))
            if watch is not None:
                watch.present = there

    def handle_change(self, path: str, change: str, generation: int, again: bool = False) -> Iterator[Notification]:
        """Handle a change of `path` that the server reported. Yield the events for watchers that were not notified yet.

        Args:
            path: The znode.
            change: The kind of change.
            generation: The session's generation number, which the event contains.
            again: Whether the watches are being set again after an interruption (rule 4).
        """
        for kind in (NODE, CHILD):
            watch = self._watches.get((path, kind))
            if watch is None or ((kind == CHILD) != (change == CHILDREN_CHANGED) and change != NODE_DELETED):
                continue
            watch.present = change != NODE_DELETED
            event_class = watch.row.events.get(change)
            if event_class is None and again and change == NODE_CHANGED:
                event_class = watch.row.events.get(NODE_CREATED)
            if event_class is None:
                del self._watches[path, kind]
            else:
                yield from self._notifications(watch, event_class(*watch.key, generation))

    def watches_to_set(self) -> Watches:
        """Return the watches to set again after an interruption. Setting them reports what has changed meanwhile.

        For a watch that an `exists` request set, the result has a data watch if the znode existed at the last read.
        Before the first read the watch is left out, because the request that sets it is still in progress.
        """
        by_field: dict[str, list[str]] = {"data": [], "exists": [], "children": []}
        for (path, _), watch in self._watches.items():
            if watch.row.of_term and (watch.arms != "exists" or watch.present is not None):
                by_field["data" if watch.arms == "exists" and watch.present else watch.arms].append(path)
        return Watches(tuple(by_field["data"]), tuple(by_field["exists"]), tuple(by_field["children"]))

    def looked_for(self) -> Watches:
        """Return the watches that behave after an interruption as if they had fired (rule 3)."""
        return Watches(exists=tuple(path for (path, _), watch in self._watches.items() if not watch.row.of_term))

    def handle_interruption(
        self, request: Watches, present: tuple[bool, ...], generation: int
    ) -> Iterator[Notification]:
        """Yield events for each path in `request` as if its watch had fired; `request` is the result of `looked_for`.

        `present` is whether each path existed when the watches were set again.
        """
        for path, there in zip(request.exists, present, strict=True):
            watch = self._watches.get((path, NODE))
            changes = (NODE_CHANGED, NODE_CREATED) if there else (NODE_DELETED,)
            events = watch.row.events if watch is not None else {}
            event_class = next((events[each] for each in changes if each in events), None)
            if watch is not None and event_class is not None:
                yield from self._notifications(watch, event_class(*watch.key, generation))

    def forget(self, watcher: ActorAddress, events: Collection[str], keys: Iterable[str] | None) -> None:
        """Drop the watches of `watcher` for these events and keys.

        Args:
            watcher: The actor.
            events: Names of event classes.
            keys: Texts that the `*` of a row matched, such as a topic. The texts of several `*` are joined by "/",
                which no text can contain. None means all keys.
        """
        for place in self._places(events, keys):
            watch = self._watches[place]
            for index in reversed(range(len(watch.watchers))):
                if watch.watchers[index] == watcher:
                    del watch.watchers[index], watch.notified[index]
            if not watch.watchers:
                del self._watches[place]

    def watchers(self) -> list[ActorAddress]:
        """Return all watchers, each once."""
        found: list[ActorAddress] = []
        for watch in self._watches.values():
            for watcher in watch.watchers:
                if not any(watcher == known for known in found):
                    found.append(watcher)
        return found

    def clear(self) -> None:
        """Drop all watches after the end of the session."""
        self._watches.clear()

    def _places(self, events: Collection[str], keys: Iterable[str] | None) -> list[tuple[str, str]]:
        """Return the (path, kind) of the watches for these events and keys; `keys` None means all keys."""
        if keys is None:
            return [place for place, watch in self._watches.items() if _has_event_in(watch.row, events)]
        rows_named = [row for same in self._rows.values() for row in same if _has_event_in(row, events)]
        places = [(row.path_of(key), row.kind) for key in keys for row in rows_named]
        return [place for place in places if place in self._watches]

    def _row(self, path: str, kind: str) -> tuple[WatchRow, tuple[Any, ...]]:
        for row in self._rows.get((kind, path.count("/")), ()):
            key = row.key(path)
            if key is not None:
                return row, key
        raise AskFailed(
            f"znode {path} cannot be watched for {kind!r}: no controller event is declared for such changes"
        )

    def _notifications(self, watch: _Watch, event: Message) -> Iterator[Notification]:
        for index, watcher in enumerate(watch.watchers):
            if not watch.notified[index]:
                watch.notified[index] = True
                yield Notification(watcher, event)


def start_watching(question: StartWatching) -> Conversation:
    """Set the watches for the named events, except on paths that contain a key (a broker id or a topic).

    The watch on a path with a key is set by each request that reads the path.
    """
    chosen = [row for row in WATCHES if ANY not in row.path and _has_event_in(row, question.events)]
    exists = tuple(row.path for row in chosen if row.kind == NODE)
    yield Read(watches=Watches(exists=exists, children=tuple(row.path for row in chosen if row.kind == CHILD)))
    return Done()


def stop_watching(question: StopWatching) -> Conversation:
    """Drop the requester's watches. The watches on the ZooKeeper server stay and fire without effect."""
    yield DropWatches(question.events, question.keys)
    return Done()


def _has_event_in(row: WatchRow, events: Collection[str]) -> bool:
    return any(cls.__name__ in events for cls in row.events.values())


ANSWERS: dict[type, Starter] = {StartWatching: start_watching, StopWatching: stop_watching}
