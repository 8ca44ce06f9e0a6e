"""A member of a group that is the Java client: Kafka's own VerifiableConsumer, which tells in JSON how it goes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.cluster.apache_java import apache_java
from tests.cluster.processes import Running, properties

ASSIGNORS = "org.apache.kafka.clients.consumer."


class JavaMember(Running):
    """It reads `topic` and commits after each `max_poll_records`, until it is stopped; its words are in `directory`.

    It prints what it has read before it commits, and what is committed after the response. A commit that fails, because
    the group gathers anew or the coordinator is looked for too long, it tries again with the next records, and not
    before: a test that waits for the output writes records meanwhile.
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
        """What it said under this name, in order; the line that is still being written is left out."""
        for line in self.output.split("\n")[:-1]:
            if line.startswith("{"):
                event = json.loads(line)
                if event["name"] == name:
                    yield event

    @property
    def assigned(self) -> set[int]:
        """The partitions that it has now."""
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
        """By partition, the offset behind the last record that it read."""
        found: dict[int, int] = {}
        for event in self.events("records_consumed"):
            for each in event["partitions"]:
                found[each["partition"]] = max(found.get(each["partition"], 0), each["maxOffset"] + 1)
        return found

    @property
    def reported(self) -> dict[int, int]:
        """The acknowledged committed offset, by partition."""
        found: dict[int, int] = {}
        for event in self.events("offsets_committed"):
            if event["success"]:
                found.update((each["partition"], each["offset"]) for each in event["offsets"])
        return found
