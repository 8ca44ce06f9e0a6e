"""The names by which traces refer to classes.

A type name is the name of a class: a message class, the class of a Thespian message that an actor can receive, or the
class of a plain value (`str`, `int`, ...). Thespian can send a plain value, or use it as a timer's payload. No other
class has a JSON form.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from thespian.actors import ActorAddress

import messages as package
from messages.trace.errors import UnknownType
from messages.trace.forms import Form, form
from messages.trace.thespian import THESPIAN
from messages.vocabulary import VOCABULARY

_VALUES: dict[str, type] = {
    cls.__name__: cls for cls in (type(None), bool, int, float, str, bytes, tuple, ActorAddress)
}
"""Plain values by type name; a tuple here has only plain values."""

_THESPIAN = {cls.__name__: cls for cls in THESPIAN}


@cache
def vocabulary() -> dict[str, type]:
    """Import all modules of `messages`, which registers their message classes, and return all classes by name."""
    for module in pkgutil.iter_modules(package.__path__):
        if module.name not in ("facts", "trace", "wire"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    return VOCABULARY


def type_name(value: object) -> str:
    """Return the name of the value's class in a trace. Raises UnknownType if the class has no JSON form."""
    cls = type(value)
    name = cls.__name__
    if VOCABULARY.get(name) is cls or cls in THESPIAN or _VALUES.get(name) is cls:
        return name
    if isinstance(value, ActorAddress):
        return ActorAddress.__name__
    raise UnknownType(f"{cls.__module__}.{cls.__qualname__} is not a message class, so it cannot be recorded")


@cache
def form_of(cls: type) -> Form:
    """Return the JSON form of a class that has a type name."""
    return THESPIAN[cls] if cls in THESPIAN else form(cls)


def form_named(name: str) -> Form:
    """Return the JSON form of the class with this type name. Raises UnknownType."""
    cls = VOCABULARY.get(name) or _THESPIAN.get(name) or _VALUES.get(name) or vocabulary().get(name)
    if cls is None:
        raise UnknownType(f"the trace contains a message of the unknown class {name!r}")
    return form_of(cls)
