"""The decorator `message`, which makes an immutable attrs class and registers its unique name.

Rule 1: a message is a value. It has no behaviour and no mutable content.
Rule 2: its name is unique: actors dispatch on the bare class name, and traces identify types by it.
Rule 3: its fields have concrete types: numbers, str, bytes, tuples, NamedTuples, other messages, `X | None`,
        ActorAddress. The reason is that `messages.trace` encodes and decodes by the annotations alone. A mapping is a
        tuple of entries. A field that can hold any message is annotated `Message`. A field that can hold any storable
        value is annotated `object`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar, ParamSpec, TypeAlias, TypeVar, dataclass_transform

import attrs

VOCABULARY: dict[str, type] = {}
"""All message classes by bare name, in order of definition."""

_FIELD = type(attrs.field())
_T = TypeVar("_T", bound=type)


class Message:
    """The base class of messages. A field of this type can hold any message; traces store the message's class, too.

    A field that can also hold a number, text or tuple is annotated with `object`, and stored in the same way.
    """

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[object, ...]]
    """The fields; `attrs.fields` requires it."""


AnyMessage: TypeAlias = Any
"""Annotation of a message whose class the code knows in another way, such as a request that was dispatched by class.

Traces store a field with this annotation like one of the class Message.
"""


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def message(cls: _T) -> _T:
    """Make `cls` a message: frozen, slotted, registered under its bare name.

    Raises:
        TypeError: Another message has the same name.
    """
    made: Any = value_class(cls)
    if made.__name__ in VOCABULARY:
        first = VOCABULARY[made.__name__].__module__
        raise TypeError(f"message {made.__name__} is defined twice: in {first} and in {made.__module__}")
    VOCABULARY[made.__name__] = made
    return made


@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field,))
def value_class(cls: _T) -> _T:
    """Return the class, frozen and with slots, as `attrs.frozen` does; attrs makes its fields at their first use.

    attrs needs a third of a node's start-up for all classes, of which a starting node uses one in five. One __repr__
    serves all classes; __init__, __eq__ and __hash__ are generated at their first call.
    """
    fields = [name for name, kind in vars(cls).get("__annotations__", {}).items() if "ClassVar" not in str(kind)]
    inherited = getattr(cls, "_defaults", {})
    defaults = {name: value for name, value in inherited.items() if name not in fields}
    defaults |= {name: vars(cls).get(name, attrs.NOTHING) for name in fields}
    body = {name: value for name, value in vars(cls).items() if name not in (*fields, "__dict__", "__weakref__")}
    body["__slots__"] = tuple([name for name in fields if name not in inherited])
    body |= {"__match_args__": (*defaults,), "_defaults": defaults}
    body |= {"__repr__": _repr_of, "__eq__": _equal, "__hash__": _hash_of, "__init__": _first_init}
    body["__setstate__"] = _set_state
    body |= {"__setattr__": _refuse, "__delattr__": _refuse, "__attrs_attrs__": (deferred := _DeferredFields(cls))}
    deferred.made = made = type(cls)(cls.__name__, cls.__bases__, body)
    for value in body.values():  # super() refers to its class by a cell
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        for cell in getattr(function, "__closure__", None) or ():
            with suppress(ValueError):  # an empty cell
                if cell.cell_contents is cls:
                    cell.cell_contents = made
    return made


class _DeferredFields:
    """The fields of a class until they are first read: attrs then makes them from the declared class."""

    made: Any
    """The class that `message` returns."""

    def __init__(self, declared: type) -> None:
        self._declared = declared

    def __get__(self, value: object, owner: type) -> Any:
        whole: Any = attrs.frozen(self._declared, repr=False, eq=False, init=False, slots=False)
        self.made.__attrs_attrs__ = whole.__attrs_attrs__
        return whole.__attrs_attrs__


def _first_init(self: Any, *args: object, **fields: object) -> None:
    """Generate the constructor at its first call; attrs would take five times as long for it."""
    kind: Any = type(self)
    names: dict[str, Any] = {f"__set_{name}": getattr(kind, name).__set__ for name in kind.__match_args__}
    lines = [f"    __set_{name}(self, {name})\n" for name in kind.__match_args__]
    exec(f"def __init__(self, {_parameters(kind, names)}):\n{''.join(lines)}    return None\n", names)
    kind.__init__ = names["__init__"]
    self.__init__(*args, **fields)


def defaults_of(kind: Any) -> dict[str, object]:
    """Return the fields of a message class, or of an attrs class, with their defaults: NOTHING if there is none.

    Raises:
        TypeError: The constructor does more than set the fields.
    """
    defaults: dict[str, object] | None = getattr(kind, "_defaults", None)
    if defaults is not None and not any(isinstance(value, _FIELD) for value in defaults.values()):
        return defaults
    for field in attrs.fields(kind):
        if field.validator or field.converter or not field.init or field.kw_only:
            raise TypeError(f"field {kind.__name__}.{field.name} must not have a validator or converter")
        if isinstance(field.default, attrs.Factory):  # type: ignore[arg-type]
            raise TypeError(
                f"field {kind.__name__}.{field.name} of a message must have an immutable default, not a default factory"
            )
    return {field.name: field.default for field in attrs.fields(kind)}


def _parameters(kind: Any, names: dict[str, Any]) -> str:
    """Return the parameters of a constructor, and add their defaults to `names`."""
    defaults = defaults_of(kind)
    names |= {f"_{name}": value for name, value in defaults.items() if value is not attrs.NOTHING}
    return ", ".join(f"{name}=_{name}" if f"_{name}" in names else name for name in defaults)


def _set_state(self: object, state: tuple[None, dict[str, object]]) -> None:
    """Set the fields of a copy: `copy` and `pickle` cannot assign to them."""
    for name, value in state[1].items():
        object.__setattr__(self, name, value)


def _refuse(self: object, *args: object) -> None:
    raise attrs.exceptions.FrozenInstanceError


def _repr_of(value: Any) -> str:
    fields = (f"{name}={getattr(value, name)!r}" for name in value.__match_args__)
    return f"{type(value).__name__}({', '.join(fields)})"


def _equal(value: Any, other: object) -> Any:
    return _comparable(type(value)).__eq__(value, other)


def _hash_of(value: Any) -> int:
    return _comparable(type(value)).__hash__(value)


def _comparable(kind: Any) -> Any:
    """Replace the shared __eq__ and __hash__ of the class by the methods that attrs generates for its fields."""
    donor: Any = attrs.make_class(kind.__name__, kind.__match_args__, init=False, repr=False, order=False, frozen=True)
    kind.__eq__, kind.__hash__ = donor.__eq__, donor.__hash__
    return kind


_V = TypeVar("_V")


def evolve(value: _V, /, **fields: Any) -> _V:
    """Return a copy of the message in which the fields in `fields` have the given values."""
    whole: Any = value
    made: _V = attrs.evolve(whole, **fields)
    return made


_P = ParamSpec("_P")
_M = TypeVar("_M")


def maker(kind: Callable[_P, _M]) -> Callable[_P, _M]:
    """Return a function that creates values of a frozen, slotted attrs class in a third of the constructor's time.

    The constructor of a frozen class calls `object.__setattr__` for each field. The returned function is faster: it
    creates an object of a mutable twin class with the same layout, sets the fields, and then changes the object's class
    to the frozen one. Use it where hundreds of thousands of values are created.

    Raises:
        TypeError: The constructor of the class does more than set its fields.
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
    head = f"def make({_parameters(made, names)}):\n    self = __new(__twin)\n"
    lines = [f"    self.{name} = {name}\n" for name in made.__match_args__]
    exec("".join((head, *lines, "    self.__class__ = __class\n    return self\n")), names)
    make: Callable[_P, _M] = names["make"]
    return make
