"""Find the runs below a folder and read them; changed and missing data is detected.

Rule 1: the manifest lists the segments and the digest of each segment's first frame. Each frame contains the digest of
        the previous frame. The run ends with the frame that the manifest names. Any deviation is damage, reported with
        file and offset.
Rule 2: in a run without a recorded end, the last segment and the manifest may end inside a frame. Elsewhere this is
        damage.
Rule 3: records are in order: deliveries have consecutive numbers, times never decrease, and the end record is last.
Rule 4: errors in one run do not affect other runs.
Rule 5: if the manifest has no Ended entry, an end record at the end of the last segment is accepted instead.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import attrs
import msgspec

from messages.trace.endings import DAMAGED, KILLED, RUNNING
from messages.trace.errors import TraceError, UnsupportedSchema
from messages.trace.files import segments as files
from messages.trace.files.errors import Damaged, NotATrace, Torn
from messages.trace.files.frames import (
    ENTRY,
    HEADER,
    RECORDS,
    START,
    Frame,
    check_chain,
    is_framed,
    last_frame,
    read_frames,
)
from messages.trace.files.snapshots import Snapshot, SnapshotCollector
from messages.trace.schema import (
    CREATED,
    DELIVERIES,
    DETAILS,
    ENDED,
    READABLE,
    REASONS,
    SCHEMA_VERSION,
    SENT,
    Ended,
    Header,
    Opened,
    Removed,
    TraceRecord,
    end_record,
)
from messages.trace.text import ROWS, batches, decompress, record_lines


@attrs.frozen
class Run:
    """A run of a node: its header and its segment files in order.

    `removed` is the number of removed segments that preceded the first remaining one. `ended` is the end according to
    the manifest or the last record; it is None if neither records an end. `running`: a process is writing the run.
    `faults` are the errors in its file names, its manifest and the first frames of its segments.
    """

    header: Header
    folder: Path
    paths: tuple[Path, ...]
    removed: int = 0
    ended: Ended | None = None
    running: bool = False
    faults: tuple[str, ...] = ()


class RunList(NamedTuple):
    """The runs below a folder, sorted by node and start time, and the errors of files that are not readable."""

    runs: tuple[Run, ...]
    unreadable: tuple[str, ...]


class _Version(msgspec.Struct):
    """The schema version and the code version in the header of a trace."""

    schema_version: int
    code_version: str = "unknown"


# ------------------------------------------------------------------------------------------------ finding


def find_runs(folder: Path) -> RunList:
    """Return the runs below a folder. Raises NotATrace if the folder does not exist."""
    if not folder.is_dir():
        raise NotATrace(f"{folder}: no such folder" if not folder.exists() else f"{folder} is a file, not a folder")
    runs: list[Run] = []
    unreadable: list[str] = []
    for (parent, _), named in sorted(_by_run(folder, unreadable).items()):
        try:
            runs.append(_find_run(parent, named))
        except TraceError as error:
            unreadable.append(str(error))
        except OSError as error:
            unreadable.append(_access_error(error))
    runs.sort(key=lambda run: (run.header.node, run.header.started_ms, run.header.run))
    return RunList(tuple(_without_twin(run, runs) for run in runs), tuple(unreadable))


_Named = dict[int | None, Path]
"""Files of a run: segments by number, the manifest under None."""


def _by_run(folder: Path, unreadable: list[str]) -> dict[tuple[Path, str], _Named]:
    runs: dict[tuple[Path, str], _Named] = {}
    for parent, _, names in os.walk(folder, onerror=lambda error: unreadable.append(_access_error(error))):
        for name in names:
            parsed = files.parse_name(name)
            if parsed is not None:
                runs.setdefault((Path(parent), parsed.run), {})[parsed.segment] = Path(parent) / name
            elif name.endswith(files.SUFFIX):
                unreadable.append(f"{Path(parent) / name}: it is not named like a segment of a trace")
    return runs


def _access_error(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}"


def _without_twin(run: Run, runs: list[Run]) -> Run:
    """Return the run, with an additional fault if `runs` contains it more than once."""
    places = [str(other.folder) for other in runs if other.header.run == run.header.run]
    if len(places) == 1:
        return run
    return attrs.evolve(run, faults=(*run.faults, f"the run is there {len(places)} times: in {', '.join(places)}"))


def _find_run(folder: Path, named: _Named) -> Run:
    """Return the run whose files are in `named`.

    Raises TraceError if no header can be read, or if the header has an unsupported schema version.
    """
    segments = {number: path for number, path in named.items() if number is not None}
    manifest = named.get(None)
    if manifest is None:
        first = segments[min(segments)]
        header, _ = read_header(first)
        faults = (f"{folder / files.manifest_name(header.run)}: the manifest is missing",)
        return Run(header, folder, tuple(path for _, path in sorted(segments.items())), faults=faults)
    running = files.is_held(manifest)
    recorded = _Manifest(manifest)
    return recorded.run(segments, running)


def read_header(path: Path) -> tuple[Header, bytes]:
    """Return the header of a trace file and the digest of its frame. Raises NotATrace, UnsupportedSchema, OSError."""
    with path.open("rb") as stream:
        return _read_header(stream, path)


def _read_header(stream: BinaryIO, path: Path) -> tuple[Header, bytes]:
    framed = is_framed(stream.read(4))
    stream.seek(0)
    digest = b""
    try:
        if framed:
            first = next(read_frames(stream, path))
            content, digest = first.content, first.digest
            if first.kind != HEADER:
                raise NotATrace(f"{path} does not start with a trace header")
        else:  # before schema version 2 the files were plain zstd
            content = stream.read()
        text = decompress(content)
    except (StopIteration, ValueError, Damaged) as error:
        raise NotATrace(f"{path} has no readable trace header") from error
    try:
        version, code_version = msgspec.structs.astuple(msgspec.json.decode(text, type=_Version))
        if version not in READABLE:
            raise UnsupportedSchema(
                f"{path} was written with schema version {version}, and this is version {SCHEMA_VERSION}: "
                f"it takes the code that wrote it, {code_version}"
            )
        header = msgspec.json.decode(text, type=Header)
        if header.detail not in DETAILS:
            raise UnsupportedSchema(
                f"{path} holds records of the detail {header.detail!r}, which this version does not know"
            )
        return header, digest
    except msgspec.MsgspecError as error:
        raise NotATrace(f"{path} has no valid trace header: {error}") from error


class _Manifest:
    """The content of a manifest, which is compared with the segment files of its run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.faults: list[str] = []
        self.opened: list[str] = []
        self.removed = 0
        self.ended: Ended | None = None
        self.header, _ = read_header(path)
        try:
            self._read()
        except Damaged as damage:
            self.faults.append(str(damage))

    def _read(self) -> None:
        with self.path.open("rb") as stream:
            frames = check_chain(read_frames(stream, self.path), self.path, START)
            try:
                next(frames)
                for frame in frames:
                    if not self._agrees(frame):
                        raise Damaged(self.path, frame.offset, "no entry of a manifest that could stand here")
            except Torn:
                if self.ended is not None:
                    raise

    def _agrees(self, frame: Frame) -> bool:
        """Store the entry that a frame contains, and return whether it may follow the earlier entries."""
        if frame.kind != ENTRY or self.ended is not None:
            return False
        try:
            entry = msgspec.json.decode(decompress(frame.content), type=Opened | Removed | Ended)
        except (ValueError, msgspec.MsgspecError):
            return False
        match entry:
            case Opened(segment, digest):
                self.opened.append(digest)
                return segment == len(self.opened) - 1
            case Removed(segment):
                self.removed += 1
                return segment == self.removed - 1 and self.removed < len(self.opened)
            case _:
                self.ended = entry
                return entry.reason in REASONS

    def run(self, segments: dict[int, Path], running: bool) -> Run:
        """Return the run with the segments that exist."""
        header, faults = self.header, self.faults
        if not faults:
            if self.path.name != files.manifest_name(header.run) or header.segment != 0:
                faults.append(f"{self.path} is the manifest of {header.run}: it has been renamed")
            count = len(self.opened)
            for number in range(self.removed, count):
                path = self.path.parent / files.segment_name(header.run, number)
                if path.exists():  # the file may have been created after the folder was listed
                    segments[number] = path
                else:
                    faults.append(f"{path} is missing")
            for number, path in sorted(segments.items()):
                if number >= count + (self.ended is None):
                    faults.append(f"{path}: the manifest knows no segment {number}")
                elif number >= self.removed:
                    faults += self._check_segment(number, path)
        kept = tuple(path for number, path in sorted(segments.items()) if number >= self.removed)
        ended = self.ended
        if ended is None and kept and not running and not faults:
            ended = _recorded_end(kept[-1])
        return Run(header, self.path.parent, kept, self.removed, ended, running, tuple(faults))

    def _check_segment(self, number: int, path: Path) -> Iterator[str]:
        try:
            header, digest = read_header(path)
        except TraceError as error:
            yield str(error)
            return
        except OSError as error:
            yield _access_error(error)
            return
        if header != msgspec.structs.replace(self.header, segment=number):
            yield f"{path} holds segment {header.segment} of {header.run}, or another header than the manifest"
        elif number < len(self.opened) and digest.hex() != self.opened[number]:
            yield f"{path} is not the segment {number} that the manifest names"


