"""The log directories of log.dirs (broker.md 5.1).

The module checks the directories, finds the directory of each log, and chooses a directory for a new log.

Rule 1: a log directory belongs to one process (`.lock`), one broker and one cluster (`meta.properties`). Its
        subdirectories have the name `<topic>-<partition>` or the name of a renamed log. Any other subdirectory counts
        as another broker's data: the process refuses to start, as Apache's brokers do. A log directory that cannot be
        read from disk is offline, and the start continues. A `meta.properties` that is not text is damaged and is not
        overwritten. If the file is text, missing lines are added, and this is logged.
Rule 2: a log is in one directory. A new log is placed in the directory with the fewest logs.
Rule 3: while a directory is offline, no log is created for a partition that is not new and has no log in a live
        directory. The partition's log is possibly in the offline directory (broker.md 9.1 row 20).
Rule 4: a log is deleted by renaming it at once and removing it later. So its name is free at once, and the removals
        are spread over time. Renamed logs that a stopped process left are removed after the next start (broker.md 2.2).
Rule 5: while a log moves between directories, its copy has the name of a future log. After a start, the move begins
        again when the partition gets its role. A log in two directories, which a crash between the two renames of a
        move leaves, is refused, as Apache's brokers do.
Rule 6: a directory's checkpoint files have the recovery points, log start offsets and high watermarks of its logs. The
        log manager writes them (`log_manager`).
Rule 7: faults may be injected into a directory's disk. A full disk fails all writes that need space; a failing disk
        fails all operations. A slow disk blocks its node, because a node writes synchronously.
"""

from __future__ import annotations

import errno
import logging
import os
import os.path
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from actors.storage.log import Checkpoint
from actors.storage.log.checkpoint import DamagedCheckpoint
from messages.cluster import MAX_LOG_NAME

_log = logging.getLogger("kafka_actors.log")

LOCK_FILE = ".lock"
META_FILE = "meta.properties"
META_VERSION = "0"
MAX_PARTITION = 2**31 - 1

_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f\ufffd]")
"""Characters that no valid properties file has: control characters, and replacements of invalid UTF-8."""

_SEPARATOR = re.compile(r"\s*[=:]\s*|\s+")
_NAME = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]+)(?:\.[^\s.]+-(?P<renamed>delete|future|stray))?")


class Disk(Protocol):
    """The part of the disk adapter's interface that this module uses."""

    def make_directory(self, path: str, parents: bool) -> bool:
        """Create a directory; return whether it is new."""
        ...

    def list_directories(self, path: str) -> tuple[str, ...]:
        """Return the names of the directories in a directory."""
        ...

    def read_text(self, path: str) -> str | None:
        """Return the text of a file; None if it does not exist."""
        ...

    def write_text(self, path: str, text: str) -> None:
        """Replace a file."""
        ...

    def lock(self, path: str) -> bool:
        """Lock a file; return whether this process has the lock."""
        ...

    def unlock(self, path: str) -> None:
        """Release a lock."""
        ...


class LogDirectoryRefused(Exception):
    """A log directory cannot be used; the exception's message names the directory and the reason."""


def unlock_directories(disk: Disk, directories: Iterable[str]) -> None:
    """Release the locks that this process holds on the log directories."""
    for directory in directories:
        disk.unlock(f"{directory}/{LOCK_FILE}")


def log_name(topic: str, partition: int) -> str:
    """Return the name of a partition's log directory."""
    return f"{topic}-{partition}"


def deleted_name(name: str, unique: str) -> str:
    """Return the name of a deleted log or future log, `<topic>-<partition>.<unique>-delete`.

    The topic is cut to keep the name <= 255 characters.
    """
    topic, partition, _ = parse_name(name)
    suffix = f"-{partition}.{unique}-delete"
    return topic[: MAX_LOG_NAME - len(suffix)] + suffix


def deleted_path(path: str, unique: str) -> str:
    """Return the path of a log after its renaming: the last part is replaced as in `deleted_name`."""
    parent, name = os.path.split(path)
    return os.path.join(parent, deleted_name(name, unique))  # noqa: PTH118  (text in, text out: ports take text)


def rename_deleted(path: str, logs: Any, disk: Any, random: Any) -> str:
    """Close and rename a log (rule 4). Returns the new path, or "" if the log does not exist. Raises OSError."""
    deleted = deleted_path(path, random.uuid_hex())
    logs.close(path, True)
    return deleted if disk.rename(path, deleted) else ""


