"""Segments survive kills, moves and strangers: what was written whole is read, the rest is dropped and counted."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

from messages.trace import frames
from messages.trace.frames import NotATrace, Records, SegmentWriter, WrongSchema, find_runs, read_bytes, read_header
from messages.trace.schema import MASK, SCHEMA_VERSION, Header, Record, masked


def header(node: int = 0, run: str = "node0-a", started_ms: int = 0) -> Header:
    return Header(SCHEMA_VERSION, run, 0, node, ("broker",), {"node_id": node}, "1+abc", started_ms, 0.5, "3", "x")


def line(n: int) -> bytes:
    return (
        msgspec.json.encode(Record(n, "sent", n - 1, "A.1", "B.2", "B", "Done", 0.0, 0.0, 0.0, msgspec.Raw(b"{}")))
        + b"\n"
    )


def write(folder: Path, frames_of: list[int], header: Header, segment_bytes: int = 1 << 20) -> list[Path]:
    """One frame per entry, of so many records, numbered from 1."""
    writer = SegmentWriter(folder, header, segment_bytes)
    n = 0
    for count in frames_of:
        writer.write(b"".join(line(n + i) for i in range(1, count + 1)))
        n += count
    writer.close()
    return sorted(folder.iterdir())


def numbers(content: bytes) -> list[int]:
    return [record.n for record in read_bytes(content)]


def test_a_frame_torn_at_any_byte_drops_cleanly(tmp_path: Path) -> None:
    [path] = write(tmp_path / "short", [3, 2], header())
    [whole] = write(tmp_path / "long", [3, 2, 4], header())
    content, kept = whole.read_bytes(), path.stat().st_size
    assert content[:kept] == path.read_bytes()
    for cut in range(kept, len(content)):
        assert numbers(content[:cut]) == [1, 2, 3, 4, 5]
    assert numbers(content) == list(range(1, 10))


def test_a_flipped_byte_drops_its_frame_and_what_follows(tmp_path: Path) -> None:
    [path] = write(tmp_path / "short", [3, 2], header())
    [whole] = write(tmp_path / "long", [3, 2, 4], header())
    for place in range(path.stat().st_size, whole.stat().st_size):
        content = bytearray(whole.read_bytes())
        content[place] ^= 0x40
        assert numbers(bytes(content))[:5] == [1, 2, 3, 4, 5]
        assert set(numbers(bytes(content))) <= set(range(1, 10))


def test_a_torn_header_is_no_trace(tmp_path: Path) -> None:
    [path] = write(tmp_path, [], header())
    content = path.read_bytes()
    for cut in range(len(content)):
        with pytest.raises(NotATrace):
            read_bytes(content[:cut])


def test_frames_longer_than_a_read_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [path] = write(tmp_path, [1, 2000, 0, 3], header())
    for chunk in (1, 7, 4096):
        monkeypatch.setattr(frames, "_CHUNK", chunk)
        assert numbers(path.read_bytes()) == list(range(1, 2005))


def test_segments_rotate_by_size_and_read_as_one_run(tmp_path: Path) -> None:
    paths = write(tmp_path, [5] * 40, header(), segment_bytes=600)
    assert len(paths) > 3
    assert all(path.stat().st_size < 1200 for path in paths)
    [run] = find_runs(tmp_path).runs
    assert run.paths == tuple(paths) and run.whole
    assert [record.n for record in Records(run)] == list(range(1, 201))


def test_a_run_that_lacks_a_segment_is_not_whole(tmp_path: Path) -> None:
    paths = write(tmp_path, [5] * 40, header(), segment_bytes=600)
    paths[1].unlink()
    assert not find_runs(tmp_path).runs[0].whole
    paths[0].unlink()
    assert not find_runs(tmp_path).runs[0].whole


def test_runs_are_found_by_their_headers_wherever_they_lie(tmp_path: Path) -> None:
    [late] = write(tmp_path / "n1" / "kafka.trace", [1], header(1, "node1-late", 9))
    [early] = write(tmp_path / "n1" / "kafka.trace2", [1], header(1, "node1-early", 5))
    [other] = write(tmp_path / "n0.trace", [1], header(0, "node0-x", 7))
    moved = shutil.move(other, tmp_path / f"some-name{frames.SUFFIX}")
    (tmp_path / f"stranger{frames.SUFFIX}").write_bytes(b"nothing of ours")
    (tmp_path / "notes.txt").write_text("ignored")
    found = find_runs(tmp_path)
    assert [(run.header.run, run.paths) for run in found.runs] == [
        ("node0-x", (Path(moved),)),
        ("node1-early", (early,)),
        ("node1-late", (late,)),
    ]
    assert len(found.unreadable) == 1 and "stranger" in found.unreadable[0]
    assert find_runs(late).runs[0].header.run == "node1-late"


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="nowhere"):
        find_runs(tmp_path / "nowhere")


def test_another_schema_version_is_refused_by_name(tmp_path: Path) -> None:
    future = msgspec.structs.replace(header(), schema_version=SCHEMA_VERSION + 1)
    [path] = write(tmp_path, [1], future)
    with pytest.raises(WrongSchema, match=f"schema version {SCHEMA_VERSION + 1}"):
        read_header(path)
    with pytest.raises(WrongSchema):
        find_runs(tmp_path)


def test_lines_that_are_no_records_are_counted(tmp_path: Path) -> None:
    writer = SegmentWriter(tmp_path, header())
    writer.write(line(1) + b'{"n": "one"}\n' + b"not json\n" + line(2))
    writer.close()
    records = Records(find_runs(tmp_path).runs[0])
    assert [record.n for record in records] == [1, 2]
    assert records.malformed == 2


def test_secrets_are_masked_by_name() -> None:
    settings = {
        "ssl_keystore_password": "x",
        "sasl_jaas_config": "y",
        "node_id": 3,
        "zookeeper_ssl_secret": "",
        "a": "b",
    }
    assert masked(settings) == settings | {"ssl_keystore_password": MASK, "sasl_jaas_config": MASK}
