"""A PartitionTable holds the same as a dict, in dicts that get no further topic when they are full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.controller import partition_table
from actors.core.controller.partition_table import PartitionTable
from messages.cluster import TopicPartition

partitions = st.builds(TopicPartition, st.sampled_from("abcdef"), st.integers(0, 4))
changes = st.lists(st.tuples(st.sampled_from(["set", "update", "pop"]), st.lists(partitions), st.integers(1)))


@given(changes)
def test_it_holds_what_a_dict_holds(made: list[tuple[str, list[TopicPartition], int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partition_table, "FULL", 3)
        numbers: dict[str, int] = {}
        table, other, expected = (
            PartitionTable[int](numbers),
            PartitionTable[None](numbers),
            dict[TopicPartition, int](),
        )
        for change, some, value in made:
            if change == "set":
                for partition in some:
                    table[partition] = expected[partition] = value
            elif change == "update":
                table.update(dict.fromkeys(some, value))
                other.update(dict.fromkeys(some))
                expected.update(dict.fromkeys(some, value))
            else:
                assert [table.pop(each, "gone") for each in some] == [expected.pop(each, "gone") for each in some]
            assert table == expected and len(table) == len(expected) == len(list(table))
            assert table.find(some, None) == [table.get(each) for each in some] == list(map(expected.get, some))
            assert [each in table for each in some] == [each in expected for each in some]
            assert all(table.dicts.values()), "an empty dict is removed"


def test_small_topics_share_a_dict_until_it_is_full() -> None:
    table = PartitionTable[None]({})
    everyone = [TopicPartition(f"t{topic}", n) for topic in range(30) for n in range(1000)]
    table.update(dict.fromkeys(everyone))
    assert [len(values) for values in table.dicts.values()] == [partition_table.FULL] * 3
    assert list(table) == everyone
