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
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import click

from actors.cli.node_log import CLUSTER_LOG, logging_to
from actors.node.free_ports import HOST, free_ports
from actors.node.memory_cluster import ClusterError, MemoryCluster, UnknownPartition
from actors.node.settings import SettingsError

Action: TypeAlias = Callable[..., Awaitable[object]]

LONGEST_LINE = 1 << 20


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
            answer(json.dumps(await stage.answered(line)))
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
    """The running cluster, if any, and the actions that the test program can request."""

    def __init__(self) -> None:
        self._running: MemoryCluster | None = None
        self._open = ExitStack()

    async def answered(self, line: bytes) -> dict[str, object]:
        """Return the response to a line: {"done": result} or {"failed": reason}.

        An error that clients must tell apart from others also has a "kind".
        """
        try:
            asked = json.loads(line)
            action, options = ACTIONS[asked["do"]], asked.get("with", {})
        except (ValueError, TypeError, KeyError, AttributeError):
            known = ", ".join(ACTIONS)
            return {"failed": f'a line should be {{"do": NAME, "with": {{...}}}} with a name of {known}'}
        try:
            return {"done": await action(self, **options)}
        except UnknownPartition as error:
            return {"failed": str(error), "kind": type(error).__name__}
        except ClusterError as error:
            return {"failed": str(error)}
        except SettingsError as error:
            return {"failed": "; ".join(error.messages)}
        except (TypeError, OSError) as error:
            return {"failed": f"{asked['do']}: {error}"}

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
    ) -> dict[str, object]:
        """Start a cluster in `directory`, which is created; return its ports and the folder of its traces."""
        if self._running is not None:
            raise ClusterError(
                "this fixture process already runs a cluster. Stop the cluster first, or run a second fixture process"
            )
        place = Path(directory).absolute()
        place.mkdir(parents=True, exist_ok=True)
        self._open.enter_context(logging_to(place / CLUSTER_LOG))
        try:
            self._running = MemoryCluster(
                place, free_ports(brokers, host), settings, session_timeout, host, advertised_host
            )
            await self._running.start()
        except BaseException:
            await self.stop()
            raise
        return self._addresses(self._running)

    @staticmethod
    def _addresses(cluster: MemoryCluster) -> dict[str, object]:
        return {"host": cluster.host, "ports": cluster.ports, "trace_dir": str(cluster.trace_dir)}

    async def add_broker(self) -> dict[str, object]:
        """Start one more broker; return its id and the cluster's addresses."""
        return {"broker_id": await self.cluster.add_broker(), **self._addresses(self.cluster)}

    async def faults_never_met(self) -> list[str]:
        """Return descriptions of the injected faults that have not affected any request or operation."""
        return self.cluster.faults_never_met()

    async def flush_traces(self) -> None:
        """Bring the brokers' traces up to date. Otherwise they are up to 0.25 s behind the handled messages."""
        self.cluster.flush_traces()

    async def restart(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, and start it again."""
        await self.cluster.stop_broker(broker_id)
        await self.cluster.start_broker(broker_id)

    async def stop(self) -> None:
        """Stop the cluster, if one is running."""
        cluster, self._running = self._running, None
        if cluster is not None:
            await cluster.stop()
        self._open.close()

    async def state_of(self, topic: str, partition: int) -> dict[str, Any]:
        """Return the state of a partition in ZooKeeper: `leader` (-1 for none) and `isr`."""
        leader, isr = self.cluster.state_of(topic, partition)
        return {"leader": leader, "isr": isr}

    async def sight(self) -> dict[str, Any]:
        """Return the state of the cluster.

        It has the controller's id (null for none), the running brokers, the topics, and the partitions without a
        leader.
        """
        return {
            "controller_id": self.cluster.controller_id,
            "live_brokers": self.cluster.live_brokers,
            "topics": self.cluster.topics,
            "offline_partitions": [str(each) for each in self.cluster.offline_partitions],
        }


ACTIONS: dict[str, Action] = {
    "start": FixtureCluster.start,
    "stop": FixtureCluster.stop,
    "sight": FixtureCluster.sight,
    "state_of": FixtureCluster.state_of,
    "create_topic": lambda self, topic, partitions=1, replication_factor=3, config=None: self.cluster.create_topic(
        topic, partitions, replication_factor, config
    ),
    "inject_fault": lambda self, **fault: self.cluster.inject_fault(**fault),
    "fault": lambda self, number: self.cluster.fault_counts(number),
    "remove_fault": lambda self, number: self.cluster.remove_fault(number),
    "clear_faults": lambda self: self.cluster.clear_faults(),
    "faults_never_met": FixtureCluster.faults_never_met,
    "flush_traces": FixtureCluster.flush_traces,
    "delete_topic": lambda self, topic: self.cluster.delete_topic(topic),
    "add_broker": FixtureCluster.add_broker,
    "restart": FixtureCluster.restart,
    "start_broker": lambda self, broker_id: self.cluster.start_broker(broker_id),
    "stop_broker": lambda self, broker_id: self.cluster.stop_broker(broker_id),
    "kill": lambda self, broker_id: self.cluster.kill(broker_id),
    "pause": lambda self, broker_id: self.cluster.pause(broker_id),
    "resume": lambda self, broker_id: self.cluster.resume(broker_id),
    "move_controller": lambda self: self.cluster.move_controller(),
    "expire_session": lambda self, broker_id: self.cluster.expire_session(broker_id),
    "partition_network": lambda self, a, b: self.cluster.partition_network(a, b),
    "heal_network": lambda self: self.cluster.heal_network(),
}
"""Action of a line -> its method and options."""
