"""Test large messages: encoded and decoded in slices, encoded once for all receivers, and rejected as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import wire
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.metadata import MetadataPartition, MetadataResponse, MetadataTopic
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE
from messages.parts import LeaderAndIsrPart, cut, entries_of, join_parts
from messages.trace import codec
from messages.wire.primitives import MOST_KEPT, BoundedCache
from tests.wire.oracle import request_frame
from tests.wire.samples import LEADER_AND_ISR, REQUESTS, STOP_REPLICA, UPDATE_METADATA

LARGE = 2 * SLICE + 1
partitions = [TopicPartition(f"t{number // 300}", number % 300) for number in range(LARGE)]
errors = tuple(PartitionError(partition, number % 3) for number, partition in enumerate(partitions))

LARGE_REQUESTS = {
    "LeaderAndIsr": LeaderAndIsrRequest(
        4, 1, 1, 1, tuple(LeaderAndIsrPartitionState(p, 1, 1, 1, (1,), 1, (1, 2)) for p in partitions), ()
    ),
    "StopReplica": StopReplicaRequest(3, 1, 1, 1, tuple(StopReplicaPartitionState(p, 1, True) for p in partitions)),
    "UpdateMetadata": UpdateMetadataRequest(
        6, 1, 1, 1, tuple(UpdateMetadataPartitionState(p, 1, 1, 1, (1,), 1, (1, 2)) for p in partitions), ()
    ),
    "ungrouped": UpdateMetadataRequest(
        4, 1, 1, -1, tuple(UpdateMetadataPartitionState(p, 1, 1, 1, (1,), 1, (1, 2)) for p in partitions), ()
    ),
}
LARGE_RESPONSES = {
    "LeaderAndIsr": (4, 4, LeaderAndIsrResponse(0, errors)),
    "Metadata": (
        *(3, 8),
        MetadataResponse(
            *((), None, 1),
            (
                MetadataTopic(0, "one", False, tuple(MetadataPartition(0, n, 1, 1, (1,), (1,)) for n in range(LARGE))),
                *(MetadataTopic(0, str(number), False, ()) for number in range(LARGE)),
            ),
        ),
    ),
}


def in_slices(steps: Any) -> tuple[int, Any]:
    """Run the work, and return the number of its slices and its result."""
    if not isinstance(steps, Generator):
        return 1, steps
    for slices in range(1, 100):
        try:
            next(steps)
        except StopIteration as done:
            return slices, done.value
    raise AssertionError("no end")


def framed_in_slices(last: Any, parts: Any) -> tuple[int, bytes]:
    """Encode a request and its parts, and return the number of slices and the frame."""
    slices, pieces = in_slices(wire.encoding_request(last, 1, "me", parts))
    return slices, b"".join(wire.chunks(pieces))


@pytest.mark.parametrize("request_", LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_a_large_request_takes_one_slice_per_thousand_entries(request_: Any) -> None:
    slices, frame = framed_in_slices(request_, ())
    assert slices == 3
    slices, (header, parts, last) = in_slices(wire.decoding_request(frame[4:]))
    assert (slices, header) == (3, wire.decode_request(frame[4:])[0])
    assert [len(entries) for entries in entries_of(parts, last)] == [SLICE, SLICE, 1]
    assert join_parts(parts, last) == wire.decode_request(frame[4:])[1] == request_
    again = 3 if request_ is LARGE_REQUESTS["ungrouped"] else 1
    assert framed_in_slices(last, parts) == (again, frame), "parts keep the rows they were read from"
    parts, last = cut(request_)
    assert framed_in_slices(last, parts) == (3, frame)
    assert framed_in_slices(last, parts) == (again, frame), "parts keep their rows"


@pytest.mark.parametrize(("key", "version", "response"), LARGE_RESPONSES.values(), ids=LARGE_RESPONSES)
def test_a_large_response_takes_one_slice_per_thousand_entries(key: int, version: int, response: Any) -> None:
    header = wire.RequestHeader(key, version, 1, "")
    slices, pieces = in_slices(wire.encoding_response_pieces(header, response))
    frame = b"".join(pieces)
    assert slices == in_slices(wire.decoding_response(key, version, frame[4:]))[0] >= 3
    assert wire.decode_response(key, version, frame[4:]) == (1, response)
    parts, last = cut(response)
    again, pieces = in_slices(wire.encoding_response_pieces(header, last, parts))
    assert (again, b"".join(pieces)) == (slices, frame)


@pytest.mark.parametrize("request_", LARGE_REQUESTS.values(), ids=LARGE_REQUESTS)
def test_a_request_whose_end_is_missing_is_refused_after_its_last_slice(request_: Any) -> None:
    steps = wire.decoding_request(wire.encode_request(request_, 1, "me")[4:-1])
    next(steps), next(steps)
    with pytest.raises(wire.MalformedFrame):
        next(steps)


@pytest.mark.parametrize("key", [LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA])
@settings(max_examples=50)
@given(data=st.data())
def test_states_that_were_encoded_before_are_encoded_the_same(key: int, data: Any) -> None:
    """The bytes do not depend on the request and version in which the states were encoded before."""
    last = {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}[key]
    versions = st.integers(1 if key == UPDATE_METADATA else 0, last)  # UpdateMetadata v0 lacks endpoints
    request = data.draw(REQUESTS[key](data.draw(versions)))
    for version in data.draw(st.lists(versions if key != STOP_REPLICA else st.integers(3, 4), min_size=1, max_size=4)):
        again = attrs.evolve(request, version=version, controller_epoch=data.draw(st.integers(0, 9)))
        fresh = attrs.evolve(again, partition_states=tuple(attrs.evolve(s) for s in again.partition_states))
        assert (
            wire.encode_request(again, 1, "") == wire.encode_request(fresh, 1, "") == wire.encode_request(again, 1, "")
        )


def test_kept_rows_are_not_compared_or_recorded() -> None:
    state = LeaderAndIsrPartitionState(TopicPartition("t", 0), 1, 1, 1, (1,), 1, (1,))
    fresh, encoded = LeaderAndIsrPart((state,)), LeaderAndIsrPart((state,))
    in_slices(wire.encoding_request(LeaderAndIsrRequest(4, 1, 1, 1, (state,), ()), 1, "", (encoded,)))
    assert hasattr(encoded, "_encoded") and not hasattr(fresh, "_encoded")
    assert (fresh, hash(fresh), repr(fresh)) == (encoded, hash(encoded), repr(encoded))
    assert codec.encode(fresh) == codec.encode(encoded), "a trace would differ when replayed"


@pytest.mark.parametrize("order", [lambda n: n, lambda n: n % 3, lambda n: n % 300], ids=["whole", "thirds", "apart"])
def test_rows_of_living_parts_are_known_where_they_are_read(order: Any) -> None:
    """Decoding reuses the states of parts in use. One changed byte in a row changes only this row's state."""
    whole = attrs.evolve(
        LARGE_REQUESTS["UpdateMetadata"],
        partition_states=tuple(
            UpdateMetadataPartitionState(partition, 1, 1, number, (1,), 1, (1, 2))
            for number, partition in sorted(enumerate(partitions), key=lambda each: (order(each[0]), each))
        ),
    )
    before = wire.decode_request(wire.encode_request(whole, 1, "me")[4:])[1]
    parts, last = cut(whole)
    _, frame = framed_in_slices(last, parts)
    slices, (_, read_parts, read) = in_slices(wire.decoding_request(frame[4:]))
    assert slices == 3 and join_parts(read_parts, read) == before
    own = {id(state) for part in parts for state in part.entries}
    known = sum(id(state) in own for state in join_parts(read_parts, read).partition_states)
    counts = [Counter(state.partition.topic for state in part.entries) for part in parts]
    assert known == sum(count for part in counts for count in part.values() if count >= 8) > SLICE

    state = whole.partition_states[SLICE + 7]
    row = state.leader_epoch.to_bytes(4, "big")
    place = frame.index(state.partition.partition.to_bytes(4, "big") + b"\0\0\0\1\0\0\0\1" + row)
    torn = bytearray(frame[4:])
    torn[place + 4] ^= 1  # the leader's first byte; `torn` lacks the frame's size (4 bytes)
    reported = wire.decode_request(bytes(torn))[1].partition_states
    differ = [one for one, other in zip(reported, before.partition_states, strict=True) if one != other]
    assert [one.partition for one in differ] == [state.partition] and differ[0].leader_epoch == state.leader_epoch
    assert differ[0].leader != state.leader
    del parts, read_parts, read, reported, differ
    fresh = wire.decode_request(frame[4:])[1]
    assert fresh == before and not own.intersection(map(id, fresh.partition_states)), "unused states are freed"


