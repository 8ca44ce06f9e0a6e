"""Convert the state of an actor to a value that a trace can store, and back.

Rule 1: the state of an actor is all of its attributes and the values reachable from them, so actors declare nothing. A
        value that cannot be stored causes an error that names the value's path. Supported values: values that traces
        encode, Python's containers, NamedTuples, objects and enumerations of this project, addresses, and the actor's
        own methods and adapters.
Rule 2: shared values stay shared: if two attributes refer to the same list, they also refer to the same list in the
        restored actor.
Rule 3: a suspended event handler is stored as its name. An actor with a suspended handler cannot be restored.
Rule 4: no code of actors runs while restoring. Names are only looked up in the modules of this project.
"""

from __future__ import annotations

import importlib
import json
from collections import deque
from collections.abc import Iterator
from enum import Enum
from functools import cache
from types import BuiltinFunctionType, FunctionType, GeneratorType, MappingProxyType, MethodType
from typing import Any

from thespian.actors import Actor, ActorAddress

from actors.runtime.kernel.modules import PREFIX, class_name, short_name
from actors.runtime.kernel.reference import Adapter
from messages.state import (
    ActorState,
    StateBackReference,
    StateItems,
    StateName,
    StateObject,
    StatePart,
    StateRuntimeReference,
    StateSuspended,
    StateTable,
)
from messages.trace.codec import encode
from messages.trace.thespian import THESPIAN
from messages.vocabulary import VOCABULARY

_OURS = ("messages", "actors", "zk_bridge")
_ITSELF = frozenset((type(None), bool, int, float, str, bytes))
_CONTAINERS: dict[str, Any] = {cls.__name__: cls for cls in (tuple, list, deque, set, frozenset)}
_BUILTINS: dict[str, Any] = {cls.__name__: cls for cls in (bool, int, float, str, bytes, *_CONTAINERS.values(), dict)}
_COMPOUND = frozenset((*_CONTAINERS.values(), dict, MappingProxyType))
_MUTABLE = (list, deque, set)
_BOUNDED = "deque "
"""Prefix of the kind of a deque with a maximum length."""
_SHELL = "_myRef"
"""The only attribute of an actor that belongs to the system."""


Where = str | tuple[Any, str, Any]
"""The path of a value: the actor's class, or (path of the container, "." or "[" or "key", key)."""


class UnstorableValue(TypeError):
    """A value in an actor's state cannot be stored; the exception's message names its path and type."""


class NotAtRest(RuntimeError):
    """The state of an actor cannot be restored, because the actor waited for an answer when the state was stored."""


def state_of(actor: Any) -> ActorState:
    """Return the state of an actor. Raises UnstorableValue."""
    walk = _Encoder(actor)
    parts = tuple(
        StatePart(name, walk.frozen(value, (type(actor).__name__, ".", name)))
        for name, value in sorted(vars(actor).items())
        if name != _SHELL
    )
    return ActorState(class_name(type(actor)), parts)


def restore(actor: Any, state: ActorState) -> None:
    """Replace the attributes of a new actor by the stored attributes. Raises NotAtRest, LookupError."""
    thawing = _Decoder(actor)
    held = {part.key: thawing.decode(part.value) for part in state.parts}
    shell = vars(actor).get(_SHELL)
    vars(actor).clear()
    vars(actor).update(held)
    if shell is not None:
        vars(actor)[_SHELL] = shell


def actor_class(name: str) -> type[Actor]:
    """Return the actor class "module:Class" of this project. Raises LookupError if there is none."""
    cls = _find_named(name)
    if isinstance(cls, type) and issubclass(cls, Actor):
        return cls
    raise LookupError(f"the trace refers to the class {name}, which is not an actor class")


