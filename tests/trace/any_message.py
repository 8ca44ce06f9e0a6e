"""Random instances of any message, built from its annotations alone."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any

import attrs
from thespian.actors import ActorAddress

from messages.ask import Failure
from messages.events import BrokerModifications
from messages.security import Secret
from messages.sensitive_configs import MASK
from messages.vocabulary import Message

Maker = Callable[[Random], Any]
_LETTERS = 'a\0"\\\n\x1f\x7f\u00e9\u2028\ufffd\U0001f600'
_NUMBERS = (0, 1, -1, 2**31, -(2**63), 2**63 - 1)

_PLAIN: dict[Any, Maker] = {
    bool: lambda chance: chance.random() < 0.5,
    int: lambda chance: chance.choice((*_NUMBERS, chance.randrange(-(2**63), 2**63))),
    float: lambda chance: chance.choice((0.0, -0.0, 0.1, 1e300, -5e-324, chance.uniform(-1e9, 1e9))),
    str: lambda chance: "".join(chance.choices(_LETTERS, k=chance.randrange(12))),
    bytes: lambda chance: chance.randbytes(chance.randrange(12)),
    Secret: lambda chance: Secret(MASK.encode()),
    type(None): lambda chance: None,
    ActorAddress: lambda chance: ActorAddress(f"ControllerActor.{chance.randint(1, 99)}"),
}


@cache
def maker_of(annotation: Any) -> Maker:
    """Return a function that makes values of this annotation.

    Raises:
        TypeError: The vocabulary's rule 3 does not allow the annotation.
    """
    if annotation in (Any, Message, object):
        return _one_of(maker_of(BrokerModifications), maker_of(Failure))
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _one_of(*map(maker_of, arguments))
    if origin is tuple and arguments[1:] == (Ellipsis,):
        item = maker_of(arguments[0])
        return lambda chance: tuple(item(chance) for _ in range(chance.randrange(4)))
    if origin is tuple:
        items = [maker_of(each) for each in arguments]
        return lambda chance: tuple(each(chance) for each in items)
    if origin is typing.Literal:
        return lambda chance: chance.choice(arguments)
    if isinstance(annotation, type) and (attrs.has(annotation) or issubclass(annotation, tuple)):
        hints = typing.get_type_hints(annotation)
        names = [field.name for field in attrs.fields(annotation)] if attrs.has(annotation) else annotation._fields
        fields = {name: maker_of(hints[name]) for name in names}
        return lambda chance: annotation(**{name: each(chance) for name, each in fields.items()})
    raise TypeError(f"messages must not hold {annotation!r}")


def _one_of(*makers: Maker) -> Maker:
    return lambda chance: chance.choice(makers)(chance)