def test_rows_of_very_different_lengths_follow_each_other() -> None:
    """The replica lists have length fields of one, two and one bytes, and the topic name often changes."""
    states = tuple(
        LeaderAndIsrPartitionState(TopicPartition(f"{'t' * count}", 0), 1, 1, 1, ids, 1, ids, ids[:1], ids[1:])
        for count in (1, 127, 128, 249, 2)
        for ids in ((), (1,), tuple(range(126)), tuple(range(127)), tuple(range(300)), (2, 3))
    )
    for version in (1, 3, 4):
        request = LeaderAndIsrRequest(version, 1, 1, -1, states, ())
        frame = wire.encode_request(request, 1, "me")
        assert frame == request_frame(wire.RequestHeader(4, version, 1, "me"), request)
        read = wire.decode_request(frame[4:])[1]
        assert [(s.partition, s.replicas) for s in read.partition_states] == [(s.partition, s.replicas) for s in states]


def test_lists_that_are_equal_are_one_object() -> None:
    frame = wire.encode_request(LARGE_REQUESTS["LeaderAndIsr"], 1, "me")[4:]
    read = wire.decode_request(frame)[1]
    assert len({id(state.replicas) for state in read.partition_states}) == 1
    assert len({id(state.partition.topic) for state in read.partition_states}) == len({p.topic for p in partitions})


def test_caches_of_values_from_peers_are_bounded() -> None:
    kept = BoundedCache(bytes.decode)
    for number in range(MOST_KEPT + 2):
        kept[b"%d" % number]
    assert len(kept) <= MOST_KEPT
    assert kept[b"x" * 1000] == "x" * 1000 and b"x" * 1000 not in kept
