"""Messages as JSON and back, by the annotations alone.

Rule 1: a payload is a JSON object of the message's fields, keys sorted; a NamedTuple is an array, bytes are base64,
        an ActorAddress is its text. Equal messages have equal bytes.
Rule 2: a field that holds any message (annotated `Message`) is boxed as [type name, payload], also inside tuples.
Rule 3: a type name is looked up in the vocabulary, among Thespian's own messages that occur as deliveries, and among
        plain values (`str`, `int`, ...), which Thespian lets one send or use as a timer's payload. Nothing else has a
        form: what cannot be encoded or decoded is an error that names type and reason.
Rule 4: most messages go to msgspec as they are. Only those with a boxed field, and those that carry a long tuple of
        values, are taken apart first: such a tuple is encoded once per batch, however many messages share its entries.

Floats are finite: JSON knows no others.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
import types
import typing
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any, NamedTuple

import attrs
import msgspec
from thespian.actors import (
    ActorAddress,
    ActorExitRequest,
    ChildActorExited,
    DeadEnvelope,
    PoisonMessage,
    WakeupMessage,
)

import messages
from messages.vocabulary import VOCABULARY

LONG_TUPLE = 64
"""A tuple of at least this many messages or NamedTuples is encoded once per batch and shared."""


class TraceError(Exception):
    """Something in a trace, or on its way there, is not as it must be."""


class UnknownType(TraceError):
    """A value's class, or a type name, has no form in traces."""


class BadPayload(TraceError):
    """A payload does not fit its type, or a message's content does not fit JSON; the text names type and place."""


