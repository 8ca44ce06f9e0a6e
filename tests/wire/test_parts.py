"""Test the encoded rows of parts: a trace contains all entries in order, whichever code encoded the rows."""

from __future__ import annotations

import random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.controller.batch import request_versions
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState
from messages.apis.stop_replica import StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataPartitionState
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE, all_at_once
from messages.node_settings import NodeSettings
from messages.parts import KEEP_ROWS, PARTED, LeaderAndIsrPart, StopReplicaPart, UpdateMetadataPart, cut
from messages.wire import codec
from messages.wire.parts import PartRows, entries_of, rows_of
from tests.wire.samples import LEADER_AND_ISR, REQUESTS, STOP_REPLICA, UPDATE_METADATA
from tests.wire.test_slices import LARGE_REQUESTS, LARGE_RESPONSES

VERSIONS = {LEADER_AND_ISR: range(8), STOP_REPLICA: range(3, 5), UPDATE_METADATA: range(1, 9)}
GROUPED = [name for name in LARGE_REQUESTS if name != "ungrouped"]


def state(topic: str, number: int, leader: int = 1) -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(TopicPartition(topic, number), 1, leader, 1, (1, 2), 1, (1, 2), (2,))


@pytest.mark.parametrize("key", VERSIONS)
@settings(max_examples=40)
@given(data=st.data())
def test_rows_equal_the_content_of_a_part(key: int, data: Any) -> None:
    request = data.draw(REQUESTS[key](data.draw(st.sampled_from(VERSIONS[key]))))
    part = PARTED[type(request)].part(request.partition_states)
    for _ in range(2):
        rows = rows_of(part)
        unsaid = key == LEADER_AND_ISR and any(each.leader_recovery_state for each in part.entries)
        assert unsaid if rows is None else entries_of(rows) == list(part.entries)


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "topics in turns"])
def test_rows_are_shared_in_either_order(name: str, shuffled: bool) -> None:
    """The rows are the same before the request is encoded, afterwards, and after it is decoded."""
    request = LARGE_REQUESTS[name]
    states = list(request.partition_states)
    if shuffled:
        random.Random(7).shuffle(states)
    request = attrs.evolve(request, partition_states=tuple(map(attrs.evolve, states)))
    frame = codec.encode_request(request, 1, "me")
    parts, last = cut(request)
    before = [rows_of(part) for part in parts]
    assert b"".join(all_at_once(codec.encoding_request(last, 1, "me", parts))) == frame
    assert [rows_of(part) for part in parts] == before
    assert [entries_of(rows) for rows in before if rows] == [list(part.entries) for part in parts]
    assert all(bool(rows and rows.runs) == shuffled for rows in before)
    _, read, _ = all_at_once(codec.decoding_request(frame[4:]))
    assert [len(part.entries) for part in read] == [SLICE, SLICE]
    assert [entries_of(rows) for part in read if (rows := rows_of(part))] == [list(part.entries) for part in read]


def test_a_part_that_was_sent_in_another_version_has_the_same_content() -> None:
    """There are no rows if the version's rows lack a field that has a value."""
    request = LARGE_REQUESTS["LeaderAndIsr"]
    added = attrs.evolve(request.partition_states[3], adding_replicas=(1,))
    states = (*request.partition_states[:3], added, *request.partition_states[4:])
    for version, whole in ((7, True), (3, True), (2, False), (1, False)):
        parts, last = cut(attrs.evolve(request, version=version, partition_states=tuple(map(attrs.evolve, states))))
        all_at_once(codec.encoding_request(last, 1, "me", parts))
        rows = rows_of(parts[0])
        if whole or version == 1:  # version 1 keeps no rows by topic, so rows_of encodes them
            assert rows is not None and entries_of(rows) == list(parts[0].entries)
        else:
            assert rows is None


def test_what_has_no_row_has_none() -> None:
    assert rows_of(UpdateMetadataPart((state("t", 1), state("t", 2, leader=1 << 40)))) is None
    unclean = LeaderAndIsrPartitionState(TopicPartition("t", 0), 1, 1, 1, (1,), 1, (1,), leader_recovery_state=1)
    assert rows_of(LeaderAndIsrPart((unclean,))) is None


GOOD = rows_of(UpdateMetadataPart((state("a", 1), state("b", 1), state("a", 2))))


@pytest.mark.parametrize(
    "bad",
    [
        {"message": "Missing"},
        {"version": 99},
        {"topics": (("a", b"\0"), ("b", b""))},
        {"topics": []},
        {"runs": [(0, 3)]},
        {"runs": [(0, 1)]},
        {"runs": [(5, 1)]},
    ],
    ids=str,
)
def test_invalid_rows_are_refused_by_name(bad: dict[str, Any]) -> None:
    assert GOOD is not None and [each.partition for each in entries_of(GOOD)] == [("a", 1), ("b", 1), ("a", 2)]
    with pytest.raises(ValueError, match=r"the encoded entries of .* are invalid"):
        entries_of(PartRows(**{**GOOD._asdict(), **bad}))


def test_the_version_of_rows_is_the_one_a_controller_of_ours_sends_by_default() -> None:
    made = {part: kept.version for part, kept in KEEP_ROWS.items() if kept.version is not None}
    kinds = (LeaderAndIsrPart, UpdateMetadataPart, StopReplicaPart)
    default = attrs.fields_dict(NodeSettings)["inter_broker_protocol_version"].default
    assert made == dict(zip(kinds, request_versions(default), strict=True))
    assert all(PARTED[kept.message].part is part for part, kept in KEEP_ROWS.items())


@pytest.mark.parametrize("version", [1, 3, 4])
def test_answers_keep_the_rows_they_are_read_from_and_others_are_not_made(version: int) -> None:
    response = LARGE_RESPONSES["LeaderAndIsr"][2]
    parts, _ = cut(response)
    assert [rows_of(part) for part in parts] == [None, None]
    frame = codec.encode_response(codec.RequestHeader(LEADER_AND_ISR, version, 1, ""), response)
    _, read, _ = all_at_once(codec.decoding_response(LEADER_AND_ISR, version, frame[4:]))
    assert [entries_of(rows) for part in read if (rows := rows_of(part))] == [list(part.entries) for part in parts]
    frame = codec.encode_response(
        codec.RequestHeader(STOP_REPLICA, 3, 1, ""), StopReplicaResponse(0, response.partition_errors)
    )
    _, read, _ = all_at_once(codec.decoding_response(STOP_REPLICA, 3, frame[4:]))
    assert [rows_of(part) for part in read] == [None, None], "it would be read as a part of another message"
