"""Check topic names, with Kafka's errors for invalid ones.

Metric names turn both '.' and '_' into '_': two topics that differ only there would share their metrics, they collide.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from actors.core.refusal import Refused
from messages.error_codes import INVALID_TOPIC

MAX_LENGTH = 249
GROUP_METADATA = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({GROUP_METADATA, TRANSACTION_STATE})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


class InvalidTopic(Refused):
    """The name of a topic is invalid."""

    code = INVALID_TOPIC


@lru_cache(1024)
def check_name(topic: str) -> None:
    """Raise InvalidTopic unless this can be a topic's name. Good ones are remembered: partitions come together."""
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
    """Return the reason why this cannot be a topic's name; None if it can."""
    try:
        check_name(topic)
    except InvalidTopic as invalid:
        return str(invalid)
    return None


def can_collide(topic: str) -> bool:
    """Whether the name has a character that metric names do not keep."""
    return "." in topic or "_" in topic


def collisions(topic: str, existing: Iterable[str]) -> list[str]:
    """The existing topics that would share this one's metric names, itself included, sorted."""
    if not can_collide(topic):
        return []
    merged = topic.replace(".", "_")
    return sorted(other for other in existing if other.replace(".", "_") == merged)
