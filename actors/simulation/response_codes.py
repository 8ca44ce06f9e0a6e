"""Collect the error codes in a response of any API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from messages.vocabulary import VOCABULARY

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
