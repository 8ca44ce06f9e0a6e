"""DescribeLogDirs: the logs in each log directory, with their sizes."""

from __future__ import annotations

from messages.acls import Operation
from messages.apis.declaration import REPLICA_MANAGER, Api, on_cluster
from messages.vocabulary import Message, message

NO_LAG = -1
"""The lag of a log that is not hosted, whose end offset is unknown."""


@message
class DescribableLogDirTopic(Message):
    """The partitions of one topic for which a client requests a description of the logs."""

    topic: str
    partitions: tuple[int, ...]


@message
class DescribeLogDirsRequest(Message):
    """A client's request to describe the log directories of a broker, with all logs or the logs of some partitions."""

    version: int
    topics: tuple[DescribableLogDirTopic, ...] | None


@message
class DescribedLog(Message):
    """A log in a DescribeLogDirs response.

    `partition_size` is the log's size in bytes. `offset_lag` is the log's lag behind the high watermark.
    `is_future_key` is true for a future log.
    """

    partition_index: int
    partition_size: int
    offset_lag: int = NO_LAG
    is_future_key: bool = False


@message
class DescribedLogDirTopic(Message):
    """The logs of one topic in one log directory."""

    name: str
    partitions: tuple[DescribedLog, ...]


@message
class DescribedLogDir(Message):
    """A log directory with its logs; an offline directory has error code 56 and no logs.

    `total_bytes` and `usable_bytes` are those of its volume; -1 if unknown.
    """

    error_code: int
    log_dir: str
    topics: tuple[DescribedLogDirTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1


@message
class DescribeLogDirsResponse(Message):
    """The response to DescribeLogDirs, with all log directories of the broker."""

    results: tuple[DescribedLogDir, ...]
    throttle_time_ms: int = 0
    error_code: int = 0


VOLUMES_SINCE = 4
"""The first version with the sizes of the directories' volumes."""

API = Api(
    key=35,
    versions=(0, 4),
    request=DescribeLogDirsRequest,
    response=DescribeLogDirsResponse,
    answerer=REPLICA_MANAGER,
    access=(on_cluster(Operation.DESCRIBE),),
    codes="NONE KAFKA_STORAGE_ERROR",
    sample=lambda about: DescribeLogDirsRequest(
        2, (DescribableLogDirTopic(about.partition.topic, (about.partition.partition,)),)
    ),
    odd="version=4",
    refuse=lambda request, code: DescribeLogDirsResponse((), error_code=code),
)
