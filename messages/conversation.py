"""How an actor asks another: Ask and Answer, and the ways an answer can be bad.

A flow asks by `yield from ask(question)`; the shell (`actors.runtime.flow`) wraps the question as `Ask(id, question)`,
sends it to whom the question's class names in `asks`, and hands the flow the result of the `Answer` with that id.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar, cast

from thespian.actors import ActorAddress

from messages.vocabulary import Message, message

T = TypeVar("T")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Question(Generic[R_co]):
    """What is asked of another actor; R is the type of the result that answers it.

    `asks` names the peer that answers; "" where the question goes to an address of its own (`ask_all`).
    """

    __slots__ = ()
    asks: ClassVar[str] = ""


class Instruction:
    """What a flow wants its own shell to do at once. No mail: the shell makes of it whatever has to be sent."""

    __slots__ = ()


class AskAll(NamedTuple):
    """Questions to several actors at once: (address, question) pairs."""

    pairs: tuple[tuple[ActorAddress, Question[object]], ...]


Flow = Generator[Question[object] | AskAll | Instruction, object, T]
"""A conversation: yields questions and instructions, returns its result."""


def ask(question: Question[R]) -> Flow[R]:
    """Ask, and wait for the result. Raises the AskFailed that a Failure names."""
    return cast("R", (yield question))


def ask_all(pairs: Sequence[tuple[ActorAddress, Question[R]]]) -> Flow[tuple[R | Failure, ...]]:
    """Ask each address its question; the results in that order, once all are in. A Failure stays in its place."""
    return cast("tuple[R | Failure, ...]", (yield AskAll(tuple(pairs))))


@message
class Ask:
    """A question under the asking shell's own id. The asked one sends `Answer(id, result)` to the sender, always."""

    id: int
    question: Message


@message
class Answer:
    """The result of `Ask(id)`: a message of the question's answer type, or a Failure.

    `generation` is the ZooKeeper session's, stamped when the request was issued (0 where none is involved).
    """

    id: int
    result: Message
    generation: int = 0


@message
class AnswerDeadline:
    """Payload of the wake-up that finds out whether the answer to `Ask(id)` was lost."""

    id: int


@message
class Done:
    """The question was carried out and has no other result."""


@message
class Failure:
    """An answer that is an error: `name` is one of FAILURES, `detail` says what happened to what."""

    name: str
    detail: str


class AskFailed(Exception):
    """The asked one answered with a Failure; what the shell throws into the flow."""


class ConnectionLoss(AskFailed):
    """ZooKeeper could not be reached before the request's deadline; a write may have been applied."""


class SessionLost(AskFailed):
    """The ZooKeeper session expired while the request was under way."""


class ControllerMoved(AskFailed):
    """The check of /controller_epoch failed: another controller has been elected."""


class BadZnode(AskFailed):
    """A znode that had to be read holds no valid data; the detail names it."""


class ZooKeeperRefused(AskFailed):
    """ZooKeeper answered with an error that has no rule of its own; the detail names code and path."""


class LostAnswer(AskFailed):
    """The asked one missed its deadline: a bug there, or a write of unknown outcome."""


FAILURES: dict[str, type[AskFailed]] = {
    cls.__name__: cls
    for cls in (AskFailed, BadZnode, ConnectionLoss, ControllerMoved, LostAnswer, SessionLost, ZooKeeperRefused)
}
"""Failure.name -> the exception it is thrown as."""
