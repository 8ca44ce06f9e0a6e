"""DescribeLogDirs: which logs a broker has in which of its directories, and how large they are (API key 35)."""

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
    """Client to any broker: where are the logs of these partitions (None: all)?"""

    version: int
    topics: tuple[DescribableLogDirTopic, ...] | None


@message
class DescribedLog:
    """One log: its bytes, by how much its end is behind the high watermark; whether it is to replace another's."""

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
    """One directory of log.dirs: 56 where it is offline, then without its logs."""

    error_code: int
    log_dir: str
    topics: tuple[DescribedLogDirTopic, ...] = ()


@message
class DescribeLogDirsResponse:
    """The answer to DescribeLogDirs, every directory in it."""

    results: tuple[DescribedLogDir, ...]
    throttle_time_ms: int = 0
