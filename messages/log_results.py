"""The results of the calls of the I/O adapter "logs", by name.

The adapter returns plain tuples, and traces record them as such. Who reads a result gives its parts their names here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from messages.records import Body


class LogOpened(NamedTuple):
    """An opened log: its offsets, its latest leader epoch and its checkpointed high watermark."""

    start: int
    end: int
    latest_epoch: int
    high_watermark: int
    first_unstable: int


log_opened: Callable[[Sequence[int]], LogOpened] = partial(tuple.__new__, LogOpened)
"""Names the result of opening a log in a third of the class's time; a broker opens its logs in a row."""


class RecordsAppended(NamedTuple):
    """The log after an append, and what became of each batch; the call returns each batch as a value of its own."""

    end: int
    first_unstable: int
    batches: tuple[tuple[int, int, int, int], ...]
    """(error code, first offset, last offset, time of the append in ms) of each batch; the last three may be -1."""


class RecordsReplicated(NamedTuple):
    """The log after batches of the leader."""

    error_code: int
    end: int
    first_unstable: int


class LogCut(NamedTuple):
    """The log after it was truncated, or restarted at an offset."""

    start: int
    end: int
    first_unstable: int


class SegmentsExpired(NamedTuple):
    """The log start offset, the number of removed segments, and the setting that removed the last one."""

    start: int
    removed: int = 0
    reason: str = ""


class RecordsRead(NamedTuple):
    """Batches, and for a reader of committed records (producer id, first offset) of each aborted transaction."""

    error_code: int
    body: Body
    aborted: tuple[tuple[int, int], ...] = ()


class CopyAdvanced(NamedTuple):
    """The number of offsets that a copy lacks, -1 without one; ms to wait for the rate; the error that ended it."""

    lag: int
    wait_ms: int
    failure: str


class RecordFound(NamedTuple):
    """The number of an unfinished search, or 0; of the record that it found time, offset and leader epoch, else -1."""

    search: int
    time: int
    offset: int
    leader_epoch: int


RESULTS: dict[str, type[LogOpened | RecordsAppended | RecordsReplicated | LogCut | SegmentsExpired]] = {
    "open": LogOpened,
    "append": RecordsAppended,
    "append_as_coordinator": RecordsAppended,
    "append_marker": RecordsAppended,
    "replicate": RecordsReplicated,
    "truncate": LogCut,
    "restart": LogCut,
    "expire": SegmentsExpired,
}
"""The results of calls that change a log's offsets. `advance_start` returns the new log start offset itself."""


def named(method: str, result: Any) -> Any:  # type: ignore[explicit-any]
    """Return the result of a call of RESULTS with names; None for another call."""
    kind = RESULTS.get(method)
    if kind is None:
        return None
    return RecordsAppended(result[0], result[1], result[2:]) if kind is RecordsAppended else kind(*result)
