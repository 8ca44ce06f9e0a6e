"""Read and write Kafka's checkpoint files: a version, the number of entries, and a line for each entry (broker.md 5.1).

A temporary file is written and renamed over the old one. So a crash leaves the old or the new file, never a partial
file. Reading an invalid file raises DamagedCheckpoint, whose message names the line.

Kafka: `CheckpointFile`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable
from pathlib import Path

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
