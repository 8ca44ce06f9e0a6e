"""The leader epochs of a log with their start offsets, which a follower needs to truncate its log (broker.md 4.6).

Rule 1: epochs and start offsets only increase. Assigning an epoch removes the entries that have a later epoch, and the
        entries that have the same or a later start offset.
Rule 2: an epoch is written to the file before its first record is appended. Other changes are not saved at once;
        entries that are missing after a crash are rebuilt from the batches, which contain their epochs.

Kafka: `LeaderEpochFileCache`.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.storage.log.checkpoint import Checkpoint

FILE = "leader-epoch-checkpoint"
UNDEFINED = -1


class EpochStart(NamedTuple):
    """A leader epoch, and the first offset that its leader wrote."""

    epoch: int
    start: int


class LeaderEpochs:
    """The leader epochs of a log, stored in the log's folder (Kafka's LeaderEpochFileCache)."""

    __slots__ = ("_entries", "_folder", "_saved")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._entries: list[EpochStart] = []
        self._saved: list[EpochStart] = []

    @property
    def _file(self) -> Checkpoint:
        return Checkpoint(f"{self._folder}/{FILE}", 0, 2)

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
