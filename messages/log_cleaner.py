"""Messages between the log cleaner's manager and its cleaners, and the results of their work."""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import Message, message

WORKING, WAITING, CLEANED, ABORTED, UNCLEANABLE = range(5)
"""The state of a cleaning: it goes on at once, waits for the disk, or has ended in one of three ways."""


@message
class CleanLog(Message):
    """A request to a cleaner: clean the log in the folder `path`. The reply is LogCleaned.

    Attributes:
        path: Folder of the log.
        slots: Maximum number of slots of the offset map.
        load_millionths: The part of the slots that may be in use, in millionths.
        buffer: Number of bytes that are read together.
        bytes_per_second: Maximum rate of reads and writes.
    """

    path: str
    slots: int
    load_millionths: int
    buffer: int
    bytes_per_second: float


@message
class LogCleaned(Message):
    """The result of a cleaning: `state` is CLEANED, ABORTED or UNCLEANABLE, `reason` the cause unless it is CLEANED.

    `figures` are those of `actors.storage.log.cleaner.Cleaning`; the cleaning took `seconds`.
    """

    path: str
    state: int
    figures: tuple[int, ...]
    reason: str
    seconds: float


@message
class CompactTopic(Message):
    """A request to the log cleaner's manager: clean all logs of a topic now. The reply is TopicCompacted.

    Active segments end first, so that their records are cleaned as well. A log whose records are not stable after
    `seconds` is not cleaned.
    """

    topic: str
    seconds: float


class CompactedLog(NamedTuple):
    """A log after a CompactTopic: up to which offset it is clean, and its end when the cleaning began.

    `compacted` is whether the topic's cleanup.policy has compact. `reason` is why the log was not cleaned, or "".
    """

    name: str
    compacted: bool
    clean_to: int
    end: int
    reason: str = ""


@message
class TopicCompacted(Message):
    """The reply to CompactTopic: the logs of the topic on this broker."""

    logs: tuple[CompactedLog, ...]
