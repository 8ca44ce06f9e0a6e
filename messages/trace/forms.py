"""Compute how values of each type annotation are represented in JSON.

Rule 1: a message is a JSON object of its fields, keys sorted; a NamedTuple is an array, bytes are base64, an
        ActorAddress is its text. Equal messages have equal bytes. A Secret is a mask.
Rule 2: a field that holds any message (annotated `Message`) is boxed as [type name, payload], also inside tuples.
Rule 3: msgspec encodes most values directly. Values with a boxed field or a long tuple are converted first. The encoder
        decides whether a long tuple is shared with other messages.
"""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, Protocol

import attrs
import msgspec

from messages.apis.fetch import AbortedTransaction
from messages.apis.produce import RecordError
from messages.parts import KEEP_ROWS, Part
from messages.records import BatchHeader
from messages.security import Secret
from messages.sensitive_configs import MASK
from messages.vocabulary import Message, defaults_of

LONG_TUPLE = 64
"""Minimum length of a tuple of messages or NamedTuples that may be shared."""

NEVER_SHARED = (bool, int, float, str, bytes, BatchHeader, RecordError, AbortedTransaction)
"""Element types of tuples that are never shared or converted: they are cheap to encode, or their tuples are always
short.
"""


class Encoding(Protocol):
    """The interface of an encoder; `Form.plain` calls it to convert a value for JSON."""

    def box(self, value: object) -> tuple[str, Any]:
        """Return (type name, encodable payload) of any message. Raises UnknownType."""

    def share(self, value: tuple[Any, ...], plain: Plain | None, part: Part | None = None) -> Any:
        """Return the encodable form of a long tuple.

        Args:
            value: The tuple.
            plain: Converts an entry; None: entries need no conversion.
            part: The part of a large message that has these entries.
        """


class Decoding(Protocol):
    """The interface of a decoder; `Form.build` calls it to restore a value from JSON."""

    def decode(self, name: str, payload: bytes | msgspec.Raw) -> Any:
        """Return the message of the type `name`. Raises UnknownType, BadPayload."""


Plain = Callable[[Any, Encoding], Any]
Build = Callable[[Any, Decoding], Any]


class Form(NamedTuple):
    """How values of one type annotation are represented in JSON, with the functions that convert them.

    `wire` is the type that msgspec decodes. `plain` converts a value for msgspec's encoder. `build` converts a decoded
    value of the type `wire` to the original value. If one of these functions is None, no conversion is needed.
    """

    wire: Any
    plain: Plain | None = None
    build: Build | None = None


class Boxed(msgspec.Struct, array_like=True, frozen=True):
    """A message of any class, encoded together with the name of its class."""

    type: str
    payload: msgspec.Raw


_ANY = Form(
    Boxed,
    lambda value, encoding: encoding.box(value),
    lambda boxed, decoding: decoding.decode(boxed.type, boxed.payload),
)


@cache
def form(annotation: object) -> Form:
    """Return the Form of an annotation. Raises TypeError if `messages.vocabulary` (rule 3) excludes the annotation."""
    if annotation in (Message, object, Any):
        return _ANY
    if annotation is Secret:
        return Form(str, lambda value, encoding: MASK, lambda text, decoding: Secret(text.encode()))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union_form(annotation, arguments)
    if origin is tuple:
        return _tuple_form(arguments)
    if isinstance(annotation, type) and (issubclass(annotation, Message) or attrs.has(annotation)):
        return _attrs_form(annotation)
    if isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        return _named_tuple_form(annotation)
    return Form(annotation)


def _is_plain(forms: list[Form]) -> bool:
    return all(each.plain is None and each.build is None for each in forms)


def _union_form(annotation: object, arguments: tuple[Any, ...]) -> Form:
    forms = [form(argument) for argument in arguments if argument is not type(None)]
    if _is_plain(forms):
        return Form(annotation)
    if len(forms) != 1 or len(arguments) != 2:
        raise TypeError(f"the union {annotation} cannot be stored in traces: only a union of one class and None can")
    wire, plain, build = forms[0]
    return Form(
        wire | None,
        None if plain is None else lambda value, encoding: None if value is None else plain(value, encoding),
        None if build is None else lambda value, decoding: None if value is None else build(value, decoding),
    )


