"""A group member of the Java client: Kafka's VerifiableConsumer, which prints its events as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster.apache_java import apache_java
from tests.cluster.processes import Running, properties

ASSIGNORS = "org.apache.kafka.clients.consumer."


class JavaMember(Running):
    """Reads `topic` and commits after each poll of at most `max_poll_records`; its output is in `directory`/said.txt.

    It prints the read offsets before it commits, and the committed offsets after the response. A commit fails during a
    rebalance, or if the search for the coordinator takes too long. The member retries it only after it has read further
    records. So a test that waits for a commit must write records meanwhile.
    """

    def __init__(
        self,
        jars: Path,
        directory: Path,
        bootstrap: str,
        group: str,
        topic: str,
        *,
        assignor: str = "RangeAssignor",
        instance: str | None = None,
        session_timeout_ms: int = 10_000,
        max_poll_records: int = 20,
    ) -> None:
        config = properties(
            directory / "consumer.properties",
            max__poll__records=max_poll_records,
            heartbeat__interval__ms=500,
            reconnect__backoff__max__ms=500,
        )
        command = [*apache_java(jars, "128m"), "org.apache.kafka.tools.VerifiableConsumer"]
        options = {
            "--bootstrap-server": bootstrap,
            "--topic": topic,
            "--group-id": group,
            "--assignment-strategy": ASSIGNORS + assignor,
            "--session-timeout": str(session_timeout_ms),
            "--consumer.config": str(config),
        }
        if instance is not None:
            options["--group-instance-id"] = instance
        super().__init__([*command, *[word for option in options.items() for word in option]], directory / "said.txt")

    def events(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the printed events of this name in order, without a line that is incomplete."""
        for line in self.output.split("\n")[:-1]:
            if line.startswith("{"):
                event = json.loads(line)
                if event["name"] == name:
                    yield event

    @property
    def assigned(self) -> set[int]:
        """The partitions that are assigned to the member now."""
        has: set[int] = set()
        for line in self.output.split("\n")[:-1]:
            event = json.loads(line) if line.startswith("{") else {}
            named = {each["partition"] for each in event.get("partitions", ())}
            if event.get("name") == "partitions_assigned":
                has |= named
            elif event.get("name") == "partitions_revoked":
                has -= named
        return has

    @property
    def read_to(self) -> dict[int, int]:
        """Partition -> the offset after the last record that the member has read."""
        found: dict[int, int] = {}
        for event in self.events("records_consumed"):
            for each in event["partitions"]:
                found[each["partition"]] = max(found.get(each["partition"], 0), each["maxOffset"] + 1)
        return found

    @property
    def reported(self) -> dict[int, int]:
        """Partition -> the last committed offset that the coordinator has acknowledged."""
        found: dict[int, int] = {}
        for event in self.events("offsets_committed"):
            if event["success"]:
                found.update((each["partition"], each["offset"]) for each in event["offsets"])
        return found
