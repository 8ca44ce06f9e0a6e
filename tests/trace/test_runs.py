"""Runs below a folder: they are found by file name, read as a whole, limited in size, and private to their owner."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest

from messages.sensitive_configs import MASK
from messages.trace.codec import decode
from messages.trace.endings import DAMAGED, KILLED, RUNNING, ending_text
from messages.trace.files.errors import Damaged, NotATrace
from messages.trace.files.frames import RECORDS, SNAPSHOT
from messages.trace.files.runs import Run, RunRecords, find_runs, slice_lines, slices, survey
from messages.trace.files.segments import MANIFEST_SUFFIX, SUFFIX, manifest_name, parse_name, segment_name
from messages.trace.files.writer import RunWriter
from messages.trace.schema import DISK_FULL, SCHEMA_VERSION, STOPPED, Header, TraceRecord, end_record, masked_settings
from messages.trace.text import compress
from tests.trace.altering import only_run


def header(node: int = 0, run: str = "node0-a", started_ms: int = 0) -> Header:
    return Header(SCHEMA_VERSION, run, 0, node, ("broker",), {"node_id": node}, "1+abc", started_ms, 0.5, "3", "x")


def line(n: int) -> bytes:
    return msgspec.json.encode(
        TraceRecord(n, "sent", n - 1, n, "A.1", "B.2", "B", "Done", *[float(n)] * 3, msgspec.Raw(b"{}"), (), None)
    )


def write(folder: Path, frames_of: list[int], header: Header, end: str | None = STOPPED, **options: Any) -> None:
    """Write a run with one frame per entry of `frames_of`, the frame's number of records.

    Records are numbered from 1.
    """
    writer = RunWriter(folder, header, **options)
    n = 0
    for count in frames_of:
        writer.write(compress(line(n + i) for i in range(1, count + 1)), count, n)
        n += count
    if end is not None:
        writer.end(end_record(n, end, n, None, float(n)))
    writer.close()


def numbers(run: Run) -> list[int]:
    return [record.n for record in RunRecords(run) if record.kind == "sent"]


def test_segments_rotate_by_size_and_read_as_one_run(tmp_path: Path) -> None:
    write(tmp_path, [5] * 40, header(), segment_bytes=900)
    run = only_run(tmp_path)
    assert len(run.paths) > 3
    assert [path.name for path in run.paths] == [segment_name("node0-a", n) for n in range(len(run.paths))]
    assert all(path.stat().st_size < 1500 for path in run.paths)
    assert not run.faults and numbers(run) == list(range(1, 201))
    assert survey(run) == (STOPPED, ())


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "made" / "trace", [1] * 4, header(), segment_bytes=1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "made" / "trace").stat().st_mode) == 0o700
    files = list((tmp_path / "made" / "trace").iterdir())
    assert len(files) == 6
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_folder_that_is_there_is_closed_unless_others_use_it(tmp_path: Path) -> None:
    for name in ("earlier", "shared", "sticky"):
        (tmp_path / name).mkdir()
    (tmp_path / "earlier" / segment_name("node0-old", 0)).touch()
    (tmp_path / "shared" / "notes.txt").touch()
    (tmp_path / "earlier").chmod(0o755)
    (tmp_path / "shared").chmod(0o755)
    (tmp_path / "sticky").chmod(0o1777)
    for name in ("earlier", "shared", "sticky"):
        write(tmp_path / name, [1], header())
    assert [mode(tmp_path / name) for name in ("earlier", "shared", "sticky")] == [0o700, 0o755, 0o1777]


def test_endings_of_runs_are_distinguished(tmp_path: Path) -> None:
    write(tmp_path / "a", [2], header(run="a"))
    write(tmp_path / "b", [2], header(run="b"), end=None)
    write(tmp_path / "c", [2], header(run="c"), end=DISK_FULL)
    running = RunWriter(tmp_path / "d", header(run="d"))
    write(tmp_path / "e", [2], header(run="e"))
    path = tmp_path / "e" / segment_name("e", 0)
    path.write_bytes(path.read_bytes()[:-1])
    runs = find_runs(tmp_path).runs
    assert [survey(run).ending for run in runs] == [STOPPED, KILLED, DISK_FULL, RUNNING, DAMAGED]
    running.close()
    assert survey(find_runs(tmp_path).runs[3]).ending == KILLED
    assert [ending_text(run) for run in (STOPPED, KILLED, DAMAGED, RUNNING)] == [
        STOPPED,
        "killed: recording ended early",
        DAMAGED,
        RUNNING,
    ]


def test_a_running_run_can_be_read(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path, header(), segment_bytes=1)
    for n in range(6):
        writer.write(compress([line(n + 1)]), 1, n)
        run = only_run(tmp_path)
        assert run.running and not run.faults and numbers(run) == list(range(1, n + 2))
    writer.close()


def test_runs_are_found_wherever_they_lie(tmp_path: Path) -> None:
    write(tmp_path / "n1" / "kafka.trace", [1], header(1, "node1-late", 9))
    write(tmp_path / "n1" / "kafka.trace2", [1], header(1, "node1-early", 5))
    write(tmp_path / "n0.trace", [1], header(0, "node0-x", 7))
    shutil.move(tmp_path / "n0.trace", tmp_path / "n1" / "moved")
    (tmp_path / f"stranger{SUFFIX}").write_bytes(b"nothing of ours")
    (tmp_path / "notes.txt").write_text("ignored")
    found = find_runs(tmp_path)
    assert [run.header.run for run in found.runs] == ["node0-x", "node1-early", "node1-late"]
    assert [survey(run).ending for run in found.runs] == [STOPPED] * 3
    assert len(found.unreadable) == 1 and "stranger" in found.unreadable[0]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotATrace, match="nowhere: no such folder"):
        find_runs(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(NotATrace, match="not a folder"):
        find_runs(tmp_path / "file")


def test_an_unreadable_run_does_not_affect_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("fine", "secret", "half"):
        write(tmp_path / run, [1], header(run=run))
    denied = {tmp_path / "secret" / manifest_name("secret"), tmp_path / "half" / segment_name("half", 0)}
    open_path = Path.open

    def open_unless_denied(path: Path, *args: Any, **options: Any) -> Any:
        if path in denied:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return open_path(path, *args, **options)

    monkeypatch.setattr(Path, "open", open_unless_denied)
    found = find_runs(tmp_path)
    assert [(run.header.run, bool(run.faults)) for run in found.runs] == [("fine", False), ("half", True)]
    assert [*found.unreadable, *found.runs[1].faults] == [f"{path}: Permission denied" for path in sorted(denied)[::-1]]


@pytest.mark.parametrize("run", ["a", "node0-1", "a-000001", "x.y"])
def test_the_names_of_files(run: str) -> None:
    assert parse_name(segment_name(run, 12)) == (run, 12)
    assert parse_name(manifest_name(run)) == (run, None)
    assert parse_name(f"{run}.txt") is None


# ------------------------------------------------------------------------------------------------ schema versions


def test_a_trace_of_the_first_schema_is_refused_by_name(tmp_path: Path) -> None:
    old = {**msgspec.to_builtins(header()), "schema_version": 1}
    (tmp_path / segment_name("node0-a", 0)).write_bytes(compress([msgspec.json.encode(old)]))
    write(tmp_path / "b", [1], header(run="b"))
    found = find_runs(tmp_path)
    assert [(run.header.run, run.faults) for run in found.runs] == [("b", ())]
    [refusal] = found.unreadable
    assert "schema version 1" in refusal and f"version {SCHEMA_VERSION}" in refusal and "1+abc" in refusal


# ------------------------------------------------------------------------------------------------ bounds


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if not path.name.endswith(MANIFEST_SUFFIX))


def test_a_run_stays_within_its_limit_and_records_what_it_removed(tmp_path: Path) -> None:
    write(tmp_path, [5] * 400, header(), max_bytes=8000)
    run = only_run(tmp_path)
    assert 4000 < used(tmp_path) < 8000 + 1000
    assert run.removed > 10 and not run.faults
    assert numbers(run)[-1] == 2000 and numbers(run) == list(range(numbers(run)[0], 2001))
    assert survey(run) == (STOPPED, ())
    run.paths[0].unlink()
    assert "is missing" in only_run(tmp_path).faults[0]


def test_earlier_runs_are_removed_first_and_whole(tmp_path: Path) -> None:
    for place, name in enumerate(("first", "second", "third")):
        write(tmp_path, [5] * 20, header(run=name), max_bytes=-1)
        for path in tmp_path.glob(f"{name}*"):
            os.utime(path, (1000 + place, 1000 + place))
    size = used(tmp_path)
    going_on = RunWriter(tmp_path, header(run="fourth"))
    os.utime(tmp_path / manifest_name("fourth"), (1, 1))
    write(tmp_path, [5] * 20, header(run="fifth"), max_bytes=size)
    assert {run.header.run for run in find_runs(tmp_path).runs} == {"second", "third", "fourth", "fifth"} - (
        {"second"} if used(tmp_path) < size * 0.8 else set()
    )
    assert not any(run.faults for run in find_runs(tmp_path).runs)
    going_on.close()


def test_temporary_files_of_a_killed_process_are_removed_with_their_run(tmp_path: Path) -> None:
    left = [tmp_path / f"{segment_name('first', 1)}.new", tmp_path / f"{manifest_name('begun')}.new"]
    write(tmp_path, [1], header(run="first"))
    for path in left:
        path.write_bytes(b"x" * 10_000)
    write(tmp_path, [1], header(run="second"), max_bytes=100_000)
    assert all(path.exists() for path in left)
    write(tmp_path, [1], header(run="third"), max_bytes=8_000)
    assert not any(path.exists() for path in left)
    assert not any(run.faults for run in find_runs(tmp_path).runs)


def test_space_that_is_to_be_left_alone_is_left_alone(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    writer = RunWriter(tmp_path, header(), free_bytes=disk.f_blocks * disk.f_frsize)
    with pytest.raises(OSError, match="must stay free") as full:
        writer.write(compress([line(1)]), 1, 0)
    assert full.value.errno == errno.ENOSPC
    writer.end(end_record(0, DISK_FULL, 0, str(full.value), 0.0))
    writer.close()
    records = RunRecords(only_run(tmp_path))
    assert list(records) == [records.end]
    assert records.end is not None and "must stay free" in (records.end.error or "")


def test_a_frame_that_could_not_be_written_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter(tmp_path, header())
    writer.write(compress([line(1)]), 1, 0)

    def full(file: Any, data: bytes) -> None:
        file.write(data[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("messages.trace.files.segments.write_all", full)
        with pytest.raises(OSError, match="No space"):
            writer.write(compress([line(2)]), 1, 1)
    writer.end(end_record(1, DISK_FULL, 1, "No space", 2.0))
    writer.close()
    run = only_run(tmp_path)
    assert [record.kind for record in RunRecords(run)] == ["sent", "ended"]
    assert survey(run) == (DISK_FULL, ())


# ------------------------------------------------------------------------------------------------ contents of frames


@pytest.mark.parametrize(
    ("lines", "count", "what"),
    [
        ([b'[1,"sent"]'], 1, "is no record"),
        ([b"not json"], 1, "is no record"),
        ([line(1), line(1)], 2, "delivery 2 is missing"),
        ([line(2)], 1, "delivery 1 is missing"),
        ([line(1), line(2)], 1, "a frame of 1 records holds 2"),
        ([line(1).replace(b'"sent"', b'"spent"')], 1, "no kind that there is"),
        ([line(1).replace(b",1.0,1.0,1.0,", b",5.0,1.0,1.0,")], 1, "time runs backwards"),
        ([line(1).replace(b",1.0,1.0,1.0,", b",1.0,1.0,0.5,")], 1, "time runs backwards"),
        ([line(1).replace(b",1.0,1.0,1.0,", b",3.0,3.0,3.0,"), line(2)], 2, "time runs backwards"),
    ],
)
def test_records_that_do_not_follow_each_other_are_damage(
    tmp_path: Path, lines: list[bytes], count: int, what: str
) -> None:
    writer = RunWriter(tmp_path, header())
    writer.write(compress(lines), count, 0)
    writer.close()
    with pytest.raises(Damaged, match=what) as damage:
        list(RunRecords(only_run(tmp_path)))
    assert damage.value.path == only_run(tmp_path).paths[0] and damage.value.offset > 0


def test_frames_of_another_kind_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RunWriter(tmp_path, header())
    writer.write(compress([line(1)]), 1, 0)
    with monkeypatch.context() as patch:
        patch.setattr("messages.trace.files.frames.RECORDS", SNAPSHOT)
        writer.write(compress([b'{"state":"of an actor"}']), 0, 1)
    writer.write(compress([line(2)]), 1, 1)
    writer.close()
    assert RECORDS != SNAPSHOT
    assert numbers(only_run(tmp_path)) == [1, 2]


def test_a_single_segment_is_read_to_its_end(tmp_path: Path) -> None:
    write(tmp_path, [3, 2, 4], header())
    [path] = only_run(tmp_path).paths
    content = path.read_bytes()
    run = only_run(tmp_path)

    def read(content: bytes, most: int = 1) -> list[int]:
        """Return the numbers of the records, slice by slice."""
        path.write_bytes(content)
        return [msgspec.json.decode(line)[0] for each in slices(run, most) for line in slice_lines(each)]

    assert read(content) == read(content, 1 << 20) == [*range(1, 10), 9]
    assert len(list(slices(run, 1))) > 3 and len(list(slices(run, 1 << 20))) == 1
    assert read(content[:-1]) == list(range(1, 10))
    assert read(content[:300]) == [] and read(b"") == [] and read(b"no trace") == []
    assert decode("Done", b"{}") is not None


def test_secrets_are_masked_by_name() -> None:
    settings = {
        "ssl_keystore_password": "x",
        "sasl_jaas_config": "y",
        "node_id": 3,
        "zookeeper_ssl_secret": "",
        "a": "b",
    }
    assert masked_settings(settings) == settings | {"ssl_keystore_password": MASK, "sasl_jaas_config": MASK}
