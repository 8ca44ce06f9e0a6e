"""Collect the error codes in a response of any API, and find whether a coordinator accepted a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from messages import errors
from messages.apis.offset_commit import OffsetCommitRequest
from messages.vocabulary import VOCABULARY, Message

_FIELDS: dict[type, tuple[bool, tuple[str, ...]]] = {}
"""Message class -> whether it has an error code, and its fields that hold tuples of messages."""


def codes_of(value: Any) -> Iterator[int]:
    """Yield the error codes in a response."""
    if isinstance(value, tuple) and type(value) is tuple:
        for each in value:
            yield from codes_of(each)
        return
    kind = type(value)
    if kind.__name__ not in VOCABULARY:
        return
    if kind not in _FIELDS:
        fields = attrs.fields(kind)
        nested = tuple(field.name for field in fields if str(field.type).startswith("tuple"))
        _FIELDS[kind] = any(field.name == "error_code" for field in fields), nested
    has_code, nested = _FIELDS[kind]
    if has_code:
        yield value.error_code
    for name in nested:
        yield from codes_of(getattr(value, name))


def accepts(request: Message, response: Any) -> bool:
    """Return whether a coordinator accepted a request about a group, or a commit for at least one partition."""
    if isinstance(request, OffsetCommitRequest):
        return any(each.error_code == errors.NONE for each in response.partitions)
    return bool(response.error_code == errors.NONE)
