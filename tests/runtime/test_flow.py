"""Test FlowActor's rules: serial events, questions, failures, preemption, lost answers."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from datetime import timedelta
from typing import Any, ClassVar

import attrs
import pytest
from thespian.actors import Actor, ActorAddress, ActorExitRequest, WakeupMessage

from actors.runtime import FlowActor
from actors.runtime.flow.flow import MOST_AT_ONCE
from messages.ask import Answer, Ask, AskFailed, ConnectionLoss, ControllerMoved, Failure, LostAnswer, Question
from messages.flow.conversation import SLICE, Worked, ask_all, for_each, slices
from tests.runtime.actors import World


@attrs.frozen
class Lookup(Question[str]):
    """A question to the oracle."""

    asks: ClassVar[str] = "oracle"
    key: str


@attrs.frozen
class Note:
    """An instruction of a flow."""

    text: str


@attrs.frozen
class Expired:
    """A message that preempts the flow."""


@attrs.frozen
class Poke:
    """A message with a handler, which is therefore not an event."""


class Oracle(Actor):
    """Stores questions until a number arrives, and then answers this number of questions, oldest first."""

    def __init__(self) -> None:
        self.asked: list[tuple[Ask, ActorAddress]] = []
        self.answers: dict[str, Any] = {}

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if isinstance(message, Ask):
            self.asked.append((message, sender))
        elif isinstance(message, int):
            for _ in range(message):
                ask, asker = self.asked.pop(0)
                key = ask.question.key
                self.send(asker, Answer(ask.id, self.answers.get(key, key.upper())))


class Clerk(FlowActor):
    """A flow actor whose events are functions of the clerk: generators, or plain functions that end at once."""

    answer_deadline = 30.0

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Any] = []
        self.failed: list[Any] = []
        self.dropped: list[Any] = []
        self.after_failure: Any = None

    def flow(self, message: Any) -> Generator[Any, Any, None] | None:
        if isinstance(message, Expired):
            self.log.append("expired")
            return None
        if isinstance(message, WakeupMessage):
            self.log.append(message.payload)
            return None
        return message(self)

    def perform(self, instruction: Any) -> None:
        if not isinstance(instruction, Note):
            raise TypeError("notes only")
        self.log.append(instruction.text)

    def preempts(self, message: Any) -> bool:
        return isinstance(message, Expired)

    def handle_dropped(self, dropped: list[tuple[Any, ActorAddress]]) -> None:
        self.dropped = dropped

    def event_failed(self, event: Any, error: Exception) -> Any:
        self.failed.append(error)
        return self.after_failure(self) if self.after_failure else None

    def receiveMsg_Poke(self, message: Poke, sender: ActorAddress) -> None:
        self.log.append("poked")


class Desk(World):
    """A world with a clerk and its oracle."""

    def __init__(self) -> None:
        super().__init__()
        self.clerk_address, self.oracle_address = self.actor(Clerk), self.actor(Oracle)
        self.clerk: Clerk = self.base.instance_of(self.clerk_address)
        self.oracle: Oracle = self.base.instance_of(self.oracle_address)
        self.clerk.peers["oracle"] = self.oracle_address

    def events(self, *events: Any) -> None:
        self.tell(self.clerk_address, *events)

    def answer(self, count: int = 1) -> None:
        self.tell(self.oracle_address, count)


def noting(text: str) -> Any:
    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        yield Note(text)

    return event


def asking(*keys: str) -> Any:
    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        for key in keys:
            clerk.log.append((yield Lookup(key)))

    return event


def failing(error: Exception) -> Any:
    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        yield Note("before")
        raise error

    return event


def test_instructions_are_performed_and_the_flow_goes_on_with_nothing() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        clerk.log.append((yield Note("done")))

    desk.events(event)
    assert desk.clerk.log == ["done", None]


def test_an_event_without_a_flow_is_done_at_once() -> None:
    desk = Desk()
    desk.events(lambda clerk: clerk.log.append("at once"), noting("next"))
    assert desk.clerk.log == ["at once", "next"]
    assert not desk.clerk.busy


def test_a_question_suspends_the_flow_until_its_answer() -> None:
    desk = Desk()
    desk.events(asking("a", "b"))
    assert (desk.clerk.busy, desk.clerk.log) == (True, [])
    desk.answer()
    assert (desk.clerk.busy, desk.clerk.log) == (True, ["A"])
    desk.answer()
    assert (desk.clerk.busy, desk.clerk.log) == (False, ["A", "B"])


def test_events_wait_in_order_while_a_flow_is_suspended_and_handlers_do_not() -> None:
    desk = Desk()
    desk.events(asking("a"), noting("second"), asking("b"), Poke(), noting("fourth"))
    assert (desk.clerk.stashed, desk.clerk.log) == (3, ["poked"])
    desk.answer()
    assert (desk.clerk.stashed, desk.clerk.log) == (1, ["poked", "A", "second"])
    desk.answer()
    assert (desk.clerk.stashed, desk.clerk.log) == (0, ["poked", "A", "second", "B", "fourth"])


def test_a_long_stash_is_drained_without_recursion() -> None:
    desk = Desk()
    desk.events(asking("a"), *(noting("n") for _ in range(20_000)))
    assert desk.clerk.stashed == 20_000
    desk.answer()
    assert len(desk.clerk.log) == 20_001
    assert desk.base.failures == 0


def test_a_long_stash_is_drained_in_order_a_few_events_at_a_time_while_others_have_their_turn() -> None:
    desk = Desk()
    events = [noting(str(n)) for n in range(2 * MOST_AT_ONCE + 1)]
    desk.events(asking("a"), *events)
    desk.base.inject(desk.oracle_address, 1)
    desk.base.run(limit=2)
    assert len(desk.clerk.log) == 1 + MOST_AT_ONCE and desk.clerk.busy
    desk.base.inject(desk.clerk_address, Poke())
    desk.base.inject(desk.clerk_address, noting("late"))
    desk.base.run()
    first, rest = desk.clerk.log[1 : 1 + MOST_AT_ONCE], desk.clerk.log[1 + MOST_AT_ONCE :]
    assert rest.index("poked") <= MOST_AT_ONCE
    rest.remove("poked")
    assert [*first, *rest] == [*(str(n) for n in range(len(events))), "late"]
    assert not desk.clerk.busy


def test_the_sender_of_the_event_is_known_also_after_an_answer() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        answer = yield Lookup("a")
        clerk.send(clerk.sender, answer)

    desk.events(event)
    desk.base.inject(desk.clerk_address, noting("other"), desk.base.external_endpoint("other", lambda *_: None))
    desk.answer()
    assert desk.heard == ["A"]


@pytest.mark.parametrize(
    "name, thrown", [("ConnectionLoss", ConnectionLoss), ("ControllerMoved", ControllerMoved), ("New", AskFailed)]
)
def test_a_failure_is_thrown_into_the_flow_by_its_name(name: str, thrown: type[Exception]) -> None:
    desk = Desk()
    desk.oracle.answers["a"] = Failure(name, "what happened")

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        try:
            yield Lookup("a")
        except AskFailed as error:
            clerk.log.append((type(error), str(error)))
            yield Note("went on")

    desk.events(event)
    desk.answer()
    assert desk.clerk.log == [(thrown, "what happened"), "went on"]
    assert desk.clerk.failed == []


def test_an_event_that_raises_is_logged_recorded_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    error = ValueError("no good")
    desk.events(failing(error), noting("next"))
    assert desk.clerk.log == ["before", "next"]
    assert desk.clerk.failed == [error]
    assert [d.error for d in desk.journal.deliveries] == ["ValueError: no good", None]
    assert "Actor Clerk.1 failed to handle a function message: ValueError" in caplog.text


def test_an_event_that_raises_before_it_flows_is_no_different() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> None:
        raise ValueError("at once")

    desk.events(event)
    assert [str(error) for error in desk.clerk.failed] == ["at once"]
    assert desk.journal.deliveries[0].error == "ValueError: at once"


def test_the_follow_up_of_a_failure_runs_before_what_is_stashed() -> None:
    desk = Desk()
    desk.oracle.answers["a"] = Failure("ControllerMoved", "")

    def resign(clerk: Clerk) -> Generator[Any, Any, None]:
        clerk.log.append((yield Lookup("resign")))

    desk.clerk.after_failure = resign
    desk.events(asking("a"), noting("next"))
    desk.answer()
    assert (desk.clerk.log, desk.clerk.stashed) == ([], 1)
    desk.answer()
    assert desk.clerk.log == ["RESIGN", "next"]
    assert [type(error) for error in desk.clerk.failed] == [ControllerMoved]


def test_a_follow_up_that_fails_has_none_itself() -> None:
    desk = Desk()
    desk.clerk.after_failure = failing(ValueError("again"))
    desk.events(failing(ValueError("first")), noting("next"))
    assert [str(error) for error in desk.clerk.failed] == ["first"]
    assert desk.clerk.log == ["before", "before", "next"]


def test_what_perform_raises_is_thrown_into_the_flow() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        try:
            yield "not a note"
        except TypeError as error:
            yield Note(str(error))

    desk.events(event)
    assert desk.clerk.log == ["notes only"]


def test_a_question_to_a_missing_actor_raises_in_the_flow() -> None:
    desk = Desk()
    desk.clerk.peers.clear()
    desk.events(asking("a"), noting("next"))
    assert [type(error) for error in desk.clerk.failed] == [KeyError]
    assert desk.clerk.log == ["next"]


def test_many_questions_at_once_are_answered_in_the_order_asked() -> None:
    desk = Desk()
    desk.oracle.answers["b"] = lost = Failure("ConnectionLoss", "b")
    other_address = desk.actor(Oracle)

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        clerk.log.append((yield from ask_all(())))
        pairs = ((desk.oracle_address, Lookup("a")), (other_address, Lookup("x")), (desk.oracle_address, Lookup("b")))
        clerk.log.append((yield from ask_all(pairs)))

    desk.events(event)
    desk.answer(2)
    assert desk.clerk.log == [()]
    desk.tell(other_address, 1)
    assert desk.clerk.log == [(), ("A", "X", lost)]


def test_many_questions_go_out_in_windows_and_the_order_stays() -> None:
    desk = Desk()
    keys = [f"k{number}" for number in range(2 * SLICE + 321)]
    pairs = [(desk.oracle_address, Lookup(key)) for key in keys]

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        clerk.log.append((yield from ask_all(pairs)))

    desk.events(event)
    windows = []
    while desk.clerk.busy:
        windows.append(len(desk.oracle.asked))
        desk.answer(windows[-1] - 1)
        assert len(desk.oracle.asked) == 1, "the next window waits for the last answer of this one"
        desk.answer()
    assert windows == [SLICE, SLICE, 321]
    assert desk.clerk.log == [tuple(key.upper() for key in keys)]


def looking(*keys: str) -> Any:
    """Return an event with a flow per key, which notes its start and answer. Later flows send questions ahead."""

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        def flow(key: str) -> Generator[Any, Any, None]:
            yield Note(f"begin {key}")
            if key.startswith("-"):
                return
            try:
                answer = yield Lookup(key)
            except ConnectionLoss as error:
                answer = str(error)
            yield Note(f"{key}: {answer}")
            if key == "twice":
                clerk.log.append((yield Lookup("again")))

        yield from for_each(keys, lambda part: flow(*part), 1)
        clerk.log.append("end")

    return event


def test_the_next_flows_ask_while_one_waits_and_each_goes_on_in_its_turn() -> None:
    desk = Desk()
    desk.oracle.answers["b"] = Failure("ConnectionLoss", "no b")
    desk.events(looking("a", "b", "-", "c", "d"))
    assert [each.question.key for each, _ in desk.oracle.asked] == ["a", "b", "c"]
    assert desk.clerk.log == ["begin a", "begin b", "begin -", "begin c"]
    desk.answer()
    assert desk.clerk.log[4:] == ["a: A", "begin d"]
    desk.answer(3)
    assert desk.clerk.log[6:] == ["b: no b", "c: C", "d: D", "end"]
    assert not desk.clerk.busy and desk.base.pending_timers == 0


def test_what_is_answered_early_waits_for_its_turn_and_later_questions_are_asked_as_ever() -> None:
    desk = Desk()
    desk.events(looking("twice", "b"))
    first, second = desk.oracle.asked
    desk.oracle.asked = [second, first]
    desk.answer()
    assert desk.clerk.log == ["begin twice", "begin b"]
    desk.answer()
    assert desk.clerk.log[2:] == ["twice: TWICE"]
    assert [each.question.key for each, _ in desk.oracle.asked] == ["again"]
    desk.answer()
    assert desk.clerk.log[3:] == ["AGAIN", "b: B", "end"]


def test_a_flow_that_fails_ends_those_behind_it_and_their_answers_come_to_nothing() -> None:
    desk = Desk()
    desk.oracle.answers["a"] = Failure("ControllerMoved", "another")
    desk.events(looking("a", "b", "c"), noting("next"))
    desk.answer()
    assert [type(error) for error in desk.clerk.failed] == [ControllerMoved]
    assert desk.clerk.log == ["begin a", "begin b", "begin c", "next"]
    desk.answer(2)
    assert desk.clerk.log[4:] == [] and not desk.clerk.busy


def test_the_answer_of_a_question_asked_ahead_can_be_lost_and_comes_too_late_then() -> None:
    desk = Desk()
    desk.events(looking("a", "b"))
    desk.oracle.asked.reverse()
    desk.answer()
    desk.base.simulate(29.9)
    assert desk.clerk.busy
    desk.base.simulate(30)
    assert [type(error) for error in desk.clerk.failed] == [LostAnswer]
    desk.answer()
    assert desk.clerk.log == ["begin a", "begin b"] and desk.base.pending_timers == 0


def test_preemption_forgets_what_was_asked_ahead() -> None:
    desk = Desk()
    desk.events(looking("a", "b"))
    desk.events(Expired(), asking("x"))
    assert desk.clerk.log == ["begin a", "begin b", "expired"]
    desk.answer(2)
    assert desk.clerk.busy
    desk.answer()
    assert desk.clerk.log[3:] == ["X"]


@pytest.mark.parametrize("count, parts", [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (9, [3, 3, 3])])
def test_slices_hold_all_items_in_their_order(count: int, parts: list[int]) -> None:
    items = tuple(range(count))
    assert [len(part) for part in slices(items, 3)] == parts
    assert tuple(item for part in slices(items, 3) for item in part) == items
    taken: list[Sequence[int]] = []
    shares = [step.share for step in for_each(items, taken.append, 3) if isinstance(step, Worked)]
    assert [tuple(part) for part in taken] == list(slices(items, 3))
    assert shares == [part / 3 for part in parts]


def pausing(*texts: str) -> Any:
    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        yield from for_each(texts, clerk.log.extend, 1)

    return event


def test_waiting_messages_are_handled_during_a_pause() -> None:
    desk = Desk()
    desk.base.inject(desk.clerk_address, pausing("one", "two", "three"))
    desk.base.inject(desk.clerk_address, Poke())
    desk.base.inject(desk.clerk_address, noting("other event"))
    desk.base.inject(desk.oracle_address, lambda *_: None)
    desk.base.run(limit=4)
    assert (desk.clerk.log, desk.clerk.stashed, desk.clerk.busy) == (["one", "poked"], 1, True)
    desk.base.run()
    assert (desk.clerk.log, desk.clerk.busy) == (["one", "poked", "two", "three", "other event"], False)
    assert [type(message).__name__ for message in desk.journal.messages("sent")] == ["Continue"] * 3


@pytest.mark.parametrize(("loops", "pauses"), [([2], 0), ([3], 1), ([2, 2], 1), ([1, 1, 1, 1, 1, 1, 1], 2), ([7], 2)])
def test_the_loops_of_a_turn_share_its_budget(loops: list[int], pauses: int) -> None:
    """A turn handles three items, whichever loops they belong to."""
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        for count in loops:
            yield from for_each(range(count), clerk.log.extend, 3)

    desk.events(event)
    assert desk.clerk.log == [number for count in loops for number in range(count)]
    assert [type(message).__name__ for message in desk.journal.messages("sent")] == ["Continue"] * pauses


def test_an_answer_begins_a_turn_with_a_budget_of_its_own() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        for key in ("a", "b", "c"):
            yield from for_each(range(2), clerk.log.extend, 3)
            clerk.log.append((yield Lookup(key)))

    desk.events(event)
    desk.answer()
    desk.answer()
    desk.answer()
    assert desk.clerk.log == [0, 1, "A", 0, 1, "B", 0, 1, "C"]
    assert "Continue" not in [type(message).__name__ for message in desk.journal.messages("sent")]


def test_only_the_items_that_pass_a_test_are_passed_on_in_full_parts() -> None:
    parts: list[list[int]] = []
    for step in for_each(range(10), lambda part: parts.append(list(part)), 2, lambda number: number % 3 == 0):
        assert isinstance(step, Worked)
    assert parts == [[0, 3], [6, 9]]


def test_preemption_ends_a_pause_and_its_wake_up_comes_to_nothing() -> None:
    desk = Desk()
    event, second = pausing("one", "two"), noting("second")
    for message in (event, second, Expired(), pausing("three", "four")):
        desk.base.inject(desk.clerk_address, message)
    desk.base.run(limit=5)
    assert [message for message, _ in desk.clerk.dropped] == [event, second]
    assert (desk.clerk.log, desk.clerk.busy) == (["one", "expired", "three"], True), "the first pause is of no flow"
    desk.base.run()
    assert desk.clerk.log == ["one", "expired", "three", "four"]
    assert desk.base.failures == 0


def test_preemption_drops_the_flow_and_the_stash_and_runs_at_once() -> None:
    desk = Desk()
    closed = []

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        try:
            yield Lookup("a")
        finally:
            closed.append(True)

    second = noting("second")
    desk.events(event, second, Expired(), noting("third"))
    assert desk.clerk.log == ["expired", "third"]
    assert [message for message, _ in desk.clerk.dropped] == [event, second]
    assert {str(sender) for _, sender in desk.clerk.dropped} == {"outside:test"}
    assert closed == [True]
    desk.answer()
    assert desk.clerk.log == ["expired", "third"]


def test_preemption_of_a_flow_that_would_not_end_still_preempts(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        try:
            yield Lookup("a")
        finally:
            yield Note("one more thing")

    desk.events(event, Expired())
    assert desk.clerk.log == ["expired"]
    assert "an event handler raised RuntimeError after it was cancelled" in caplog.text


def test_answers_to_no_open_question_are_dropped() -> None:
    desk = Desk()
    desk.events(Answer(99, "unasked"), asking("a"), Answer(98, "nor this"))
    assert desk.clerk.busy
    desk.answer()
    desk.events(Answer(1, "twice"))
    assert desk.clerk.log == ["A"]
    assert desk.base.failures == 0


def test_a_lost_answer_is_thrown_into_the_flow_after_the_deadline() -> None:
    desk = Desk()
    desk.events(asking("a"), noting("next"))
    desk.base.simulate(29.9)
    assert desk.clerk.busy
    desk.base.simulate(30)
    assert [type(error) for error in desk.clerk.failed] == [LostAnswer]
    assert desk.clerk.log == ["next"]
    desk.answer()
    assert desk.clerk.log == ["next"]


def test_each_question_has_the_whole_deadline_and_its_answer_ends_it() -> None:
    desk = Desk()
    for second in range(1, 100):
        desk.events(asking("a"))
        assert desk.base.pending_timers == 1
        desk.base.simulate(second)
        desk.answer()
        assert desk.base.pending_timers == 0
    desk.events(asking("a"))
    desk.base.simulate(99 + 29.9)
    assert desk.clerk.failed == []
    desk.base.simulate(99 + 30)
    assert [type(error) for error in desk.clerk.failed] == [LostAnswer]


def test_an_answer_that_waits_in_the_queue_when_the_deadline_passes_is_not_lost() -> None:
    desk = Desk()
    desk.events(asking("a"))
    desk.base.inject(desk.clerk_address, Answer(1, "just in time"))
    desk.base.run(limit=0)
    desk.clock.advance(30)
    desk.base.run()
    assert (desk.clerk.log, desk.clerk.failed) == (["just in time"], [])


def test_an_actors_own_timers_are_events() -> None:
    desk = Desk()

    def event(clerk: Clerk) -> Generator[Any, Any, None]:
        clerk.wakeupAfter(timedelta(seconds=1), "tick")
        yield Lookup("a")

    desk.events(event)
    desk.base.simulate(5)
    assert (desk.clerk.log, desk.clerk.stashed) == ([], 1)
    desk.answer()
    assert desk.clerk.log == ["tick"]


def test_an_exit_does_not_wait_for_the_flow() -> None:
    desk = Desk()
    desk.events(asking("a"), ActorExitRequest())
    assert desk.base.instance_of(desk.clerk_address) is None
    desk.answer()
    assert desk.base.dead_letters == 1


def test_the_failure_policy_of_the_shell_holds_whatever_the_bases_is() -> None:
    desk = Desk()
    desk.base.attempts = 3
    desk.events(failing(ValueError("no good")))
    assert desk.clerk.log == ["before"]
    assert desk.heard == []
