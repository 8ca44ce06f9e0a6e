"""Event handlers as generators (flows): what they yield, and how a long handler pauses.

A handler sends a request by `yield from ask(question)`. The runtime (`actors.runtime.flow.flow`) sends `Ask(id,
question)` to the actor that is named by the attribute `asks` of the question's class. When the `Answer` with that id
arrives, the runtime resumes the handler with the result in this `Answer`.

A long handler loops by `yield from for_each(items, step)`, which works on a part of the items at a time. A turn is the
work that a handler may do before it must pause. Each part takes a fraction of a turn. The runtime adds up these
fractions, and pauses the handler when their sum reaches 1. During a pause other actors of the node handle messages; the
handler's own actor handles no other event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar, cast

from thespian.actors import ActorAddress

from messages.ask import Failure, Question

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

SLICE = 1_000
"""Maximum number of items, and of open questions, that an event handler processes before other actors get a turn."""

AHEAD = 2
"""Number of flows of `for_each` whose first question is in flight while an earlier one is processed.

Otherwise the controller and ZooKeeper wait for each other between parts.
"""


class Instruction:
    """The base class of the instructions that an event handler yields.

    The handler's actor executes an instruction at once, without a message.
    """

    __slots__ = ()


class Pause(Instruction):
    """Yielded by an event handler to pause until all messages that are now in the queue have been handled."""

    __slots__ = ()


class Worked(NamedTuple):
    """Yielded by an event handler after each part of a long loop, so that the runtime can pause the handler.

    `share` is the fraction of a turn that this part took. The runtime pauses the handler when the shares add up to 1.
    """

    share: float


class AskAll(NamedTuple):
    """Yielded by an event handler to send several requests at once, as pairs of an actor's address and a request."""

    pairs: tuple[tuple[ActorAddress, Question[object]], ...]


class Begin(NamedTuple):
    """Yielded by an event handler to send a request without waiting; the `yield` returns a ticket for Await."""

    question: Question[object]


class Await(NamedTuple):
    """Yielded by an event handler to wait for the Answer or Failure of the request with this `ticket`."""

    ticket: int


Step = Question[object] | AskAll | Begin | Await | Worked | Instruction
"""Values that an event handler yields."""

Flow = Generator[Step, object, T]
"""An event handler as a generator: it yields questions and instructions, and returns its result."""


def ask(question: Question[R]) -> Flow[R]:
    """Send a question and return its result.

    Raises:
        AskFailed: The answer is a Failure. The name in the Failure selects the subclass of AskFailed.
    """
    return cast("R", (yield question))


def ask_all(pairs: Sequence[tuple[ActorAddress, Question[R]]]) -> Flow[tuple[R | Failure, ...]]:
    """Send each question to its address, wait for all answers, and return the results in the order of `pairs`.

    If a question fails, its Failure is returned in place of its result. At most SLICE questions are in flight: the next
    SLICE are sent after all answers to the previous ones.
    """
    results: list[R | Failure] = []
    for window in slices(pairs):
        results += cast("tuple[R | Failure, ...]", (yield AskAll(tuple(window))))
    return tuple(results)


def slices(items: Sequence[E], size: int = SLICE) -> Iterator[Sequence[E]]:
    """Return an iterator over slices of `items` with at most `size` items, in order."""
    return (items[start : start + size] for start in range(0, len(items), size))


def chunks(items: Iterable[E], size: int = SLICE) -> Iterator[list[E]]:
    """Yield lists of at most `size` items from an iterable, without first collecting all items.

    The iterable must not change during the iteration.
    """
    remaining = iter(items)
    while chunk := list(islice(remaining, size)):
        yield chunk


def all_at_once(steps: Generator[Callable[[], None] | None, None, T]) -> T:
    """Run a stepwise generator without pauses, call the functions that it yields, and return its result."""
    while True:
        try:
            long = next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        if long is not None:
            long()


def for_each(
    items: Iterable[E],
    step: Callable[[Sequence[E]], Flow[None] | None],
    size: int = SLICE,
    where: Callable[[E], bool] | None = None,
) -> Flow[None]:
    """Call `step` with parts of at most `size` items, in order.

    A part of `size` items takes a whole turn, so the handler then pauses. A smaller part takes a fraction of a turn.

    If `step` returns a flow, the flows run one after another, but the first question of each of the next AHEAD flows is
    sent early. So the receiver of the questions has work while a flow waits for an answer. The code of a flow up to its
    first question can run before earlier flows get their answers. So this code must not depend on what earlier flows do
    after their first questions.

    Args:
        items: They must not change during the loop.
        where: `step` gets only the items for which this test is true. If it is None, `step` gets all items. All items
            are tested before the first call of `step`.
    """
    if where is not None:
        items = yield from select(items, where)
    begun: deque[tuple[Flow[None], int]] = deque()
    for part in chunks(items, size):
        flow = step(part)
        if flow is not None:
            ticket = yield from _first_ticket(flow)
            if ticket is not None:
                begun.append((flow, ticket))
            if len(begun) > AHEAD:
                yield from _run_to_end(*begun.popleft())
        yield Worked(len(part) / size)
    while begun:
        yield from _run_to_end(*begun.popleft())


def select(items: Iterable[E], test: Callable[[E], bool]) -> Flow[list[E]]:
    """Return the items that pass the test."""
    found: list[E] = []
    yield from for_each(items, lambda part: found.extend(filter(test, part)))
    return found


def cut(items: Iterable[E], make: Callable[[tuple[E, ...]], R]) -> Flow[list[R]]:
    """Return the results of `make` for consecutive groups of SLICE items; the last group may be smaller."""
    made: list[R] = []
    yield from for_each(items, lambda part: made.append(make(tuple(part))))
    return made


def _first_ticket(flow: Flow[None]) -> Flow[int | None]:
    """Run a flow to its first question, and send the question; return its ticket, or None if the flow has ended."""
    step = _resume(flow, None)
    while step is not None and not isinstance(step, Question):
        step = yield from _execute_step(flow, step)
    return None if step is None else cast("int", (yield Begin(step)))


def _run_to_end(flow: Flow[None], ticket: int) -> Flow[None]:
    """Resume a flow that waits for its first answer, and run it to its end."""
    step: Step | None = Await(ticket)
    while step is not None:
        step = yield from _execute_step(flow, step)


def _execute_step(flow: Flow[None], step: Step) -> Flow[Step | None]:
    """Execute one step of the flow. Return the flow's next step, or None if the flow has ended."""
    try:
        value = yield step
    except Exception as error:
        return _resume(flow, None, error)
    return _resume(flow, value)


def _resume(flow: Flow[None], value: object, error: Exception | None = None) -> Step | None:
    try:
        return flow.send(value) if error is None else flow.throw(error)
    except StopIteration:
        return None