def _recorded_end(path: Path) -> Ended | None:
    """Return the end record of a run's last segment file; None if the last frame is not an end record (rule 5)."""
    try:
        with path.open("rb") as stream:
            frame = last_frame(stream, path)
        if frame is None or (frame.kind, frame.records) != (RECORDS, 1):
            return None
        (record,) = (each for batch in _batches(path, frame) if not isinstance(batch, bytes) for each in batch)
    except (TraceError, OSError, ValueError):
        return None  # the error is reported when the records are read
    count = bytes(record.payload)
    if record.kind != ENDED or record.type not in REASONS or not count.isdigit():
        return None
    return Ended(record.type, int(count), frame.digest.hex())


# ------------------------------------------------------------------------------------------------ reading


class RunRecords:
    """An iterator over the records of a run, in order; it can be used once.

    `end` is the last record of the run, or None if the run was interrupted.

    Args:
        after: The number of a delivery: only the records that follow this delivery are yielded. A record that is not a
            delivery has the number of the delivery that it follows, so it is yielded even if its number is `after`.

    Raises:
        Damaged: During the iteration: the files are damaged.
        OSError: During the iteration: a file cannot be read.
    """

    def __init__(self, run: Run, after: int | None = None) -> None:
        self._run = run
        self._after = after
        self.end: TraceRecord | None = None

    def frames(self) -> Iterator[tuple[Path, Frame]]:
        """Yield (file, frame) for each frame that is not a header."""
        run, previous, path, end = self._run, START, Path(), 0
        for place, path in enumerate(run.paths):
            last = place == len(run.paths) - 1
            with path.open("rb") as stream:
                frames = read_frames(stream, path)
                if place or not run.removed:
                    frames = check_chain(frames, path, previous)
                try:
                    for frame in frames:
                        if (frame.offset == 0) != (frame.kind == HEADER):
                            raise Damaged(path, frame.offset, "a header stands at the beginning, and nowhere else")
                        previous, end = frame.digest, frame.end
                        if frame.kind != HEADER:
                            yield path, frame
                except Torn:
                    if not last or run.ended is not None:
                        raise
        if run.ended is not None and run.ended.digest != previous.hex():
            raise Damaged(path, end, "this is not where the run ended: the manifest names another last frame")

    def __iter__(self) -> Iterator[TraceRecord]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[TraceRecord]]:
        """Yield the records in batches."""
        sequence = _Sequence(self._run)
        for path, frame in self.frames():
            if frame.kind != RECORDS:
                continue
            inside = self._after is not None and not sequence.read and frame.after < self._after
            if self._after is not None and inside and frame.after + frame.records <= self._after:
                sequence.pass_over(frame)
                continue
            if not sequence.read and (self._after is not None or self._run.removed):
                sequence.n = frame.after if self._after is None else self._after
            if frame.after != sequence.n and not inside:
                raise Damaged(path, frame.offset, f"a frame that follows delivery {frame.after}, not {sequence.n}")
            count = sequence.count
            for batch in _batches(path, frame):
                if isinstance(batch, bytes):
                    raise Damaged(path, frame.offset, f"a line after delivery {sequence.n} in this frame is no record")
                if inside and self._after is not None:
                    batch = sequence.drop(batch, self._after)
                place = 0
                while (place := sequence.deliveries(batch, place)) < len(batch):
                    wrong = sequence.follow(batch[place])
                    if wrong:
                        yield batch[:place]
                        raise Damaged(path, frame.offset, wrong)
                    place += 1
                yield batch
            if sequence.count - count != frame.records:
                raise Damaged(path, frame.offset, f"a frame of {frame.records} records holds {sequence.count - count}")
        self.end = sequence.end


