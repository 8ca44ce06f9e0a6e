"""Test the terse decoding of responses: a large response without errors, and no other, becomes a NoErrorsPart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaResponse
from messages.cluster import TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR
from messages.flow.conversation import SLICE, all_at_once
from messages.parts import NoErrorsPart, cut, tersely
from messages.wire import MalformedFrame, WireError
from messages.wire.codec import RequestHeader, decoding_response, encode_response
from tests.wire.samples import LEADER_AND_ISR, STOP_REPLICA

RESPONSES = {LEADER_AND_ISR: LeaderAndIsrResponse, STOP_REPLICA: StopReplicaResponse}
VERSIONS = [(LEADER_AND_ISR, 1), (LEADER_AND_ISR, 4), (LEADER_AND_ISR, 5), (STOP_REPLICA, 0), (STOP_REPLICA, 3)]
BY_TOPIC = (LEADER_AND_ISR, 5)
"""The first version that groups partitions by topic. No captured response has this version."""


def read(key: int, version: int, response: Any, terse: bool = True) -> tuple[Any, ...]:
    frame = encode_response(RequestHeader(key, version, 7, ""), response)
    found, parts, message = all_at_once(decoding_response(key, version, frame[4:], terse))
    assert found == 7
    return parts, message


@pytest.mark.parametrize(("key", "version"), VERSIONS)
@settings(max_examples=25, deadline=None)
@given(
    runs=st.lists(st.tuples(st.text(max_size=200), st.integers(1, SLICE)), min_size=1, max_size=4),
    wrong=st.none() | st.integers(0, 2 * SLICE),
    error_code=st.integers(-1, 80),
)
@example(runs=[("t", SLICE), ("longer", 1)], wrong=None, error_code=0)
@example(runs=[("t", SLICE), ("longer", 1)], wrong=SLICE, error_code=0)
def test_a_large_response_without_errors_is_recognised(
    key: int, version: int, runs: list[tuple[str, int]], wrong: int | None, error_code: int
) -> None:
    partitions = [TopicPartition(topic, number) for topic, count in runs for number in range(count)]
    codes = [KAFKA_STORAGE_ERROR if place == wrong else 0 for place in range(len(partitions))]
    response = RESPONSES[key](error_code, tuple(map(PartitionError, partitions, codes)))
    found, whole = read(key, version, response), read(key, version, response, terse=False)
    assert found == (whole if (key, version) == BY_TOPIC else tersely(*whole))
    known = (key, version) != BY_TOPIC and len(partitions) > SLICE and not any(codes)
    assert (found[0][:1] == (NoErrorsPart(len(partitions)),)) == known


def test_only_the_caller_receives_it() -> None:
    response = LeaderAndIsrResponse(0, tuple(PartitionError(TopicPartition("t", n), 0) for n in range(2 * SLICE)))
    assert read(LEADER_AND_ISR, 4, response)[0] == (NoErrorsPart(2 * SLICE),)
    assert read(LEADER_AND_ISR, 4, response, terse=False) == cut(response)


@pytest.mark.parametrize("version", [1, 4])
def test_of_a_frame_that_ends_too_early_or_is_damaged_no_answer_is_made(version: int) -> None:
    errors = tuple(PartitionError(TopicPartition("t" * (1 + n % 3), n), 0) for n in range(SLICE + 3))
    frame = encode_response(RequestHeader(LEADER_AND_ISR, version, 7, ""), LeaderAndIsrResponse(0, errors))[4:]
    for end in (*range(40), *range(len(frame) - 40, len(frame))):
        with pytest.raises(MalformedFrame):
            all_at_once(decoding_response(LEADER_AND_ISR, version, frame[:end], True))
    for place in range(4, 60):
        damaged = bytearray(frame)
        damaged[place] ^= 1  # the lowest bit: names stay valid UTF-8, which the terse decoder does not check
        outcomes = []
        for terse in (False, True):
            try:
                _, parts, message = all_at_once(decoding_response(LEADER_AND_ISR, version, bytes(damaged), terse))
                outcomes.append(parts if terse else tersely(parts, message)[0])
            except WireError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
