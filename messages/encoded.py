"""Values that keep their bytes: what goes to many brokers is encoded once."""

from __future__ import annotations

from typing import Any


class Encoded:
    """A value whose bytes, once made, stay with it as long as it lives (`messages.wire` makes and reads them).

    A state keeps its row, a part of a request its rows by topic.

    The slots are no fields: they follow from the fields, take no part in equality, and no trace shows them
    (msgspec takes every slot for a field, but for those whose name begins with an underscore).
    """

    __slots__ = ("_encoded", "_encoded_version")
    _encoded: Any
    _encoded_version: int
