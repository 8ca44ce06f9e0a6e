"""Test the kernel's state: the queue and the timers are one value, which the trace codec encodes and decodes."""

from __future__ import annotations

import json
from datetime import timedelta

from thespian.actors import WakeupMessage

from messages.ask import Answer, Ask, Done
from messages.events import BrokerChange
from messages.runtime import KernelState, QueuedMessage, WaitingTimer
from messages.trace.codec import MessageDecoder, encode
from messages.zookeeper import GetBrokers
from tests.runtime.actors import Scripted, World
from tests.runtime.test_flow import Desk, asking, noting


def test_queue_and_timers_are_one_value_that_a_trace_can_hold() -> None:
    world = World()
    one, other = world.actor(), world.actor()

    def busy(actor: Scripted, sender: object) -> None:
        actor.send(other, Ask(7, GetBrokers()))
        actor.wakeupAfter(timedelta(seconds=2), Done())
        actor._myRef.set_timer("first", 1.5, None)
        actor._myRef.set_timer("gone", 1.0, None)
        actor._myRef.cancel_timer("gone")

    world.clock.advance(10)
    world.base.inject(one, busy, world.outside)
    world.base.run(limit=1)
    world.base.inject(other, BrokerChange(), world.outside)
    state = world.base.state()
    assert state == KernelState(
        n=1,
        now=10.0,
        queue=(QueuedMessage(other, one, "sent", 1, 1, 10.0, Ask(7, GetBrokers())),),
        timers=(
            WaitingTimer(one, "first", 1, 11.5, WakeupMessage(timedelta(seconds=1.5))),
            WaitingTimer(one, "", 1, 12.0, WakeupMessage(timedelta(seconds=2), Done())),
        ),
    )
    name, payload = encode(state)
    assert json.loads(payload)["queue"][0]["receiver"] == "Scripted.2"
    assert MessageDecoder(world.base.address_of).decode(name, payload) == state


def test_the_state_is_the_deliveries_to_come() -> None:
    world = World()
    one = world.actor()
    world.base.inject(one, lambda actor, _: [actor.send(actor.myAddress, number) for number in (1, 2, 3)])
    world.base.run(limit=1)
    foretold = [(mail.receiver, mail.message, mail.cause) for mail in world.base.state().queue]
    world.base.run()
    assert [(d.receiver, d.message, d.cause) for d in world.journal.deliveries[1:]] == foretold
    assert world.base.state() == KernelState(4, 0.0, (), ())


def test_a_flow_actor_is_busy_while_it_waits() -> None:
    """A suspended generator cannot be stored, so a snapshot has to wait for it."""
    desk = Desk()
    desk.events(asking("a"), noting("next"))
    assert (desk.clerk.busy, desk.clerk.stashed) == (True, 1)
    desk.events(Answer(1, Done()))
    assert (desk.clerk.busy, desk.clerk.stashed) == (False, 0)
