"""The text of a frame: it has shared entries once, and a reader receives each message completely."""

from __future__ import annotations

import json
import operator
import sys
from collections import deque
from typing import Any

import attrs
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.ask import Answer, Failure
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE
from messages.network import ChannelPart
from messages.parts import UpdateMetadataPart
from messages.trace import text as text_module
from messages.trace.codec import decode, encode
from messages.trace.schema import creation_record
from messages.trace.text import FrameText, batches, compress, decompress, record_lines, records_of
from tests.trace.deliveries import delivery

TYPE, PAYLOAD = text_module._TYPE, text_module._PAYLOAD


def states(count: int, topic: str = "t") -> tuple[UpdateMetadataPartitionState, ...]:
    return tuple(UpdateMetadataPartitionState(TopicPartition(topic, n), 1, 1, 0, (1,), 0, (1,)) for n in range(count))


def written(*messages: Any) -> tuple[list[list[Any]], bytes]:
    """Return the records as columns, and the text that contains them."""
    text = FrameText()
    waiting = deque(delivery(n, message) for n, message in enumerate(messages, 1))
    while text.step() or waiting:
        if not text.step() and waiting:
            text.take(waiting)
    assert (text.records, text.last) == (len(messages), len(messages))
    content = decompress(text.finish())
    return [json.loads(line) for line in record_lines(content)], content


def payloads(rows: list[list[Any]]) -> list[Any]:
    return [decode(row[TYPE], json.dumps(row[PAYLOAD]).encode()) for row in rows]


@pytest.mark.parametrize("count", [1, 63, 64, text_module.ENTRIES, text_module.ENTRIES + 1, 3 * text_module.ENTRIES])
def test_a_long_tuple_is_written_once_per_frame(count: int) -> None:
    entries = states(count)
    requests = [UpdateMetadataRequest(6, 1, 1, broker, entries, ()) for broker in range(3)]
    rows, content = written(*requests)
    assert payloads(rows) == requests
    assert content.count(b'"partition":["t",0]') == (1 if count >= 64 else 3)


@pytest.mark.parametrize("count", [1, 63, 64, SLICE])
def test_a_part_of_a_request_is_written_as_the_rows_that_the_wire_has_of_it(count: int) -> None:
    part = UpdateMetadataPart(states(count))
    messages = [part, ChannelPart("a", part), ChannelPart("b", UpdateMetadataPart(part.entries))]
    rows, content = written(*messages)
    assert payloads(rows) == messages
    assert (content.count(b'{"rows":'), content.count(b'"partition":["t",0]')) == ((1, 0) if count >= 64 else (0, 3))
    assert [json.dumps(row[PAYLOAD], separators=(",", ":")).encode() for row in rows] == [
        encode(message)[1] for message in messages
    ], "a replay compares bytes"


def test_a_part_without_rows_is_written_as_it_is() -> None:
    [first, *rest] = states(100)
    part = UpdateMetadataPart((attrs.evolve(first, leader=1 << 40), *rest))
    rows, content = written(part)
    assert payloads(rows) == [part] and b'{"rows":' not in content


def test_rows_that_are_none_are_refused() -> None:
    _, content = written(UpdateMetadataPart(states(100)))
    with pytest.raises(ValueError, match=r"the encoded entries of .* are invalid"):
        list(record_lines(content.replace(b'"UpdateMetadataRequest",6', b'"UpdateMetadataRequest",66')))


def test_equal_entries_are_shared_by_identity() -> None:
    entries = states(100)
    one, other = UpdateMetadataRequest(6, 1, 1, 1, entries, ()), UpdateMetadataRequest(6, 1, 1, 2, (*entries,), ())
    different = UpdateMetadataRequest(6, 1, 1, 3, (*entries[:50], *states(1, "u"), *entries[51:]), ())
    boxed = Answer(1, different)
    rows, content = written(one, other, different, boxed)
    assert payloads(rows) == [one, other, different, boxed]
    assert content.count(b'"partition":["u",0]') == 1


@given(st.text(max_size=30).map(lambda text: text + '{"@":[0,1]}') | st.text(max_size=9))
@settings(max_examples=50, deadline=None)
def test_a_text_that_looks_like_a_reference_is_none(text: str) -> None:
    message = Failure('{"@":[0,1]}', text)
    rows, _ = written(UpdateMetadataRequest(6, 1, 1, 1, states(64), ()), message)
    assert payloads(rows)[1] == message


class Stranger:
    """A class that is no message."""


