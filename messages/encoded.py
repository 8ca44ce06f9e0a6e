"""The base class of values that keep their encoded bytes, because the same value is sent to many brokers."""

from __future__ import annotations

from messages.vocabulary import Message


class Encoded(Message):
    """A value that keeps its encoded bytes once it has been encoded.

    A partition state keeps its row, which is its encoded entry in a request. A part of a large request keeps its rows
    by topic. The slots that keep the encoded bytes are not attrs fields, because their values are derived from the
    fields. So equality and traces ignore these slots. The names of these slots begin with an underscore, because
    msgspec treats each slot without a leading underscore as a field and encodes it.
    """

    __slots__ = ("_encoded", "_encoded_version")
    _encoded: object
    _encoded_version: int
