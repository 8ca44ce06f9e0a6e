"""What a message is: a value, described by its fields, alone of its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from messages.vocabulary import VOCABULARY, message


def kind(name: str) -> Any:
    """A message class with a name and a weight."""
    return message(type(name, (), {"__annotations__": {"name": str, "grams": int}, "grams": 5}))


@pytest.fixture(name="kinds")
def _kinds() -> Iterator[tuple[Any, Any]]:
    """Two classes with the same fields, in the vocabulary as long as a test takes: others go through all of it."""
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


def test_a_name_is_taken_once(kinds: tuple[Any, Any]) -> None:
    with pytest.raises(TypeError, match="message Weighed is defined twice"):
        kind("Weighed")
