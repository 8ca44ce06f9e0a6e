"""Reading the frames of a trace file.

A file that ends inside a frame is torn. A wrong byte is damage, and so is a frame that does not follow the previous
one.
"""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest
import zstandard

from messages.trace.files.errors import Damaged, Torn
from messages.trace.files.frames import (
    HEADER,
    RECORDS,
    SNAPSHOT,
    START,
    Frame,
    check_chain,
    frame,
    is_framed,
    read_frames,
)
from messages.trace.text import compress, decompress

PATH = Path("a.trace.zst")


def file_of(*texts: bytes) -> tuple[bytes, list[int]]:
    """Return a file with a frame for each text, and the offsets of the frames and of the file's end."""
    content, previous, places = b"", START, [0]
    for number, text in enumerate(texts):
        data, previous = frame(RECORDS if number else HEADER, compress([text]), previous, number, 7 * number)
        content += data
        places.append(len(content))
    return content, places


FILE, PLACES = file_of(b"one", b"two" * 50, b"three")


def read(content: bytes) -> list[Frame]:
    return list(check_chain(read_frames(io.BytesIO(content), PATH), PATH, START))


def test_what_was_written_is_read() -> None:
    frames = read(FILE)
    assert [decompress(each.content) for each in frames] == [b"one\n", b"two" * 50 + b"\n", b"three\n"]
    assert [(each.kind, each.records, each.after) for each in frames] == [(1, 0, 0), (2, 1, 7), (2, 2, 14)]
    assert [each.offset for each in frames] == PLACES[:-1]
    assert frames[-1].end == len(FILE)
    assert is_framed(FILE) and not is_framed(compress([b"x"]))


def test_any_zstd_reads_the_text() -> None:
    reader = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(FILE), read_across_frames=True)
    assert reader.read() == b"one\n" + b"two" * 50 + b"\nthree\n"


def test_a_file_cut_anywhere_is_torn_unless_it_is_whole() -> None:
    for cut in range(1, len(FILE)):
        frames = read_frames(io.BytesIO(FILE[:cut]), PATH)
        whole = sum(cut >= place for place in PLACES[1:])
        for _ in range(whole):
            next(frames)
        if cut in PLACES:
            assert next(frames, None) is None
        else:
            with pytest.raises(Torn) as torn:
                next(frames)
            assert (torn.value.path, torn.value.offset) == (PATH, PLACES[whole])


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_byte_changed_anywhere_is_damage_named_by_its_frame(flip: int) -> None:
    for place in range(len(FILE)):
        content = bytearray(FILE)
        content[place] ^= flip
        with pytest.raises(Damaged) as damage:
            read(bytes(content))
        assert not isinstance(damage.value, Torn)
        assert damage.value.offset == max(begin for begin in PLACES if begin <= place)
        assert f"byte {damage.value.offset}" in str(damage.value)


@pytest.mark.parametrize(
    "order",
    [(0, 2), (0, 1, 1, 2), (0, 2, 1), (1, 2), (1, 0, 2), (0, 1, 2, 0), (0, 0, 1, 2)],
    ids=lambda order: "-".join(map(str, order)),
)
def test_a_frame_missing_doubled_or_swapped_is_damage(order: tuple[int, ...]) -> None:
    pieces = [FILE[begin:end] for begin, end in itertools.pairwise(PLACES)]
    content = b"".join(pieces[number] for number in order)
    assert len(list(read_frames(io.BytesIO(content), PATH))) == len(order)
    with pytest.raises(Damaged, match="missing before this one"):
        read(content)


def test_snapshots_fit_into_frames() -> None:
    data, digest = frame(SNAPSHOT, compress([b"{}"]), START)
    more, _ = frame(RECORDS, compress([b"[]"]), digest)
    assert [each.kind for each in read(data + more)] == [SNAPSHOT, RECORDS]
