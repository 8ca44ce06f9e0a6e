"""How an actor asks another: Ask and Answer, and the ways an answer can be bad.

A flow yields a question; the shell (`actors.runtime.flow`) wraps it as `Ask(id, question)`, sends it to whom the
question's class names in `asks`, and hands the flow the result of the `Answer` with that id.
"""

from __future__ import annotations

from messages.vocabulary import Message, message


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