def test_what_has_no_form_costs_its_own_payload_and_nothing_else() -> None:
    torn = (*states(80), UpdateMetadataPartitionState(TopicPartition("\ud800", 0), 1, 1, 0, (1,), 0, (1,)))
    fine = UpdateMetadataRequest(6, 1, 1, 1, states(80), ())
    broken = [UpdateMetadataRequest(6, 1, 1, broker, torn, ()) for broker in (1, 2)]
    rows, _ = written(fine, broken[0], Stranger(), Failure("\ud800", "x"), broken[1], fine)
    assert payloads([rows[0], rows[5]]) == [fine, fine]
    assert [row[TYPE] for row in rows[1:5]] == ["UpdateMetadataRequest", "Stranger", "Failure", "UpdateMetadataRequest"]
    for row in rows[1:5]:
        assert (
            "Stranger is not a message class" in row[PAYLOAD]["unencodable"]
            or "surrogates" in row[PAYLOAD]["unencodable"]
        )
    with pytest.raises(Exception, match="surrogates") as raised:
        encode(broken[0])
    assert rows[1][PAYLOAD]["unencodable"] == rows[4][PAYLOAD]["unencodable"] == str(raised.value)


def test_the_work_is_done_in_small_steps() -> None:
    big = UpdateMetadataRequest(6, 1, 1, 1, states(20 * text_module.ENTRIES), ())
    text, steps, longest, size = FrameText(), 0, 0, 0
    text.take(deque([delivery(1, big)]))
    while text.step():
        steps += 1
        longest, size = max(longest, text.size - size), text.size
    assert steps > 20
    assert longest < len(encode(big)[1]) / 15


def test_the_next_frame_frees_the_long_tuples_of_the_one_before_one_at_a_time() -> None:
    long = [states(SLICE) for _ in range(3)]

    def references() -> list[int]:
        return [sys.getrefcount(each) for each in long]

    free, before = references(), FrameText()
    waiting = deque([delivery(n, UpdateMetadataRequest(6, 1, 1, 1, each, ())) for n, each in enumerate(long, 1)])
    while before.step() or waiting:
        if waiting:
            before.take(waiting)
    text = FrameText(before=before)
    del before
    left = [sum(map(operator.gt, references(), free))]
    while text.step():
        left.append(sum(map(operator.gt, references(), free)))
    assert left == [3, 2, 1, 0]


def test_records_and_deliveries_can_be_mixed() -> None:
    text = FrameText()
    text.take(deque([creation_record(0, "A.1", "A", "m:A", 1.0), delivery(1, None)]))
    lines = list(record_lines(decompress(text.finish())))
    assert [json.loads(line)[1] for line in lines] == ["created", "sent"]


@pytest.mark.parametrize(
    "content", [b'[1,{"@":[0,1]}]', b'{"shared":[1]}\n[{"@":[0,2]}]', b'{"shared":[1]}\n[{"@":[1,1]}]']
)
def test_a_reference_to_nothing_is_an_error(content: bytes) -> None:
    with pytest.raises(ValueError, match="refers to shared entries"):
        list(record_lines(content))


@pytest.mark.parametrize("read", [1, 300, 1 << 16])
def test_many_records_at_once_are_those_of_the_lines(read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_module, "READ", read)
    plain = written(*(Answer(n, None) for n in range(9)))[1]
    shared = written(Answer(1, None), UpdateMetadataRequest(6, 1, 1, 1, states(100), ()))[1]
    odd = FrameText(inputs=True)
    odd.take(deque(delivery(n, Answer(n, None)) for n in range(1, 4)))
    sent = decompress(odd.finish())
    assert b'{"shared":' in shared and b'{"sent":' in sent
    for content in (plain, plain + shared, plain + sent + plain + shared, sent, b""):
        one_by_one = [record for line in record_lines(content) for record in records_of(line)]
        assert [record for batch in batches(content) for record in batch] == one_by_one
        assert list(batches(content + b"[1]\n"))[-1] == b"[1]"
    with pytest.raises(ValueError, match="refers to shared entries"):
        list(batches(plain + b'[1,{"@":[0,1]}]'))


def test_invalid_text_is_an_error() -> None:
    assert decompress(compress([b"[]"])) == b"[]\n"
    with pytest.raises(ValueError, match="Zstandard"):
        decompress(b"nothing of the kind")
    assert zstandard.ZstdDecompressor().decompress(compress([b"x"])) == b"x\n"