class _Memo:
    """Long tuples already encoded in this batch, known by the identity of all their entries.

    The tuples are kept, or an id could be used again.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, int], tuple[tuple[Any, ...], msgspec.Raw]] = {}

    def find(self, value: tuple[Any, ...]) -> msgspec.Raw | None:
        """What a tuple of the very same entries was encoded as."""
        known = self._known.get((len(value), id(value[0]), id(value[-1])))
        return known[1] if known is not None and all(map(operator.is_, known[0], value)) else None

    def keep(self, value: tuple[Any, ...], encoded: msgspec.Raw) -> msgspec.Raw:
        """Remember it."""
        self._known[len(value), id(value[0]), id(value[-1])] = value, encoded
        return encoded


_Plain = Callable[[Any, _Memo], Any]
_Build = Callable[[Any, "Codec"], Any]


class _Form(NamedTuple):
    """How one annotation travels.

    `wire` is the type msgspec decodes. `plain` turns a value into what msgspec encodes, None: the value itself.
    `build` makes the value from what was decoded as `wire`, None: it is the value.
    """

    wire: Any
    plain: _Plain | None = None
    build: _Build | None = None


_SCALARS = (bool, int, float, str, bytes)
"""A tuple of these is never shared or taken apart: it costs next to nothing to encode."""


class _Boxed(msgspec.Struct, array_like=True, frozen=True):
    """Some message, under its type name."""

    type: str
    payload: msgspec.Raw


# ------------------------------------------------------------------------------------------------ types to forms


def _box(value: Any, memo: _Memo) -> tuple[str, Any]:
    cls = value.__class__
    try:
        name, plain = _NAMED[cls]
    except KeyError:
        name, plain = _NAMED[cls] = type_name(value), _form_of_class(cls).plain
    return name, value if plain is None else plain(value, memo)


_NAMED: dict[type, tuple[str, _Plain | None]] = {}
"""Type name and way to be taken apart, by class, as they turn up."""


_ANY = _Form(_Boxed, _box, lambda boxed, codec: codec.decode(boxed.type, boxed.payload))


@cache
def _form(annotation: Any) -> _Form:
    """The form of an annotation. Raises TypeError for one that rule 3 of the vocabulary excludes."""
    if annotation is Any:
        return _ANY
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union_form(annotation, arguments)
    if origin is tuple:
        return _tuple_form(arguments)
    if isinstance(annotation, type) and attrs.has(annotation):
        return _attrs_form(annotation)
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        return _named_tuple_form(annotation)
    return _Form(annotation)


def _union_form(annotation: Any, arguments: tuple[Any, ...]) -> _Form:
    forms = [_form(argument) for argument in arguments if argument is not type(None)]
    if all(form.plain is None and form.build is None for form in forms):
        return _Form(annotation)
    if len(forms) != 1 or len(arguments) != 2:
        raise TypeError(f"{annotation}: a union that holds boxed or long fields can only be with None")
    wire, plain, build = forms[0]
    return _Form(
        wire | None,
        None if plain is None else lambda value, memo: None if value is None else plain(value, memo),
        None if build is None else lambda value, codec: None if value is None else build(value, codec),
    )


def _tuple_form(arguments: tuple[Any, ...]) -> _Form:
    if len(arguments) != 2 or arguments[1] is not Ellipsis:
        forms = [_form(argument) for argument in arguments]
        if all(form.plain is None and form.build is None for form in forms):
            return _Form(tuple.__class_getitem__(arguments))
        return _Form(
            tuple.__class_getitem__(tuple(form.wire for form in forms)),
            lambda value, memo: tuple(
                entry if form.plain is None else form.plain(entry, memo)
                for form, entry in zip(forms, value, strict=True)
            ),
            lambda value, codec: tuple(
                entry if form.build is None else form.build(entry, codec)
                for form, entry in zip(forms, value, strict=True)
            ),
        )
    wire, plain, build = _form(arguments[0])
    if arguments[0] in _SCALARS:
        return _Form(tuple.__class_getitem__((wire, ...)))

    def long_or_plain(value: tuple[Any, ...], memo: _Memo) -> Any:
        if len(value) < LONG_TUPLE:
            return value if plain is None else tuple([plain(entry, memo) for entry in value])
        known = memo.find(value)
        if known is None:
            entries = value if plain is None else tuple([plain(entry, memo) for entry in value])
            known = memo.keep(value, msgspec.Raw(_ENCODER.encode(entries)))
        return known

    return _Form(
        tuple.__class_getitem__((wire, ...)),
        long_or_plain,
        None if build is None else lambda value, codec: tuple([build(entry, codec) for entry in value]),
    )


def _field_plain(names: tuple[str, ...], forms: list[_Form]) -> list[tuple[str, _Plain]]:
    return [(name, form.plain) for name, form in zip(names, forms, strict=True) if form.plain is not None]


def _attrs_form(cls: type) -> _Form:
    hints = typing.get_type_hints(cls)
    fields = attrs.fields(cls)
    names = tuple(field.name for field in fields)
    forms = [_form(hints[name]) for name in names]
    special = _field_plain(names, forms)

    def plain(value: Any, memo: _Memo) -> Any:
        changed = {}
        for name, field_plain in special:
            old = getattr(value, name)
            new = field_plain(old, memo)
            if new is not old:
                changed[name] = new
        return {name: changed.get(name, getattr(value, name)) for name in names} if changed else value

    if all(form.build is None for form in forms):
        return _Form(cls, plain if special else None)
    shadow = msgspec.defstruct(
        cls.__name__,
        [
            (field.name, form.wire)
            if field.default is attrs.NOTHING
            else (field.name, form.wire | msgspec.UnsetType, msgspec.UNSET)
            for field, form in zip(fields, forms, strict=True)
        ],
        kw_only=True,
    )
    builders = [(name, form.build) for name, form in zip(names, forms, strict=True)]

    def build(decoded: Any, codec: Codec) -> Any:
        given = {}
        for name, field_build in builders:
            value = getattr(decoded, name)
            if value is not msgspec.UNSET:
                given[name] = value if field_build is None else field_build(value, codec)
        return cls(**given)

    return _Form(shadow, plain, build)


def _named_tuple_form(cls: Any) -> _Form:
    hints = typing.get_type_hints(cls)
    forms = [_form(hints[name]) for name in cls._fields]
    special = _field_plain(cls._fields, forms)

    def plain(value: Any, memo: _Memo) -> Any:
        changed = {name: field_plain(getattr(value, name), memo) for name, field_plain in special}
        return [changed.get(name, entry) for name, entry in zip(cls._fields, value, strict=True)]

    if all(form.build is None for form in forms):
        return _Form(cls, plain if special else None)
    fields = [(name, form.wire) for name, form in zip(cls._fields, forms, strict=True)]
    shadow = msgspec.defstruct(cls.__name__, fields, array_like=True)

    def build(decoded: Any, codec: Codec) -> Any:
        entries = (getattr(decoded, name) for name in cls._fields)
        return cls(
            *(
                entry if form.build is None else form.build(entry, codec)
                for form, entry in zip(forms, entries, strict=True)
            )
        )

    return _Form(shadow, plain, build)


# ------------------------------------------------------------------------------------------------ Thespian's messages


class _Wakeup(msgspec.Struct):
    delay_us: int
    payload: _Boxed


class _ChildExited(msgspec.Struct):
    child: ActorAddress


class _ExitRequest(msgspec.Struct):
    recursive: bool


class _Dead(msgspec.Struct):
    address: ActorAddress
    message: _Boxed


class _Poison(msgspec.Struct):
    details: str | None
    poison: _Boxed


def _exit_request(wire: _ExitRequest, codec: Codec) -> ActorExitRequest:
    return ActorExitRequest(recursive=wire.recursive)


_MICROSECOND = timedelta(microseconds=1)


def _microseconds(period: timedelta | float) -> int:
    """Of a timer's period, which Thespian also takes as seconds."""
    return period // _MICROSECOND if isinstance(period, timedelta) else round(period * 1_000_000)


