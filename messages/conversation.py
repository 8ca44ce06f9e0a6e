"""Requests between actors: `Ask`, `Answer`, and the failures that an answer can carry.

A flow asks by `yield from ask(question)`; the shell (`actors.runtime.flow`) wraps the question as `Ask(id, question)`,
sends it to the actor that the question's class names in `asks`, and hands the flow the result of the `Answer` with
that id.

A flow with much to do does it in slices of at most SLICE items, and pauses between two (`in_slices`, or `yield Pause()`
in a loop over `slices`): mail for other actors of the node comes between, the flow's own actor stays with its event.
Tables that get an entry for each of a hundred thousand partitions are made to grow one by one (`grow_tables`).
"""

from __future__ import annotations

from collections import deque
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
"""Maximum number of items, and of open questions, that a flow handles before other actors get a turn."""

FULL = tuple((2 << bits) // 3 for bits in range(14, 24))
"""How many entries fill a dict of 16,384 places, 32,768, and so on: with one more it is made anew, twice as large."""

FULL_BYTES = 30
"""Bytes for each entry of a full one: 24, and 4 for each of three places where two are taken."""


class Question(Generic[R_co]):
    """The base class of requests that one actor sends to another; R is the type of the answer.

    `asks` names the receiver among the actor's peers; "" if the address is given with the request (`ask_all`).
    """

    __slots__ = ()
    asks: ClassVar[str] = ""


class Instruction:
    """The base class of the instructions that an event handler yields and its own actor executes at once, without a
    message."""

    __slots__ = ()


class Pause(Instruction):
    """An event handler yields this to let the actor's queued messages be handled first."""

    __slots__ = ()


class AskAll(NamedTuple):
    """An event handler yields this to send requests to several actors at once, given as (address, request) pairs."""

    pairs: tuple[tuple[ActorAddress, Question[object]], ...]


class Begin(NamedTuple):
    """An event handler yields this to send a request without waiting; the `yield` returns a ticket for Await."""

    question: Question[object]


class Await(NamedTuple):
    """An event handler yields this to wait for the answer to the request with this ticket, or for its Failure."""

    ticket: int


Step = Question[object] | AskAll | Begin | Await | Instruction
"""What a flow yields."""

Flow = Generator[Step, object, T]
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

    The table must not change meanwhile.
    """
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def in_slices(work: Callable[[Sequence[E]], R], items: Sequence[E], size: int = SLICE) -> Flow[list[R]]:
    """Call `work` with each slice of `items`, pausing between two; what it returned, in order."""
    return (yield from in_turns(work, slices(items, size)))


def all_at_once(steps: Generator[Callable[[], None] | None, None, T]) -> T:
    """Take all steps of what may be done in steps, and do here what they want done elsewhere; return their result."""
    while True:
        try:
            long = next(steps)
        except StopIteration as done:
            return cast(T, done.value)
        if long is not None:
            long()


def in_turns(work: Callable[[E], R], items: Iterable[E]) -> Flow[list[R]]:
    """Call `work` with each item, pausing between two; what it returned, in order."""
    results: list[R] = []
    for item in items:
        if results:
            yield Pause()
        results.append(work(item))
    return results


def overlapped(flows: Iterable[Flow[None]], ahead: int) -> Flow[None]:
    """Run the flows to their ends one after another, pausing between two, but have the next `ahead` of them ask their
    first questions before: while one waits for its answer, what answers already has more to do.

    So what a flow does before its first question must not depend on what those before it do after theirs.
    """
    begun: deque[tuple[Flow[None], int]] = deque()
    for number, flow in enumerate(flows):
        if number:
            yield Pause()
        ticket = yield from _first_asked(flow)
        if ticket is not None:
            begun.append((flow, ticket))
        if len(begun) > ahead:
            yield from _ended(*begun.popleft())
    while begun:
        yield from _ended(*begun.popleft())


def _first_asked(flow: Flow[None]) -> Flow[int | None]:
    """Run a flow to its first question and send that; return its ticket, or None if the flow has ended."""
    step = _resumed(flow, None)
    while step is not None and not isinstance(step, Question):
        step = yield from _passed(flow, step)
    return None if step is None else cast("int", (yield Begin(step)))


def _ended(flow: Flow[None], ticket: int) -> Flow[None]:
    """Go on with a flow that waits for its first answer, to its end."""
    step: Step | None = Await(ticket)
    while step is not None:
        step = yield from _passed(flow, step)


def _passed(flow: Flow[None], step: Step) -> Flow[Step | None]:
    """Have a step of the flow carried out; its next step, None at its end."""
    try:
        value = yield step
    except Exception as error:
        return _resumed(flow, None, error)
    return _resumed(flow, value)


def _resumed(flow: Flow[None], value: object, error: Exception | None = None) -> Step | None:
    try:
        return flow.send(value) if error is None else flow.throw(error)
    except StopIteration:
        return None


def grow_tables(count: int, *tables: dict[Any, Any]) -> Flow[None]:
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
    """Grow the table now if it would grow within this number of new entries."""
    size, added = table.__sizeof__(), 0
    if size < FULL_BYTES * (len(table) + count):
        while table.__sizeof__() == size:
            table[object()] = None
            added += 1
        for _ in range(added):
            table.popitem()


@message
class Ask:
    """The message that carries a Question to another actor, with an id that the sender chooses.

    The receiver always replies with `Answer(id, result)`, also on failure.
    """

    id: int
    question: Message


@message
class Answer:
    """The answer to the `Ask` with the same id: the result, or a Failure.

    `generation` is that of the ZooKeeper session when the request was issued (0 without ZooKeeper). `requests` is the
    number of requests to ZooKeeper that were needed.
    """

    id: int
    result: Message
    generation: int = 0
    requests: int = 0


asking, answering = maker(Ask), maker(Answer)
"""Create Ask and Answer faster than the classes do: a controller request needs one of each for every partition."""


@message
class AnswerDeadline:
    """A timer message: check whether the answer to the `Ask` with this id is overdue."""

    id: int


@message
class Continue:
    """A message that an actor sends to itself after a Pause, to resume the event handler."""

    id: int


@message
class Done:
    """The answer to a request that was executed and has no result."""


@message
class Failure:
    """The answer to a request that failed: `name` is one of FAILURES, `detail` describes the cause."""

    name: str
    detail: str


class AskFailed(Exception):
    """The base class of exceptions that an event handler gets when a request to another actor fails."""


class ConnectionLoss(AskFailed):
    """ZooKeeper could not be reached before the request's deadline; a write may have been applied all the same."""


class SessionLost(AskFailed):
    """The ZooKeeper session expired while the request was in flight."""


class ControllerMoved(AskFailed):
    """Another controller has been elected, so ZooKeeper rejected the write (the version of /controller_epoch
    differs)."""


class BadZnode(AskFailed):
    """A znode contains invalid data; the detail names it."""


class ZooKeeperRefused(AskFailed):
    """ZooKeeper returned an error that has no special treatment; the detail names the error code and the path."""


class LostAnswer(AskFailed):
    """The answer to a request did not arrive in time, because of a bug or a write with an unknown outcome."""


FAILURES: dict[str, type[AskFailed]] = {
    cls.__name__: cls
    for cls in (AskFailed, BadZnode, ConnectionLoss, ControllerMoved, LostAnswer, SessionLost, ZooKeeperRefused)
}
"""Failure.name -> the exception it is thrown as."""


def error_of(failure: Failure) -> AskFailed:
    """The exception that a Failure names."""
    return FAILURES.get(failure.name, AskFailed)(failure.detail)
