"""Encode each message of a trace as JSON, and decode it; `messages.trace.forms` defines the JSON form of a class.

An error names the type of the message or value, and the reason. Floats must be finite, because JSON has no infinity
and no NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import msgspec
from thespian.actors import ActorAddress

from messages.parts import Part
from messages.trace.errors import BadPayload, UnknownType
from messages.trace.forms import Build, Plain
from messages.trace.names import form_named, form_of, type_name

UNFIT = (TypeError, ValueError, OverflowError, AttributeError)
"""Exceptions of encoding for content without a JSON form (besides UnknownType)."""


def address_text(address: ActorAddress | None) -> str:
    """Return an address as text: "ClassName.N" for an actor, "outside:name" for an external endpoint, "" for None."""
    if address is None:
        return ""
    text = address._aaddr
    return text if text.__class__ is str else str(text)


def _encode_other(value: object) -> str:
    if isinstance(value, ActorAddress):
        return address_text(value)
    raise UnknownType(
        f"a value of type {type(value).__module__}.{type(value).__qualname__} cannot be part of a message"
    )


ENCODER = msgspec.json.Encoder(enc_hook=_encode_other, order="deterministic")


_NAMED: dict[type, tuple[str, Plain | None]] = {}
"""Type name and conversion of each class, filled on first use."""


class MessageEncoder:
    """Converts messages to plain values for the JSON encoder.

    A tuple that several messages share is encoded again in each of them.
    """

    def box(self, value: Any) -> tuple[str, Any]:
        """Return (type name, encodable payload) of a message. Raises UnknownType."""
        cls = value.__class__
        try:
            name, plain = _NAMED[cls]
        except KeyError:
            name, plain = _NAMED[cls] = type_name(value), form_of(cls).plain
        return name, value if plain is None else plain(value, self)

    def share(self, value: tuple[Any, ...], plain: Plain | None, part: Part | None = None) -> Any:
        """Return the whole tuple, not a reference to it; convert each entry by `plain` unless `plain` is None."""
        return value if plain is None else tuple([plain(entry, self) for entry in value])


_MESSAGE_ENCODER = MessageEncoder()


def encode(message: object) -> tuple[str, bytes]:
    """Return (type name, JSON payload) of a message. Raises UnknownType, BadPayload."""
    try:
        name, payload = _MESSAGE_ENCODER.box(message)
        return name, ENCODER.encode(payload)
    except UNFIT as error:
        raise unfit(type(message).__name__, error) from error


def unfit(name: str, error: Exception) -> BadPayload:
    """Return the exception for a message of the type `name` with content that has no JSON form."""
    return BadPayload(f"{name} cannot be encoded: {error}")


def unencodable(reason: Exception) -> dict[str, str]:
    """Return the payload of a record whose message cannot be encoded."""
    return {"unencodable": str(reason)}


_M = TypeVar("_M")
_BUILDING = Lock()
"""Held while a decoder is built: msgspec stores what it knows of a class at the class before it is complete, and
another thread that decoded with it then would crash the process.
"""


class MessageDecoder:
    """A decoder of recorded messages; `address` converts text to an ActorAddress.

    By default, an address is an ActorAddress that can only be compared with others by its text.
    """

    def __init__(self, address: Callable[[str], ActorAddress] = ActorAddress) -> None:
        self._address = address
        self._decoders: dict[str, tuple[msgspec.json.Decoder[Any], Build | None]] = {}
        self._outer: dict[type, msgspec.json.Decoder[Any]] = {}

    def decode(self, name: str, payload: bytes | msgspec.Raw) -> Any:
        """Return the message of the type `name`. Raises UnknownType, BadPayload."""
        if name not in self._decoders:
            form = form_named(name)
            self._decoders[name] = self._decoder(form.wire), form.build
        decoder, build = self._decoders[name]
        try:
            decoded = decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPayload(f"{name}: {error}") from error
        return decoded if build is None else build(decoded, self)

    def decode_outer(self, kind: type[_M], payload: bytes | msgspec.Raw) -> _M:
        """Decode a message of the class `kind` without the messages inside it.

        The value of a field annotated `Message` is a `Boxed`. The result has the fields of the class, but not its
        methods.

        Raises:
            BadPayload: The payload does not match the class.
        """
        decoder = self._outer.get(kind)
        if decoder is None:
            decoder = self._outer[kind] = self._decoder(form_named(kind.__name__).wire)
        try:
            decoded: _M = decoder.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadPayload(f"{kind.__name__}: {error}") from error
        return decoded

    def _decoder(self, wire: object) -> msgspec.json.Decoder[Any]:
        with _BUILDING:
            return msgspec.json.Decoder(wire, dec_hook=self._decode_other)

    def _decode_other(self, cls: type, value: object) -> Any:
        if cls is ActorAddress and isinstance(value, str):
            return self._address(value)
        raise UnknownType(f"a value of type {cls.__qualname__} cannot be part of a message")


_CODEC = MessageDecoder()


def decode(name: str, payload: bytes | msgspec.Raw) -> Any:
    """Decode a recorded message by a `MessageDecoder()` without arguments. Raises UnknownType, BadPayload."""
    return _CODEC.decode(name, payload)


def decode_outer(kind: type[_M], payload: bytes | msgspec.Raw) -> _M:
    """Decode a message by `MessageDecoder.decode_outer`, without the messages inside it. Raises BadPayload."""
    return _CODEC.decode_outer(kind, payload)
