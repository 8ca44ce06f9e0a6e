"""FlowActor is an actor whose event handlers are generators (flows).

It handles one event at a time, and a flow can wait for replies of other actors.

`flow(message)` returns a generator, or None for an event that is already handled. A flow can yield

* a *question* (its class has `asks`, the name of a peer): it is sent as Ask(id, question). The flow is resumed with the
  result of Answer(id), or a Failure is thrown into it as the exception that FAILURES names;
* AskAll(pairs): the questions are sent to the given addresses. When all results have arrived, the flow is resumed with
  them, in the order of the questions. A Failure is returned as a value, so that the other results are not lost;
* Begin(question): the question is sent, and the flow continues at once with a ticket. When the flow yields
  Await(ticket), it waits for the answer, and is resumed as if it had yielded the question;
* Pause(): the actor sends Continue(id) to itself. The flow is resumed when this message is delivered, after all queued
  messages;
* Worked(share): the flow has done this fraction of the work that one turn allows. It pauses when the fractions of this
  turn add up to 1;
* any other value is an *instruction*: `perform(instruction)` is called, and the flow continues with its result. An
  exception of `perform` is thrown into the flow.

Rule 1 (serial): while a flow waits for an answer or pauses, other events are stashed, first in first out. A message for
        which the class has a `receiveMsg_X` is not an event: it is handled at once, even while a flow waits.
Rule 2 (no recursion): one loop runs flows, follow-ups (the flows that `event_failed` returns) and stashed events; it
        pauses after MOST_AT_ONCE stashed events.
Rule 3 (failure): if a flow raises, the error is logged and stored in the delivery's record, and the event is dropped.
        The exception is not passed to the system. Otherwise the system could deliver the message again, and every send
        of the first attempt would be repeated. `event_failed` may return a flow, which runs before stashed events; if
        this flow raises too, the error is only logged.
Rule 4 (preemption): a message for which `preempts` returns True is handled before all others: the suspended flow is
        closed, the stash is cleared, `handle_dropped` gets the dropped events, and then the message is handled.
Rule 5 (answers): each question has an id that is unique in this actor. Answers to other ids are dropped. If a question
        has no answer after `answer_deadline` seconds, LostAnswer is thrown into the flow. For a question sent by Begin
        this time starts when the flow yields its Await.
Rule 6 (event ids): the messages that a flow sends have the event id that `event_id_of` returned when the flow's event
        was delivered. A stashed event and a suspended flow keep that id.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from thespian.actors import ActorAddress, WakeupMessage

from actors.runtime.thespian.dispatch import Dispatcher
from messages import ask
from messages.ask import Ask, Failure, answering
from messages.flow import conversation
from messages.vocabulary import Message

T = TypeVar("T")

WAITING: Final = object()
"""Result of `perform` for a step whose answer is not available yet."""


class Returned(NamedTuple, Generic[T]):
    """The outcome of a generator that returned, with its return value."""

    result: T


class Raised(NamedTuple):
    """The outcome of a generator that raised; it holds the exception."""

    error: Exception


def advance(
    conversation: Generator[Any, Any, T],
    perform: Callable[[Any], object],
    value: object = None,
    error: Exception | None = None,
) -> Returned[T] | Raised | None:
    """Resume a generator, and run it until it waits, returns or raises.

    Drivers call it: FlowActor (one flow at a time), `zk_bridge.core` (many at once, each with one request in flight),
    and tests, which supply the answers.

    Args:
        conversation: The generator.
        perform: Executes each yielded value; returns its result, or WAITING.
        value: Sent into the generator.
        error: If given, thrown into the generator instead.

    Returns:
        None if the generator waits; otherwise its outcome, Returned or Raised.
    """
    while True:
        try:
            step = conversation.send(value) if error is None else conversation.throw(error)
        except StopIteration as end:
            return Returned(end.value)
        except Exception as raised:
            return Raised(raised)
        value = error = None
        try:
            value = perform(step)
        except Exception as raised:
            error = raised
        if value is WAITING:
            return None


class Answerer(Dispatcher):
    """The base class of actors that answer each `Ask`; subclasses implement `answer`.

    An exception of `answer` is sent to the requester as a Failure, logged, and stored in the delivery's record. An
    error in one partition thus affects only the result for that partition, and the requester does not have to wait for
    its deadline.
    """

    def answer(self, question: Message) -> Message:
        """Return the result of a question. An exception is answered as Failure("AskFailed")."""
        raise NotImplementedError(f"{type(self).__name__} has no handler for {type(question).__name__}")

    def receiveMsg_Ask(self, message: Ask, sender: ActorAddress) -> None:
        """Answer the question, even if the handler fails."""
        try:
            result = self.answer(message.question)
        except Exception as error:
            name = type(message.question).__name__
            log.error(
                "Actor %s failed to handle a %s message: %s", self.myAddress, name, type(error).__name__, exc_info=error
            )
            self.note_error(error)
            result = Failure("AskFailed", f"{name}: {type(error).__name__}: {error}")
        self.send(sender, answering(message.id, result))


log = logging.getLogger(__name__)

Event = tuple[Any, ActorAddress]

MOST_AT_ONCE = 32
"""Maximum number of stashed events handled in one delivery: a thousand may have arrived together."""

ANSWERS = "answers"
"""Name of the timer for the deadline of open questions."""


class FlowActor(Dispatcher):
    """An actor whose event handlers are generators (flows); it handles one event at a time.

    Subclasses implement `flow` and `perform`, and set `peers`.

    Attributes:
        answer_deadline: Seconds after which a question without an answer fails with LostAnswer (rule 5).
        peers: Addresses by the names in `Question.asks`.
        sender: The sender of the current event, also after the flow was suspended.
        waited: The seconds for which the current event was stashed.
        requests: The number of ZooKeeper requests made so far to answer the current event's questions.
    """

    answer_deadline: ClassVar[float] = 60.0

    def __init__(self) -> None:
        super().__init__()
        self.peers: dict[str, ActorAddress] = {}
        self.sender: ActorAddress | None = None
        self.waited = 0.0
        self.requests = 0
        self._stash: deque[Event] = deque()
        self._stashed_at: deque[float] = deque()
        self._stashed_ids: deque[int] = deque()
        self._event: Event | None = None
        self._flow_event_id = 0
        self._flow: conversation.Flow[None] | None = None
        self._following_up = False
        self._asked = 0
        self._open: dict[int, int] = {}
        self._first_open = 0
        self._results: list[Any] | None = None
        self._begun: dict[int, Any] = {}
        """Questions of Begin by ticket: the result, or None before its arrival."""
        self._awaited: int | None = None
        self._pause: int | None = None
        self._worked = 0.0
        """Share of this turn's work that was done."""

    # ----------------------------------------------------------------------------------------- for subclasses to define

    def flow(self, message: Any) -> conversation.Flow[None] | None:
        """Return the flow (a generator) that handles an event; None if the event is already handled."""
        raise NotImplementedError(f"{type(self).__name__} must define the method `flow`, which handles its events")

    def perform(self, instruction: Any) -> object:
        """Execute an instruction that a flow yielded, and return its result."""
        raise NotImplementedError(
            f"{type(self).__name__}.perform cannot execute the instruction {type(instruction).__name__}"
        )

    def preempts(self, message: Any) -> bool:
        """Return whether this event drops all earlier events: the event in progress and the stashed events (rule 4)."""
        return False

    def handle_dropped(self, dropped: list[Event]) -> None:
        """Handle the loss of these (event, sender) pairs; the event whose flow was suspended is first."""

    def event_failed(self, event: Any, error: Exception) -> conversation.Flow[None] | None:
        """Return a flow to run before any other event, after the flow of `event` raised `error`."""
        return None

    def event_id_of(self, message: Any) -> int:
        """Return the event id for the flow of `message`, which is being delivered.

        By default it is the event id with which the message was sent.
        """
        return self.event_id

    # ------------------------------------------------------------------------------------------------- for reading

    @property
    def stashed(self) -> int:
        """Number of stashed events."""
        return len(self._stash)

    @property
    def busy(self) -> bool:
        """Whether a flow is suspended."""
        return self._flow is not None

    # ------------------------------------------------------------------------------------------------------ the runtime

    def receiveMessage(self, message: Any, sender: ActorAddress) -> object:
        """Dispatch a message: an answer, a wake-up of a flow, a message with a handler, or an event."""
        if message.__class__ is ask.Answer:
            self.requests += message.requests
            self._handle_answer(message.id, message.result)
        elif message.__class__ is ask.Continue:
            if message.id == self._pause:
                self._pause = None
                self._resume(None)
        elif isinstance(message, WakeupMessage) and isinstance(message.payload, ask.AnswerDeadline):
            self._throw_lost_answer(message.payload.id)
        elif self.handler_of(message.__class__) is not None:
            return super().receiveMessage(message, sender)
        else:
            self._start_or_stash(message, sender)
        return None

    def _start_or_stash(self, message: object, sender: ActorAddress) -> None:
        """Start the flow of an event, or stash the event if a flow is suspended."""
        event_id = self.event_id_of(message)
        self.serve(event_id)
        self._worked = 0.0
        preempts = self.preempts(message)
        if preempts:
            self._preempt()
        if self._flow is not None and not preempts:
            self._stash.append((message, sender))
            self._stashed_at.append(self.now)
            self._stashed_ids.append(event_id)
        else:
            self._begin((message, sender), 0.0, event_id)
            self._unstash()

    def _resume(self, value: object, error: Exception | None = None) -> None:
        """Resume the suspended flow, and then handle stashed events."""
        self.serve(self._flow_event_id)
        self._worked = 0.0
        self._advance(value, error)
        self._unstash()

    def _unstash(self) -> None:
        begun = 0
        while self._flow is None and self._stash:
            if begun == MOST_AT_ONCE:
                self._flow = _pausing()
                self._advance(None, None)
                return
            begun += 1
            event, event_id = self._stash.popleft(), self._stashed_ids.popleft()
            self.serve(event_id)
            self._begin(event, self.now - self._stashed_at.popleft(), event_id)

    def _begin(self, event: Event, waited: float, event_id: int) -> None:
        self._event = event
        self._flow_event_id = event_id
        self.sender = event[1]
        self.waited, self.requests = waited, 0
        self._following_up = False
        try:
            self._flow = self.flow(event[0])
        except Exception as error:
            self._fail(error)
        self._advance(None, None)

    def _advance(self, value: object, error: Exception | None) -> None:
        """Run the flow until it waits or ends; if it fails, its follow-up flow is run next, in the same loop."""
        while self._flow is not None:
            outcome = advance(self._flow, self._step, value, error)
            if outcome is None:
                return
            self._flow = value = error = None
            self._begun.clear()
            if isinstance(outcome, Raised):
                self._fail(outcome.error)
        self._event = None

    def _step(self, step: object) -> object:
        """Execute a yielded value: send a question, or perform an instruction."""
        if isinstance(step, ask.Question):
            self._ask(((self.peers[step.asks], step),), None)
        elif isinstance(step, conversation.AskAll):
            self._ask(step.pairs, [None] * len(step.pairs))
        elif isinstance(step, conversation.Begin):
            self._asked += 1
            self._begun[self._asked] = None
            self.send(self.peers[step.question.asks], ask.asking(self._asked, step.question))
            return self._asked
        elif isinstance(step, conversation.Await):
            if self._begun[step.ticket] is not None:
                return self._result(step.ticket)
            self._awaited = step.ticket
            self.set_timer(ANSWERS, self.answer_deadline, ask.AnswerDeadline(step.ticket))
        elif isinstance(step, conversation.Worked) and self._worked + step.share < 1:
            self._worked += step.share
            return None
        elif isinstance(step, conversation.Pause | conversation.Worked):
            self._asked += 1
            self._pause = self._asked
            self.send(self.myAddress, ask.Continue(self._pause))
        else:
            return self.perform(step)
        return WAITING

    def _fail(self, error: Exception) -> None:
        """Log and record an error of an event or its follow-up. If the event failed, start its follow-up, if any."""
        event = self._event
        assert event is not None
        self._flow = None
        name = type(event[0]).__name__
        expected = isinstance(error, ask.AskFailed)  # name and text are sufficient without a stack trace
        reason = f"{type(error).__name__}: {error}" if expected else type(error).__name__
        trace = None if expected else error
        log.error("Actor %s failed to handle a %s message: %s", self.myAddress, name, reason, exc_info=trace)
        self.note_error(error)
        if self._following_up:
            return
        self._following_up = True
        try:
            self._flow = self.event_failed(event[0], error)
        except Exception as again:
            log.error(
                "%s: the error handler for the event %s failed: %s",
                self.myAddress,
                name,
                type(again).__name__,
                exc_info=again,
            )

    def _preempt(self) -> None:
        """Drop the suspended flow, its open questions and the stash."""
        dropped = list(self._stash)
        self._stash.clear()
        self._stashed_at.clear()
        self._stashed_ids.clear()
        self._open.clear()
        self._begun.clear()
        self._awaited = self._pause = None
        self.cancel_timer(ANSWERS)
        flow, self._flow = self._flow, None
        if flow is not None:
            if self._event is not None and not self._following_up:
                dropped.insert(0, self._event)
            try:
                flow.close()
            except Exception as error:
                log.error(
                    "%s: an event handler raised %s after it was cancelled",
                    self.myAddress,
                    type(error).__name__,
                    exc_info=error,
                )
        self.handle_dropped(dropped)

    def _ask(self, pairs: tuple[tuple[ActorAddress, Any], ...], results: list[Any] | None) -> None:
        """Send the questions. `results` collects the answers of an AskAll."""
        self._results = results
        self._first_open = first = self._asked + 1
        self._asked += len(pairs)
        send, asking = self.send, ask.asking
        for number, (address, question) in enumerate(pairs, first):
            send(address, asking(number, question))
        self._open = dict(zip(range(first, first + len(pairs)), range(len(pairs)), strict=True))
        self.set_timer(ANSWERS, self.answer_deadline, ask.AnswerDeadline(first))

    def _result(self, ticket: int) -> object:
        """Return the result of a Begin's question; if the result is a Failure, raise its exception instead."""
        result = self._begun.pop(ticket)
        if isinstance(result, ask.Failure):
            raise ask.error_of(result)
        return result

    def _begun_answered(self, ticket: int, result: object) -> None:
        """If the flow waits for this ticket, resume it; otherwise store the result until the flow yields its Await."""
        self._begun[ticket] = result
        if ticket != self._awaited:
            return
        self._awaited = None
        self.cancel_timer(ANSWERS)
        try:
            value = self._result(ticket)
        except ask.AskFailed as error:
            self._resume(None, error)
        else:
            self._resume(value)

    def _handle_answer(self, question: int, result: object) -> None:
        place = self._open.pop(question, None)
        if place is None:
            if question in self._begun:
                self._begun_answered(question, result)
            return
        if not self._open:
            self.cancel_timer(ANSWERS)
        if self._results is not None:
            self._results[place] = result
            if not self._open:
                self._resume(tuple(self._results))
        elif isinstance(result, ask.Failure):
            self._resume(None, ask.error_of(result))
        else:
            self._resume(result)

    def _throw_lost_answer(self, first: int) -> None:
        """Throw LostAnswer into the flow if answers are missing at the deadline; `first` is the lowest question id.

        If all answers have arrived, nothing happens. On Thespian's bases the timer cannot be cancelled, so it can
        expire after the last answer.
        """
        if self._awaited == first:
            self._begun_answered(
                first, ask.Failure(ask.LostAnswer.__name__, f"no answer after {self.answer_deadline} s")
            )
            return
        if self._open and first == self._first_open:
            lost = len(self._open)
            self._open.clear()
            self._resume(None, ask.LostAnswer(f"{lost} answers missing after {self.answer_deadline} s"))


def _pausing() -> conversation.Flow[None]:
    """Return a flow that only pauses."""
    yield conversation.Pause()
