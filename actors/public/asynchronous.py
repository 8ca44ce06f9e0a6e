"""AsyncKafkaCluster has the methods of `KafkaCluster` for asyncio; none of them blocks the event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from .fault_injection import AsyncFaultInjection
from .kafka_cluster import LOOK_SECONDS, KafkaCluster, not_so, without_leader
from .operations import Asynchronous, ClusterOperations, UnknownPartition, check, operation, takes_arguments_of

__all__ = ["AsyncKafkaCluster"]

_T = TypeVar("_T")


class AsyncKafkaCluster(Asynchronous, ClusterOperations):
    """An async context manager that runs a Kafka cluster for tests with asyncio.

    It takes the arguments of `KafkaCluster`. It has the same methods, with the same arguments, results and exceptions,
    but they are coroutines. `partition_network` and `cut_clients` are async context managers; `heal_network` is not
    needed. The properties `controller_id`, `live_brokers` and `topics` of `KafkaCluster` are coroutine methods of this
    class. All methods do their work in threads, so that consumers' heartbeats and other tasks of the event loop
    continue.
    """

    _blocking: KafkaCluster

    @takes_arguments_of(KafkaCluster)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._blocking = KafkaCluster(*args, **kwargs)

    @property
    def cluster(self) -> KafkaCluster:
        """The same cluster, for code that may block."""
        return self._blocking

    @classmethod
    def of(cls, cluster: KafkaCluster) -> AsyncKafkaCluster:
        """Use an existing `KafkaCluster` with asyncio.

        Args:
            cluster: The cluster, started or not.

        Returns:
            An `AsyncKafkaCluster` for the same brokers.
        """
        found = cls.__new__(cls)
        found._blocking = cluster
        return found

    # ------------------------------------------------------------------------------------------------ start and stop

    async def start(self) -> AsyncKafkaCluster:
        """Start all brokers, and wait until each knows all others and one is the controller. Returns this cluster."""
        await asyncio.to_thread(self.cluster.start)
        return self

    stop = operation(KafkaCluster.stop)
    diagnosis = operation(KafkaCluster.diagnosis)

    async def __aenter__(self) -> AsyncKafkaCluster:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.cluster.__exit__, kind, error, traceback)

    # ---------------------------------------------------------------------------------------------- addresses and files

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap_servers` for clients: "host:port,..." of all brokers, including stopped ones."""
        return self.cluster.bootstrap_servers

    @property
    def trace_dir(self) -> Path:
        """The folder of the brokers' traces, for `kafka-actors replay` and `summary`."""
        return self.cluster.trace_dir

    @property
    def ui_url(self) -> str:
        """The address of the page, as for `KafkaCluster`."""
        return self.cluster.ui_url

    @property
    def log_file(self) -> Path:
        """The file with the log messages of all brokers."""
        return self.cluster.log_file

    @property
    def faults(self) -> AsyncFaultInjection:
        """The object that injects request faults (such as errors) and broker faults (such as slow disks)."""
        return AsyncFaultInjection(self.cluster.faults)

    # ------------------------------------------------------------------------------------------------ operations

    @asynccontextmanager
    async def partition_network(self, a: int, b: int) -> AsyncIterator[None]:
        """Cut the connection between two brokers during an `async with`; clients and ZooKeeper still reach both."""
        await asyncio.to_thread(self.cluster.partition_network, a, b)
        try:
            yield
        finally:
            await asyncio.to_thread(self.cluster.heal_network)

    @asynccontextmanager
    async def cut_clients(self, broker_id: int) -> AsyncIterator[None]:
        """Cut a broker from its clients during an `async with`, as `KafkaCluster.cut_clients` does."""
        await asyncio.to_thread(self.cluster.cut_clients, broker_id)
        try:
            yield
        finally:
            await asyncio.to_thread(self.cluster.heal_network)

    @overload
    async def wait_for(self, condition: Callable[[], Awaitable[_T | None]], timeout: float = 30.0) -> _T: ...
    @overload
    async def wait_for(self, condition: Callable[[], _T | None], timeout: float = 30.0) -> _T: ...
    async def wait_for(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
        """Call `condition` every 10 ms until its result is true, as `KafkaCluster.wait_for` does.

        `condition` may also be a coroutine function.
        """
        check("wait_for", condition=condition, timeout=timeout)
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = condition()
                if inspect.isawaitable(found):
                    found = await found
                seen = repr(found)
            except UnknownPartition as error:
                found, seen = None, str(error)
            if found:
                return found
            if time.monotonic() > deadline:
                raise not_so(timeout, seen)
            await asyncio.sleep(LOOK_SECONDS)

    async def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, timeout: float = 30.0
    ) -> int:
        """Wait until a partition exists and has a leader, as `KafkaCluster.wait_for_leader` does."""
        check("wait_for_leader", other_than=other_than)

        async def leaders() -> list[int]:
            leader = await self.leader_of(topic, partition)
            return [] if leader is None or leader == other_than else [leader]

        try:
            return (await self.wait_for(leaders, timeout))[0]
        except TimeoutError:
            raise without_leader(topic, partition, other_than, timeout) from None
