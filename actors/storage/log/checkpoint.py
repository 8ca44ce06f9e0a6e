"""Read and write Kafka's checkpoint files: a version, the number of entries, and a line for each entry (broker.md 5.1).

A temporary file is written and renamed over the old one. So a crash leaves the old or the new file, never a partial
file. Reading an invalid file raises DamagedCheckpoint, whose message names the line.

The leader epochs of a log with their start offsets, which a follower needs to truncate its log, are such a file
(broker.md 4.6):

Rule 1: epochs and start offsets only increase. Assigning an epoch removes the entries that have a later epoch, and the
        entries that have the same or a later start offset.
Rule 2: an epoch is written to the file before its first record is appended. Other changes are not saved at once;
        entries that are missing after a crash are rebuilt from the batches, which contain their epochs.

Kafka: `CheckpointFile`, `LeaderEpochFileCache`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

from actors.storage.log.handles import opening

VERSION = 0


class DamagedCheckpoint(ValueError):
    """A checkpoint file is invalid; the exception's message names the file and the line."""


class Checkpoint:
    """A checkpoint file. Each entry has `names` text columns and `numbers` integer columns."""

    def __init__(self, path: str, names: int, numbers: int) -> None:
        self.path = path
        self._names = names
        self._width = names + numbers

    def read(self) -> list[tuple[str | int, ...]]:
        """Return the entries. The list is empty if the file does not exist. Raises DamagedCheckpoint, OSError."""
        try:
            text = opening(Path(self.path).read_bytes).decode(errors="replace")
        except FileNotFoundError:
            return []
        lines = text.splitlines()
        if len(lines) < 2 or lines[0].strip() != str(VERSION):
            raise DamagedCheckpoint(f"{self.path}: line 1 should be {VERSION}, the version")
        entries = [self._entry(number, line) for number, line in enumerate(lines[2:], 3) if line.strip()]
        if lines[1].strip() != str(len(entries)):
            raise DamagedCheckpoint(f"{self.path}: line 2 says {lines[1].strip()} entries, there are {len(entries)}")
        return entries

    def write(self, entries: Iterable[tuple[str | int, ...]], durable: bool = True) -> None:
        """Replace the file. Raises OSError."""
        self.write_lines([self.line(entry) for entry in entries], durable)

    def write_lines(self, lines: Collection[str], durable: bool = True) -> None:
        """Replace the entries in the file with these lines, one per entry. Raises OSError."""
        replace_file(self.path, f"{VERSION}\n{len(lines)}\n{''.join(lines)}".encode(), durable)

    @staticmethod
    def line(entry: tuple[str | int, ...]) -> str:
        """Return the line of an entry."""
        return f"{' '.join(map(str, entry))}\n"

    def _entry(self, number: int, line: str) -> tuple[str | int, ...]:
        parts = line.split()
        try:
            if len(parts) != self._width:
                raise ValueError
            return (*parts[: self._names], *(int(part) for part in parts[self._names :]))
        except ValueError:
            raise DamagedCheckpoint(f"{self.path}: line {number} is no entry: {line!r}") from None


def replace_file(path: str, data: bytes, durable: bool = True) -> None:
    """Replace a small file. A kill of the process leaves the old or the new file, never a partial file.

    If `durable`, this also holds for a crash of the machine. A link at the temporary path is never followed. Raises
    OSError.
    """
    draft = f"{path}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = opening(lambda: os.open(draft, flags, 0o644))
    except FileExistsError:  # left by a killed process
        Path(draft).unlink()
        descriptor = opening(lambda: os.open(draft, flags, 0o644))
    try:
        if os.write(descriptor, data) != len(data):  # the disk is full: the old file stays
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(draft, path)  # noqa: PTH105  (once per led partition with records at a failover: Path costs as much)


FILE = "leader-epoch-checkpoint"
UNDEFINED = -1


class EpochStart(NamedTuple):
    """A leader epoch, and the first offset that its leader wrote."""

    epoch: int
    start: int


class LeaderEpochs:
    """The leader epochs of a log, stored in the log's folder (Kafka's LeaderEpochFileCache)."""

    __slots__ = ("_entries", "_saved", "folder")

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._entries: list[EpochStart] = []
        self._saved: list[EpochStart] = []

    @property
    def _file(self) -> Checkpoint:
        return Checkpoint(f"{self.folder}/{FILE}", 0, 2)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        """All epochs, oldest first."""
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """The newest epoch; -1 without one."""
        return self._entries[-1].epoch if self._entries else UNDEFINED

    def load(self) -> None:
        """Read the file. Raises DamagedCheckpoint, OSError."""
        self._entries = [EpochStart(int(epoch), int(start)) for epoch, start in self._file.read()]
        self._saved = self._entries

    def save(self) -> None:
        """Write the file if the epochs changed. Raises OSError."""
        if self._saved is not self._entries:
            self._file.write(self._entries, durable=False)
            self._saved = self._entries

    def assign(self, epoch: int, start: int) -> None:
        """Assign `epoch` to the records from `start` on. Raises ValueError for a negative epoch."""
        if epoch < 0:
            raise ValueError(f"leader epoch {epoch} is negative")
        last = self._entries[-1] if self._entries else None
        if last is None or epoch != last.epoch or start < last.start:
            kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start < start]
            self._replace([*kept, EpochStart(epoch, start)])

    def truncate_from_end(self, offset: int) -> None:
        """Remove the epochs that start at `offset` or later."""
        self._replace([entry for entry in self._entries if entry.start < offset])

    def truncate_from_start(self, offset: int) -> None:
        """Remove the epochs that end before `offset`. The epoch of the first record then starts at `offset`."""
        earlier = [entry for entry in self._entries if entry.start <= offset]
        if earlier:
            kept = [entry for entry in self._entries if entry.start > offset]
            self._replace([EpochStart(earlier[-1].epoch, offset), *kept])

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """Return the largest epoch up to `epoch`, and the offset where the next epoch starts; (-1, -1) if unknown."""
        if epoch == UNDEFINED or not self._entries or epoch > self.latest:
            return EpochStart(UNDEFINED, UNDEFINED)
        if epoch == self.latest:
            return EpochStart(epoch, log_end_offset)
        later = next(entry for entry in self._entries if entry.epoch > epoch)
        earlier = [entry.epoch for entry in self._entries if entry.epoch <= epoch]
        return EpochStart(earlier[-1] if earlier else epoch, later.start)

    def _replace(self, entries: list[EpochStart]) -> None:
        if entries != self._entries:
            self._entries = entries
