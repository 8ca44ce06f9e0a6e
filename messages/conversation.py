"""How an actor asks another: Ask and Answer, and the ways an answer can be bad.

A flow asks by `yield from ask(question)`; the shell (`actors.runtime.flow`) wraps the question as `Ask(id, question)`,
sends it to whom the question's class names in `asks`, and hands the flow the result of the `Answer` with that id.

A flow with much to do does it in slices of at most SLICE items, and pauses between two (`in_slices`, or `yield Pause()`
in a loop over `slices`): mail for other actors of the node comes between, the flow's own actor stays with its event.
Tables that get an entry for each of a hundred thousand partitions are made to grow one by one (`make_room`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

from thespian.actors import ActorAddress

from messages.vocabulary import Message, maker, message

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")
R_co = TypeVar("R_co", covariant=True)

SLICE = 1_000
"""So many items a flow works on, and so many questions it has out, before others of the node get their turn."""

FULL = tuple((2 << bits) // 3 for bits in range(14, 24))
"""How many entries fill a dict of 16,384 places, 32,768, and so on: with one more it is made anew, twice as large."""

FULL_BYTES = 30
"""Bytes for each entry of a full one: 24, and 4 for each of three places where two are taken."""


class Question(Generic[R_co]):
    """What is asked of another actor; R is the type of the result that answers it.

    `asks` names the peer that answers; "" where the question goes to an address of its own (`ask_all`).
    """

    __slots__ = ()
    asks: ClassVar[str] = ""


class Instruction:
    """What a flow wants its own shell to do at once. No mail: the shell makes of it whatever has to be sent."""

    __slots__ = ()


class Pause(Instruction):
    """Go on when the mail that waits at this moment has been delivered. The shell sends itself a Continue."""

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
    """Ask each address its question; the results in that order, once all are in. A Failure stays in its place.

    At most SLICE questions are out at a time: the next are asked when those have been answered.
    """
    results: list[R | Failure] = []
    for window in slices(pairs):
        results += cast("tuple[R | Failure, ...]", (yield AskAll(tuple(window))))
    return tuple(results)


def slices(items: Sequence[E], size: int = SLICE) -> Iterator[Sequence[E]]:
    """The items in their order, at most `size` at a time."""
    return (items[start : start + size] for start in range(0, len(items), size))


def chunks(items: Iterable[E], size: int = SLICE) -> Iterator[list[E]]:
    """As `slices`, of what is no sequence: a large table is not made one large list of for it.

    Nobody may change the table meanwhile.
    """
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def in_slices(work: Callable[[Sequence[E]], R], items: Sequence[E], size: int = SLICE) -> Flow[list[R]]:
    """Call `work` with each slice of `items`, pausing between two; what it returned, in order."""
    return (yield from in_turns(work, slices(items, size)))


def in_turns(work: Callable[[E], R], items: Iterable[E]) -> Flow[list[R]]:
    """Call `work` with each item, pausing between two; what it returned, in order."""
    results: list[R] = []
    for item in items:
        if results:
            yield Pause()
        results.append(work(item))
    return results


def make_room(count: int, *tables: dict[Any, Any]) -> Flow[None]:
    """Let those tables grow, and pause after each, that would have to when `count` more entries come, or soon.

    To grow takes a table of 87,381 entries four milliseconds, and tables that have an entry for each partition would
    all grow at the same one. That it pauses is a matter of their lengths alone, so that a replay does as well.
    """
    for table in tables:
        for slices_before, full in enumerate(FULL, 2):  # by so much less holds a table that was made to grow before
            if full - slices_before * count < len(table) <= full:
                _grow(table, slices_before * count)
                yield Pause()


def _grow(table: dict[Any, Any], count: int) -> None:
    """Have the table grow now, if it would before so many more entries are there."""
    size, added = table.__sizeof__(), 0
    if size < FULL_BYTES * (len(table) + count):
        while table.__sizeof__() == size:
            table[object()] = None
            added += 1
        for _ in range(added):
            table.popitem()


@message
class Ask:
    """A question under the asking shell's own id. The asked one sends `Answer(id, result)` to the sender, always."""

    id: int
    question: Message


@message
class Answer:
    """The result of `Ask(id)`: a message of the question's answer type, or a Failure.

    `generation` is the ZooKeeper session's, stamped when the request was issued (0 where none is involved). `requests`:
    how many requests to ZooKeeper it took.
    """

    id: int
    result: Message
    generation: int = 0
    requests: int = 0


asking, answering = maker(Ask), maker(Answer)
"""Make them as the classes do, in less time: of either there is one for every partition that an order names."""


@message
class AnswerDeadline:
    """Payload of the wake-up that finds out whether the answer to `Ask(id)` was lost."""

    id: int


@message
class Continue:
    """What a shell sends itself for a Pause: when it is delivered, the flow goes on. `id` as in Ask."""

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


def error_of(failure: Failure) -> AskFailed:
    """The exception that a Failure names."""
    return FAILURES.get(failure.name, AskFailed)(failure.detail)
