"""Hypothesis strategies for instances of any message, built from its annotations alone."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any

import attrs
from hypothesis import strategies as st
from thespian.actors import ActorAddress

from messages.ask import Failure
from messages.events import BrokerModifications
from messages.security import Secret
from messages.sensitive_configs import MASK
from messages.vocabulary import Message

_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: st.text(max_size=12),
    bytes: st.binary(max_size=12),
    Secret: st.just(Secret(MASK.encode())),
    type(None): st.none(),
    ActorAddress: st.integers(1, 99).map(lambda n: ActorAddress(f"ControllerActor.{n}")),
}

_ANY_MESSAGE = st.one_of(
    st.builds(BrokerModifications, st.integers(0, 9), st.integers(0, 9)),
    st.builds(Failure, st.text(max_size=5), st.text(max_size=5)),
)


@cache
def of(annotation: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for values of this annotation.

    Raises:
        TypeError: The vocabulary's rule 3 does not allow the annotation.
    """
    if annotation in (Any, Message, object):
        return _ANY_MESSAGE
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(of, arguments))
    if origin is tuple and arguments[1:] == (Ellipsis,):
        return st.lists(of(arguments[0]), max_size=3).map(tuple)
    if origin is tuple:
        return st.tuples(*map(of, arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if isinstance(annotation, type):
        hints = typing.get_type_hints(annotation)
        if attrs.has(annotation):
            return st.builds(annotation, **{field.name: of(hints[field.name]) for field in attrs.fields(annotation)})
        if issubclass(annotation, tuple):
            return st.builds(annotation, *(of(hints[name]) for name in annotation._fields))
    raise TypeError(f"messages must not hold {annotation!r}")
