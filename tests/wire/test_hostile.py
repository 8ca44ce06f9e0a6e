"""Test that any bytes are decoded to a message or raise `WireError`, in little time and memory."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messages import wire
from messages.apis.metadata import MetadataRequest
from tests.wire.samples import EVERY_VERSION, REQUESTS, RESPONSES

EXAMPLES = settings(max_examples=60)
HEAD = {  # key, version, correlation id 1, client id "", no tags
    "LeaderAndIsr v4": bytes.fromhex("0004 0004 00000001 0000 00"),
    "Metadata v8": bytes.fromhex("0003 0008 00000001 0000"),
    "Metadata v9": bytes.fromhex("0003 0009 00000001 0000 00"),
}


@st.composite
def valid_requests(draw: st.DrawFn) -> bytes:
    key, version = draw(st.sampled_from(EVERY_VERSION))
    return wire.encode_request(draw(REQUESTS[key](version)), 1, "me")[4:]


@st.composite
def valid_responses(draw: st.DrawFn) -> tuple[int, int, bytes]:
    key, version = draw(st.sampled_from(EVERY_VERSION))
    return (
        key,
        version,
        wire.encode_response(wire.RequestHeader(key, version, 1, ""), draw(RESPONSES[key](version)))[4:],
    )


def damaged(frame: bytes, data: Any) -> bytes:
    spots = data.draw(st.lists(st.tuples(st.integers(0, len(frame) - 1), st.integers(1, 255)), min_size=1, max_size=3))
    broken = bytearray(frame)
    for place, flips in spots:
        broken[place] ^= flips
    return bytes(broken)


@EXAMPLES
@given(frame=st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(frame: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        wire.decode_request(frame)


@EXAMPLES
@given(of=st.sampled_from(EVERY_VERSION), frame=st.binary(max_size=200))
def test_random_bodies_are_decoded_or_refused(of: tuple[int, int], frame: bytes) -> None:
    key, version = of
    with contextlib.suppress(wire.MalformedFrame):
        wire.decode_request(key.to_bytes(2, "big") + version.to_bytes(2, "big") + frame)
    with contextlib.suppress(wire.MalformedFrame):
        wire.decode_response(key, version, frame)


@EXAMPLES
@given(data=st.data(), frame=valid_requests())
def test_no_prefix_of_a_request_is_a_request(data: Any, frame: bytes) -> None:
    with pytest.raises(wire.MalformedFrame):
        wire.decode_request(frame[: data.draw(st.integers(0, len(frame) - 1))])


@EXAMPLES
@given(data=st.data(), of=valid_responses())
def test_no_prefix_of_a_response_is_a_response(data: Any, of: tuple[int, int, bytes]) -> None:
    key, version, frame = of
    with pytest.raises(wire.MalformedFrame):
        wire.decode_response(key, version, frame[: data.draw(st.integers(0, len(frame) - 1))])


@EXAMPLES
@given(data=st.data(), frame=valid_requests())
def test_damaged_requests_are_decoded_or_refused(data: Any, frame: bytes) -> None:
    with contextlib.suppress(wire.WireError):
        wire.decode_request(damaged(frame, data))


@EXAMPLES
@given(data=st.data(), of=valid_responses())
def test_damaged_responses_are_decoded_or_refused(data: Any, of: tuple[int, int, bytes]) -> None:
    key, version, frame = of
    with contextlib.suppress(wire.WireError):
        wire.decode_response(key, version, damaged(frame, data))


NULLS = {
    "topics": "0004 0004 00000001 0000 00" + "00000001 00000001 0000000000000001 00 01 00",
    "a topic's name": "0004 0004 00000001 0000 00" + "00000001 00000001 0000000000000001 02 00 01 00 01 00",
    "a count of -2": "0004 0000 00000001 0000" + "00000001 00000001 fffffffe 00000000",
    "live brokers": "0006 0005 00000001 0000" + "00000001 00000001 0000000000000001 00000000 ffffffff",
    "a security protocol above 3": "0006 0003 00000001 0000" + "00000001 00000001 00000000 00000001"
    "00000001 00000001 00000001 0000 0000 0004 ffff",
    "a client's name": "0012 0003 00000001 0000 00" + "00 01 00",
    "text that is no UTF-8": "0003 0001 00000001 0000" + "00000001 0001 ff",
}


@pytest.mark.parametrize("name", NULLS)
def test_values_that_the_layout_does_not_allow(name: str) -> None:
    with pytest.raises(wire.MalformedFrame):
        wire.decode_request(bytes.fromhex(NULLS[name]))


@pytest.mark.parametrize(
    ("head", "count"),
    [
        ("Metadata v8", "7fffffff"),
        ("Metadata v9", "ffffffff0f"),
        ("LeaderAndIsr v4", "00000001 00000001 0000000000000001 ffffffff0f"),
    ],
)
def test_a_huge_count_costs_nothing(head: str, count: str) -> None:
    with contextlib.suppress(wire.WireError):
        wire.decode_request(HEAD[head])  # compile the layout before the measurement
    tracemalloc.start()
    try:
        with pytest.raises(wire.MalformedFrame):
            wire.decode_request(HEAD[head] + bytes.fromhex(count) + bytes(100))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_an_endless_varint_is_cut_short() -> None:
    """Without the limit, decoding would build a number of seven million bits in quadratic time."""
    start = time.process_time()
    with pytest.raises(wire.MalformedFrame, match="a varint has more than five bytes"):
        wire.decode_request(HEAD["Metadata v9"] + b"\xff" * 1_000_000)
    assert time.process_time() - start < 2


def test_tags_do_not_cost_a_copy_of_the_frame_each() -> None:
    """A million bytes of tagged topics take about 0.3 s (linear). Copying the rest for each tag would take minutes."""
    topics = 200_000
    count = bytes((topics + 1 & 0x7F | 0x80, topics + 1 >> 7 & 0x7F | 0x80, topics + 1 >> 14))
    frame = HEAD["Metadata v9"] + count + b"\x02t\x01\x00\x00" * topics + bytes(4)
    start = time.process_time()
    _, request = wire.decode_request(frame)
    assert time.process_time() - start < 10
    assert request == MetadataRequest(9, ("t",) * topics, allow_auto_topic_creation=False)
