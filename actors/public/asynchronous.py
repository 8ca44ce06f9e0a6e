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

from .kafka_cluster import HOST, LOOK_SECONDS, KafkaCluster, UnknownPartition, not_so, without_leader

__all__ = ["AsyncKafkaCluster"]

_T = TypeVar("_T")


class AsyncKafkaCluster:
    """A Kafka cluster for tests with asyncio, which `async with` starts and stops.

    It takes the arguments of `KafkaCluster` and has its methods, as coroutines; what there is a property and asks the
    cluster is a coroutine here too. Their work is done in threads, so that consumers' heartbeats and all else on the
    event loop go on.
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
        """The same cluster for callers that may block."""

    @classmethod
    def of(cls, cluster: KafkaCluster) -> AsyncKafkaCluster:
        """A cluster that exists already, for asyncio."""
        found = cls.__new__(cls)
        found.cluster = cluster
        return found

    # ------------------------------------------------------------------------------------------------ life

    async def start(self) -> AsyncKafkaCluster:
        """Start all brokers; they know each other then, and one is controller."""
        await asyncio.to_thread(self.cluster.start)
        return self

    async def stop(self) -> None:
        """Stop all brokers at once. A second call does nothing."""
        await asyncio.to_thread(self.cluster.stop)

    async def __aenter__(self) -> AsyncKafkaCluster:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.cluster.__exit__, kind, error, traceback)

    # ------------------------------------------------------------------------------------------------ where it is

    @property
    def bootstrap_servers(self) -> str:
        """ "host:port,host:port,...": all brokers, for `bootstrap_servers` of a client."""
        return self.cluster.bootstrap_servers

    @property
    def trace_dir(self) -> Path:
        """The folder of the brokers' traces, for `kafka-actors replay` and `summary`."""
        return self.cluster.trace_dir

    @property
    def log_file(self) -> Path:
        """The brokers' log."""
        return self.cluster.log_file

    async def diagnosis(self) -> str:
        """The cluster's state for a test's report, as `KafkaCluster.diagnosis`."""
        return await asyncio.to_thread(self.cluster.diagnosis)

    # ------------------------------------------------------------------------------------------------ operations

    async def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, by default replicated on up to three brokers; all brokers know its leaders then."""
        await asyncio.to_thread(self.cluster.create_topic, topic, partitions, replication_factor, config)

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic; it is gone from ZooKeeper when this returns."""
        await asyncio.to_thread(self.cluster.delete_topic, topic)

    async def add_broker(self) -> int:
        """Start one more broker, and return its id."""
        return await asyncio.to_thread(self.cluster.add_broker)

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped or killed broker again, on its data and port."""
        await asyncio.to_thread(self.cluster.start_broker, broker_id)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, which moves its leaders away."""
        await asyncio.to_thread(self.cluster.stop_broker, broker_id)

    async def restart(self, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, and start it again on its data and port."""
        await asyncio.to_thread(self.cluster.restart, broker_id)

    async def kill(self, broker_id: int) -> None:
        """End a broker as kill -9 would. The others notice when its session expires."""
        await asyncio.to_thread(self.cluster.kill, broker_id)

    async def pause(self, broker_id: int) -> None:
        """Suspend a broker as SIGSTOP does, until `resume`."""
        await asyncio.to_thread(self.cluster.pause, broker_id)

    async def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        await asyncio.to_thread(self.cluster.resume, broker_id)

    async def move_controller(self) -> int:
        """Make another broker the controller, and return its id."""
        return await asyncio.to_thread(self.cluster.move_controller)

    async def expire_session(self, broker_id: int) -> None:
        """Expire a broker's ZooKeeper session; it has registered again when this returns."""
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
        """The controller's id in ZooKeeper; None if there is none."""
        return await asyncio.to_thread(lambda: self.cluster.controller_id)

    async def live_brokers(self) -> list[int]:
        """The ids of the running brokers."""
        return await asyncio.to_thread(lambda: self.cluster.live_brokers)

    async def topics(self) -> list[str]:
        """The topics, without Kafka's internal ones."""
        return await asyncio.to_thread(lambda: self.cluster.topics)

    async def leader_of(self, topic: str, partition: int = 0) -> int | None:
        """The leader of a partition in ZooKeeper; None if there is none."""
        return await asyncio.to_thread(self.cluster.leader_of, topic, partition)

    async def isr_of(self, topic: str, partition: int = 0) -> list[int]:
        """The in-sync replicas of a partition in ZooKeeper."""
        return await asyncio.to_thread(self.cluster.isr_of, topic, partition)

    @overload
    async def wait_for(self, condition: Callable[[], Awaitable[_T | None]], timeout: float = 30.0) -> _T: ...
    @overload
    async def wait_for(self, condition: Callable[[], _T | None], timeout: float = 30.0) -> _T: ...
    async def wait_for(self, condition: Callable[[], Any], timeout: float = 30.0) -> Any:
        """Call `condition` every hundredth of a second until its result is true, and return that.

        A condition may be a coroutine function. A partition that does not exist yet counts as false.

        Raises:
            TimeoutError: After `timeout` seconds, with the last result.
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
        """Wait until a partition exists and a broker other than `other_than` leads it, and return that broker's id.

        Raises:
            TimeoutError: After `timeout` seconds.
        """

        async def leaders() -> list[int]:
            leader = await self.leader_of(topic, partition)
            return [] if leader is None or leader == other_than else [leader]

        try:
            return (await self.wait_for(leaders, timeout))[0]
        except TimeoutError:
            raise without_leader(topic, partition, other_than, timeout) from None