def _tuple_form(arguments: tuple[Any, ...]) -> Form:
    if len(arguments) != 2 or arguments[1] is not Ellipsis:
        forms = [form(argument) for argument in arguments]
        if _is_plain(forms):
            return Form(tuple.__class_getitem__(arguments))
        return Form(
            tuple.__class_getitem__(tuple(each.wire for each in forms)),
            lambda value, encoding: tuple(
                entry if each.plain is None else each.plain(entry, encoding)
                for each, entry in zip(forms, value, strict=True)
            ),
            lambda value, decoding: tuple(
                entry if each.build is None else each.build(entry, decoding)
                for each, entry in zip(forms, value, strict=True)
            ),
        )
    wire, plain, build = form(arguments[0])
    if arguments[0] in NEVER_SHARED:
        return Form(tuple.__class_getitem__((wire, ...)))

    def apart(value: tuple[Any, ...], encoding: Encoding) -> Any:
        if len(value) >= LONG_TUPLE:
            return encoding.share(value, plain)
        return value if plain is None else _rebuild_tuple(value, [plain(entry, encoding) for entry in value])

    return Form(
        tuple.__class_getitem__((wire, ...)),
        apart,
        None if build is None else lambda value, decoding: tuple([build(entry, decoding) for entry in value]),
    )


def _rebuild_tuple(value: tuple[Any, ...], entries: list[Any]) -> Any:
    """Return the converted `entries` of a tuple, or the tuple `value` itself if no entry was converted (rule 3)."""
    return value if all(map(operator.is_, value, entries)) else entries


def _field_plain(names: tuple[str, ...], forms: list[Form]) -> list[tuple[str, Plain]]:
    return [(name, each.plain) for name, each in zip(names, forms, strict=True) if each.plain is not None]


def _attrs_form(cls: type) -> Form:
    hints = typing.get_type_hints(cls)
    defaults = defaults_of(cls)
    names = tuple(defaults)
    forms = [form(hints[name]) for name in names]
    special, substitute = _field_plain(names, forms), _substitute(cls, names)
    if cls in KEEP_ROWS:
        return Form(cls, partial(_part_plain, substitute))

    def plain(value: object, encoding: Encoding) -> Any:
        changed = {}
        for name, field_plain in special:
            old = getattr(value, name)
            new = field_plain(old, encoding)
            if new is not old:
                changed[name] = new
        return substitute(value, changed) if changed else value

    if all(each.build is None for each in forms):
        return Form(cls, plain if special else None)
    shadow = msgspec.defstruct(
        cls.__name__,
        [
            (name, each.wire) if default is attrs.NOTHING else (name, each.wire | msgspec.UnsetType, msgspec.UNSET)
            for (name, default), each in zip(defaults.items(), forms, strict=True)
        ],
        kw_only=True,
    )
    builders = [(name, each.build) for name, each in zip(names, forms, strict=True)]

    def build(decoded: object, decoding: Decoding) -> Any:
        given = {}
        for name, field_build in builders:
            value = getattr(decoded, name)
            if value is not msgspec.UNSET:
                given[name] = value if field_build is None else field_build(value, decoding)
        return cls(**given)

    return Form(shadow, plain, build)


def _part_plain(substitute: Callable[[Any, dict[str, Any]], Any], part: Any, encoding: Encoding) -> Any:
    """Return the encodable form of a part of a large message; `encoding.share` converts a long tuple of entries."""
    if len(part.entries) < LONG_TUPLE:
        return part
    return substitute(part, {"entries": encoding.share(part.entries, None, part)})


def _substitute(cls: type, names: tuple[str, ...]) -> Callable[[Any, dict[str, Any]], Any]:
    """Return a function that converts an instance of `cls` to a struct with sorted keys.

    The function's second argument has the new values of the fields that it replaces in the struct.
    """
    ordered = sorted(names)
    struct = msgspec.defstruct(cls.__name__, ordered)
    # One name is repeated, because attrgetter returns a tuple only for two or more names.
    all_of = operator.attrgetter(*ordered, ordered[0]) if names else tuple

    def make(value: Any, changed: dict[str, Any]) -> Any:
        stands = struct(*all_of(value)[:-1])
        for name, field in changed.items():
            setattr(stands, name, field)
        return stands

    return make


def _named_tuple_form(cls: Any) -> Form:
    hints = typing.get_type_hints(cls)
    forms = [form(hints[name]) for name in cls._fields]
    plains = [each.plain for each in forms]

    def plain(value: Any, encoding: Encoding) -> Any:
        apart = [entry if each is None else each(entry, encoding) for each, entry in zip(plains, value, strict=True)]
        return _rebuild_tuple(value, apart)

    if all(each.build is None for each in forms):
        return Form(cls, plain if any(plains) else None)
    fields = [(name, each.wire) for name, each in zip(cls._fields, forms, strict=True)]
    shadow = msgspec.defstruct(cls.__name__, fields, array_like=True)

    def build(decoded: Any, decoding: Decoding) -> Any:
        entries = (getattr(decoded, name) for name in cls._fields)
        return cls(
            *(
                entry if each.build is None else each.build(entry, decoding)
                for each, entry in zip(forms, entries, strict=True)
            )
        )

    return Form(shadow, plain, build)