def first_delivery(run: Run) -> int:
    """Return the delivery number after which the stored deliveries begin; 0 if all deliveries are stored.

    Raises:
        Damaged, OSError: A file of the run cannot be read.
    """
    if not run.removed:
        return run.header.begins
    return next((frame.after for _, frame in RunRecords(run).frames() if frame.kind == RECORDS), run.header.begins)


def snapshots(run: Run) -> tuple[Snapshot, ...]:
    """Return the complete snapshots in the run. Raises Damaged, OSError."""
    gathering = SnapshotCollector()
    for path, frame in RunRecords(run).frames():
        gathering.take(path, frame)
    return tuple(gathering.found)


class _Sequence:
    """The number that the next record of a run must have, and the earliest time that this record can have."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.n = run.header.begins
        self.count = 0
        self.read = False
        """Whether a record was read."""
        self.end: TraceRecord | None = None
        self._time = float("-inf")

    def pass_over(self, frame: Frame) -> None:
        """Count the records of a frame from its prefix, without reading its content."""
        self.count += frame.records

    def drop(self, records: list[TraceRecord], after: int) -> list[TraceRecord]:
        """Return the records that follow delivery `after`, and count the others as read."""
        left = [each for each in records if each.n > after or (each.n == after and each.kind not in DELIVERIES)]
        self.count += len(records) - len(left)
        return left

    def deliveries(self, records: list[TraceRecord], start: int) -> int:
        """Add the consecutive valid deliveries from index `start` on to the count; return the index after them."""
        n, time = self.n, self._time
        if self.end is None:
            for record in islice(records, start, None):
                taken, finished = record.taken_at, record.finished_at
                if record.n != n + 1 or (record.kind != SENT and record.kind not in DELIVERIES):
                    break
                if not time <= taken <= finished or record.queued_at > taken:
                    break
                n += 1
                time = finished
        taken_up = n - self.n
        if taken_up:
            self.read = True
            self.n, self._time = n, time
            self.count += taken_up
        return start + taken_up

    def follow(self, record: TraceRecord) -> str:
        """Check and count a record; return its error, or ""."""
        delivery = record.kind in DELIVERIES
        if not delivery and record.kind not in (CREATED, ENDED):
            return f"a record of no kind that there is: {record.kind!r}"
        self.read = True
        if self.end is not None:
            return f"a record follows the end of the run: {record.kind} {record.n}"
        if record.n != self.n + delivery:
            return f"delivery {self.n + 1} is missing: the next record is {record.kind} {record.n}"
        if not self._time <= record.taken_at <= record.finished_at or record.queued_at > record.taken_at:
            return f"time runs backwards at {record.kind} {record.n}"
        if record.kind == ENDED:
            self.end = record
            return self._no_end(record)
        self.n = record.n
        self.count += 1
        self._time = record.finished_at
        return ""

    def _no_end(self, record: TraceRecord) -> str:
        """Return why `record` is not a valid end record of the run; if it is valid, count it and return ""."""
        count, recorded = bytes(record.payload), self._run.ended
        if record.type not in REASONS or not count.isdigit() or record != _as_written(record, int(count)):
            return f"an end that is none: {record.type!r} after {count!r} records"
        if recorded is not None and (recorded.reason, recorded.records) != (record.type, int(count)):
            return f"an end that the manifest knows otherwise: {record.type!r} after {int(count)} records"
        if not self._run.removed and int(count) != self.count:
            return f"an end after {int(count)} records, where there are {self.count}"
        self.count += 1
        return ""


def _as_written(record: TraceRecord, count: int) -> TraceRecord:
    """Return the end record as a recorder would have written it.

    The returned record has the values of `record`, and `count` as the number of records.
    """
    return end_record(record.n, record.type, count, record.error, record.taken_at)


def _batches(path: Path, frame: Frame) -> Iterator[list[TraceRecord] | bytes]:
    """Call `text.batches` for a frame. Raises Damaged."""
    try:
        yield from batches(decompress(frame.content))
    except ValueError as error:
        raise Damaged(path, frame.offset, str(error)) from error


class Slice(NamedTuple):
    """A part of a trace's segment file that can be read separately: bytes `start` to `end`, which are whole frames."""

    header: Header
    path: Path
    start: int
    end: int


