"""`kafka-actors fixture`: run clusters for a test program, which may be in any language and sends JSON commands.

    {"do": "start", "with": {"directory": "/tmp/c", "brokers": 3}}         -> {"done": {"ports": [21001, ...], ...}}
    {"do": "kill", "with": {"broker_id": 1}}                               -> {"done": null}
    {"do": "kill", "with": {"broker_id": 1}}                               -> {"failed": "broker 1 is not running; ..."}

Rule 1: Each input line has one output line, in order. The end of the input or a signal ends everything.
Rule 2: One cluster runs at a time. After a `stop`, another cluster can start in the same process, and starts faster
        than the first one.
Rule 3: Nodes log to `cluster.log` in the cluster's directory.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from actors.cli.node_log import CLUSTER_LOG, logging_to
from actors.node.cluster_security import ClusterSecurity
from actors.node.free_ports import HOST, free_ports
from actors.node.memory_cluster import MemoryCluster
from actors.node.settings import SettingsError
from actors.public.operations import OPERATIONS, ClusterError, UnknownPartition, check_arguments

if TYPE_CHECKING:
    from actors.page.live import LivePage

LONGEST_LINE = 1 << 30


@click.command("fixture")
def command() -> int:
    """Run clusters for a test program, which writes commands as JSON lines to this command's standard input.

    All nodes run in this process on real sockets, with an in-memory ZooKeeper and without Java. For the protocol see
    docs/how-to/cluster-for-tests.md.
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # other output must not mix with the responses
    asyncio.run(_serve(lambda line: print(line, file=answers)))
    return 0


async def _serve(answer: Callable[[str], None]) -> None:
    stage = FixtureCluster()
    try:
        async for line in _input_lines():
            answer(json.dumps(await stage.answer(line)))
    finally:
        await stage.stop()


async def _input_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input."""
    mode = os.fstat(sys.stdin.fileno()).st_mode
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()):
        for line in sys.stdin.buffer:  # a file or /dev/null: an event loop cannot watch it, and reading does not wait
            yield line
        return
    lines = asyncio.StreamReader(LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        yield line


class FixtureCluster:
    """The running cluster, if any, and the operations that the test program can request."""

    def __init__(self) -> None:
        self._running: MemoryCluster | None = None
        self._page: LivePage | None = None
        self._open = ExitStack()

    async def answer(self, line: bytes) -> dict[str, object]:
        """Return the response to a line: {"done": result} or {"failed": reason}.

        An error that clients must tell apart from others also has a "kind".
        """
        name = "?"
        try:
            asked = json.loads(line)
            name, options = asked["do"], asked.get("with", {})
            if name not in OPERATIONS or not isinstance(options, dict):
                raise KeyError(name)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            known = ", ".join(OPERATIONS)
            return {"failed": f'a line should be {{"do": NAME, "with": {{...}}}} with a name of {known}'}
        try:
            done = getattr(self if name in ("start", "stop") else self.cluster, name)
            arguments = check_arguments(name, options)
            if callable(done):
                done = done(**arguments)
            return {"done": await done if isawaitable(done) else done}
        except UnknownPartition as error:
            return {"failed": str(error), "kind": type(error).__name__}
        except ClusterError as error:
            return {"failed": str(error)}
        except SettingsError as error:
            return {"failed": "; ".join(error.messages)}
        except Exception as error:
            return {"failed": f"{name}: {error or type(error).__name__}"}

    @property
    def cluster(self) -> MemoryCluster:
        """The running cluster.

        Raises:
            ClusterError: No cluster is running.
        """
        if self._running is None:
            raise ClusterError("no cluster is running; start one first")
        return self._running

    async def start(
        self,
        directory: str,
        brokers: int = 3,
        settings: dict[str, str] | None = None,
        session_timeout: float = 1.0,
        host: str = HOST,
        advertised_host: str | None = None,
        log_dirs: int = 1,
        security: str | None = None,
        mechanism: str | None = None,
        users: dict[str, str] | None = None,
        acls: list[dict[str, object]] | None = None,
        ui: bool = False,
    ) -> dict[str, object]:
        """Start a cluster in `directory`, which is created; return its ports, the folder of its traces and its page."""
        if self._running is not None:
            raise ClusterError(
                "this fixture process already runs a cluster. Stop the cluster first, or run a second fixture process"
            )
        place = Path(directory).absolute()
        place.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(logging_to(place / CLUSTER_LOG))
        try:
            ports = free_ports(brokers, host)
            secured = None
            if security is not None:
                secured = ClusterSecurity(place, security, mechanism, users, acls, (host, advertised_host or host))
            self._running = MemoryCluster(
                place, ports, settings, session_timeout, host, advertised_host, log_dirs, secured
            )
            await self._running.start()
            if ui:
                from actors.page.controls import MemoryControls  # clusters without a page start faster
                from actors.page.live import LivePage

                self._page = LivePage(str(place), [self._running.trace_dir], MemoryControls(self._running))
        except BaseException:
            await self.stop()
            raise
        return {**self._running.addresses(), "ui": None if self._page is None else self._page.url}

    async def stop(self) -> None:
        """Stop the cluster, if one is running."""
        cluster, self._running = self._running, None
        page, self._page = self._page, None
        if page is not None:
            await asyncio.to_thread(page.stop)
        if cluster is not None:
            await cluster.stop()
        self._open.close()
