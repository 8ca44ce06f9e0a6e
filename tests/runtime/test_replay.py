"""Test the base's methods for a replay: a run with threads, timers and failures is repeated delivery by delivery."""

from __future__ import annotations

import random
import threading
from datetime import timedelta
from typing import Any

from thespian.actors import ActorAddress, ActorExitRequest, ChildActorExited, WakeupMessage

from actors.runtime import Delivery, Dispatcher, LocalBase, local_system
from tests.runtime.actors import Journal


class Node(Dispatcher):
    """Creates children, sends, starts timers, raises and stops children, depending on the received number."""

    def __init__(self) -> None:
        self.children: list[ActorAddress] = []
        self.sum = 0.0

    def receiveMsg_int(self, number: int, sender: ActorAddress) -> None:
        self.sum += number * self.now
        if not number:
            return
        if number % 5 == 0:
            self.children.append(self.createActor(Node))
        if number % 7 == 0:
            self.wakeupAfter(timedelta(microseconds=number % 3), number)
            self.wakeupAfter(timedelta(microseconds=number % 4), -number)
        if number % 3 == 0:
            self.set_timer("last", number % 7 / 1_000_000, number)
        if number % 4 == 0:
            self.cancel_timer("last")
        for child in self.children[-2:]:
            self.send(child, number // 2)
        if number % 11 == 0 and self.children:
            self.send(self.children[0], ActorExitRequest())
        if number % 13 == 0:
            raise ValueError(number)

    def receiveMsg_WakeupMessage(self, message: WakeupMessage, sender: ActorAddress) -> None:
        self.sum += message.payload * self.now

    def receiveMsg_ChildActorExited(self, message: ChildActorExited, sender: ActorAddress) -> None:
        self.children = [child for child in self.children if child != message.childAddress]


def row(delivery: Delivery) -> tuple[Any, ...]:
    """Return the fields of a delivery that a trace contains, except the times at which it was queued and finished."""
    message = delivery.message
    if isinstance(message, WakeupMessage):
        message = (message.delayPeriod, message.payload)
    elif isinstance(message, ActorExitRequest | ChildActorExited):
        message = str(message)
    addresses = str(delivery.sender), str(delivery.receiver)
    return (delivery.n, delivery.kind, delivery.cause, *addresses, message, delivery.taken_at, delivery.error)


def test_a_run_with_threads_and_real_time_is_repeated_exactly() -> None:
    journal = Journal()
    base = LocalBase(observer=journal)
    root = local_system(base).createActor(Node)
    numbers = random.Random(7)

    def feed(numbers: list[int]) -> None:
        for number in numbers:
            base.inject(root, number)

    threads = [threading.Thread(target=feed, args=([numbers.randrange(200) for _ in range(150)],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or base.queued or base.pending_timers:
        base.run(limit=50)
    kinds = {delivery.kind for delivery in journal.deliveries}
    assert kinds == {"sent", "outside", "timer"} and base.failures and base.dead_letters

    again = LocalBase()
    local_system(again).createActor(Node)
    for recorded in journal.deliveries:
        receiver = str(recorded.receiver)
        assert recorded.kind == "outside" or again.take_overdue(recorded.queued_at) is None
        if recorded.kind == "outside":
            to, sender = again.address_of(receiver), again.address_of(str(recorded.sender))
            envelope = again.outside(to, recorded.message, sender, recorded.cause)
        elif recorded.kind == "timer":
            envelope = again.take_timer(receiver, recorded.cause)
        else:
            envelope = again.take_sent()
        assert envelope is not None
        assert row(again.deliver(envelope, recorded.taken_at, recorded.effects)) == row(recorded)
    assert again.take_sent() is None
    assert again.take_timer("Node.1", 1) is None
    assert again.instance_of(again.address_of("Node.1")).sum == base.instance_of(root).sum
