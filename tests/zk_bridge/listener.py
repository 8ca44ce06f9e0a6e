"""Record what a store delivers, and wait for it with a deadline."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

from messages.store import SessionState, StoreRead, StoreReply, StoreWrite, Watches, WatchEvent, WriteOp
from zk_bridge.store import Store

TIMEOUT = 20.0


class Listener:
    """A started store, and all its replies, watch events and session states in order."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.news: list[Any] = []
        self._changed = threading.Condition()
        self._ids = itertools.count(1)
        store.start(self._take)

    def _take(self, item: Any) -> None:
        with self._changed:
            self.news.append(item)
            self._changed.notify_all()

    def until(self, good: Callable[[list[Any]], Any]) -> Any:
        """Wait until `good(news)` is true, and return its value. Raise AssertionError at the deadline."""
        deadline = time.monotonic() + TIMEOUT
        with self._changed:
            while not (found := good(self.news)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise AssertionError(f"never came; the last news: {self.news[-10:]}")
            return found

    # ------------------------------------------------------------------------------------------------ requests

    def submit_read(self, data: tuple[str, ...] = (), children: tuple[str, ...] = ()) -> int:
        """Send a StoreRead and return its id."""
        return self._submit(StoreRead, data, children)

    def submit_write(self, *ops: WriteOp) -> int:
        """Send a StoreWrite and return its id."""
        return self._submit(StoreWrite, ops)

    def submit_arm(
        self, data: tuple[str, ...] = (), exists: tuple[str, ...] = (), children: tuple[str, ...] = ()
    ) -> int:
        """Send a StoreRead that only sets watches, and return its id."""
        return self._submit(StoreRead, (), (), Watches(data, exists, children))

    def read(self, *data: str, children: tuple[str, ...] = ()) -> StoreReply:
        """Send a StoreRead and return its reply."""
        return self.reply(self.submit_read(data, children))

    def write(self, *ops: WriteOp) -> StoreReply:
        """Send a StoreWrite and return its reply."""
        return self.reply(self.submit_write(*ops))

    def arm(
        self,
        data: tuple[str, ...] = (),
        exists: tuple[str, ...] = (),
        children: tuple[str, ...] = (),
        since: int | None = None,
    ) -> StoreReply:
        """Send a StoreRead that only sets watches, and return its reply."""
        return self.reply(self._submit(StoreRead, (), (), Watches(data, exists, children), since))

    def _submit(self, kind: type, *fields: Any) -> int:
        number = next(self._ids)
        self.store.submit(kind(number, *fields))
        return number

    # ------------------------------------------------------------------------------------------------- answers

    def reply(self, number: int) -> StoreReply:
        """Wait for the reply to a request, and return it."""
        found: StoreReply = self.until(
            lambda news: next((each for each in news if isinstance(each, StoreReply) and each.id == number), None)
        )
        return found

    def events(self) -> list[tuple[str, str]]:
        """Return the watch events so far as (path, kind)."""
        return [(each.path, each.kind) for each in list(self.news) if isinstance(each, WatchEvent)]

    def event(self, path: str, kind: str) -> None:
        """Wait for a watch event."""
        self.until(lambda news: WatchEvent(path, kind) in news)

    def states(self) -> list[str]:
        """Return the session states so far."""
        return [each.state for each in list(self.news) if isinstance(each, SessionState)]

    def state(self, *expected: str) -> None:
        """Wait until the session states since the start are exactly these."""
        self.until(lambda news: [each.state for each in news if isinstance(each, SessionState)] == list(expected))

    def sessions(self) -> list[int]:
        """Return the ids of the sessions so far."""
        return [each.session_id for each in list(self.news) if isinstance(each, SessionState) and each.session_id]