def slices(run: Run, most: int) -> Iterator[Slice]:
    """Yield all readable records of a run, in slices of about `most` bytes.

    The rest of a damaged segment is skipped; other segments are read. `survey` reports the damage.
    """
    for path in run.paths:
        yield from grown(path, most=most)


def grown(path: Path, start: int = 0, upto: int | None = None, most: int | None = None) -> Iterator[Slice]:
    """Yield the whole frames of a segment from byte `start` to `upto`, in slices of about `most` bytes.

    If `upto` or `most` is None, it sets no limit. The slices end before the first torn or damaged frame. A file that
    was removed, or whose header is unreadable, has no slices.

    Raises:
        OSError: The file cannot be read.
    """
    begin = end = start
    try:
        with path.open("rb") as stream:
            header, _ = _read_header(stream, path)
            stream.seek(begin)
            for frame in read_frames(stream, path):
                if upto is not None and begin + frame.end > upto:
                    break
                end = begin + frame.end
                if most is not None and end - start >= most:
                    yield Slice(header, path, start, end)
                    start = end
    except (TraceError, FileNotFoundError):
        pass
    if end > start:
        yield Slice(header, path, start, end)


def slice_lines(slice: Slice) -> Iterator[bytes]:
    """Yield the lines of a slice; each line that is not damaged is a record in JSON.

    Raises:
        OSError: The file cannot be read.
        TraceError: The file has changed since the slice was found.
    """
    for frame in _frames_of(slice):
        try:
            yield from record_lines(decompress(frame.content))
        except ValueError:
            return


