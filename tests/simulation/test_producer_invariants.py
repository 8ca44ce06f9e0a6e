"""Each invariant of idempotent producers is violated with a mutant that breaks its rule, and holds without it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from actors.simulation.actions import ABSENT, ADMIN, FAULTS, PRODUCERS, invent
from actors.simulation.run import run
from actors.simulation.schedule import parse
from actors.simulation.streams import ProducerStream
from messages.cluster import TopicPartition
from tests.simulation.mutants.catalogue import BY_NAME

AGREE = "responses to idempotent producers agree"
WHOLE = "idempotent producers write each record once, in order"

CASES: dict[str, tuple[str, str]] = {
    "duplicates of idempotent producers are appended": (AGREE, "duration 8\n2 create a 0,1,2\n4 produce a 0 for 20"),
    "gap in a producer's sequence is accepted": (AGREE, "duration 8\n2 create a 0,1,2\n4 produce a 0 for 20"),
    "producers are not loaded after a clean shutdown": (
        AGREE,
        "duration 14\n2 create a 0\n4 produce a 0 for 20\n8 roll 0 for 1",
    ),
    "producers are not rebuilt after a kill": (
        AGREE,
        "duration 16\nseed 1\n2 create a 0\n4 produce a 0 for 20\n8 kill 0 for 1\n12 kill 0 for 1",
    ),
    "followers do not note producers": (
        WHOLE,
        """
        duration 40
        seed 3
        2 create a 0,1,2
        4 produce a 0 for 34
        8 kill 0 for 4
        14 kill 1 for 4
        20 kill 2 for 4
        26 kill 0 for 3
        """,
    ),
}
"""A mutant -> the invariant that it violates, and a schedule that shows the violation."""


@pytest.mark.parametrize("name", CASES)
def test_an_invariant_is_violated_with_its_bug_only(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    invariant, lines = CASES[name]
    schedule = parse(f"brokers 3\nrecords yes\n{lines}")
    without = run(schedule)
    assert without.violation is None, without.violation
    BY_NAME[name].apply(monkeypatch)
    violation = run(schedule).violation
    assert violation is not None and violation.invariant == invariant, violation


def test_random_schedules_have_idempotent_producers_only_on_request() -> None:
    def kinds(*faults: str) -> Iterator[str]:
        return (action.name for action in invent(0, faults=faults, records=True, swarm=False).actions)

    assert "produce" in kinds(*FAULTS, PRODUCERS)
    assert "produce" not in kinds(*FAULTS, ADMIN, ABSENT)


def test_numbers_of_a_stream_in_the_order_of_the_log() -> None:
    stream = ProducerStream("stream 1", TopicPartition("a", 0), 1)
    read = {7: b"stream 1:2", 5: b"stream 1:0", 6: b"stream 12:9", 8: b"record 3"}
    assert (stream.value(4), stream.numbers(read)) == (b"stream 1:4", [0, 2])
