"""Test the engine of conversations: it performs each yielded step until a step has to wait."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from actors.runtime.flow.flow import WAITING, Raised, Returned, advance

Talk = Generator[Any, Any, str]


class Driver:
    """Doubles numbers, waits for strings, and rejects other steps."""

    def __init__(self) -> None:
        self.performed: list[Any] = []

    def __call__(self, step: Any) -> Any:
        self.performed.append(step)
        if isinstance(step, str):
            return WAITING
        if isinstance(step, int):
            return 2 * step
        raise TypeError("no such step")


def talk() -> Talk:
    total = yield 1
    try:
        total += yield 2
        total += yield "how many?"
    except OSError as error:
        return f"saved: {error}"
    return f"total {total}"


def test_steps_are_performed_until_one_has_to_wait_and_its_answer_goes_on() -> None:
    driver, conversation = Driver(), talk()
    assert advance(conversation, driver) is None
    assert driver.performed == [1, 2, "how many?"]
    assert advance(conversation, driver, 10) == Returned("total 16")


def test_an_error_is_thrown_into_the_conversation() -> None:
    driver, conversation = Driver(), talk()
    advance(conversation, driver)
    assert advance(conversation, driver, error=OSError("gone")) == Returned("saved: gone")


def test_a_conversation_that_raises_has_failed() -> None:
    driver, conversation = Driver(), talk()
    advance(conversation, driver)
    error = ValueError("unforeseen")
    assert advance(conversation, driver, error=error) == Raised(error)


def test_what_perform_raises_is_thrown_and_may_be_answered_by_another_step() -> None:
    def stubborn() -> Talk:
        try:
            yield None
        except TypeError as error:
            return f"{error}, but {(yield 4)}"
        return "never"

    assert advance(stubborn(), Driver()) == Returned("no such step, but 8")


def test_what_ends_the_driver_itself_is_not_swallowed() -> None:
    def leaving() -> Talk:
        raise SystemExit
        yield

    with pytest.raises(SystemExit):
        advance(leaving(), Driver())
