"""The checkpoint files of a log directory: recovery points, log start offsets and high watermarks of its logs.

The rules are those of `log_manager`, which writes these files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from actors.storage.log import Checkpoint
from actors.storage.log.checkpoint import DamagedCheckpoint
from actors.storage.log_directories import log_name

log = logging.getLogger("kafka.log.LogManager")

CLEAN_MARKER = ".kafka_cleanshutdown"
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"

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
    """The three checkpoint files of a log directory, and whether the broker last shut down cleanly."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.clean = False
        """Whether the last shutdown was clean; set by `take_over`."""
        self._taken_over = False
        self.recovery_points = CheckpointFile(path, RECOVERY_POINTS)
        self.log_starts = CheckpointFile(path, LOG_STARTS)
        self.high_watermarks = CheckpointFile(path, HIGH_WATERMARKS)
        self.points = self.recovery_points, self.log_starts, self.high_watermarks
        listed = set().union(*self.points)
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
        for points in self.points:
            points.forget(partition)

    def write_forgotten(self) -> None:
        """Write the checkpoint files that still have lines of forgotten logs (`log_manager`, rule 7)."""
        for points in self.points:
            if points.lists_forgotten:
                points.write()
