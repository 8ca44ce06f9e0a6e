"""Clean up a log's folder after a crash: complete the replacement of segments, and remove temporary files.

Kafka replaces segments in three steps. `.cleaned` files become `.swap` files, the old segments become `.deleted`, and
the `.swap` files lose their suffix. After a kill in any step, one complete set of segments exists (Kafka 3.9
`LogLoader.load`, passes 1 to 3; broker.md 5.6.4). Each step here can be repeated after another kill.
"""

from __future__ import annotations

import errno
import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path

from actors.storage.log.checkpoint import replace_file
from messages.wire import WireError
from messages.wire.record_batch import HEADER, read_header

_log = logging.getLogger("kafka.log")

DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
DRAFT = ".tmp"

PARTITION_METADATA = "partition.metadata"
"""Holds the topic id of a log, from protocol version 2.8 on. As Kafka below 2.8 does, a load removes it there: a later
upgrade would stop at an id that the topic no longer has."""

SEGMENT_FILE = re.compile(r"([0-9]{20})\.(log|index|timeindex|txnindex)")
"""Matches the base offset and the kind of a segment's file."""

_METADATA = re.compile(r"version: 0\ntopic_id: ([A-Za-z0-9_-]{22})\n?")

_FILE = re.compile(rf"{SEGMENT_FILE.pattern}({DELETED}|{CLEANED}|{SWAP})?")


def clear_leftovers(folder: str) -> None:
    """Reduce the folder to complete segments. Raises OSError."""
    names = _names(folder)
    files = [name for name in names if _FILE.fullmatch(name)]
    swaps = [name for name in files if name.endswith(SWAP)]
    cleaned = [name for name in files if name.endswith(CLEANED)]
    first_cleaned = min(map(_base, cleaned), default=None)
    unfinished = [name for name in swaps if first_cleaned is not None and _base(name) >= first_cleaned]
    _remove(folder, (name for name in names if name.endswith((DELETED, DRAFT))))
    # Remove unfinished `.swap` files before the `.cleaned` files. Otherwise, after a crash between the two removals,
    # the `.swap` files would count as complete, because there would be no `.cleaned` files.
    _remove(folder, unfinished)
    _remove(folder, cleaned)
    _complete(folder, sorted(set(swaps) - set(unfinished)), names)
    _remove_orphans(folder)


def _complete(folder: str, swaps: Iterable[str], names: Iterable[str]) -> None:
    """Remove the segments that the `.swap` files replace, then rename the `.swap` files, each segment's log first."""
    logs = [name for name in swaps if name.endswith(f".log{SWAP}")]
    if logs:
        first, end = _base(logs[0]), max(_end(f"{folder}/{name}") for name in logs)
        old = [name for name in names if SEGMENT_FILE.fullmatch(name) and first <= _base(name) < end]
        _log.info(
            "%s: completing an interrupted replacement of segments: %s replaces the old ones", folder, ", ".join(logs)
        )
        _remove(folder, sorted(old))
    for name in sorted(swaps, key=lambda name: (_base(name), not name.endswith(f".log{SWAP}"))):
        Path(folder, name).replace(Path(folder, name.removesuffix(SWAP)))


def _remove_orphans(folder: str) -> None:
    """Remove indexes without a segment."""
    files = [match for name in _names(folder) if (match := SEGMENT_FILE.fullmatch(name)) is not None]
    bases = {match[1] for match in files if match[2] == "log"}
    _remove(folder, (match[0] for match in files if match[1] not in bases))


def _names(folder: str) -> list[str]:
    return [entry.name for entry in Path(folder).iterdir()]


def _base(name: str) -> int:
    """Return the base offset in the name of a segment's file."""
    return int(name.partition(".")[0])


def _end(path: str) -> int:
    """Return the offset after a segment's last batch."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size, position = os.fstat(descriptor).st_size, 0
        end = _base(os.path.basename(path))  # noqa: PTH119  (text in, text out)
        while position < size:
            try:
                header = read_header(os.pread(descriptor, HEADER.size, position))
            except WireError:
                break
            if position + header.size > size:
                break
            end, position = header.next_offset, position + header.size
        return end
    finally:
        os.close(descriptor)


def _remove(folder: str, names: Iterable[str]) -> None:
    for name in names:
        Path(folder, name).unlink()


def stored_topic_id(folder: str) -> str:
    """Return the topic id that a log keeps; "" if it keeps none. Raises OSError if the file is damaged."""
    try:
        text = Path(folder, PARTITION_METADATA).read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return ""
    match = _METADATA.fullmatch(text)
    if match is None:
        raise OSError(errno.EIO, f"{PARTITION_METADATA} is damaged", f"{folder}/{PARTITION_METADATA}")
    return match[1]


def store_topic_id(folder: str, topic_id: str) -> None:
    """Write the topic id that a log keeps from now on, durably."""
    replace_file(f"{folder}/{PARTITION_METADATA}", f"version: 0\ntopic_id: {topic_id}".encode())


def remove_topic_id(folder: str) -> None:
    """Remove the topic id that a log keeps, readable or not."""
    Path(folder, PARTITION_METADATA).unlink(missing_ok=True)
