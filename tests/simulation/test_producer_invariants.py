"""What the simulated idempotent producers do: when they run, and the order of their records in a log."""

from __future__ import annotations

from collections.abc import Iterator

from actors.simulation.actions import ABSENT, ADMIN, FAULTS, PRODUCERS, invent
from actors.simulation.client_history import ProducerStream
from messages.cluster import TopicPartition


def test_random_schedules_have_idempotent_producers_only_on_request() -> None:
    def kinds(*faults: str) -> Iterator[str]:
        return (action.name for action in invent(0, faults=faults, records=True, swarm=False).actions)

    assert "produce" in kinds(*FAULTS, PRODUCERS)
    assert "produce" not in kinds(*FAULTS, ADMIN, ABSENT)


def test_numbers_of_a_stream_in_the_order_of_the_log() -> None:
    stream = ProducerStream("stream 1", TopicPartition("a", 0), 1)
    read = {7: b"stream 1:2", 5: b"stream 1:0", 6: b"stream 12:9", 8: b"record 3"}
    assert (stream.value(4), stream.numbers(read)) == (b"stream 1:4", [0, 2])
