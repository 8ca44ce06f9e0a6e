"""Check topic names, with Kafka's errors for invalid ones.

In metric names, each '.' of a topic name is replaced by '_'. Two topic names that differ only in '.' and '_' collide:
they would share their metrics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from actors.core.refusal import Refused
from messages import errors

MAX_LENGTH = 249
GROUP_METADATA = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA, TRANSACTION_STATE})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class InvalidTopic(Refused):
    """The name of a topic is invalid."""

    code = errors.INVALID_TOPIC


@lru_cache(1024)
def check_name(topic: str) -> None:
    """Check a topic name. Valid names are cached, because names are checked once per partition.

    Raises:
        InvalidTopic: The name is invalid.
    """
    if not topic:
        problem = "the empty string is not allowed"
    elif topic in (".", ".."):
        problem = f"'{topic}' is not allowed"
    elif len(topic) > MAX_LENGTH:
        problem = f"the length of '{topic}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(topic):
        problem = f"'{topic}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise InvalidTopic(f"Topic name is invalid: {problem}")


def name_fault(topic: str) -> str | None:
    """Return the error text of an invalid topic name; None for a valid one."""
    try:
        check_name(topic)
    except InvalidTopic as invalid:
        return str(invalid)
    return None


def can_collide(topic: str) -> bool:
    """Return whether another topic could have the same metric names, because the name `topic` has a "." or "_"."""
    return "." in topic or "_" in topic


def collisions(topic: str, existing: Iterable[str]) -> list[str]:
    """Return the existing topics that would share metric names with `topic`, sorted.

    The list is empty if `topic` has neither '.' nor '_'. Otherwise it includes `topic` itself if this topic exists.
    """
    if not can_collide(topic):
        return []
    merged = topic.replace(".", "_")
    return sorted(other for other in existing if other.replace(".", "_") == merged)
