"""LogCleaner decides which compacted log is cleaned next, and how fast the cleaners work.

Rule 1: a log may be cleaned if the part that can be cleaned, in bytes, is more than `min.cleanable.dirty.ratio` of the
        whole, or if a record in it is dirty for longer than `max.compaction.lag.ms`. The log with the largest ratio is
        next.
Rule 2: a log that cannot be cleaned, because a batch in it is damaged, is not tried again before the next start
        (KAFKA-7215), unless it was deleted or emptied meanwhile.
Rule 3: a cleaner works in slices of some ms. If the node has other work between them, the cleaner pauses for up to
        eight times the slice, so that cleaning takes at most a ninth of a busy node's time.

Kafka: `LogCleaner`, `LogCleanerManager.grabFilthiestCompactedLog`, `maintainUncleanablePartitions`, `Throttler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import attrs

from actors.core.broker.partition_effects import Address
from messages.log_cleaner import UNCLEANABLE, CleanLog, CompactedLog, LogCleaned
from messages.metrics import Gauge
from messages.node_settings import NodeSettings

CLEANER, MANAGER = "kafka_log_logcleaner_", "kafka_log_logcleanermanager_"
"""Prefixes of the gauges."""

SLOT_BYTES = 24
STEPS = 4
"""Number of steps of a slice; each takes about a millisecond."""
SHORTEST = 0.001
"""Seconds between two slices of an idle node, so that its other actors and its sockets have their turn."""
DISK_PAUSE = 0.005
"""Seconds until a cleaner looks again whether the disk has flushed its files."""
BUSY_PERCENT = 20
"""The part of the time between two slices in which a busy node works: its process may not get all of a processor."""
BUSY_SHARE = 8


class DirtyLog(NamedTuple):
    """A log with records that can be cleaned: a row of `LogManager.dirt`."""

    path: str
    clean_bytes: int
    cleanable_bytes: int
    min_ratio_millionths: int
    overdue_ms: int

    @property
    def ratio(self) -> float:
        """The part of the log that can be cleaned."""
        return self.cleanable_bytes / max(1, self.clean_bytes + self.cleanable_bytes)

    @property
    def is_due(self) -> bool:
        """Whether the log may be cleaned (rule 1)."""
        return bool(self.cleanable_bytes) and (
            self.overdue_ms > 0 or self.ratio * 1_000_000 > self.min_ratio_millionths
        )


@attrs.define
class Compaction:
    """A request to clean all logs of a topic: the logs by path, and which of them are not stable or not cleaned yet."""

    asker: Address
    logs: dict[str, CompactedLog]
    deadline: float
    """Time after which a log that is not stable is not waited for."""
    unstable: dict[str, None]
    uncleaned: dict[str, None] = attrs.field(factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether no log is left."""
        return not (self.unstable or self.uncleaned)

    def note(self, cleaned: LogCleaned) -> None:
        """Note the end of a cleaning."""
        path = cleaned.path
        if path in self.uncleaned:
            del self.uncleaned[path]
            clean_to = cleaned.figures[1] if cleaned.figures else 0
            self.logs[path] = self.logs[path]._replace(clean_to=clean_to, reason=cleaned.reason)


