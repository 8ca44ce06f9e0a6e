"""What a scenario is played on: five nodes, of whatever kind, with the methods that the simulation's actions use."""

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
"""The roles of our nodes: those with replicas, and those that may be controller."""

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
"""Of every node, Kafka's names with underscores: nothing happens by itself, a node may be suspended for a while, and
what is tried again is tried soon."""


class ZooKeeper(Protocol):
    """ZooKeeper, read after all earlier writes."""

    up: bool

    def read(self, path: str) -> Znode:
        """A node's data; None if it does not exist."""
        ...

    def walk(self, top: str = "/") -> Iterable[tuple[str, bytes | None]]:
        """The path and data of every node at and below `top`."""
        ...


class Stage(Protocol):
    """A cluster. What is called as in `actors.simulation.simulated_cluster.Cluster` means what it means there."""

    looks: float
    """Seconds between two looks at it."""

    @property
    def zookeeper(self) -> ZooKeeper: ...

    def exists(self, path: str) -> bool: ...

    def has_log_of(self, topic: str) -> bool: ...

    def try_ask(self, question: Question[Any]) -> None: ...

    def write(self, *ops: WriteOp) -> None: ...

    def ask_controller(self, request: Message) -> None: ...

    def start(self, node_id: int) -> None: ...

    def kill(self, node_id: int) -> None:
        """End a process without a word; ZooKeeper ends its session at once."""
        ...

    def leave(self, node_id: int) -> None: ...

    def pause(self, node_id: int) -> None: ...

    def resume(self, node_id: int) -> None: ...

    def registered(self, node_id: int) -> bool:
        """Whether ZooKeeper knows of the node's present life."""
        ...

    def candidates(self) -> list[int]:
        """Who runs, and stands when there is no controller."""
        ...

    def call(self, node_id: int, request: Message) -> Message | None:
        """The node's answer to a client's request; None without a response."""
        ...

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        ...

    def until(self, good: Callable[[], bool], seconds: float) -> bool:
        """Let time pass until `good()`, checked now and then; return whether that happened in time."""
        ...
