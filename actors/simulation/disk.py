"""The simulated disks of a node: real files below the simulation's folder, and injected disk faults.

Rule 1: a node sees "/data-0/..."; the files are in `<root>/data-0/...`, so that traces do not depend on the folder.
Rule 2: a power failure loses unflushed data: a random part at the end of each log, and half of the files of leader
        epochs. A log directory with a clean shutdown marker has none. A killed process loses nothing, because its
        writes are in the page cache.
Rule 3: while a node is down, a bit of a committed batch can flip. The bit is one that the broker can notice at its next
        start: after a clean shutdown it is in the length of the log's last batch, otherwise in any field that the
        checksum covers, in the checksum, the format or the length. It is in the log's last segment, because earlier
        ones are not recovered.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.storage.disk import DiskAdapter
from actors.storage.log.checkpoint import FILE as EPOCHS
from actors.storage.log.checkpoint import Checkpoint
from actors.storage.log.index import read_entries
from actors.storage.log_directories import (
    CLEAN_MARKER,
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    SLOW,
    DiskFaults,
    FaultyAdapter,
    log_name,
    unlock_directories,
)
from actors.storage.log_manager import LogManager
from messages.records import BatchHeader
from messages.wire import MalformedFrame
from messages.wire.record_batch import STAMP, whole_batches

_MEMORY, _LEAST_FREE = Path("/dev/shm"), 1 << 30

_BASE_OFFSET, _LENGTH_END = 8, 12
"""The length of a batch is in these bytes. The base offset before it, and the epoch after it, have no checksum."""


def scratch_folder() -> str:
    """Return where temporary files go: memory, if a gigabyte is free and TMPDIR names no other folder.

    Opening and flushing files on a disk was 40 % of the CPU of a simulation with records.
    """
    usual = tempfile.gettempdir()
    if usual != "/tmp" or not os.access(_MEMORY, os.W_OK) or shutil.disk_usage(_MEMORY).free < _LEAST_FREE:
        return usual
    return str(_MEMORY)


class Disks(DiskFaults):
    """The disks of one simulated node, one for each log directory; they keep their files when the node's process ends.

    `wall_ms` returns the time in ms. `hold_up` is called with the seconds for which a slow disk blocks its node.
    """

    def __init__(self, root: Path, count: int, wall_ms: Callable[[], int], hold_up: Callable[[float], None]) -> None:
        super().__init__(tuple(f"/data-{number}" for number in range(count)), hold_up)
        self.hurt = False
        """Whether the process may treat a disk as failed; it notices a repair only after a restart."""
        self._disk = DiskAdapter()
        self._logs: LogManager | None = None
        self._root = root
        self._wall_ms = wall_ms
        root.mkdir(parents=True, exist_ok=True)

    def ports(self, keeps_topic_ids: bool = False) -> dict[str, Any]:
        """Return the I/O adapters "disk" and "logs" of a new process."""
        self._logs = LogManager(self._wall_ms, dates_files=True, keeps_topic_ids=keeps_topic_ids)
        adapters = {"disk": self._disk, "logs": self._logs}
        return {name: FaultyAdapter(_PathAdapter(self, adapter), self) for name, adapter in adapters.items()}

    def path(self, name: str) -> str:
        """Return the real path of a path that the node sees."""
        return f"{self._root}{name}"

    def name(self, path: str) -> str:
        """Return the path that the node sees for a real path."""
        return path.removeprefix(str(self._root))

    def on_fault(self, fault: str) -> None:
        """Set `hurt` if the fault is not SLOW: from now on the process may treat the disk as failed."""
        self.hurt = self.hurt or fault != SLOW

    def logs(self) -> list[str]:
        """Return the names of the logs' directories on all disks."""
        return [log for disk in range(len(self.names)) for log in self.logs_on(disk)]

    def logs_on(self, disk: int) -> list[str]:
        """Return the names of the logs' directories on one disk."""
        place = Path(self.path(self.names[disk]))
        return [log.name for log in sorted(place.iterdir()) if log.is_dir()] if place.is_dir() else []

    def has_log(self, log: str) -> bool:
        """Return whether a disk has a log's directory."""
        return any(Path(self.path(f"{name}/{log}")).is_dir() for name in self.names)

    def size_of(self, folder: str) -> int:
        """Return the number of bytes in the log files of a folder, as the node sees its path."""
        return sum(segment.stat().st_size for segment in Path(self.path(folder)).glob("*.log"))

    def start_of_latest_epoch(self, path: str) -> int:
        """Return where an open log's latest leader epoch begins; -1 if the log has no earlier one."""
        assert self._logs is not None
        real = self.path(path)
        return self._logs.epoch_end(real, self._logs.latest_epoch(real) - 1)[1]

    def epochs_of(self, path: str) -> list[tuple[int, int]]:
        """Return the leader epochs in a log's file, each with its start offset."""
        return [(int(epoch), int(start)) for epoch, start in Checkpoint(f"{self.path(path)}/{EPOCHS}", 0, 2).read()]

    def end_of_epoch(self, path: str, epoch: int) -> tuple[int, int]:
        """Return what an open log answers to a follower: the largest epoch up to `epoch`, and where the next begins."""
        assert self._logs is not None
        return self._logs.epoch_end(self.path(path), epoch)

    def producers_of(self, path: str) -> dict[int, tuple[int, int, int]]:
        """Return what an open log knows of its producers.

        By producer id: the epoch, the last sequence number, and the coordinator epoch of the last marker.
        """
        assert self._logs is not None
        return {row[0]: (row[1], row[2], row[4]) for row in self._logs.producers(self.path(path))}

    def last_snapshot(self, path: str) -> int:
        """Return the offset of a log's last producer snapshot; -1 if there is none."""
        return max((int(file.stem) for file in Path(self.path(path)).glob("*.snapshot")), default=-1)

    def last_aborted(self, path: str) -> int:
        """Return the last offset of an aborted transaction in a log's indexes; -1 if there is none."""
        files = Path(self.path(path)).glob("*.txnindex")
        return max((each.last_offset for file in files for each in read_entries(file.read_bytes())), default=-1)

    def records_of(self, log: str, first: int = 0, end: int | None = None) -> bytes:
        """Return the bytes of a log from the batch with offset `first` on, to its log end offset `end`.

        Without `end`, also the unreadable bytes at the log's end, which stay there until the next write.
        """
        data = b"".join(
            segment.read_bytes()
            for name in self.names
            for segment in sorted(Path(self.path(f"{name}/{log}")).glob("*.log"))
        )
        start, stop = len(data), 0
        with contextlib.suppress(MalformedFrame):  # unreadable bytes
            for at, header in whole_batches(data):
                if end is not None and header.base_offset >= end:
                    break
                if header.last_offset >= first:
                    start = min(start, at)
                stop = at + header.size
        return data[start if first else 0 : len(data) if end is None else stop]

    def release(self) -> None:
        """Release the open files and locks of a process that has ended."""
        if self._logs is not None:
            self._logs.abandon()
        unlock_directories(self._disk, map(self.path, self.names))

    def tear(self, chance: random.Random) -> None:
        """Lose a random part of the unflushed end of each log, as a power failure does (rule 2)."""
        for name in self.names:
            directory = Path(self.path(name))
            if directory.is_dir() and not (directory / CLEAN_MARKER).exists():
                (directory / RECOVERY_POINTS).unlink(missing_ok=True)
                for log in sorted(path for path in directory.iterdir() if path.is_dir()):
                    segments = sorted(log.glob("*.log"))
                    if segments:
                        size = segments[-1].stat().st_size
                        os.truncate(segments[-1], left := chance.randint(0, size))
                        if left % 2:
                            continue
                    (log / EPOCHS).unlink(missing_ok=True)

    def flip(self, chance: random.Random) -> str | None:
        """Flip a bit of a committed batch (rule 3); return the name of the log, or None if there is no such batch."""
        found: list[tuple[Path, int, BatchHeader]] = []
        for home in (Path(self.path(name)) for name in self.names):
            for topic, number, offset in Checkpoint(f"{home}/{HIGH_WATERMARKS}", 1, 2).read() if home.is_dir() else ():
                segments, batches = sorted((home / log_name(str(topic), int(number))).glob("*.log")), []
                with contextlib.suppress(MalformedFrame):  # the log is already damaged
                    batches = list(whole_batches(segments[-1].read_bytes())) if segments else []
                if (home / CLEAN_MARKER).exists():
                    batches = [(position, header._replace(length=0)) for position, header in batches[-1:]]
                found += [(segments[-1], *each) for each in batches if each[1].next_offset <= int(offset)]
        if not found:
            return None
        file, position, header = chance.choice(found)
        data = bytearray(file.read_bytes())
        places = [at for at in range(_BASE_OFFSET, header.size) if not _LENGTH_END <= at < STAMP.size]
        data[position + chance.choice(places)] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        return file.parent.name


class _PathAdapter:
    """An I/O adapter that maps file paths into the simulation's folder."""

    def __init__(self, disks: Disks, port: object) -> None:
        self._disks = disks
        self._port = port

    def volumes(self, directories: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
        """Return no sizes: those of this machine's volumes differ in each run."""
        return ((-1, -1),) * len(directories)

    def __getattr__(self, method: str) -> Callable[..., Any]:
        call = getattr(self._port, method)
        disks = self._disks

        def translate_and_call(*args: object) -> Any:
            inside = [disks.path(arg) if isinstance(arg, str) and arg.startswith("/") else arg for arg in args]
            return _outside(disks, call(*inside))

        return translate_and_call


def _outside(disks: Disks, result: object) -> Any:
    """Return a result with paths as the node sees them."""
    if isinstance(result, str):
        return disks.name(result)
    if type(result) is tuple:
        return tuple([_outside(disks, part) for part in result])
    return result
