"""Events that a source publishes to all open pages, as server-sent events.

Rule 1: an event's id contains a random part of the stream, and its number. A page that reconnects sends the id of its
        last event, and gets the later ones. If they are not kept any more, it gets the event "reset", and loads the
        whole picture again.
Rule 2: a page that reads too slowly is dropped when WAITING events wait for it.
"""

from __future__ import annotations

import json
import queue
import secrets
import threading
from collections import deque
from collections.abc import Iterator

KEPT = 256
"""Number of events that are kept for pages that reconnect."""
WAITING = 64
"""Maximum number of events that wait for one page."""
HEARTBEAT_SECONDS = 5.0
"""Seconds after which a comment is sent, which finds out that a page was closed."""

_RESET = b"event: reset\ndata: {}\n\n"


class EventStream:
    """Publishes events to the pages that subscribed. Any thread may call its methods."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[bytes] = deque(maxlen=KEPT)
        self._pages: set[queue.Queue[bytes]] = set()
        self._changed = threading.Condition()
        self._closed = False

    @property
    def last(self) -> str:
        """The id of the last event."""
        return f"{self._name}-{self._number}"

    def wait_for_page(self) -> None:
        """Wait until at least one page is open, or the stream is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._pages or self._closed)

    def close(self) -> None:
        """Let `wait_for_page` return, and end the events of all pages."""
        with self._changed:
            self._closed = True
            self._pages.clear()
            self._changed.notify_all()

    def publish(self, data: object) -> None:
        """Send a value that JSON can contain to all open pages; None lets them load the whole picture again."""
        with self._changed:
            self._number += 1
            head = f"id: {self.last}\n".encode()
            event = head + (_RESET if data is None else b"data: " + json.dumps(data).encode() + b"\n\n")
            self._kept.append(event)
            for page in [*self._pages]:
                try:
                    page.put_nowait(event)
                except queue.Full:
                    self._pages.discard(page)

    def subscribe(self, after: str) -> Iterator[bytes]:
        """Return the events that follow the one with the id `after`, as bytes on the connection."""
        page: queue.Queue[bytes] = queue.Queue(WAITING)
        with self._changed:
            self._pages.add(page)
            missed = self._events_after(after)
            self._changed.notify_all()
        return self._events(page, [_RESET] if missed is None else missed)

    def _events_after(self, id: str) -> list[bytes] | None:
        name, _, number = id.rpartition("-")
        missing = self._number - int(number) if name == self._name and number.isdigit() else -1
        return [*self._kept][len(self._kept) - missing :] if 0 <= missing <= len(self._kept) else None

    def _events(self, page: queue.Queue[bytes], missed: list[bytes]) -> Iterator[bytes]:
        try:
            yield b": open\n\n"
            yield from missed
            while page in self._pages or not page.empty():
                try:
                    yield page.get(timeout=HEARTBEAT_SECONDS)
                except queue.Empty:
                    yield b": open\n\n"
        finally:
            with self._changed:
                self._pages.discard(page)
