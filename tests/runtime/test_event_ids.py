"""Test the event ids of deliveries: external messages and timers start an event, sends inherit it, flows restore it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from actors.runtime import FlowActor
from actors.runtime.kernel.delivery import Delivery
from actors.runtime.thespian.dispatch import Dispatcher
from messages.ask import Answer, Ask
from tests.runtime.actors import Scripted, World
from tests.runtime.test_flow import Lookup, Oracle


class Server(FlowActor):
    """A flow actor that asks the oracle for each event and sends the key to the sender, as the controller does."""

    def flow(self, message: str) -> Generator[Any, Any, None]:
        sender = self.sender
        self.send(sender, f"{message} asks")
        self.send(sender, (yield Lookup(message)))

    def event_id_of(self, message: str) -> int:
        return self.delivery


class Resender(Dispatcher):
    """Sends each message back twice: in the current event, and in the event of its first delivery."""

    first = 0

    def receiveMsg_str(self, message: str, sender: Any) -> None:
        self.first = self.first or self.event_id
        self.send(sender, f"{message} now")
        self.serve(self.first)
        self.send(sender, f"{message} first")


def by_message(world: World) -> dict[Any, Delivery]:
    return {each.message: each for each in world.journal.deliveries if isinstance(each.message, str)}


def test_input_begins_an_event_which_all_that_follows_inherits() -> None:
    world = World()
    one, other = world.actor(), world.actor()
    world.tell(one, "before", lambda actor, sender: actor.send(other, lambda a, s: a.send(one, "last")))
    before, *rest = world.journal.deliveries
    assert before.event_id == before.n == 1
    assert [each.event_id for each in rest] == [2, 2, 2]


def test_a_timer_begins_an_event_and_is_not_part_of_the_one_that_armed_it() -> None:
    world = World()
    one = world.actor()
    world.tell(one, lambda actor, sender: actor.wakeupAfter(1, "due"))
    world.base.simulate(2.0)
    armed, rung = world.journal.deliveries
    assert (armed.event_id, rung.event_id) == (armed.n, rung.n)


def test_a_flow_serves_its_own_event_after_it_was_stashed_or_suspended() -> None:
    world = World()
    server, oracle = world.actor(Server), world.actor(Oracle)
    world.base.instance_of(server).peers["oracle"] = oracle
    world.tell(server, "a", "b")
    world.tell(oracle, 1)
    world.tell(oracle, 1)
    found = by_message(world)
    a, b = found["a"].n, found["b"].n
    assert {text: found[text].event_id for text in ("a", "b", "a asks", "A", "b asks", "B")} == {
        **dict.fromkeys(("a", "a asks", "A"), a),
        **dict.fromkeys(("b", "b asks", "B"), b),
    }
    answers = [each for each in world.journal.deliveries if isinstance(each.message, Answer)]
    assert [each.event_id for each in answers] == [a, b], "an answer serves the event whose question it answers"
    asked = [each for each in world.journal.deliveries if isinstance(each.message, Ask)]
    assert [each.event_id for each in asked] == [a, b]


def test_a_handler_that_continues_earlier_work_sends_for_that_event() -> None:
    world = World()
    one = world.actor(Resender)
    world.tell(one, "x", "y")
    found = by_message(world)
    x, y = found["x"].n, found["y"].n
    assert (found["x now"].event_id, found["x first"].event_id) == (x, x)
    assert (found["y now"].event_id, found["y first"].event_id) == (y, x)
    assert found["y"].event_id == x, "the delivery is recorded under the event that it continues"


def test_dead_letters_and_failed_handlers_have_an_event_id() -> None:
    world = World()
    one = world.actor(Scripted)
    world.tell(one, lambda actor, sender: 1 / 0, "after")
    failed, after = world.journal.deliveries
    assert failed.error is not None
    assert (failed.event_id, after.event_id) == (failed.n, after.n)
