"""Parse the input and print the results of `leader-election` (LeaderElectionCommand of Kafka 3.9.1)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.core.refusal import Refused
from messages import errors
from messages.cluster import TopicPartition


class ElectionOutcome(NamedTuple):
    """The result of electing one partition's leader: an error code and the controller's message."""

    code: int
    message: str | None = None


def parse_partitions(text: str) -> list[TopicPartition]:
    """Return the partitions in a JSON file, in the order of the file.

    Raises:
        Refused: The file is invalid.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("Replica election data is empty") from None
    if type(document) is not dict or type(document.get("partitions")) is not list:
        raise Refused('Replica election data is missing "partitions" field')
    found: dict[TopicPartition, None] = {}
    for row in document["partitions"]:
        if type(row) is not dict or type(row.get("topic")) is not str or type(row.get("partition")) is not int:
            raise Refused(f"{json.dumps(row)} does not have both a topic and a partition")
        partition = TopicPartition(row["topic"], row["partition"])
        if partition in found:
            raise Refused(f"Replica election data contains duplicate partitions: [{partition}]")
        found[partition] = None
    return list(found)


def report(
    kind: str, outcomes: Mapping[TopicPartition, ElectionOutcome], names: Mapping[int, str]
) -> tuple[list[str], int]:
    """Return the result lines of an election, and the number of failures.

    Args:
        kind: The election type, such as "PREFERRED".
        names: Error code -> name.
    """
    lines = []
    for code, words in (
        (errors.NONE, f"Successfully completed leader election ({kind}) for partitions"),
        (errors.ELECTION_NOT_NEEDED, "Valid replica already elected for partitions"),
    ):
        fine = [tp for tp, outcome in outcomes.items() if outcome.code == code]
        if fine:
            lines.append(f"{words} {_joined(fine)}")
    failed = {
        tp: outcome for tp, outcome in outcomes.items() if outcome.code not in (errors.NONE, errors.ELECTION_NOT_NEEDED)
    }
    for partition, (code, message) in failed.items():
        why = f"{_exception(code, names)}: {message}" if message else _exception(code, names)
        lines.append(f"Error completing leader election ({kind}) for partition: {partition}: {why}")
    return lines, len(failed)


def _exception(code: int, names: Mapping[int, str]) -> str:
    """Return the name of the exception class that Kafka's clients use for an error code."""
    words = "TIMEOUT" if code == errors.REQUEST_TIMED_OUT else names.get(code, f"UNKNOWN_{code}")
    return f"org.apache.kafka.common.errors.{''.join(word.capitalize() for word in words.split('_'))}Exception"


def _joined(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(map(str, partitions))
