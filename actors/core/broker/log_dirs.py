"""Build DescribeLogDirs responses: the log directories of a broker and the logs in them (broker.md 6.2).

Rule 1: the response contains every directory of log.dirs, in that order. An offline directory has code 56 and no logs.
Rule 2: Kafka defines the lag of a log as the high watermark minus its log end offset, at least 0. A hosted log has lag
        0. The lag of any other log is NO_LAG, because its high watermark is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from messages import errors
from messages.apis import describe_log_dirs
from messages.cluster import TopicPartition


class FoundLog(NamedTuple):
    """A partition's log that was found on disk.

    `size` is in bytes, -1 if the log was deleted meanwhile. `hosted` is whether a replica of this broker uses the log.
    """

    directory: str
    partition: TopicPartition
    size: int
    hosted: bool
    is_future: bool


def wanted_logs(request: describe_log_dirs.DescribeLogDirsRequest) -> frozenset[tuple[str, int]] | None:
    """Return the partitions that a client requests; None for all."""
    if request.topics is None:
        return None
    return frozenset((topic.topic, number) for topic in request.topics for number in topic.partitions)


def described(
    directories: Sequence[str], offline: Collection[str], logs: Iterable[FoundLog]
) -> describe_log_dirs.DescribeLogDirsResponse:
    """Return the response for these directories and the logs found in them (rules 1 and 2)."""
    found: dict[str, dict[str, list[describe_log_dirs.DescribedLog]]] = {directory: {} for directory in directories}
    for directory, (topic, number), size, hosted, is_future in logs:
        if size >= 0:
            lag = 0 if hosted and not is_future else describe_log_dirs.NO_LAG
            found[directory].setdefault(topic, []).append(describe_log_dirs.DescribedLog(number, size, lag, is_future))
    return describe_log_dirs.DescribeLogDirsResponse(
        tuple(
            describe_log_dirs.DescribedLogDir(errors.KAFKA_STORAGE_ERROR, directory)
            if directory in offline
            else describe_log_dirs.DescribedLogDir(
                *(errors.NONE, directory),
                tuple(
                    describe_log_dirs.DescribedLogDirTopic(topic, tuple(each)) for topic, each in sorted(topics.items())
                ),
            )
            for directory, topics in found.items()
        )
    )