def may_contain(slice: Slice, texts: Collection[bytes]) -> bool:
    """Return False if no record of a slice contains one of the texts. Records are not decoded. Raises as `slice_lines`.

    A text must lie within one entry of a tuple, because records share long tuples.
    """
    return any(content is None or any(each in content for each in texts) for content in slice_texts(slice))


def slice_texts(slice: Slice) -> Iterator[bytes | None]:
    """Yield the text of each frame of a slice, without decoding records. Raises as `slice_lines`.

    It is None if it is damaged, or if records share tuples in it, so that a line is not the whole text of a record.
    """
    for frame in _frames_of(slice):
        try:
            content = decompress(frame.content)
        except ValueError:
            yield None
        else:
            yield None if ROWS in content else content


def slice_records(slice: Slice) -> Iterator[TraceRecord]:
    """Yield the records of a slice, up to damage. Raises as `slice_lines`."""
    for frame in _frames_of(slice):
        for batch in _batches(slice.path, frame):
            if isinstance(batch, bytes):
                return
            yield from batch


def _frames_of(slice: Slice) -> Iterator[Frame]:
    """Yield the frames of a slice that have records."""
    with slice.path.open("rb") as stream:
        stream.seek(slice.start)
        part = io.BytesIO(stream.read(slice.end - slice.start))
    return (frame for frame in read_frames(part, slice.path) if frame.kind == RECORDS)


# ------------------------------------------------------------------------------------------------ judging


class RunCheck(NamedTuple):
    """How a run ended, and the errors in its files.

    The ending is one of REASONS, KILLED, RUNNING and DAMAGED.
    """

    ending: str
    faults: tuple[str, ...]


def ending(run: Run) -> str:
    """Return how an undamaged run ended: one of REASONS, KILLED or RUNNING."""
    if run.ended is not None:
        return run.ended.reason
    return RUNNING if run.running else KILLED


def survey(run: Run) -> RunCheck:
    """Check all of a run's frames, without decompressing them."""
    if run.faults:
        return RunCheck(DAMAGED, run.faults)
    try:
        for _ in RunRecords(run).frames():
            pass
    except Damaged as damage:
        return RunCheck(DAMAGED, (str(damage),))
    except OSError as error:
        return RunCheck(DAMAGED, (_access_error(error),))
    return RunCheck(ending(run), ())