class _Encoder:
    """Converts an actor's attributes to values that a trace can store."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        """Numbered objects, kept alive because a freed id could be reused."""

    def frozen(self, value: Any, where: Where) -> Any:
        """Return the stored form of a value. A plain value, such as an int, is its own stored form."""
        cls: Any = type(value)
        if cls in _ITSELF or _is_message(cls) or isinstance(value, ActorAddress):
            return value
        if cls in _COMPOUND or isinstance(value, tuple):
            seen = self._numbers.get(id(value))
            return self._compound(value, cls, where) if seen is None else StateBackReference(seen)
        if isinstance(value, Enum):
            return StateName(f"{_name_of(cls)}.{value.name}")
        if isinstance(value, type | FunctionType | BuiltinFunctionType):
            return StateName(_name_of(value, _path_text(where)))
        if isinstance(value, MethodType) and value.__self__ is self._actor:
            return StateRuntimeReference(value.__name__)
        if cls is Adapter:
            return StateRuntimeReference(f"port:{value._name}")
        if isinstance(value, GeneratorType):
            return StateSuspended(value.__qualname__)
        if id(value) in self._numbers:
            return StateBackReference(self._numbers[id(value)])
        return self._compound(value, cls, where)

    def _compound(self, value: Any, cls: type, where: Where) -> Any:
        if cls in (dict, MappingProxyType):
            number = self._number(value)
            entries = [
                StatePart(
                    key if type(key) in _ITSELF else self.frozen(key, (where, "key", key)),
                    each if type(each) in _ITSELF else self.frozen(each, (where, "[", key)),
                )
                for key, each in value.items()
            ]
            return StateTable(cls is dict, number, tuple(entries))
        if cls in _CONTAINERS.values():
            number = self._number(value) if cls in _MUTABLE else 0
            entries = _sort_values(value) if cls in (set, frozenset) else value
            items = tuple(
                [
                    each if type(each) in _ITSELF else self.frozen(each, (where, "[", n))
                    for n, each in enumerate(entries)
                ]
            )
            bound = getattr(value, "maxlen", None)
            return StateItems(cls.__name__ if bound is None else f"{_BOUNDED}{bound}", number, items)
        if not _is_ours(cls.__module__):
            raise UnstorableValue(
                f"{_path_text(where)} has a type that cannot be stored ({cls.__module__}.{cls.__qualname__})"
            )
        named = isinstance(value, tuple)
        number = 0 if named else self._number(value)
        fields = zip(value._fields, value, strict=True) if isinstance(value, tuple) else _attributes(value)  # type: ignore[attr-defined]
        parts = tuple(
            [
                StatePart(name, each if type(each) in _ITSELF else self.frozen(each, (where, ".", name)))
                for name, each in fields
            ]
        )
        return StateObject(number, _name_of(cls), parts)

    def _number(self, value: Any) -> int:
        self._kept.append(value)
        self._numbers[id(value)] = number = len(self._kept)
        return number


def displayed_state(state: ActorState) -> dict[str, Any]:
    """Return the state for display: JSON values by attribute.

    A shared value is shown at its first place. At each other place, the path of the first place is shown.
    """
    showing = _Formatter()
    return {name: showing.format(value, f".{name}") for name, value in state.parts}


def shown_value(actor: Any, value: Any) -> Any:
    """Return a part of an actor's state in the format of `format`. Raises UnstorableValue."""
    return _Formatter().format(_Encoder(actor).frozen(value, type(actor).__name__), "")


def shown_key(actor: Any, key: Any) -> str:
    """Return the text by which `format` names a key of a dictionary. Raises UnstorableValue."""
    return key if type(key) is str else _Formatter().key(_Encoder(actor).frozen(key, type(actor).__name__), "")


class _Formatter:
    """Converts a stored state to text for display."""

    def __init__(self) -> None:
        self._seen_at: dict[int, str] = {}

    def format(self, form: Any, place: str) -> Any:
        """Return the displayed form of a stored value."""
        match form:
            case StateBackReference(number):
                return {"same as": self._seen_at.get(number, "")}
            case StateName(name) | StateRuntimeReference(name):
                return name
            case StateSuspended(name):
                return {"suspended in": name}
            case StateTable(_, number, entries):
                self._seen_at[number] = place
                texts = [self.key(key, place) for key, _ in entries]
                values = (value for _, value in entries)
                return {text: self.format(value, f"{place}[{text}]") for text, value in zip(texts, values, strict=True)}
            case StateItems(_, number, items):
                self._seen_at[number] = place
                return [self.format(each, f"{place}[{index}]") for index, each in enumerate(items)]
            case StateObject(number, name, parts):
                self._seen_at[number] = place
                cls = name.partition(":")[2]
                return {"class": cls} | {name: self.format(value, f"{place}.{name}") for name, value in parts}
            case None | bool() | int() | float() | str():
                return form
        name, payload = encode(form)
        content = json.loads(payload)
        return {"message": name, **content} if isinstance(content, dict) else content

    def key(self, key: Any, place: str) -> str:
        """Return the text of a dictionary's key."""
        if isinstance(key, StateObject):
            return " ".join(str(self.format(value, place)) for _, value in key.parts)
        text = self.format(key, place)
        return text if isinstance(text, str) else json.dumps(text)


