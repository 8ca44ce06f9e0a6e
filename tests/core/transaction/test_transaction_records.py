"""Records of __transaction_state: reading and writing Kafka's bytes, and damaged records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.coordinator.transactions import TransactionLoading
from actors.core.coordinator.group_metadata_records import DamagedRecord
from actors.core.transaction.transaction import Transaction
from actors.core.transaction.transaction_records import key_value, read_key, read_value
from actors.core.transaction.transaction_states import COMPLETE_COMMIT, EMPTY, ONGOING
from messages.cluster import TopicPartition

ID = "x54279984"
KEY = bytes.fromhex("0000 0009 783534323739393834")
OFFSETS = TopicPartition("__consumer_offsets", 2)
SEEN = {
    "0000 0000000000000006 0001 0000ea60 00 ffffffff 000001a2082262c5 ffffffffffffffff": Transaction(
        ID, 6, 1, 60_000, EMPTY, (), -1, 0x1A2082262C5
    ),
    "0000 0000000000000006 0001 0000ea60 01 00000001 0012 5f5f636f6e73756d65725f6f666673657473 00000001 00000002"
    " 000001a2082262fd 000001a2082262fd": Transaction(
        ID, 6, 1, 60_000, ONGOING, (OFFSETS,), 0x1A2082262FD, 0x1A2082262FD
    ),
    "0000 0000000000000006 0001 0000ea60 04 00000000 000001a208226462 000001a2082262fd": Transaction(
        ID, 6, 1, 60_000, COMPLETE_COMMIT, (), 0x1A2082262FD, 0x1A208226462
    ),
}
"""Values that Apache Kafka 3.9.1 wrote, at inter.broker.protocol.version 2.6."""


@pytest.mark.parametrize("value", SEEN)
def test_records_are_encoded_to_apaches_bytes(value: str) -> None:
    txn = SEEN[value]
    assert key_value(ID, txn) == (KEY, bytes.fromhex(value))
    assert (read_key(KEY), read_value(ID, bytes.fromhex(value))) == (ID, txn)


def test_a_flexible_value_is_read_too() -> None:
    value = "0001 0000000000000006 0001 0000ea60 01 02 02 61 03 00000001 00000000 01 05 02 ffff"
    value += " 0000000000000009 0000000000000008 00"
    a0, a1 = TopicPartition("a", 0), TopicPartition("a", 1)
    assert read_value(ID, bytes.fromhex(value)) == Transaction(ID, 6, 1, 60_000, ONGOING, (a0, a1), 8, 9)


@given(data=st.data())
def test_damaged_values_have_a_reason(data: st.DataObject) -> None:
    whole = bytes.fromhex(data.draw(st.sampled_from(sorted(SEEN))))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DamagedRecord, match=ID):
        read_value(ID, whole[:cut])
    with pytest.raises(DamagedRecord):
        read_key(KEY[: data.draw(st.integers(0, len(KEY) - 1))])


def test_the_last_record_of_an_id_counts() -> None:
    loading = TransactionLoading(0)
    values = [bytes.fromhex(value).decode("latin-1") for value in SEEN]
    key, other = KEY.decode("latin-1"), key_value("other", None)[0].decode("latin-1")
    loading.take([(-1, False, key, values[0], 0), (-1, False, other, values[0], 1), (-1, False, key, values[1], 2)])
    loading.take([(-1, False, other, None, 3), (-1, True, "\0\0\0\1", "\0\0\0\0\0\0", 4), (-1, False, "\0\7", "", 5)])
    assert (list(loading.ids), loading.ids[ID].state) == ([ID], ONGOING)
    with pytest.raises(DamagedRecord):
        loading.take([(-1, False, key, "damaged", 6)])
