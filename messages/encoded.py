"""The base class of values that keep their encoded bytes, because the same value is sent to many brokers."""

from __future__ import annotations

from messages.vocabulary import Message


class Encoded(Message):
    """A value that keeps its encoded bytes once it has been encoded.

    A partition state keeps its encoded row, and a part of a request keeps its encoded rows by topic. The slots that
    keep the encoded bytes are not attrs fields: they are derived from the fields, so equality and traces ignore them.
    Their names begin with an underscore, because msgspec encodes all slots without an underscore as fields.
    """

    __slots__ = ("_encoded", "_encoded_version")
    _encoded: object
    _encoded_version: int