_THESPIAN: dict[type, _Form] = {
    WakeupMessage: _Form(
        _Wakeup,
        lambda m, memo: {"delay_us": _microseconds(m.delayPeriod), "payload": _box(m.payload, memo)},
        lambda w, codec: WakeupMessage(w.delay_us * _MICROSECOND, codec.decode(w.payload.type, w.payload.payload)),
    ),
    ChildActorExited: _Form(
        _ChildExited, lambda m, memo: {"child": m.childAddress}, lambda w, codec: ChildActorExited(w.child)
    ),
    ActorExitRequest: _Form(_ExitRequest, lambda m, memo: {"recursive": m.isRecursive}, _exit_request),
    DeadEnvelope: _Form(
        _Dead,
        lambda m, memo: {"address": m.deadAddress, "message": _box(m.deadMessage, memo)},
        lambda w, codec: DeadEnvelope(w.address, codec.decode(w.message.type, w.message.payload)),
    ),
    PoisonMessage: _Form(
        _Poison,
        lambda m, memo: {"details": m.details, "poison": _box(m.poisonMessage, memo)},
        lambda w, codec: PoisonMessage(codec.decode(w.poison.type, w.poison.payload), w.details),
    ),
}
"""Those of Thespian's own messages that actors receive."""

_VALUES: dict[str, type] = {
    cls.__name__: cls for cls in (type(None), bool, int, float, str, bytes, tuple, ActorAddress)
}
"""Plain values by type name; a tuple here is one of plain values."""

_THESPIAN_BY_NAME = {cls.__name__: cls for cls in _THESPIAN}


@cache
def vocabulary() -> dict[str, type]:
    """Every message class by name, once all modules of `messages` have been imported (that is what registers them)."""
    for module in pkgutil.iter_modules(messages.__path__, "messages."):
        if not module.ispkg:
            importlib.import_module(module.name)
    return VOCABULARY


