"""Actors for the scenarios that run on every system base. Other processes import this module."""

from __future__ import annotations

from collections.abc import Generator
from datetime import timedelta
from typing import Any, ClassVar

import attrs
from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.runtime import Dispatcher, FlowActor
from messages.ask import Answer, Ask, Failure, Question
from messages.flow.conversation import ask, ask_all


@attrs.frozen
class Serve:
    """Exchange the ball with `partner` for `rounds`, then reply to the sender."""

    partner: ActorAddress
    rounds: int


@attrs.frozen
class Ball:
    """The ball that two players send to each other."""


@attrs.frozen
class Raise:
    """Create a child that exits, or fails in its constructor if `fails`."""

    fails: bool


@attrs.frozen
class Sleep:
    """Start a timer for each of `seconds`, with the delay as payload."""

    seconds: tuple[float, ...]


@attrs.frozen
class Meet:
    """Set the oracle of a flow actor."""

    oracle: ActorAddress


@attrs.frozen
class Square(Question[int]):
    """Ask for the square of a number. Negative numbers fail."""

    asks: ClassVar[str] = "oracle"
    number: int


@attrs.frozen
class Sum:
    """An event of a flow actor: reply with the sum of the squares, which are asked one by one or all at once."""

    numbers: tuple[int, ...]
    at_once: bool


class Player(Dispatcher):
    """Sends the ball back until the rounds are over."""

    left = 0
    boss: ActorAddress | None = None

    def receiveMsg_Serve(self, message: Serve, sender: ActorAddress) -> None:
        self.left, self.boss = message.rounds, sender
        self.send(message.partner, Ball())

    def receiveMsg_Ball(self, message: Ball, sender: ActorAddress) -> None:
        if self.boss is None:
            self.send(sender, message)
            return
        self.left -= 1
        self.send(*((sender, message) if self.left else (self.boss, "game over")))


class Unborn(Dispatcher):
    """An actor whose constructor raises."""

    def __init__(self) -> None:
        raise ValueError("never")


class Parent(Dispatcher):
    """Replies to the sender whether the exited child is its own."""

    def receiveMsg_Raise(self, message: Raise, sender: ActorAddress) -> None:
        self.boss = sender
        self.child = self.createActor(Unborn if message.fails else Player)
        if not message.fails:
            self.send(self.child, ActorExitRequest())

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        self.send(self.boss, message.childAddress == self.child)


class Sleeper(Dispatcher):
    """Reports its wake-ups in order when all timers have fired."""

    def receiveMsg_Sleep(self, message: Sleep, sender: ActorAddress) -> None:
        self.boss, self.count, self.woken, self.began = sender, len(message.seconds), [], self.now
        for seconds in message.seconds:
            self.wakeupAfter(timedelta(seconds=seconds), seconds)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.woken.append(message.payload)
        if len(self.woken) == self.count:
            self.send(self.boss, (tuple(self.woken), self.now - self.began >= max(self.woken)))


class Oracle(Dispatcher):
    """Answers Square questions."""

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        number = message.question.number
        result = Failure("ConnectionLoss", str(number)) if number < 0 else number * number
        self.send(sender, Answer(message.id, result))


class Adder(FlowActor):
    """Asks the oracle, and replies with the sum or the error."""

    def receiveMsg_Meet(self, message: Meet, sender: ActorAddress) -> None:
        self.peers["oracle"] = message.oracle

    def flow(self, message: Sum) -> Generator[Any, Any, None]:
        total = 0
        if message.at_once:
            total = sum((yield from ask_all([(self.peers["oracle"], Square(number)) for number in message.numbers])))
        else:
            for number in message.numbers:
                total += yield from ask(Square(number))
        yield total

    def perform(self, instruction: int) -> None:
        self.send(self.sender, instruction)

    def event_failed(self, event: Sum, error: Exception) -> None:
        self.send(self.sender, f"{type(error).__name__}: {error}")
