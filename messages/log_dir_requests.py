"""DescribeLogDirs: the logs of a broker by log directory, and their sizes (API key 35)."""

from __future__ import annotations

from messages.vocabulary import message

NO_LAG = -1
"""The lag of a log that is not hosted, whose end is unknown."""


@message
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[int, ...]


@message
class DescribeLogDirsRequest:
    """Client to any broker: describe the logs of these partitions (None: all)."""

    version: int
    topics: tuple[DescribableLogDirTopic, ...] | None


@message
class DescribedLog:
    """A log: its size, its lag behind the high watermark, and whether it is a future log."""

    partition_index: int
    partition_size: int
    offset_lag: int = NO_LAG
    is_future_key: bool = False


@message
class DescribedLogDirTopic:
    """Logs of one topic in one directory."""

    name: str
    partitions: tuple[DescribedLog, ...]


@message
class DescribedLogDir:
    """A log directory; error 56 if it is offline, without logs."""

    error_code: int
    log_dir: str
    topics: tuple[DescribedLogDirTopic, ...] = ()


@message
class DescribeLogDirsResponse:
    """The response to DescribeLogDirs, with all log directories."""

    results: tuple[DescribedLogDir, ...]
    throttle_time_ms: int = 0
