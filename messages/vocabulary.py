"""The decorator `message`, which makes an immutable attrs class and registers its name; each name is unique in the
project.

Rule 1: a message is a value. It has no behaviour, and nothing mutable hangs off it.
Rule 2: its name is unique: actors dispatch on the bare class name, and traces name types by it.
Rule 3: its fields are concretely typed (`messages.trace` encodes and decodes by the annotations alone):
        numbers, str, bytes, tuples, NamedTuples, other messages, `X | None`, ActorAddress; a mapping is a
        tuple of entries; a field that holds any message at all is annotated `Message`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, dataclass_transform

import attrs

VOCABULARY: dict[str, type] = {}
"""Every message class by its bare name, in order of definition."""

_T = TypeVar("_T", bound=type)

Message = Any
"""Annotation of a field that holds some message of the vocabulary, whichever (encoded as name and payload)."""


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def message(cls: _T) -> _T:
    """Make `cls` a message: frozen, slotted, registered under its bare name.

    Raises TypeError if another message has the name already.
    """
    made: Any = attrs.frozen(cls, repr=False, eq=False)
    if made.__name__ in VOCABULARY:
        first = VOCABULARY[made.__name__].__module__
        raise TypeError(f"message {made.__name__} is defined twice: in {first} and in {made.__module__}")
    # Methods made for each class take a tenth of the time in which a node starts: one serves all, two are made when
    # they are first called, which is seldom.
    made.__repr__, made.__eq__, made.__hash__ = _described, _equal, _hashed
    VOCABULARY[made.__name__] = made
    return made


def _described(value: Any) -> str:
    fields = (f"{field.name}={getattr(value, field.name)!r}" for field in attrs.fields(type(value)))
    return f"{type(value).__name__}({', '.join(fields)})"


def _equal(value: Any, other: object) -> Any:
    return _comparable(type(value)).__eq__(value, other)


def _hashed(value: Any) -> int:
    return _comparable(type(value)).__hash__(value)  # type: ignore[no-any-return]


def _comparable(kind: Any) -> Any:
    """Give the class what attrs makes for its fields, in place of the above."""
    fields = [field.name for field in attrs.fields(kind)]
    donor: Any = attrs.make_class(kind.__name__, fields, init=False, repr=False, order=False, frozen=True)
    kind.__eq__, kind.__hash__ = donor.__eq__, donor.__hash__
    return kind


_V = TypeVar("_V")


def changed(value: _V, **fields: Any) -> _V:
    """The same message with other values of these fields."""
    whole: Any = value
    made: _V = attrs.evolve(whole, **fields)
    return made


_P = ParamSpec("_P")
_M = TypeVar("_M")


def maker(kind: Callable[_P, _M]) -> Callable[_P, _M]:
    """A function that makes values as the constructor of a frozen, slotted attrs class does, in a third of the time.

    For where hundreds of thousands are made: the constructor of a frozen class sets each field by a call of
    `object.__setattr__`. This sets the fields of an open twin of the same layout, and says then what it is.
    Raises TypeError for a class whose constructor does more than that.
    """
    made: Any = kind
    if {"__attrs_post_init__", "__attrs_init__", "__init_subclass__"} & vars(made).keys():
        raise TypeError(f"message class {made.__name__} must not define a constructor hook such as __attrs_post_init__")
    names: dict[str, Any] = {"__new": object.__new__, "__class": kind}
    names["__twin"] = type(
        made.__name__,
        (made,),
        {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__},
    )
    parameters, lines = [], []
    for field in attrs.fields(made):
        if field.validator or field.converter or not field.init or field.kw_only:
            raise TypeError(f"field {made.__name__}.{field.name} must not have a validator or converter")
        if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            raise TypeError(
                f"field {made.__name__}.{field.name} of a message must have an immutable default, not a default factory"
            )
        parameters.append(field.name)
        if field.default is not attrs.NOTHING:
            names[f"_{field.name}"] = field.default
            parameters[-1] += f"=_{field.name}"
        lines.append(f"    self.{field.name} = {field.name}\n")
    head = f"def make({', '.join(parameters)}):\n    self = __new(__twin)\n"
    exec("".join((head, *lines, "    self.__class__ = __class\n    return self\n")), names)
    make: Callable[_P, _M] = names["make"]
    return make
