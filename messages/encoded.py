"""Values that keep their bytes: what goes to many brokers is encoded once."""

from __future__ import annotations


class Encoded:
    """A value whose bytes, once made, stay with it as long as it lives (`messages.wire` makes and reads them).

    The slots are no fields: they follow from the fields, take no part in equality, and no trace shows them.
    """

    __slots__ = ("encoded", "encoded_version")
    encoded: bytes
    encoded_version: int
