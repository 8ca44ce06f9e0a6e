"""The base class of values that keep their encoded bytes, because the same value is sent to many brokers."""

from __future__ import annotations

from typing import Any


class Encoded:
    """A value that keeps its bytes after it has been encoded once.

    A state keeps its row, a part of a request its rows by topic.

    The slots are no fields: they follow from the fields, take no part in equality, and no trace shows them
    (msgspec takes every slot for a field, but for those whose name begins with an underscore).
    """

    __slots__ = ("_encoded", "_encoded_version")
    _encoded: Any
    _encoded_version: int