def type_name(value: object) -> str:
    """The name that stands for the value's class in a trace. Raises UnknownType for a class that has no form."""
    cls = type(value)
    name = cls.__name__
    if VOCABULARY.get(name) is cls or cls in _THESPIAN or _VALUES.get(name) is cls:
        return name
    if isinstance(value, ActorAddress):
        return ActorAddress.__name__
    raise UnknownType(f"{cls.__module__}.{cls.__qualname__} is no message")


@cache
def _form_of_class(cls: Any) -> _Form:
    return _THESPIAN[cls] if cls in _THESPIAN else _form(cls)


def _form_of_name(name: str) -> _Form:
    cls = VOCABULARY.get(name) or _THESPIAN_BY_NAME.get(name) or _VALUES.get(name) or vocabulary().get(name)
    if cls is None:
        raise UnknownType(f"no message is called {name!r}")
    return _form_of_class(cls)


# ------------------------------------------------------------------------------------------------ encoding


def address_text(address: ActorAddress | None) -> str:
    """An address as traces name it: "ClassName.N" for an actor, "outside:name" for an outsider, "" for none."""
    if address is None:
        return ""
    text = address._aaddr
    return text if text.__class__ is str else str(text)


def _encode_other(value: Any) -> str:
    if isinstance(value, ActorAddress):
        return address_text(value)
    raise UnknownType(f"{type(value).__module__}.{type(value).__qualname__} cannot be part of a message")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_other, order="deterministic")


class Batch:
    """Encodes what is recorded together; long tuples that several messages share are encoded once per batch."""

    def __init__(self) -> None:
        self._memo = _Memo()

    def payload(self, message: object) -> tuple[str, Any]:
        """(type name, what stands for the payload in a row). Raises UnknownType, BadPayload."""
        try:
            return _box(message, self._memo)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            raise BadPayload(f"{type(message).__name__} cannot be encoded: {error}") from error

    def append(self, row: Any, lines: bytearray) -> None:
        """Append the row to `lines` as one line of JSON. Raises UnknownType, BadPayload; `lines` may then be longer."""
        try:
            _ENCODER.encode_into(row, lines, -1)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadPayload(f"cannot be encoded: {error}") from error
        lines += b"\n"


def encode(message: object) -> tuple[str, bytes]:
    """(type name, payload) of one message. Raises UnknownType, BadPayload."""
    try:
        name, payload = _box(message, _Memo())
        return name, _ENCODER.encode(payload)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise BadPayload(f"{type(message).__name__} cannot be encoded: {error}") from error


# ------------------------------------------------------------------------------------------------ decoding


class Codec:
    """Decodes payloads; `address` makes an ActorAddress from its text (by default one that only compares by it)."""

    def __init__(self, address: Callable[[str], ActorAddress] = ActorAddress) -> None:
        self._address = address
        self._decoders: dict[str, tuple[msgspec.json.Decoder[Any], _Build | None]] = {}

    def decode(self, name: str, payload: bytes | msgspec.Raw) -> Any:
        """The message of that type. Raises UnknownType, BadPayload."""
        if name not in self._decoders:
            form = _form_of_name(name)
            self._decoders[name] = msgspec.json.Decoder(form.wire, dec_hook=self._decode_other), form.build
        decoder, build = self._decoders[name]
        try:
            decoded = decoder.decode(payload)
        except msgspec.DecodeError as error:
            raise BadPayload(f"{name}: {error}") from error
        return decoded if build is None else build(decoded, self)

    def _decode_other(self, cls: type, value: Any) -> Any:
        if cls is ActorAddress and isinstance(value, str):
            return self._address(value)
        raise UnknownType(f"{cls.__qualname__} cannot be part of a message")


_CODEC = Codec()


def decode(name: str, payload: bytes | msgspec.Raw) -> Any:
    """The message of that type, its addresses made from their text alone. Raises UnknownType, BadPayload."""
    return _CODEC.decode(name, payload)
