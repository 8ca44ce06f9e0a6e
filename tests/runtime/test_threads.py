"""Test rule 2: any thread injects messages, and one thread runs the base.

Also test the inline driver: tell, ask, listen and private contexts.
"""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import Any

import pytest
from thespian.actors import Actor, ActorAddress

from actors.runtime import LocalBase, VirtualClock, local_system
from tests.runtime.actors import Scripted, World


class Echo(Actor):
    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, message)


def echo_system() -> tuple[LocalBase, Any, ActorAddress]:
    base = LocalBase()
    system = local_system(base)
    return base, system, system.createActor(Echo)


def in_threads(count: int, work: Any) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


def test_messages_of_many_threads_arrive_once_and_in_each_threads_order() -> None:
    world = World()
    one = world.actor()
    in_threads(4, lambda number: [world.base.inject(one, (number, count)) for count in range(1000)])
    assert world.got(one) == []
    world.base.run()
    got = world.got(one)
    assert len(got) == 4000
    for number in range(4):
        assert [count for sender, count in got if sender == number] == list(range(1000))


def test_handlers_of_one_actor_never_overlap() -> None:
    base, system, _ = echo_system()

    class Careful(Scripted):
        inside = False

        def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
            assert not self.inside
            self.inside = True
            time.sleep(0)
            self.inside = False
            self.got.append(message)

    one = system.createActor(Careful)
    in_threads(4, lambda number: [system.tell(one, count) for count in range(200)])
    assert len(base.instance_of(one).got) == 800
    assert base.failures == 0


def test_ask_returns_the_answer_and_honours_its_timeout() -> None:
    base, system, echo = echo_system()
    assert system.ask(echo, "hello", 5) == "hello"
    silent = system.createActor(Scripted)
    started = time.monotonic()
    assert system.ask(silent, "hello", timedelta(seconds=0.05)) is None
    assert 0.05 <= time.monotonic() - started < 5
    assert base.queued == 0


def test_listen_is_woken_by_a_message_of_another_thread() -> None:
    base, system, _ = echo_system()
    one = system.createActor(Scripted)
    requester = base.inline.address
    threading.Timer(0.02, base.inject, (one, lambda actor, _: actor.send(requester, "news"))).start()
    assert system.listen(20) == "news"


def test_a_waiting_thread_wakes_only_for_new_messages() -> None:
    base, system, _ = echo_system()
    one = system.createActor(Scripted)
    turns = []
    run = base.run
    base.run = lambda limit=None: turns.append(limit) or run(limit)  # type: ignore[method-assign]

    def wait(number: int) -> None:
        with system.private() as private:
            assert private.listen(0.5) is None

    waiting = [threading.Thread(target=wait, args=(number,)) for number in range(3)]
    for thread in waiting:
        thread.start()
    for _ in range(5):
        base.inject(one, "news")
    assert system.ask(one, "no answer", 0.5) is None
    for thread in waiting:
        thread.join(20)
    assert base.instance_of(one).got == [*["news"] * 5, "no answer"]
    assert len(turns) < 100, "four waited half a second each"


def test_on_virtual_time_waiting_is_what_lets_time_pass() -> None:
    clock = VirtualClock()
    system = local_system(LocalBase(clock=clock))
    silent = system.createActor(Scripted)
    started = time.monotonic()
    assert system.ask(silent, "hello", 3600) is None
    assert clock.now() == 3600
    assert time.monotonic() - started < 20


def test_a_handler_may_not_drive_its_own_system() -> None:
    base, system, _ = echo_system()
    one = system.createActor(Scripted)
    system.tell(one, lambda actor, _: system.tell(one, "queued, not nested"))
    assert base.instance_of(one).got == ["queued, not nested"]
    system.tell(one, lambda actor, _: system.listen(1))
    system.tell(one, lambda actor, _: base.run())
    assert base.failures == 2


@pytest.mark.parametrize("burst", [1, 500])
def test_a_wake_up_is_scheduled_once_for_any_number_of_messages(burst: int) -> None:
    class CountingLoop:
        calls = 0

        def call_soon_threadsafe(self, callback: Any) -> None:
            self.calls += 1

    base, _, echo = echo_system()
    loop = CountingLoop()
    base.attach(loop)  # type: ignore[arg-type]
    in_threads(2, lambda number: [base.inject(echo, count) for count in range(burst)])
    assert loop.calls == 1
    base.detach()
