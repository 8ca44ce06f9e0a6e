"""Logs in a process with few file descriptors: open files are bounded, and EMFILE does not count as a disk failure."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import attrs
import pytest

from actors.storage.disk import DiskAdapter
from actors.storage.log import Handles, LogConfig, opening
from actors.storage.log_manager import LogManager
from messages.wire.record_batch import body_of
from tests.storage.batches import batch

CONFIG = attrs.astuple(LogConfig(segment_bytes=1000, retention_ms=-1))


@contextmanager
def free_descriptors(count: int) -> Iterator[None]:
    """Limit this process to `count` more open files in the context."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = {int(entry.name) for entry in Path("/proc/self/fd").iterdir()}
    free = (number for number in range(hard) if number not in used)
    limit = next(islice(free, count, None)) if count else 3  # none, even after a log has closed its files
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_files() -> int:
    """Return the number of open files of this process."""
    return len([*Path("/proc/self/fd").iterdir()])


def logs_with_records(place: Path, count: int, **fields: int) -> tuple[LogManager, list[str]]:
    port = LogManager(lambda: 1_000, **fields)
    paths = [str(place / f"t-{number}") for number in range(count)]
    for path in paths:
        port.open(path, True, CONFIG)
        port.append(path, 0, False, False, body_of(batch(b"x" * 400)))
    return port, paths


def test_logs_give_their_files_back_where_the_process_has_no_descriptor_left(tmp_path: Path) -> None:
    """Regression: the first failed open for lack of a descriptor counted as a disk failure."""
    with free_descriptors(10):
        port, paths = logs_with_records(tmp_path, 30)
        for path in paths:
            for number in range(3):  # these appends create segments, indexes and snapshots
                port.append(path, 0, False, False, body_of(batch(b"y" * 400, producer=1, epoch=0, sequence=number)))
        assert [port.read(path, 0, 10_000, 9, True)[0] for path in paths] == [0] * 30
        assert port.checkpoint() == () == port.checkpoint_high_watermarks()
        port.close_all()
    again = LogManager(lambda: 1_000)
    assert [again.open(path, False, CONFIG)[1] for path in paths] == [4] * 30
    again.close_all()


def test_checkpoints_that_cannot_be_written_for_want_of_a_descriptor_are_no_failure_of_the_directory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    port, paths = logs_with_records(tmp_path, 1)
    port.note_high_watermark(paths[0], 1)
    with free_descriptors(0):
        assert port.checkpoint_high_watermarks() == ()
    assert f"Failed to write the checkpoints of {tmp_path}, retrying: Too many open files" in caplog.text
    port.checkpoint_high_watermarks()
    port.close_all()
    assert LogManager(lambda: 1_000).open(paths[0], False, CONFIG)[3] == 1


def test_the_disk_takes_descriptors_from_logs_too(tmp_path: Path) -> None:
    with free_descriptors(8):
        port, _ = logs_with_records(tmp_path / "", 12)
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(2)]
        disk = DiskAdapter()
        disk.write_text(str(tmp_path / "meta"), "text")
        assert disk.read_text(str(tmp_path / "meta")) == "text" and len(disk.list_directories(str(tmp_path))) == 12
        assert disk.lock(str(tmp_path / ".lock"))
        disk.unlock(str(tmp_path / ".lock"))
        port.close_all()
    for descriptor in held:
        os.close(descriptor)


def test_an_error_of_the_disk_is_raised_at_once() -> None:
    tries = []

    def fails() -> None:
        tries.append(1)
        raise OSError(errno.EIO, "the disk")

    with pytest.raises(OSError, match="the disk"):
        opening(fails)
    assert tries == [1]


def test_fetches_on_their_way_hold_a_bounded_number_of_files(tmp_path: Path) -> None:
    """Regression: each region kept its file open, so a slow consumer of many partitions held any number of files."""
    port, paths = logs_with_records(tmp_path, 40, region_from=1, open_files=16)
    before = open_files()
    bodies = [port.read(path, 0, 10_000, 1, True)[1] for path in paths]
    assert open_files() - before <= 16
    assert {body.size for body in bodies} == {len(batch(b"x" * 400))}
    assert len({bytes(body.data.read() if hasattr(body.data, "read") else body.data) for body in bodies}) == 1
    port.close_all()
    del bodies
    assert open_files() == before - 8


def test_a_limit_of_one_file_serves(tmp_path: Path) -> None:
    handles = Handles(1)
    for name in ("a", "b", "a"):
        file = handles.get(str(tmp_path / name), create=True)
        assert os.pwrite(file.descriptor, name.encode(), 0) and len(handles) == 1
    assert (tmp_path / "b").read_bytes() == b"b"


def test_a_folder_is_closed_without_those_beside_it(tmp_path: Path) -> None:
    handles, folders = Handles(8), [tmp_path / name for name in ("t-1", "t-10")]
    before = open_files()
    for folder in folders:
        folder.mkdir()
        for name in "abcd":
            handles.get(str(folder / name), create=True)
    assert open_files() == before + 4, "half of the limit"
    handles.get(str(folders[0] / "a"))
    handles.close(str(folders[1] / "b"))
    handles.close_below(str(folders[1]))
    assert open_files() == before + 1 and len(handles) == 1
    handles.halve()
    handles.close_below(str(folders[0]))
    assert open_files() == before