def parse_name(name: str) -> tuple[str, int, str]:
    """Return (topic, partition, "" | "delete" | "future" | "stray") of a directory's name.

    Raises:
        ValueError: The name is invalid.
    """
    match = _NAME.fullmatch(name)
    if match is None or int(match["partition"]) > MAX_PARTITION:
        raise ValueError(f"{name!r} does not have the form topic-partition")
    return match["topic"], int(match["partition"]), match["renamed"] or ""


def parse_properties(text: str) -> dict[str, str]:
    """Return the entries of a small properties file (no escapes, no continued lines)."""
    lines = (line.strip() for line in text.splitlines())
    entries = (_SEPARATOR.split(line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {name: "".join(value) for name, *value in entries}


class LogDirectories:
    """The log directories of a broker, and the directory of each log."""

    def __init__(self, directories: tuple[str, ...], broker_id: int, cluster_id: str) -> None:
        self._broker_id = broker_id
        self._cluster_id = cluster_id
        self._counts = dict.fromkeys(directories, 0)
        """Live directory -> number of its logs."""
        self.homes: dict[tuple[str, int], str] = {}
        """Partition -> directory of its log. Other modules only read it."""
        self.futures: dict[str, tuple[str, int]] = {}
        """Path -> partition of logs that move between directories (rule 5)."""
        self.preferred: dict[tuple[str, int], str] = {}
        """Partition without a log -> directory in which its log is to be created."""
        self.offline: list[str] = []

    @property
    def live(self) -> tuple[str, ...]:
        """The directories that are not offline."""
        return tuple(self._counts)

    # ------------------------------------------------------------------------------------------------ start, stop

    def load(self, disk: Disk) -> list[str]:
        """Lock every directory and find its logs. Unreadable directories are added to `offline`.

        Returns:
            The paths of the renamed logs that an earlier process did not remove (rule 4).

        Raises:
            LogDirectoryRefused: A directory violates rule 1. All directories are unlocked again.
        """
        leftovers: list[str] = []
        try:
            for directory in list(self._counts):
                try:
                    self._load_directory(disk, directory, leftovers)
                except OSError as error:
                    _log.error("Log directory %s is offline: %s", directory, error)
                    self.fail(directory)
        except LogDirectoryRefused:
            self.unlock(disk)
            raise
        return leftovers

    def _load_directory(self, disk: Disk, directory: str, leftovers: list[str]) -> None:
        disk.make_directory(directory, True)
        if not disk.lock(f"{directory}/{LOCK_FILE}"):
            raise LogDirectoryRefused(
                f"log directory {directory} is in use by another broker, which locked {LOCK_FILE} in it"
            )
        self._check_meta(disk, directory)
        for name in disk.list_directories(directory):
            try:
                topic, partition, renamed = parse_name(name)
            except ValueError as error:
                raise LogDirectoryRefused(
                    f"log directory {directory} contains a folder that is not a log: {error}. Move it elsewhere."
                ) from None
            if renamed == "delete":
                leftovers.append(f"{directory}/{name}")
            elif renamed == "future":
                self.futures[f"{directory}/{name}"] = topic, partition
            elif not renamed:
                elsewhere = self.homes.get((topic, partition))
                if elsewhere is not None:
                    raise LogDirectoryRefused(
                        f"{name} exists in two log directories: {elsewhere} and {directory}. Move one elsewhere."
                    )
                self._assign((topic, partition), directory)

    def _check_meta(self, disk: Disk, directory: str) -> None:
        """Refuse another broker's or cluster's directory. Complete a missing or incomplete meta.properties."""
        path = f"{directory}/{META_FILE}"
        text = disk.read_text(path) or ""
        meta = parse_properties(text)
        if any(_NO_TEXT.search(name + value) for name, value in meta.items()):
            raise LogDirectoryRefused(
                f"{path} is damaged: it is not text. If {directory} belongs to broker {self._broker_id} of cluster"
                f" {self._cluster_id}, remove that file and start the broker again"
            )
        signature = {"version": META_VERSION, "broker.id": str(self._broker_id), "cluster.id": self._cluster_id}
        for name, value in signature.items():
            found = meta.get(name, value)
            if found != value:
                raise LogDirectoryRefused(
                    f"{path} has {name}={found}, but this broker has {name}={value}. Check log.dirs and broker.id"
                )
        if not meta.keys() >= signature.keys():
            if text:
                absent = sorted(signature.keys() - meta.keys())
                _log.warning("%s has no %s: adding %s", path, ", ".join(absent), "it" if len(absent) == 1 else "them")
            lines = (f"{name}={value}\n" for name, value in {**meta, **signature}.items())
            disk.write_text(path, "#\n" + "".join(lines))

    def unlock(self, disk: Disk) -> None:
        """Unlock every directory."""
        unlock_directories(disk, (*self._counts, *self.offline))

    # ------------------------------------------------------------------------------------------------ logs

    def __len__(self) -> int:
        """Return the number of logs."""
        return len(self.homes)

    def paths(self) -> Iterator[tuple[str, tuple[str, int], bool]]:
        """Yield (path, partition, whether it is a future log) of every log."""
        yield from ((f"{home}/{log_name(*partition)}", partition, False) for partition, home in self.homes.items())
        yield from ((path, partition, True) for path, partition in self.futures.items())

    def find(self, partition: tuple[str, int]) -> str | None:
        """Return the path of the partition's log; None if the partition has no log."""
        directory = self.homes.get(partition)
        return None if directory is None else f"{directory}/{log_name(*partition)}"

    def place(self, partition: tuple[str, int], is_new: bool) -> str | None:
        """Choose a directory for a partition without a log (rules 2 and 3), and register the log there.

        Returns:
            The log's path; None if no directory may be used.
        """
        if not self._counts or (self.offline and not is_new):
            return None
        wanted = self.preferred.pop(partition, "")
        directory = (
            wanted
            if wanted in self._counts
            else min(self._counts, key=self._counts.__getitem__)
            if len(self._counts) > 1
            else next(iter(self._counts))
        )
        self._assign(partition, directory)
        topic, number = partition
        return f"{directory}/{log_name(topic, number)}"

    def forget(self, partition: tuple[str, int]) -> None:
        """Unregister a log that was deleted or never created."""
        directory = self.homes.pop(partition, None)
        if directory in self._counts:
            self._counts[directory] -= 1

    def future_of(self, partition: tuple[str, int]) -> str:
        """Return the path of the partition's future log; "" without one."""
        return next((path for path, of in self.futures.items() if of == partition), "")

    def register_move(self, partition: tuple[str, int], directory: str) -> None:
        """Register that the partition's future log in `directory` has become its log."""
        self.forget(partition)
        self.futures = {path: of for path, of in self.futures.items() if of != partition}
        if directory in self._counts:
            self._assign(partition, directory)

    def fail(self, directory: str) -> list[tuple[str, int]]:
        """Take a directory offline. Return the partitions whose logs were in it."""
        if self._counts.pop(directory, None) is None:
            return []
        self.offline.append(directory)
        self.futures = {path: of for path, of in self.futures.items() if os.path.dirname(path) != directory}  # noqa: PTH120
        lost = [partition for partition, home in self.homes.items() if home == directory]
        for partition in lost:
            del self.homes[partition]
        return lost

    def _assign(self, partition: tuple[str, int], directory: str) -> None:
        self.homes[partition] = directory
        self._counts[directory] += 1


FULL = "full"
FAILING = "failing"
SLOW = "slow"

_WRITES = frozenset(
    "append clean append_as_coordinator append_marker replicate make_directory write_text open begin_copy swap".split()
)
"""The calls of both adapters that need disk space."""

_MEMORY = frozenset("configure lose note_high_watermark producers unlock".split())
"""The calls that do not access a disk."""

_ERRNO = {FULL: errno.ENOSPC, FAILING: errno.EIO}


class DiskFaults:
    """The disk faults of one node, which has one disk per log directory. They remain in effect when the node restarts.

    For a slow disk, `hold_up` is called with the seconds that the node waits.
    """

    def __init__(self, names: tuple[str, ...], hold_up: Callable[[float], None]) -> None:
        self.names = names
        self.faults: dict[str, str] = {}
        """Directory -> FULL or FAILING."""
        self.delays: dict[str, float] = {}
        """Directory -> seconds that each write takes."""
        self.read_delays: dict[str, float] = {}
        """Directory -> seconds that each read of a log takes."""
        self._hold_up = hold_up

    def on_fault(self, fault: str) -> None:
        """Called after FULL, FAILING or SLOW was injected into an operation. Subclasses override it."""

    def check(self, method: str, args: tuple[Any, ...]) -> None:
        """Inject the disk faults that affect a call, before the call is made.

        Raises:
            OSError: The disk of the call is failing, or it is full and the call needs space.
        """
        if (self.faults or self.delays or self.read_delays) and method not in _MEMORY:
            for arg in args:
                if isinstance(arg, str):
                    self._check(method, self._directory_of(arg))

    def _directory_of(self, path: str) -> str:
        """Return the log directory that contains a path; "" if none does."""
        return next((name for name in self.names if path == name or path.startswith(f"{name}/")), "")

    def _check(self, method: str, directory: str) -> None:
        fault = self.faults.get(directory, "")
        if fault == FAILING or (fault == FULL and method in _WRITES):
            self.on_fault(fault)
            raise OSError(_ERRNO[fault], os.strerror(_ERRNO[fault]))
        seconds = 0.0
        if method in _WRITES:
            seconds = self.delays.get(directory, 0.0)
        elif method in ("read", "read_committed"):
            seconds = self.read_delays.get(directory, 0.0)
        if seconds:
            self.on_fault(SLOW)
            self._hold_up(seconds)


class FaultyAdapter:
    """An I/O adapter of a node; its calls fail or wait according to the faults of the node's disks."""

    def __init__(self, adapter: object, disks: DiskFaults) -> None:
        self._adapter = adapter
        self._disks = disks

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = getattr(self._adapter, method)

        def check_and_call(*args: object) -> Any:
            self._disks.check(method, args)
            return call(*args)

        return check_and_call


log = logging.getLogger("kafka.log.LogManager")

CLEAN_MARKER = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

Partition = tuple[str, int]


class CheckpointFile:
    """A checkpoint file of a log directory; `write` writes it if an offset has changed since the last call.

    The lines of the file are cached: formatting those of 100,000 logs takes a tenth of a second.
    """

    def __init__(self, directory: str, name: str) -> None:
        self._file = Checkpoint(f"{directory}/{name}", 1, 2)
        self._changed = False
        try:
            entries = self._file.read()
        except DamagedCheckpoint as damage:
            if Path(self._file.path).stat().st_size:  # Apache's brokers create this file empty
                log.warning("%s: ignoring the file", damage)
            entries = []
        self._offsets = {(str(topic), int(partition)): int(offset) for topic, partition, offset in entries}
        self._lines = {partition: self._file.line((*partition, at)) for partition, at in self._offsets.items()}
        self._stale: dict[Partition, None] = {}
        """Partitions whose cached lines are outdated."""
        self.lists_forgotten = False
        """Whether the file still has lines of forgotten partitions."""

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._offsets)

    def get(self, partition: Partition) -> int:
        """Return the offset of a log; 0 if the file has none."""
        return self._offsets.get(partition, 0)

    def set(self, partition: Partition, offset: int) -> None:
        """Set the offset of a log."""
        known = self._offsets.get(partition)
        if known != offset:
            self._offsets[partition] = offset
            self._changed = True
            if known is None:
                self._lines[partition] = self._file.line((*partition, offset))
            else:
                self._stale[partition] = None

    def forget(self, partition: Partition) -> None:
        """Remove the line of a log."""
        if self._offsets.pop(partition, None) is not None:
            self._stale[partition] = None
            self._changed = self.lists_forgotten = True

    def write(self, durable: bool = False) -> None:
        """Write the file if its entries have changed or `durable` is set.

        A file that is not durable survives a kill of the process, but after a crash of the machine it is treated as
        missing.
        """
        if self._changed or durable:
            offsets, lines = self._offsets, self._lines
            for partition in self._stale:
                if partition in offsets:
                    lines[partition] = self._file.line((*partition, offsets[partition]))
                else:
                    lines.pop(partition, None)
            self._stale.clear()
            self._file.write_lines(lines.values(), durable)
            self._changed = self.lists_forgotten = False


class DirectoryCheckpoints:
    """The checkpoint files of a log directory, and whether the broker last shut down cleanly."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.clean = False
        """Whether the last shutdown was clean; set by `take_over`."""
        self._taken_over = False
        self.recovery_points = CheckpointFile(path, RECOVERY_POINTS)
        self.log_starts = CheckpointFile(path, LOG_STARTS)
        self.high_watermarks = CheckpointFile(path, HIGH_WATERMARKS)
        self.cleaned = CheckpointFile(path, CLEANED_OFFSETS)
        """The first offset of each compacted log that is not cleaned yet."""
        self.points = self.recovery_points, self.log_starts, self.high_watermarks
        self._files = *self.points, self.cleaned
        listed = set().union(*self._files)
        folders = {entry.name for entry in Path(path).iterdir()} if listed else set()
        for partition in listed:
            if log_name(*partition) not in folders:
                self.forget(partition)

    def take_over(self) -> None:
        """Remove the clean shutdown marker before a log is first read or written (`log_manager`, rule 3)."""
        if not self._taken_over:
            self._taken_over = True
            marker = Path(self.path, CLEAN_MARKER)
            self.clean = marker.exists()
            marker.unlink(missing_ok=True)

    def forget(self, partition: Partition) -> None:
        """Remove the log from the checkpoints. The files are written later."""
        for points in self._files:
            points.forget(partition)

    def write_forgotten(self) -> None:
        """Write the checkpoint files that still have lines of forgotten logs (`log_manager`, rule 7)."""
        for points in self._files:
            if points.lists_forgotten:
                points.write()