class _Decoder:
    """Converts a stored state back to an actor's attributes."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor
        self._things: dict[int, Any] = {}

    def decode(self, form: Any) -> Any:
        """Return the value of a stored form."""
        match form:
            case StateBackReference(number):
                return self._things[number]
            case StateName(name):
                return _find_named(name)
            case StateRuntimeReference(name):
                port = name.removeprefix("port:")
                return self._actor.port(port) if port != name else getattr(self._actor, name)
            case StateSuspended(name):
                raise NotAtRest(f"{type(self._actor).__name__} is in the middle of {name}")
            case StateTable(mutable, number, entries):
                table: dict[Any, Any] = {}
                self._things[number] = table if mutable else MappingProxyType(table)
                for key, value in entries:
                    table[self.decode(key)] = self.decode(value)
                return self._things[number]
            case StateItems(kind, number, items):
                return self._items(kind, number, items)
            case StateObject(number, name, parts):
                return self._object(_find_named(name), number, parts)
            case ActorAddress():
                return self._address(form)
        return form

    def _items(self, kind: str, number: int, items: tuple[Any, ...]) -> Any:
        bounded = kind.startswith(_BOUNDED)
        cls = deque if bounded else _CONTAINERS[kind]
        if cls not in _MUTABLE:
            return cls(self.decode(each) for each in items)
        container: Any = deque(maxlen=int(kind.removeprefix(_BOUNDED))) if bounded else cls()
        self._things[number] = container
        put = container.add if cls is set else container.append
        for each in items:
            put(self.decode(each))
        return container

    def _object(self, cls: Any, number: int, parts: tuple[StatePart, ...]) -> Any:
        if issubclass(cls, tuple):
            return cls._make([self.decode(value) for _, value in parts])  # type: ignore[attr-defined]
        thing = self._things[number] = cls.__new__(cls)
        for name, value in parts:
            object.__setattr__(thing, name, self.decode(value))
        return thing

    def _address(self, address: ActorAddress) -> ActorAddress:
        """Return the actor system's own address object for this address, if the actor has a known system."""
        base = getattr(getattr(self._actor, _SHELL, None), "base", None)
        known: ActorAddress = address if base is None else base.address_of(address.actorAddressString)
        return known


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield an object's attributes in the order of their names, including those in slots."""
    slots = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ()) if name != "__weakref__"]
    for name in sorted({*slots, *getattr(value, "__dict__", {})} - {"__dict__"}):
        if hasattr(value, name):
            yield name, getattr(value, name)


def _sort_values(values: Any) -> list[Any]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=repr)


def _path_text(where: Where) -> str:
    """Return the path of a value as text."""
    if isinstance(where, str):
        return where
    above, step, key = where
    if step == "key":
        return f"key of {_path_text(above)}"
    return f"{_path_text(above)}.{key}" if step == "." else f"{_path_text(above)}[{key!r}]"


@cache
def _name_of(thing: Any, where: str = "") -> str:
    """Return a class or function as "module:name". Raises UnstorableValue if the name refers to something else."""
    name = class_name(thing)
    try:
        if _find_named(name) is thing:
            return name
    except LookupError:
        pass
    raise UnstorableValue(
        f"{where or name} cannot be stored: {name} is not a class, function or enum member of this project"
    )


@cache
def _is_message(cls: type) -> bool:
    """Return whether the trace's codec encodes values of this class.

    The codec encodes this project's messages, and the messages that Thespian delivers.
    """
    return VOCABULARY.get(cls.__name__) is cls or cls in THESPIAN


@cache
def _is_ours(module: str) -> bool:
    """Return whether a module is in a package of this project."""
    return short_name(module).partition(".")[0] in _OURS


def _find_named(name: str) -> Any:
    """Return the class, function or enum member with this name. Raises LookupError for any other object."""
    module, _, path = name.partition(":")
    if module == "builtins" and path in _BUILTINS:
        return _BUILTINS[path]
    if module.partition(".")[0] in _OURS and not module.endswith("__main__"):
        try:
            thing: Any = importlib.import_module(PREFIX + module)
        except ImportError as error:
            raise LookupError(f"{name}: {error}") from error
        for part in path.split("."):
            thing = getattr(thing, part, None)
        if isinstance(thing, type | FunctionType | Enum) and _is_ours(thing.__module__):
            return thing
    raise LookupError(f"the trace refers to {name}, which is not part of this project")
