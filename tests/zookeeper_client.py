"""A ZooKeeper client for tests that inspect a cluster from outside, possibly on a busy machine."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient

PATIENCE_SECONDS = 60.0


class PatientZooKeeperClient(KazooClient):
    """A client that repeats reads after a timeout or an expired session, because the tests do not test ZooKeeper.

    Writes are not repeated: the caller decides about retries.
    """

    def __init__(self, hosts: str) -> None:
        patience = {"max_tries": -1, "max_delay": 1.0, "deadline": PATIENCE_SECONDS}
        super().__init__(hosts, timeout=30, command_retry=patience)

    def end_session(self, broker_id: int) -> None:
        """Delete the znodes of a killed broker's session now; ZooKeeper would wait for its timeout."""
        registration = f"/brokers/ids/{broker_id}"
        if registered := self.exists(registration):
            ending = self.transaction()
            for path in ("/controller", f"/kafka-actors/nodes/{broker_id}", registration):
                if (held := self.exists(path)) and held.ephemeralOwner == registered.ephemeralOwner:
                    ending.delete(path)
            ending.commit()

    def exists(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().exists, *arguments, **named)

    def get(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get, *arguments, **named)

    def get_children(self, *arguments: Any, **named: Any) -> Any:
        return self.retry(super().get_children, *arguments, **named)
