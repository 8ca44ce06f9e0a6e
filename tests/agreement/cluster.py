"""The interface of a cluster that runs a scenario: five nodes, with the methods that the simulation's actions use."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from messages.ask import Question
from messages.store import WriteOp, Znode
from messages.vocabulary import Message

BROKERS = (0, 1, 2)
CONTROLLERS = (3, 4)
NODES = (*BROKERS, *CONTROLLERS)
ROLES = (("broker",), ("broker", "controller"))
"""Roles of our nodes: first of a node with replicas, then of a node that may become the controller."""

SETTINGS: dict[str, object] = {
    "auto_leader_rebalance_enable": "false",
    "auto_create_topics_enable": "false",
    "controlled_shutdown_max_retries": 50,
    "controlled_shutdown_retry_backoff_ms": 200,
    "log_segment_delete_delay_ms": 1000,
    "replica_fetch_backoff_ms": 200,
    "replica_lag_time_max_ms": 60_000,
    "zookeeper_session_timeout_ms": 60_000,
}
"""Settings of every node, by Kafka's names with underscores.

Automatic actions are off, a suspended node keeps its session and its place in the ISR for a minute, and retries are
frequent.
"""


class ZooKeeper(Protocol):
    """ZooKeeper, read after all earlier writes."""

    up: bool

    def read(self, path: str) -> Znode:
        """Return a znode; its code is NO_NODE if it does not exist."""
        ...

    def walk(self, top: str = "/") -> Iterable[tuple[str, bytes | None]]:
        """Yield the path and data of every znode at and below `top`."""
        ...


class ScenarioCluster(Protocol):
    """A cluster. Methods that `actors.simulation.simulated_cluster.Cluster` also has do the same as there."""

    looks: float
    """Seconds between two checks of the condition in `until`."""

    @property
    def zookeeper(self) -> ZooKeeper: ...

    def exists(self, path: str) -> bool: ...

    def has_log_of(self, topic: str) -> bool: ...

    def try_ask(self, question: Question[Any]) -> None: ...

    def write(self, *ops: WriteOp) -> None: ...

    def ask_controller(self, request: Message) -> None: ...

    def start(self, node_id: int) -> None: ...

    def kill(self, node_id: int) -> None:
        """Kill a process without a controlled shutdown; ZooKeeper ends its session at once."""
        ...

    def leave(self, node_id: int) -> None: ...

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...

    def registered(self, node_id: int) -> bool:
        """Return whether the node's current process is registered in ZooKeeper."""
        ...

    def candidates(self) -> list[int]:
        """Return the nodes that run and would join a controller election."""
        ...

    def call(self, node_id: int, request: Message) -> Message | None:
        """Send a client's request to a node; return the response, or None without one."""
        ...

    def run(self, seconds: float) -> None:
        """Let this many seconds pass."""
        ...

    def until(self, good: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until `good()` is true; return whether this took at most `seconds`."""
        ...
