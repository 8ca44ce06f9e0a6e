"""A client of ZooKeeper for tests that look at a cluster from outside, while its machine may have much to do."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient

PATIENCE_SECONDS = 60.0


class PatientZooKeeperClient(KazooClient):
    """Its reads are asked again where the server kept it waiting, or its session is over: the test is not about it.

    Writes are not: the caller of a write decides about retries.
    """

    def __init__(self, hosts: str) -> None:
        patience = {"max_tries": -1, "max_delay": 1.0, "deadline": PATIENCE_SECONDS}
        super().__init__(hosts, timeout=30, command_retry=patience)

    def exists(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().exists, *arguments, **named)

    def get(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get, *arguments, **named)

    def get_children(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get_children, *arguments, **named)