class LogCleaner:
    """The logs that are being cleaned, and those that cannot be cleaned."""

    def __init__(self, settings: NodeSettings) -> None:
        self.settings = settings
        self.in_progress: dict[str, None] = {}
        self.uncleanable: dict[str, str] = {}
        """Path -> reason (rule 2)."""
        self.requested: dict[str, None] = {}
        """Logs that are cleaned next, whatever their ratio is."""
        self.dead = 0
        """Number of cleaners that have failed."""
        self._last: tuple[tuple[int, ...], ...] = ()
        """What the last cleanings read, wrote, and used of the map in %, and their seconds; one for each cleaner."""
        self._published: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}

    def changed_gauges(self, logs: Sequence[DirtyLog]) -> tuple[Gauge, ...]:
        """Return the gauges that have changed, after all dirty logs were looked for."""
        changed = tuple(
            [gauge for gauge in self._gauges(logs) if self._published.get((gauge.name, gauge.labels)) != gauge.value]
        )
        self._published |= {(gauge.name, gauge.labels): gauge.value for gauge in changed}
        return changed

    def _gauges(self, logs: Sequence[DirtyLog]) -> Iterator[Gauge]:
        read, written, used, seconds = zip(*(self._last or ((0, 0, 0, 0),)), strict=True)
        dirtiest = max([log.ratio for log in logs], default=0.0)
        delay = max([log.overdue_ms for log in logs], default=0)
        yield Gauge(f"{CLEANER}max_buffer_utilization_percent", max(used))
        yield Gauge(f"{CLEANER}cleaner_recopy_percent", 100 * sum(written) // max(sum(read), 1))
        yield Gauge(f"{CLEANER}max_clean_time_secs", max(seconds))
        yield Gauge(f"{CLEANER}max_compaction_delay_secs", delay // 1000)
        yield Gauge(f"{CLEANER}deadthreadcount", self.dead)
        yield Gauge(f"{MANAGER}max_dirty_percent", int(100 * dirtiest))
        counts, sizes = Counter[str](), Counter[str]()
        for log in logs:
            if log.path in self.uncleanable:
                directory = log.path.rpartition("/")[0]
                counts[directory] += 1
                sizes[directory] += log.cleanable_bytes
        for directory in self.settings.log_dirs:
            labels = (("logdirectory", directory),)
            yield Gauge(f"{MANAGER}uncleanable_partitions_count", counts[directory], labels)
            yield Gauge(f"{MANAGER}uncleanable_bytes", sizes[directory], labels)

    def assign(self, logs: Sequence[DirtyLog], unstable: Collection[str] = ()) -> list[CleanLog]:
        """Return a job for each cleaner that is free, the dirtiest log first, and note that they are in progress.

        Args:
            logs: All logs with a part that can be cleaned.
            unstable: Paths of logs of which a larger part is about to be cleaned.
        """
        settings = self.settings
        self.uncleanable = {log.path: self.uncleanable[log.path] for log in logs if log.path in self.uncleanable}
        free = settings.log_cleaner_threads - len(self.in_progress)
        due = (log for log in logs if log.is_due and log.path not in unstable)
        dirtiest = sorted(due, key=lambda log: -log.ratio)
        paths = dict.fromkeys((*self.requested, *(log.path for log in dirtiest)))
        chosen = [path for path in paths if path not in self.in_progress and path not in self.uncleanable]
        chosen = chosen[: max(free, 0)]
        for path in chosen:
            self.in_progress[path] = None
            self.requested.pop(path, None)
        threads = max(1, settings.log_cleaner_threads)
        return [
            CleanLog(
                path,
                settings.log_cleaner_dedupe_buffer_size // threads // SLOT_BYTES,
                round(settings.log_cleaner_io_buffer_load_factor * 1_000_000),
                settings.log_cleaner_io_buffer_size // threads // 2,
                settings.log_cleaner_io_max_bytes_per_second / threads,
            )
            for path in chosen
        ]

    def note_end(self, cleaned: LogCleaned) -> None:
        """Note the end of a cleaning."""
        self.in_progress.pop(cleaned.path, None)
        if cleaned.figures:
            _, _, read, written, _, _, used = cleaned.figures
            cleaning = read, written, used, int(cleaned.seconds)
            self._last = (*self._last, cleaning)[-self.settings.log_cleaner_threads :]
        if cleaned.state == UNCLEANABLE:
            self.uncleanable[cleaned.path] = cleaned.reason


def pause(worked_ms: int, size: int, busy: int, waits: bool, bytes_per_second: float) -> float:
    """Return the seconds from the end of a slice to the begin of the next one (rule 3).

    Args:
        worked_ms: How long the slice took.
        size: Number of bytes that it read or wrote.
        busy: In which part of the time since the last slice the node has worked, in percent.
        waits: Whether the cleaning waits for the disk.
        bytes_per_second: Maximum rate.
    """
    rest = BUSY_SHARE * max(worked_ms, 1) / 1000 * min(busy / BUSY_PERCENT, 1.0)
    return max(SHORTEST, rest, DISK_PAUSE if waits else 0.0, size / max(bytes_per_second, 1.0))
