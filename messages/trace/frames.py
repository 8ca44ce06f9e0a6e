"""A trace's files: segments of zstd frames, the first holding the header, each other one a batch of JSON lines.

Rule 1: a frame is written whole or not at all, as far as readers can tell: each has a checksum, and a torn one at the
        end of a segment is dropped with all that follows. What came before it is intact.
Rule 2: a segment is known by its header, not by its name or place: a folder of many nodes' traces, moved or
        copied together, reads as well as the original.
Rule 3: a line that is no record is counted, never guessed at.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
import zstandard

from messages.trace.codec import TraceError
from messages.trace.schema import SCHEMA_VERSION, Header, Record

SUFFIX = ".trace.zst"
SEGMENT_BYTES = 64 << 20
_CHUNK = 1 << 17
_LEVEL = 1


class NotATrace(TraceError):
    """The file has no readable header: it is no segment of a trace, or its very first frame is torn."""


class WrongSchema(TraceError):
    """The trace was written with another version of the record schema."""


# ------------------------------------------------------------------------------------------------ writing


class SegmentWriter:
    """Writes one run below a folder, beginning a new segment when one has reached `segment_bytes`.

    Every method may raise OSError; after that the writer is of no more use than to be closed.
    """

    def __init__(self, folder: Path, header: Header, segment_bytes: int = SEGMENT_BYTES) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._header = header
        self._segment_bytes = segment_bytes
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._file: BinaryIO | None = None
        self._written = 0
        self._next_segment = 0
        self._open()

    def _open(self) -> None:
        header = msgspec.structs.replace(self._header, segment=self._next_segment)
        path = self._folder / segment_name(header.run, header.segment)
        self._file = path.open("xb", buffering=0)
        self._next_segment += 1
        self._written = 0
        self._append(msgspec.json.encode(header) + b"\n")

    def _append(self, lines: bytes | bytearray) -> None:
        assert self._file is not None
        frame = memoryview(self._compressor.compress(lines))
        self._written += len(frame)
        while frame:
            frame = frame[self._file.write(frame) :]

    def write(self, lines: bytes | bytearray) -> None:
        """Append the lines as one frame."""
        if self._written >= self._segment_bytes:
            self.close()
            self._open()
        self._append(lines)

    def close(self) -> None:
        """Close the open segment; a second time does nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


def segment_name(run: str, segment: int) -> str:
    """File name of a run's segment."""
    return f"{run}-{segment:06d}{SUFFIX}"


# ------------------------------------------------------------------------------------------------ reading


def _frames(stream: BinaryIO) -> Iterator[bytes]:
    """The contents of the whole frames from the start of the stream; ends before the first torn one."""
    decompressor = zstandard.ZstdDecompressor()
    chunk = stream.read(_CHUNK)
    while chunk:
        frame, parts = decompressor.decompressobj(), []
        while True:
            try:
                parts.append(frame.decompress(chunk))
            except zstandard.ZstdError:
                return
            if frame.eof:
                break
            chunk = stream.read(_CHUNK)
            if not chunk:
                return
        yield b"".join(parts)
        chunk = frame.unused_data or stream.read(_CHUNK)


class Segment:
    """One segment: its header at once, its records by iterating (once).

    `malformed` counts the lines that were no record, as far as has been read. Raises NotATrace if there is no header,
    WrongSchema if it is of another version.
    """

    def __init__(self, stream: BinaryIO, name: str = "") -> None:
        self._frames = _frames(stream)
        self.malformed = 0
        try:
            first = next(self._frames)
            version = msgspec.json.decode(first, type=_Version).schema_version
        except (StopIteration, msgspec.MsgspecError) as error:
            raise NotATrace(f"{name or 'a file'} has no header of a trace") from error
        if version != SCHEMA_VERSION:
            raise WrongSchema(f"{name or 'a trace'} has schema version {version}, this is version {SCHEMA_VERSION}")
        try:
            self.header = msgspec.json.decode(first, type=Header)
        except msgspec.MsgspecError as error:
            raise NotATrace(f"{name or 'a file'} has a torn header: {error}") from error

    def lines(self) -> Iterator[bytes]:
        """The lines, undecoded."""
        for frame in self._frames:
            yield from frame.splitlines()

    def rows(self) -> Iterator[Record | bytes]:
        """Each line as the record it is, or as it stands if it is none."""
        decode = msgspec.json.Decoder(Record).decode
        for line in self.lines():
            try:
                yield decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                self.malformed += 1
                yield line

    def __iter__(self) -> Iterator[Record]:
        for row in self.rows():
            if isinstance(row, Record):
                yield row


class _Version(msgspec.Struct):
    schema_version: int


class Run(NamedTuple):
    """One run found: the header of its first segment, and its segments' files in order."""

    header: Header
    paths: tuple[Path, ...]

    @property
    def whole(self) -> bool:
        """Whether no segment is missing before the last one that is there."""
        return self.header.segment == 0 and all(
            read_header(path).segment == expected for expected, path in enumerate(self.paths)
        )


class Found(NamedTuple):
    """What lies below a folder: runs by node and start, and the files named like segments that are none."""

    runs: tuple[Run, ...]
    unreadable: tuple[str, ...]


def read_header(path: Path) -> Header:
    """The header of a segment. Raises NotATrace, WrongSchema, OSError."""
    with path.open("rb") as stream:
        return Segment(stream, str(path)).header


def segment_files(folder: Path) -> list[Path]:
    """The files below `folder` that are named like segments. Raises NotATrace if it is no folder (or one such file)."""
    if folder.is_file():
        return [folder]
    if not folder.is_dir():
        raise NotATrace(f"{folder}: no such folder")
    return sorted(
        Path(parent) / name for parent, _, names in os.walk(folder) for name in names if name.endswith(SUFFIX)
    )


def find_runs(folder: Path) -> Found:
    """The runs below a folder, by their segments' headers. Raises NotATrace if there is no folder, WrongSchema."""
    segments: dict[str, list[tuple[Header, Path]]] = {}
    unreadable = []
    for path in segment_files(folder):
        try:
            header = read_header(path)
        except NotATrace as error:
            unreadable.append(str(error))
        else:
            segments.setdefault(header.run, []).append((header, path))
    runs = []
    for found in segments.values():
        found.sort(key=lambda entry: entry[0].segment)
        runs.append(Run(found[0][0], tuple(path for _, path in found)))
    runs.sort(key=lambda run: (run.header.node, run.header.started_ms, run.header.run))
    return Found(tuple(runs), tuple(unreadable))


class Records:
    """All records of a run, in order, by iterating (once)."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._segments: list[Segment] = []

    @property
    def malformed(self) -> int:
        """How many lines were no record, as far as has been read."""
        return sum(segment.malformed for segment in self._segments)

    def __iter__(self) -> Iterator[Record]:
        for path in self._run.paths:
            with path.open("rb") as stream:
                segment = Segment(stream, str(path))
                self._segments.append(segment)
                yield from segment


def read_bytes(content: bytes, name: str = "") -> Segment:
    """A segment that is in memory."""
    return Segment(io.BytesIO(content), name)
