"""The page of a running cluster: its picture is read from the traces that the nodes write.

Rule 1: the nodes are not asked. Their traces are read while a page is open, and when one is loaded.
Rule 2: the page is served by the process that starts the nodes, so it survives their kills.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.node.free_ports import HOST
from actors.node.memory_cluster import FaultInEffect
from actors.page.controls import Controls, perform
from actors.page.event_stream import EventStream
from actors.page.picture import Picture
from actors.page.server import PageServer
from actors.page.subject_histories import LiveLags
from actors.trace.explanation import explain, explanation_json, utc
from actors.trace.following import FactFollower
from messages.trace.errors import TraceError

POLL_SECONDS = 0.2

_log = logging.getLogger("kafka_actors.page")


class LivePage:
    """Serves the page of a running cluster until `stop`; `url` is its address.

    Args:
        title: What the page shows, such as the folder of the cluster.
        folders: The folders of the nodes' traces, which need not exist yet.
        controls: The operations of the page's buttons; None if it has none.
        host: The address to listen on.
        port: The port; 0 selects a free one.
        alone: Whether this is the page of one node, which shows what its metadata cache stores.

    Raises:
        OSError: The port is in use.
    """

    def __init__(
        self,
        title: str,
        folders: Sequence[Path],
        controls: Controls | None = None,
        host: str = HOST,
        port: int = 0,
        alone: bool = False,
    ) -> None:
        self._controls = controls
        self._lags = LiveLags()
        self._follower = FactFollower(*folders, metadata=alone, watch=self._lags.take)
        self._picture = Picture()
        self._effects: list[FaultInEffect] = []
        self._events = EventStream()
        self._gate = threading.Lock()
        self._stopping = threading.Event()
        actions = () if controls is None else controls.actions
        self._server = PageServer(
            {"mode": "live", "title": title, "actions": [each.plain() for each in actions]},
            {
                "/api/picture": self._whole,
                "/api/partition": self._partition,
                "/api/lags": self._lag,
                "/api/why": self._why,
            },
            self._events,
            {} if controls is None else {"/api/do": self._do},
            host,
            port,
        )
        self.url = self._server.url
        self._thread = threading.Thread(target=self._follow, name="page-follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the page."""
        self._stopping.set()
        self._events.close()
        self._server.stop()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            self._events.wait_for_page()
            self._catch_up()

    def _catch_up(self) -> None:
        """Read what the traces have got, and send the changes to the open pages."""
        with self._gate:
            problem = ""
            try:
                for fact in sorted(self._follower.poll(), key=lambda fact: fact.place):  # the end of a run is read last
                    self._picture.apply(fact)
            except (TraceError, OSError) as error:
                problem = f"the traces cannot be read: {error}"
            changes = self._picture.changes()
            effects = [FaultInEffect(problem)] if problem else []
            if self._controls is not None and not self._stopping.is_set():
                effects += self._controls.effects()
            if effects != self._effects:
                self._effects = effects
                if changes is not None:
                    changes["effects"] = self._plain_effects()
            if changes != {}:
                self._events.publish(changes)

    def _plain_effects(self) -> list[dict[str, Any]]:
        return [{"text": text, "do": name, "with": arguments} for text, name, arguments in self._effects]

    def _whole(self, query: Mapping[str, str]) -> dict[str, Any]:
        self._catch_up()
        with self._gate:
            return {**self._picture.whole(), "effects": self._plain_effects(), "event": self._events.last}

    def _partition(self, query: Mapping[str, str]) -> dict[str, Any]:
        with self._gate:
            return self._picture.partition(query.get("name", ""))

    def _lag(self, query: Mapping[str, str]) -> list[dict[str, Any]]:
        self._catch_up()
        with self._gate:
            return self._lags.of(query.get("name", ""))

    def _why(self, query: Mapping[str, str]) -> dict[str, Any]:
        self._catch_up()
        at = float(query.get("at", math.inf))
        return explanation_json(explain(self._follower.runs, query.get("about", ""), query.get("name"), at), utc)

    def _do(self, asked: object) -> dict[str, str]:
        assert self._controls is not None
        answer = perform(self._controls, asked)
        self._catch_up()
        return answer
