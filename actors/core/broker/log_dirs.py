"""Build DescribeLogDirs responses: the log directories of a broker and the logs in them (broker.md 6.2).

Rule 1: the response contains every directory of log.dirs, in that order. An offline directory has code 56 and no logs.
Rule 2: Kafka defines the lag of a log as the high watermark minus its log end offset, at least 0. A hosted log has lag
        0. The lag of a future log is the number of offsets that it lacks. The lag of any other log is NO_LAG, because
        its high watermark is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

from actors.core.broker.partition_effects import Address, CallAdapter
from actors.storage.log_directories import LogDirectories
from messages import errors
from messages.apis import describe_log_dirs
from messages.cluster import TopicPartition
from messages.flow.conversation import SLICE, Flow, Worked, chunks


def directory_of(path: str) -> str:
    """Return the log directory of a log's path."""
    return path.rpartition("/")[0]


class FoundLog(NamedTuple):
    """A partition's log that was found on disk.

    `size` is in bytes, -1 if the log was deleted meanwhile. `lag` is as in rule 2.
    """

    directory: str
    partition: TopicPartition
    size: int
    lag: int
    is_future: bool


def describe(
    request: describe_log_dirs.DescribeLogDirsRequest,
    log_dirs: Sequence[str],
    directories: LogDirectories,
    actors: Mapping[TopicPartition, Address | None],
) -> Flow[describe_log_dirs.DescribeLogDirsResponse]:
    """Find the logs that a client requests (`topics` is None for all), and their sizes.

    Args:
        request: The client's request.
        log_dirs: The directories of log.dirs.
        directories: The state of these directories.
        actors: The hosted partitions; None for offline ones.
    """
    wanted = {(topic.topic, number) for topic in request.topics or () for number in topic.partitions}
    paths = [each for each in directories.paths() if request.topics is None or each[1] in wanted]
    found: list[FoundLog] = []
    for part in chunks(paths):
        sizes = cast("tuple[int, ...]", (yield CallAdapter("logs", "sizes", (tuple(path for path, _, _ in part),))))
        copies = tuple(path for path, _, is_future in part if is_future)
        lacking = cast("tuple[int, ...]", (yield CallAdapter("logs", "copy_lags", (copies,)))) if copies else ()
        lags = dict(zip(copies, lacking, strict=True))
        for (path, (topic, number), is_future), size in zip(part, sizes, strict=True):
            tp = TopicPartition(topic, number)
            lag = lags[path] if is_future else 0 if actors.get(tp) is not None else describe_log_dirs.NO_LAG
            found.append(FoundLog(directory_of(path), tp, size, lag, is_future))
        yield Worked(len(part) / SLICE)
    volumes: Sequence[tuple[int, int]] = ()
    if request.version >= describe_log_dirs.VOLUMES_SINCE:
        volumes = cast("Sequence[tuple[int, int]]", (yield CallAdapter("logs", "volumes", (tuple(log_dirs),))))
    return describe_directories(log_dirs, directories.offline, found, dict(zip(log_dirs, volumes, strict=False)))


def describe_directories(
    directories: Sequence[str],
    offline: Collection[str],
    logs: Iterable[FoundLog],
    volumes: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> describe_log_dirs.DescribeLogDirsResponse:
    """Return the response for these directories and the logs found in them (rules 1 and 2).

    `volumes` has the total and usable bytes of each directory's volume, if they are known.
    """
    found: dict[str, dict[str, list[describe_log_dirs.DescribedLog]]] = {directory: {} for directory in directories}
    for directory, (topic, number), size, lag, is_future in logs:
        if size >= 0:
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
                *volumes.get(directory, ()),
            )
            for directory, topics in found.items()
        )
    )
