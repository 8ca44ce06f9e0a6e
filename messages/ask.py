"""Requests between actors: `Ask`, `Answer`, and the failures that an answer can contain."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

from messages.vocabulary import AnyMessage, Message, maker, message

R_co = TypeVar("R_co", covariant=True)


class Question(Message, Generic[R_co]):
    """The base class of requests that one actor sends to another; R is the type of the answer.

    `asks` is the receiver's name among the sender's peers; "" if the address is given with the request (`ask_all`).
    """

    __slots__ = ()
    asks: ClassVar[str] = ""


@message
class Ask(Message):
    """The message that carries a Question to another actor, with an id that the sender chooses.

    The receiver always replies with `Answer(id, result)`, also on failure.
    """

    id: int
    question: AnyMessage


@message
class Answer(Message):
    """The answer to the `Ask` with the same id: the result, or a Failure.

    `generation` is the number of the ZooKeeper session in which the request was issued (0 without ZooKeeper).
    `requests` is the number of requests to ZooKeeper that were needed.
    """

    id: int
    result: AnyMessage
    generation: int = 0
    requests: int = 0


asking, answering = maker(Ask), maker(Answer)
"""Create Ask and Answer faster than the classes do: a controller request needs one of each for every partition."""


@message
class AnswerDeadline(Message):
    """A timer message: check whether the answer to the `Ask` with this id is overdue."""

    id: int


@message
class Continue(Message):
    """A message that an actor sends to itself after a Pause, to resume the event handler."""

    id: int


@message
class Done(Message):
    """The answer to a request that was executed and has no result."""


@message
class Failure(Message):
    """The answer to a request that failed: `name` is one of FAILURES, `detail` describes the cause."""

    name: str
    detail: str


class AskFailed(Exception):
    """The base class of exceptions that an event handler gets when a request to another actor fails."""


class ConnectionLoss(AskFailed):
    """ZooKeeper did not respond before the request's deadline; a write may have been applied nevertheless."""


class SessionLost(AskFailed):
    """The ZooKeeper session expired while the request was in flight."""


class ControllerMoved(AskFailed):
    """The controller's term has ended in ZooKeeper, which therefore rejected the write.

    /controller is absent, or the version of /controller_epoch is not the one that the write expected.
    """


class BadZnode(AskFailed):
    """A znode contains invalid data; the exception's message says what is wrong."""


class UnknownTopic(AskFailed):
    """The topic of a write does not exist; the exception's message names it."""


class ZooKeeperRefused(AskFailed):
    """ZooKeeper returned an unexpected error code; the exception's message has the reason and the path."""


class LostAnswer(AskFailed):
    """An answer did not arrive before the deadline; if the request was a write, its outcome is unknown."""


FAILURES = {AskFailed.__name__: AskFailed} | {cls.__name__: cls for cls in AskFailed.__subclasses__()}
"""Exception classes by the name in a Failure."""


def error_of(failure: Failure) -> AskFailed:
    """Return the exception for a Failure; AskFailed if its name is unknown."""
    return FAILURES.get(failure.name, AskFailed)(failure.detail)
