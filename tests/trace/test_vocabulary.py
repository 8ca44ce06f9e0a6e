"""Rules for messages: a message is a value that its class and fields describe, and the name of its class is unique."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

import messages.apis  # noqa: F401  (the whole vocabulary)
from messages.events import BrokerModifications
from messages.vocabulary import VOCABULARY, maker, message


def kind(name: str) -> Any:
    """Return a message class of this name with the fields `name` and `grams`."""
    return message(type(name, (), {"__annotations__": {"name": str, "grams": int}, "grams": 5}))


@pytest.fixture(name="kinds")
def _kinds() -> Iterator[tuple[Any, Any]]:
    """Yield two classes with the same fields, and remove them afterwards: other tests iterate over the vocabulary."""
    yield kind("Weighed"), kind("Measured")
    del VOCABULARY["Weighed"], VOCABULARY["Measured"]


def test_messages_are_equal_by_class_and_fields(kinds: tuple[Any, Any]) -> None:
    weighed, measured = kinds
    assert weighed("a") == weighed("a", 5)
    assert weighed("a") != weighed("b")
    assert weighed("a") != measured("a")
    assert weighed("a") != ("a", 5)
    assert {weighed("a"), weighed("a"), weighed("b"), measured("a")} == {weighed("a"), weighed("b"), measured("a")}


def test_a_message_hashes_before_it_was_ever_compared(kinds: tuple[Any, Any]) -> None:
    weighed, _ = kinds
    assert hash(weighed("a")) == hash(weighed("a")) != hash(weighed("b"))


def test_a_message_is_frozen_and_describes_itself(kinds: tuple[Any, Any]) -> None:
    weighed, _ = kinds
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        weighed("a").grams = 6
    assert repr(weighed("a")) == "Weighed(name='a', grams=5)"


def test_a_method_of_a_message_may_use_super() -> None:
    class Tared:
        grams: int

        def __str__(self) -> str:
            return f"{super().__str__()} net {later}"

    later = "weight"
    try:
        assert str(message(Tared)(5)) == "Tared(grams=5) net weight"
    finally:
        del VOCABULARY["Tared"]


def test_a_copied_and_a_pickled_message_are_equal_to_it() -> None:
    message = BrokerModifications(1, 2)
    assert copy.copy(message) == copy.deepcopy(message) == pickle.loads(pickle.dumps(message)) == message


def test_a_name_is_taken_once(kinds: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="message Weighed is defined twice"):
        kind("Weighed")


def test_a_maker_makes_what_the_constructor_makes() -> None:
    classes: list[Any] = list(VOCABULARY.values())
    for cls in classes:
        fields = attrs.fields(cls)
        content = [object() for _ in fields]
        made, constructed = maker(cls)(*content), cls(*content)
        assert type(made) is cls
        assert all(getattr(made, field.name) is getattr(constructed, field.name) for field in fields), cls
        required = {field.name: 1 for field in fields if field.default is attrs.NOTHING}
        assert maker(cls)(**required) == cls(**required)
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            made.anything = 1


def test_a_constructor_that_does_more_has_no_maker() -> None:
    for field in (attrs.field(converter=int), attrs.field(factory=list), attrs.field(init=False, default=1)):
        with pytest.raises(TypeError, match=r"More\.a "):
            maker(attrs.make_class("More", {"a": field}, frozen=True, slots=True))
