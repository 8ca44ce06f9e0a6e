"""AsyncKafkaCluster has the methods of `KafkaCluster` for asyncio; none of them blocks the event loop."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from .async_faults import AsyncFaultInjection
from .kafka_cluster import HOST, LOOK_SECONDS, KafkaCluster, UnknownPartition, not_so, without_leader

__all__ = ["AsyncKafkaCluster"]

_T = TypeVar("_T")


class AsyncKafkaCluster:
    """An async context manager that runs a Kafka cluster for tests with asyncio.

    It takes the arguments of `KafkaCluster`. It has the same methods, with the same arguments, results and exceptions,
    but they are coroutines. `partition_network` is an async context manager; `heal_network` is not needed. The
    properties `controller_id`, `live_brokers` and `topics` of `KafkaCluster` are coroutine methods of this class. All
    methods do their work in threads, so that consumers' heartbeats and other tasks of the event loop continue.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        session_timeout: float = 1.0,
        directory: str | Path | None = None,
        host: str = HOST,
        advertised_host: str | None = None,
    ) -> None:
        self.cluster = KafkaCluster(
            brokers,
            settings=settings,
            session_timeout=session_timeout,
            directory=directory,
            host=host,
            advertised_host=advertised_host,
        )
        """The same cluster, for code that may block."""

    @classmethod
    def of(cls, cluster: KafkaCluster) -> AsyncKafkaCluster:
        """Use an existing `KafkaCluster` with asyncio.

        Args:
            cluster: The cluster, started or not.

        Returns:
            An `AsyncKafkaCluster` for the same brokers.
        """
        found = cls.__new__(cls)
        found.cluster = cluster
        return found

    # ------------------------------------------------------------------------------------------------ start and stop

    async def start(self) -> AsyncKafkaCluster:
        """Start all brokers, and wait until each knows all others and one is the controller. Returns this cluster."""
        await asyncio.to_thread(self.cluster.start)
        return self

    async def stop(self) -> None:
        """Stop all brokers at once, without a controlled shutdown. A second call does nothing."""
        await asyncio.to_thread(self.cluster.stop)

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
    def log_file(self) -> Path:
        """The file with the log messages of all brokers."""
        return self.cluster.log_file

    async def diagnosis(self) -> str:
        """Describe what happened in the cluster, as `KafkaCluster.diagnosis` does."""
        return await asyncio.to_thread(self.cluster.diagnosis)

    @property
    def faults(self) -> AsyncFaultInjection:
        """The object that injects request faults (such as errors) and broker faults (such as slow disks)."""
        return AsyncFaultInjection(self.cluster.faults)

    # ------------------------------------------------------------------------------------------------ operations

    async def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, and wait until all brokers know the leaders of its partitions.

        Args:
            topic: Name of the topic.
            partitions: Number of partitions.
            replication_factor: Number of replicas of each partition; by default three, or all brokers if there are
                fewer.
            config: Topic configs by name, such as {"retention.ms": 1000}.

        Raises:
            ClusterError: The topic exists already, or the arguments are invalid; the message has Kafka's reason.
        """
        await asyncio.to_thread(self.cluster.create_topic, topic, partitions, replication_factor, config)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic, and wait until it is removed from ZooKeeper. All brokers with replicas must be running."""
        await asyncio.to_thread(self.cluster.delete_topic, topic)

    async def add_broker(self) -> int:
        """Start one more broker, wait until all other brokers know it, and return its id."""
        return await asyncio.to_thread(self.cluster.add_broker)

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped or killed broker again, with its data and port."""
        await asyncio.to_thread(self.cluster.start_broker, broker_id)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, which moves its leaderships to other brokers."""
        await asyncio.to_thread(self.cluster.stop_broker, broker_id)

    async def restart(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, and start it again with its data and port."""
        await asyncio.to_thread(self.cluster.restart, broker_id)

    async def kill(self, broker_id: int) -> None:
        """Stop a broker without a shutdown, as `kill -9` does; the others notice after `session_timeout` seconds."""
        await asyncio.to_thread(self.cluster.kill, broker_id)

    async def pause(self, broker_id: int) -> None:
        """Suspend a broker until `resume`, as SIGSTOP does: its connections stay open, but it handles no requests."""
        await asyncio.to_thread(self.cluster.pause, broker_id)

    async def resume(self, broker_id: int) -> None:
        """Resume a paused broker, which then handles the requests that it received meanwhile."""
        await asyncio.to_thread(self.cluster.resume, broker_id)

    async def move_controller(self) -> int:
        """Make another running broker the controller, and return its id."""
        return await asyncio.to_thread(self.cluster.move_controller)

    async def expire_session(self, broker_id: int) -> None:
        """Expire a broker's ZooKeeper session, and wait until the broker has registered in a new session."""
        await asyncio.to_thread(self.cluster.expire_session, broker_id)

    @asynccontextmanager
    async def partition_network(self, a: int, b: int) -> AsyncIterator[None]:
        """Cut the connection between two brokers during an `async with`; clients and ZooKeeper still reach both."""
        await asyncio.to_thread(self.cluster.partition_network, a, b)
        try:
            yield
        finally:
            await asyncio.to_thread(self.cluster.heal_network)

    # ------------------------------------------------------------------------------------------------ state

    async def controller_id(self) -> int | None:
        """The controller's id, read from ZooKeeper; None if there is no controller."""
        return await asyncio.to_thread(lambda: self.cluster.controller_id)

    async def live_brokers(self) -> list[int]:
        """The ids of the running brokers."""
        return await asyncio.to_thread(lambda: self.cluster.live_brokers)

    async def topics(self) -> list[str]:
        """The topics, without Kafka's internal ones."""
        return await asyncio.to_thread(lambda: self.cluster.topics)

    async def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """The id of a partition's leader, read from ZooKeeper; None if it has no leader."""
        return await asyncio.to_thread(self.cluster.leader_of, topic, partition)

    async def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """The ids of a partition's in-sync replicas, read from ZooKeeper."""
        return await asyncio.to_thread(self.cluster.isr_of, topic, partition)

    @overload
    async def wait_for(self, condition: Callable[[], Awaitable[_T | None]], timeout: float = 30.0) -> _T: ...
    @overload
    async def wait_for(self, condition: Callable[[], _T | None], timeout: float = 30.0) -> _T: ...
    async def wait_for(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
        """Call `condition` every 10 ms until its result is true.

        Args:
            condition: A function or coroutine function without arguments. If it asks about a partition that does not
                exist yet, the result counts as false.
            timeout: Maximum time in seconds.

        Returns:
            The result of `condition`.

        Raises:
            TimeoutError: `condition` had no true result within `timeout` seconds; the message has its last result.
        """
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
        """Wait until a partition exists and has a leader.

        Args:
            topic: Name of the topic.
            partition: Partition number.
            other_than: Id of a broker that does not count as leader, such as one that was killed.
            timeout: Maximum time in seconds.

        Returns:
            The id of the leader.

        Raises:
            TimeoutError: The partition had no such leader within `timeout` seconds.
        """

        async def leaders() -> list[int]:
            leader = await self.leader_of(topic, partition)
            return [] if leader is None or leader == other_than else [leader]

        try:
            return (await self.wait_for(leaders, timeout))[0]
        except TimeoutError:
            raise without_leader(topic, partition, other_than, timeout) from None
