"""Collect the error codes in a response of any API, and find whether a coordinator accepted a request."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from messages import errors
from messages.apis.offset_commit import OffsetCommitRequest
from messages.cluster import TopicPartition
from messages.vocabulary import VOCABULARY, AnyMessage, Message

_NAMES = ("partition", "topic", "name")
"""The fields that have the partition or topic of an error code."""
_FIELDS: dict[type, tuple[bool, tuple[str, ...], tuple[str, ...]]] = {}
"""Message class -> whether it has an error code, its fields of `_NAMES`, and those that hold tuples of messages."""


def codes_of(response: Message) -> Iterator[int]:
    """Yield the error codes in a response."""
    return (code for code, _ in codes_with_subjects(response))


def codes_with_subjects(value: AnyMessage, subject: str = "") -> Iterator[tuple[int, str]]:
    """Yield the error codes in a response, each with the topic or partition that it concerns ("" if unknown)."""
    kind = type(value)
    if kind is tuple:
        for each in value:
            yield from codes_with_subjects(each, subject)
        return
    if kind.__name__ not in VOCABULARY:
        return
    if kind not in _FIELDS:
        types = {field.name: str(field.type) for field in attrs.fields(kind)}
        nested = tuple(name for name, type_ in types.items() if type_.startswith("tuple"))
        _FIELDS[kind] = "error_code" in types, tuple(name for name in _NAMES if name in types), nested
    has_code, names, nested = _FIELDS[kind]
    about = (getattr(value, name) for name in names)
    subject = next((str(each) for each in about if isinstance(each, TopicPartition | str)), subject)
    if has_code:
        yield value.error_code, subject
    for name in nested:
        yield from codes_with_subjects(getattr(value, name), subject)


def accepts(request: Message, response: AnyMessage) -> bool:
    """Return whether a coordinator accepted a request about a group, or a commit for at least one partition."""
    if isinstance(request, OffsetCommitRequest):
        return any(each.error_code == errors.NONE for each in response.partitions)
    return bool(response.error_code == errors.NONE)
