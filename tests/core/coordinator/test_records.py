"""Records of groups and offsets in __consumer_offsets: their bytes, and loading them again."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.coordinator.group_metadata_records import (
    DamagedRecord,
    Record,
    assigned_partitions,
    key_value,
    read_record,
    subscribed_topics,
    written_format,
)
from actors.core.coordinator.loading import Loading, Row
from actors.core.coordinator.offsets import NO_TRANSACTION
from messages.cluster import TopicPartition
from messages.groups import (
    NO_TIME,
    CommittedOffset,
    GroupRecord,
    LoadedGroup,
    OffsetEntry,
    OffsetRecord,
    RecordedGroup,
    RecordedMember,
)
from messages.placement import slot

TP = TopicPartition("t", 2)
NEWEST = (3, 3)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
maybe = st.none() | texts
int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
times = st.integers(0, 2**62)
blobs = st.binary(max_size=8)
partitions = st.builds(TopicPartition, texts, int32)
offsets = st.builds(CommittedOffset, int64, int32, texts, times)
members = st.builds(RecordedMember, texts, maybe, texts, texts, int32, int32, blobs, blobs)
groups = st.builds(RecordedGroup, texts, int32, maybe, maybe, times, st.lists(members, max_size=3).map(tuple))
records = st.builds(OffsetRecord, texts, partitions, st.none() | offsets) | st.builds(
    GroupRecord, texts, st.none() | groups
)


def test_an_offset_byte_for_byte() -> None:
    record = OffsetRecord("g1", TP, CommittedOffset(5, 7, "m", 9))
    key, value = key_value(record, NEWEST)
    assert key == bytes.fromhex("0001 0002 6731 0001 74 00000002")
    assert value == bytes.fromhex("0003 0000000000000005 00000007 0001 6d 0000000000000009")
    assert key_value(OffsetRecord("g1", TP, None), NEWEST) == (key, None)


def test_a_group_byte_for_byte() -> None:
    member = RecordedMember("m", None, "c", "/h", 60, 10, b"s", b"as")
    key, value = key_value(GroupRecord("g", RecordedGroup("consumer", 3, "range", "m", 9, (member,))), NEWEST)
    assert key == bytes.fromhex("0002 0001 67")
    assert value == bytes.fromhex(
        "0003 0008 636f6e73756d6572 00000003 0005 72616e6765 0001 6d 0000000000000009 00000001"
        " 0001 6d ffff 0001 63 0002 2f68 0000003c 0000000a 00000001 73 00000002 6173"
    )


@given(records)
def test_what_is_written_is_read(record: Record) -> None:
    assert read_record(*key_value(record, NEWEST)) == record


@pytest.mark.parametrize(
    ("protocol", "versions"), [((2, 6), (3, 3)), ((2, 3), (3, 3)), ((2, 1), (3, 2)), ((2, 0), (1, 1)), ((0, 9), (1, 0))]
)
def test_older_brokers_are_written_what_they_read(protocol: tuple[int, ...], versions: tuple[int, int]) -> None:
    assert written_format(protocol) == versions
    member = RecordedMember("m", "i" if versions[1] >= 3 else None, "c", "/h", 10, 10, b"s", b"a")
    since = 9 if versions[1] >= 2 else NO_TIME
    group = GroupRecord("g", RecordedGroup("consumer", 3, None, None, since, (member,)))
    offset = OffsetRecord("g", TP, CommittedOffset(5, 7 if versions[0] >= 3 else -1, "m", 9))
    assert read_record(*key_value(group, versions)) == group
    read = read_record(*key_value(offset, (2 if versions[0] == 1 else versions[0], 3)))
    assert read == offset


def test_an_offset_with_a_time_of_its_own_is_of_version_1() -> None:
    record = OffsetRecord("g", TP, CommittedOffset(5, -1, "", 9, 99))
    key, value = key_value(record, NEWEST)
    assert value is not None
    assert value[:2] == b"\0\1"
    assert read_record(key, value) == record


@pytest.mark.parametrize("key", ["0003 0001 67", "0007", "ffff 00"])
def test_what_is_not_about_groups_is_passed_over(key: str) -> None:
    assert read_record(bytes.fromhex(key), b"whatever") is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("00", ""),
        ("0001 0002 67", ""),
        ("0002 0001 67", ""),
        ("0002 0001 67", "0003 0008 63"),
        ("0002 0001 67", "0009 0000"),
        ("0001 0001 67 0001 74 00000000", "0004 0000"),
        ("0002 0001 ff", ""),
    ],
)
def test_damaged_records_are_reported(key: str, value: str) -> None:
    with pytest.raises(DamagedRecord):
        read_record(bytes.fromhex(key), bytes.fromhex(value))


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_no_bytes_do_worse(key: bytes, value: bytes) -> None:
    with contextlib.suppress(DamagedRecord):
        read_record(key, value)


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("test-group", 627841412),
        ("polygenelubricants", 0),
        ("\U0001f600", 1772899),
        ("zzzzzzzz", 1910022912),
    ],
)
def test_the_slot_is_javas_hash(group: str, expected: int) -> None:
    assert slot(group) == expected


def test_topics_are_read_from_subscriptions() -> None:
    one, two = b"\0\1\0\0\0\2\0\1b\0\1a\xff\xff\xff\xff", b"\0\0\0\0\0\1\0\1c"
    assert subscribed_topics([one, two]) == ("a", "b", "c")
    assert subscribed_topics([one, b"\0\0\0\0\0\2\0\1c"]) is None
    assert subscribed_topics([]) == ()


def test_partitions_are_read_from_assignments() -> None:
    two = b"\0\1\0\0\0\2" + b"\0\1t\0\0\0\2\0\0\0\0\0\0\0\1" + b"\0\1u\0\0\0\1\0\0\0\3" + b"\xff\xff\xff\xff"
    assert assigned_partitions(two) == [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 3)]
    assert [assigned_partitions(each) for each in (b"", b"\0\1", two[:15], b"\0\0\0\0\0\0")] == [[], [], [], []]


# ------------------------------------------------------------------------------------------------ loading


def row(record: Record, producer: int = NO_TRANSACTION) -> Row:
    key, value = key_value(record, NEWEST)
    return producer, False, key.decode("latin-1"), None if value is None else value.decode("latin-1"), 0


def marker(producer: int, commits: bool) -> Row:
    return producer, True, "\0\0\0" + chr(commits), "whatever", 0


def offset(number: int, partition: TopicPartition = TP, group: str = "g") -> OffsetRecord:
    return OffsetRecord(group, partition, CommittedOffset(number, -1, "", 1))


def load(*rows: Row) -> dict[str, LoadedGroup]:
    """Load a partition with these rows, each in its own batch, and return the groups by id."""
    loading = Loading(0)
    loading.take([(*each[:4], log_offset) for log_offset, each in enumerate(rows)])
    return {loaded.group: loaded for loaded in loading.groups()}


EMPTY_GROUP = RecordedGroup("consumer", 1, None, None, 5)


def test_of_every_key_the_last_record_counts() -> None:
    forgotten = OffsetRecord("h", TP, None)
    found = load(
        *(row(offset(1)), row(GroupRecord("g", EMPTY_GROUP)), row(offset(2)), row(offset(9, group="h"))),
        *(row(GroupRecord("gone", EMPTY_GROUP)), row(GroupRecord("gone", None)), row(forgotten)),
    )
    assert found == {
        "g": LoadedGroup("g", EMPTY_GROUP, (OffsetEntry(TP, CommittedOffset(2, -1, "", 1, log_offset=2)),))
    }


def test_offsets_without_a_group_are_an_empty_groups() -> None:
    found = load(row(GroupRecord("g", EMPTY_GROUP)), row(GroupRecord("g", None)), row(offset(3)))
    assert (found["g"].record, len(found["g"].offsets)) == (None, 1)


def test_what_a_transaction_wrote_counts_with_its_marker() -> None:
    other = TopicPartition("t", 3)
    found = load(
        *(row(offset(1), 7), row(offset(2, other), 8), marker(7, True), marker(8, False)),
        *(row(offset(5, group="open"), 9), marker(10, True)),
    )
    assert {name: [entry.value.offset for entry in loaded.offsets] for name, loaded in found.items()} == {
        "g": [1],
        "open": [],
    }
    assert [(each.producer_id, each.value.offset) for each in found["open"].pending] == [(9, 5)]


def test_what_is_damaged_costs_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    found = load((NO_TRANSACTION, False, "\0\1\0", "x", 0), row(offset(1)))
    assert list(found) == ["g"]
    assert "Skipping a damaged record" in caplog.text


@pytest.mark.parametrize("key", ["", "\0", "\0\0\0"])
def test_a_marker_that_is_cut_costs_nothing_else(key: str, caplog: pytest.LogCaptureFixture) -> None:
    """The transaction of a truncated marker stays open until a complete marker follows."""
    other = TopicPartition("t", 3)
    cut = (7, True, key, "whatever", 0)
    assert load(row(offset(1), 7), cut)["g"].offsets == ()
    assert "Skipping a damaged record in partition" in caplog.text and "is cut" in caplog.text
    [loaded] = load(row(offset(1), 7), cut, row(offset(2, other)), marker(7, True)).values()
    assert [entry.value.offset for entry in loaded.offsets] == [2, 1]
