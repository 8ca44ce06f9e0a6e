"""RunWriter writes the trace of a run and limits the size of its files.

Rule 1: when `write` returns, the frame is on the disk (or in the system's cache). If the process is killed, at most the
        last frame is incomplete. A segment gets its name after its first frame is written; then the manifest lists it.
Rule 2: the total size of all files in the folder stays below `max_bytes`. The oldest are removed first: earlier runs as
        a whole, then the first segments of this run. The manifest records the removal of a segment before its file is
        removed.
Rule 3: writing stops if the disk has less than `free_bytes` of free space, because the node's logs need this space.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from messages.trace.files import frames
from messages.trace.files import segments as files
from messages.trace.schema import Ended, Header, Opened, Removed, TraceRecord
from messages.trace.text import compress

SEGMENT_BYTES = 64 << 20
_SEGMENTS_AT_LEAST = 4
"""Minimum number of segments within `max_bytes`."""


class _OpenTraceFile:
    """A trace file that is being written, frame by frame; each frame has the digest of the previous one."""

    def __init__(self, file: BinaryIO, digest: bytes) -> None:
        self.file = file
        self.digest = digest
        self.size = 0

    def append(self, kind: int, content: bytes, records: int = 0, after: int = 0) -> None:
        """Append a frame."""
        data, digest = frames.frame(kind, content, self.digest, records, after)
        files.write_all(self.file, data)
        self.size += len(data)
        self.digest = digest

    def append_line(self, kind: int, line: bytes, records: int = 0, after: int = 0) -> None:
        """Append a frame with one line."""
        self.append(kind, compress([line]), records, after)

    def mend(self) -> None:
        """Remove an incompletely written frame from the end of the file."""
        os.ftruncate(self.file.fileno(), self.size)
        self.file.seek(self.size)

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def _create_file(path: Path, header: Header, digest: bytes) -> _OpenTraceFile:
    """Create a file whose first frame contains `header`.

    `digest` is the digest of the previous segment's last frame, or START for the manifest and the first segment. The
    file gets its name after the header is written.
    """
    unnamed = path.with_name(path.name + files.UNNAMED_SUFFIX)
    chain = _OpenTraceFile(files.create(unnamed), digest)
    try:
        files.hold(chain.file)
        chain.append_line(frames.HEADER, msgspec.json.encode(header))
        unnamed.rename(path)
    except BaseException:
        chain.close()
        with suppress(OSError):
            unnamed.unlink()
        raise
    return chain


class _Segment(NamedTuple):
    """A complete segment file of a run."""

    number: int
    path: Path
    size: int
    digest: bytes


class _Older(NamedTuple):
    """An earlier run in the same folder; the run may be removed when space is needed."""

    written: float
    size: int
    paths: tuple[Path, ...]


class RunWriter:
    """Writes the trace of a run into `folder`, in segments of `segment_bytes`.

    All methods may raise OSError. After an OSError, only `end` and `close` may be called.

    Args:
        folder: The folder of the files.
        header: The header of the first segment.
        segment_bytes: The size at which the next segment starts.
        max_bytes: Maximum total size of the folder's files (rule 2); -1: unlimited.
        free_bytes: Minimum free space of the disk (rule 3); -1: ignored.
    """

    def __init__(
        self,
        folder: Path,
        header: Header,
        segment_bytes: int = SEGMENT_BYTES,
        max_bytes: int = -1,
        free_bytes: int = -1,
    ) -> None:
        files.make_folder(folder)
        self._folder = folder
        self._header = header
        self._max_bytes = max_bytes
        self._free_bytes = free_bytes
        self._segment_bytes = segment_bytes if max_bytes < 0 else min(segment_bytes, max_bytes // _SEGMENTS_AT_LEAST)
        self._older = deque(_older_runs(folder)) if max_bytes >= 0 else deque()
        self._closed_segments: deque[_Segment] = deque()
        self.segment = -1
        """Number of the current segment."""
        self._segment: _OpenTraceFile | None = None
        self.records = 0
        """Number of records in the files."""
        self._manifest = _create_file(folder / files.manifest_name(header.run), header, frames.START)
        try:
            self._open(frames.START)
        except BaseException:
            self.close()
            raise

    # ------------------------------------------------------------------------------------------------ writing

    def write(self, content: bytes, records: int, after: int) -> None:
        """Append a frame of `records` records, which start after delivery `after`."""
        self._append(frames.RECORDS, content, records, after)
        self.records += records

    def write_snapshot(self, content: bytes, lines: int, after: int) -> None:
        """Append a frame with `lines` lines of the snapshot that was taken after delivery `after`."""
        self._append(frames.SNAPSHOT, content, lines, after)

    def _append(self, kind: int, content: bytes, records: int, after: int) -> None:
        segment = self._current()
        if segment.size >= self._segment_bytes:
            self._close_segment(segment)
            segment = self._open(segment.digest)
        self._check_space()
        segment.append(kind, content, records, after)

    def end(self, record: TraceRecord) -> None:
        """Remove incomplete frames; write the end record to the segment and an Ended entry to the manifest."""
        segment = self._current()
        segment.mend()
        segment.append_line(frames.RECORDS, msgspec.json.encode(record), 1, record.n)
        self._manifest.mend()
        self._append_entry(Ended(record.type, self.records, segment.digest.hex()))

    def close(self) -> None:
        """Close the files; a second call has no effect."""
        if self._segment is not None:
            segment, self._segment = self._segment, None
            segment.close()
        self._manifest.close()

    def _current(self) -> _OpenTraceFile:
        if self._segment is None:
            raise OSError(errno.EBADF, "the trace is closed")
        return self._segment

    def _open(self, digest: bytes) -> _OpenTraceFile:
        """Start the next segment; `digest` is the digest of the last frame before it."""
        self._evict()
        number = self.segment + 1
        begun = _create_file(self._path(number), msgspec.structs.replace(self._header, segment=number), digest)
        self._segment, self.segment = begun, number
        self._append_entry(Opened(number, begun.digest.hex()))
        return begun

    def _close_segment(self, segment: _OpenTraceFile) -> None:
        segment.close()
        self._closed_segments.append(_Segment(self.segment, self._path(self.segment), segment.size, segment.digest))

    def _path(self, number: int) -> Path:
        return self._folder / files.segment_name(self._header.run, number)

    def _append_entry(self, entry: Opened | Removed | Ended) -> None:
        self._manifest.append_line(frames.ENTRY, msgspec.json.encode(entry))

    # ------------------------------------------------------------------------------------------------ bounds

    def _check_space(self) -> None:
        if self._free_bytes < 0:
            return
        disk = os.statvfs(self._folder)
        free = disk.f_bavail * disk.f_frsize
        if free < self._free_bytes:
            raise OSError(
                errno.ENOSPC, f"only {free} bytes of the disk are free, but {self._free_bytes} must stay free"
            )

    def _evict(self) -> None:
        """Remove the oldest files until the size limit permits another segment."""
        if self._max_bytes < 0:
            return
        total = sum(run.size for run in self._older) + sum(segment.size for segment in self._closed_segments)
        while total + self._segment_bytes > self._max_bytes and self._older:
            oldest = self._older.popleft()
            total -= oldest.size
            for path in oldest.paths:
                path.unlink(missing_ok=True)
        while total + self._segment_bytes > self._max_bytes and self._closed_segments:
            number, path, size, digest = self._closed_segments.popleft()
            total -= size
            self._append_entry(Removed(number, digest.hex()))
            path.unlink(missing_ok=True)


def _older_runs(folder: Path) -> list[_Older]:
    """Return the runs that no process writes any more, oldest first, each with its segments and then its manifest.

    The files of a run include a file without its final name, which a killed process has left.
    """
    runs: dict[str, list[tuple[bool, Path]]] = {}
    for path in sorted(folder.iterdir()):
        name = files.parse_name(path.name.removesuffix(files.UNNAMED_SUFFIX))
        if name is not None:
            runs.setdefault(name.run, []).append((name.segment is None, path))
    found = []
    for run, each in runs.items():
        if any(files.is_held(path) for is_manifest, path in each if is_manifest):
            continue
        paths = [path for _, path in sorted(each)]
        written = max(path.stat().st_mtime for path in paths)
        paths += [path for path in (folder / files.index_name(run),) if path.exists()]
        found.append(_Older(written, sum(path.stat().st_size for path in paths), tuple(paths)))
    return sorted(found)
