"""What a message is: a value, described by its fields, alone of its name."""

from __future__ import annotations

import attrs
import pytest

from messages.vocabulary import message


@message
class Weighed:
    """A message of this file."""

    name: str
    grams: int = 5


@message
class Measured:
    """Another, with the same fields."""

    name: str
    grams: int = 5


def test_messages_are_equal_by_class_and_fields() -> None:
    assert Weighed("a") == Weighed("a", 5)
    assert Weighed("a") != Weighed("b")
    assert Weighed("a") != Measured("a")
    assert Weighed("a") != ("a", 5)
    assert {Weighed("a"), Weighed("a"), Weighed("b"), Measured("a")} == {Weighed("a"), Weighed("b"), Measured("a")}


def test_a_message_hashes_before_it_was_ever_compared() -> None:
    assert len({Measured("a"), Measured("a"), Measured("b")}) == 2


def test_a_message_is_frozen_and_describes_itself() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        Weighed("a").grams = 6  # type: ignore[misc]
    assert repr(Weighed("a")) == "Weighed(name='a', grams=5)"


def test_a_name_is_taken_once() -> None:
    with pytest.raises(TypeError, match="message Weighed is defined twice"):
        message(type("Weighed", (), {}))
