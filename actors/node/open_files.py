"""Raise the open files limit (`ulimit -n`) of the process, and warn if it is too low for the node's logs."""

from __future__ import annotations

import contextlib
import logging
import resource
from collections.abc import Sequence

from actors.gateway.limits import MAX_LOG_FILES, RESERVED_FILES, FileLimit
from actors.storage.log_manager import number_of_logs

MINIMUM = 64
"""Minimum limit: below it a node has no files for ZooKeeper, other brokers and its trace."""

_log = logging.getLogger("kafka_actors.process")


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit, if the system permits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_limit(files: FileLimit, log_dirs: Sequence[str]) -> bool:
    """Log a warning if the limit is too low for the logs in the log directories. Return whether a node can start."""
    if files.limit < MINIMUM:
        _log.error(
            "The open file limit is %d, but a node needs at least %d. Raise it with ulimit -n.",
            files.limit,
            MINIMUM,
        )
        return False
    if files.logs < MAX_LOG_FILES:
        partitions = number_of_logs(log_dirs)
        if partitions > files.logs // 2:
            _log.warning(
                "The open file limit is %d. It leaves %d for connections and %d for log files, which is too few for %d"
                " partitions. Log files are closed and reopened as needed, which is slow."
                " Raise the limit to %d with ulimit -n.",
                *(files.limit, files.all, files.logs, partitions),
                RESERVED_FILES + 4 * partitions,
            )
    return True
