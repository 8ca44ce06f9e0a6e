"""Assignment of replicas to racks: fixed cases of Apache Kafka, and properties for any cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.refusal import Refused
from actors.core.topic.replica_assignment import Racks, assign, extend

CASES: list[tuple[str, int, int, int, int, list[list[int]]]] = [
    ("001001", 5, 5, 1, 3, [
        [30, 20, 10, 50, 40], [40, 50, 30, 0, 20], [0, 50, 30, 40, 20], [20, 0, 10, 50, 30], [10, 20, 50, 30, 40],
    ]),
    ("1100101", 3, 4, 6, 7, [[60, 30, 10, 50], [20, 10, 50, 40], [0, 50, 40, 60]]),
    ("2011200", 3, 6, 5, 1, [[60, 30, 40, 10, 20, 0], [10, 30, 40, 60, 20, 0], [20, 40, 60, 10, 0, 50]]),
    ("0000", 4, 4, 3, 6, [[10, 20, 30, 0], [20, 30, 0, 10], [30, 10, 20, 0], [0, 20, 30, 10]]),
]  # fmt: skip
"""(racks of the brokers 0, 10, 20.., partitions, replication factor, start, first partition, replicas).

These are some of the 400 cases that were compared with Kafka's AdminUtils.
"""


def on(racks: str) -> Racks:
    return {10 * at: f"r{rack}" for at, rack in enumerate(racks)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_racks_as_apache_goes_round_them(case: tuple[str, int, int, int, int, list[list[int]]]) -> None:
    racks, partitions, factor, start, first, expected = case
    assert [list(each) for each in assign(on(racks), partitions, factor, start, start, first)] == expected


@given(st.text("0123", min_size=1, max_size=9), st.integers(1, 30), st.data())
def test_no_rack_has_two_replicas_while_another_has_none(racks: str, partitions: int, data: st.DataObject) -> None:
    brokers = on(racks)
    factor = data.draw(st.integers(1, len(brokers)))
    start, first = data.draw(st.integers(0, len(brokers) - 1)), data.draw(st.integers(0, 20))
    for replicas in assign(brokers, partitions, factor, start, start, first):
        assert len(set(replicas)) == factor
        assert len({brokers[broker] for broker in replicas}) == min(factor, len(set(racks)))


@given(st.integers(1, 8), st.integers(1, 4))
def test_leaders_go_round_equal_racks_evenly(rounds: int, racks: int) -> None:
    brokers = {broker: f"r{broker % racks}" for broker in range(2 * racks)}
    leaders = [replicas[0] for replicas in assign(brokers, rounds * len(brokers), 1, 0, 0)]
    assert all(leaders.count(broker) == rounds for broker in brokers)


@given(st.text("012", min_size=1, max_size=6), st.integers(1, 40), st.integers(1, 9), st.data())
def test_what_is_spread_in_slices_is_spread_as_in_one(
    racks: str, partitions: int, size: int, data: st.DataObject
) -> None:
    brokers = on(racks)
    factor, start = data.draw(st.integers(1, len(brokers))), data.draw(st.integers(0, len(brokers) - 1))
    sliced: list[tuple[int, ...]] = []
    for first in range(0, partitions, size):
        shift = start + max(0, first - 1) // len(brokers)
        sliced += assign(brokers, min(size, partitions - first), factor, start, shift, first)
    assert tuple(sliced) == assign(brokers, partitions, factor, start, start)


@given(st.text("012", min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 40), st.integers(1, 9), st.data())
def test_what_is_added_in_slices_is_added_as_in_one(
    racks: str, existing: int, added: int, size: int, data: st.DataObject
) -> None:
    brokers = on(racks)
    ids = [*brokers]
    partition_0 = data.draw(st.permutations(ids))[: data.draw(st.integers(1, len(ids)))]
    sliced: list[tuple[int, ...]] = []
    while len(sliced) < added:
        sliced += extend(brokers, partition_0, existing, min(size, added - len(sliced)), len(sliced))
    assert tuple(sliced) == extend(brokers, partition_0, existing, added)


def test_racks_of_some_brokers_only_are_refused() -> None:
    with pytest.raises(Refused, match="Not all brokers have rack information"):
        assign({0: "a", 1: None}, 1, 1, 0, 0)


def test_further_partitions_look_at_racks_too() -> None:
    brokers = on("0011")
    for replicas in extend(brokers, (10, 30), 3, 8):
        assert {brokers[broker] for broker in replicas} == {"r0", "r1"}
