"""Compare the speed of the runtime with its peers: `python -m tests.benchmarks.runtime`.

The peers are Thespian's in-process base (with the same actors), Pykka (one thread per actor), and asyncio (one queue
and one task per actor). Figures are messages or actors per second: the best of ROUNDS, in which the peers take turns.
asyncio's figures for `create` and `fan_out_100k` come from one round. Thespian bases are driven by `tell`, which
returns when all messages are delivered.

* ping_pong: two actors send a message to each other.
* fan_out_100k: one actor sends a message to each of 100,000 children, and counts their replies.
* create: an actor creates children (fewer with Pykka, where each is a thread).
* pending_timers: ping_pong while 100,000 timers are armed; the peer is our runtime without timers.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import attrs
from thespian.actors import Actor, ActorAddress, ActorSystem

from actors.runtime import LocalBase, local_system
from tests.benchmarks.report import report, seconds

BENCH = "runtime"
CHILDREN = 100_000
ROUNDS = 3


@attrs.frozen
class Parcel:
    """The message that the actors send. It is as large as most messages of kafka-actors."""

    topic: str = "orders"
    partition: int = 7
    leader: int = 1
    epoch: int = 3
    isr: tuple[int, ...] = (1, 2, 3)


@attrs.frozen
class Play:
    """Exchange a parcel with the partner `rounds` times."""

    partner: Any
    rounds: int


@attrs.frozen
class Populate:
    """Create `count` children."""

    count: int


@attrs.frozen
class FanOut:
    """Send each child a parcel and count the replies."""


@attrs.frozen
class Arm:
    """Arm `count` timers that are not due for a day."""

    count: int


class Echo(Actor):
    """An actor that returns each message to its sender."""

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        self.send(sender, message)


class Root(Actor):
    """The actor that runs each case: it sends to an Echo, creates children, or arms timers."""

    def __init__(self) -> None:
        self.left = 0
        self.children: list[ActorAddress] = []

    def receiveMessage(self, message: Any, sender: ActorAddress) -> None:
        if message.__class__ is Parcel:
            self.left -= 1
            if self.left > 0 and not self.children:
                self.send(sender, message)
        elif message.__class__ is Play:
            self.left = message.rounds
            self.send(message.partner, Parcel())
        elif message.__class__ is FanOut:
            self.left = len(self.children)
            parcel = Parcel()
            for child in self.children:
                self.send(child, parcel)
        elif message.__class__ is Populate:
            self.children = [self.createActor(Echo) for _ in range(message.count)]
        elif message.__class__ is Arm:
            for _ in range(message.count):
                self.wakeupAfter(timedelta(days=1))


class OnThespian:
    """The cases on a Thespian base: ours or Thespian's."""

    def __init__(self, make: Callable[[], ActorSystem]) -> None:
        self._system = make()
        self._root = self._system.createActor(Root)
        self._echo = self._system.createActor(Echo)

    def ping_pong(self, rounds: int) -> float:
        took = seconds(lambda: self._system.tell(self._root, Play(self._echo, rounds)))
        return 2 * rounds / took

    def create(self, count: int) -> float:
        return count / seconds(lambda: self._system.tell(self._root, Populate(count)))

    def fan_out(self, count: int) -> float:
        return 2 * count / seconds(lambda: self._system.tell(self._root, FanOut()))

    def arm(self, count: int) -> None:
        self._system.tell(self._root, Arm(count))


def ours() -> OnThespian:
    return OnThespian(lambda: local_system(LocalBase()))


def simple() -> OnThespian:
    return OnThespian(lambda: ActorSystem("simpleSystemBase", logDefs=False, transientUnique=True))


class OnAsyncio:
    """The cases on asyncio, with one queue and one task per actor."""

    def ping_pong(self, rounds: int) -> float:
        async def main() -> None:
            here: asyncio.Queue[Any] = asyncio.Queue()
            there: asyncio.Queue[Any] = asyncio.Queue()
            echo = asyncio.create_task(self._echo(there, here))
            parcel = Parcel()
            for _ in range(rounds):
                there.put_nowait(parcel)
                await here.get()
            echo.cancel()

        return 2 * rounds / seconds(lambda: asyncio.run(main()))

    def create_and_fan_out(self, count: int) -> tuple[float, float]:
        async def main() -> tuple[float, float]:
            clock = asyncio.get_running_loop().time
            here: asyncio.Queue[Any] = asyncio.Queue()
            started = clock()
            queues: list[asyncio.Queue[Any]] = [asyncio.Queue() for _ in range(count)]
            tasks = [asyncio.create_task(self._echo(queue, here)) for queue in queues]
            await asyncio.sleep(0)
            created = clock() - started
            started = clock()
            parcel = Parcel()
            for queue in queues:
                queue.put_nowait(parcel)
            for _ in range(count):
                await here.get()
            fanned = clock() - started
            for task in tasks:
                task.cancel()
            return count / created, 2 * count / fanned

        return asyncio.run(main())

    @staticmethod
    async def _echo(mailbox: asyncio.Queue[Any], out: asyncio.Queue[Any]) -> None:
        while True:
            out.put_nowait(await mailbox.get())


class OnPykka:
    """The cases `ping_pong` and `create` with Pykka's threading actors.

    Raises:
        ImportError: Pykka is not installed.
    """

    def __init__(self) -> None:
        import pykka

        class PykkaEcho(pykka.ThreadingActor):
            def on_receive(self, message: Any) -> None:
                partner, parcel = message
                partner.tell((self.actor_ref, parcel))

        class PykkaRoot(pykka.ThreadingActor):
            def on_receive(self, message: Any) -> Any:
                if isinstance(message, Play):
                    self.left = message.rounds
                    self.done = pykka.ThreadingFuture()
                    message.partner.tell((self.actor_ref, Parcel()))
                    return self.done
                partner, parcel = message
                self.left -= 1
                if self.left:
                    partner.tell((self.actor_ref, parcel))
                else:
                    self.done.set(None)
                return None

        self._pykka, self._root, self._echo = pykka, PykkaRoot, PykkaEcho

    def ping_pong(self, rounds: int) -> float:
        root, echo = self._root.start(), self._echo.start()
        took = seconds(lambda: root.ask(Play(echo, rounds)).get())
        self._pykka.ActorRegistry.stop_all()
        return 2 * rounds / took

    def create(self, count: int) -> float:
        took = seconds(lambda: [self._echo.start() for _ in range(count)])
        self._pykka.ActorRegistry.stop_all()
        return count / took


def best(*measures: Callable[[], float]) -> list[float]:
    """Return the best of ROUNDS results of each function. They take turns, so that other load affects all alike."""
    figures = [0.0] * len(measures)
    for _ in range(ROUNDS):
        for place, measure in enumerate(measures):
            gc.collect()
            figures[place] = max(figures[place], measure())
    return figures


def main() -> None:
    """Run all cases, and print a row for each case and peer."""
    pykka = OnPykka()
    asynchronous = OnAsyncio()
    base, peer = ours(), simple()
    mine, simples, asyncios, pykkas = best(
        lambda: base.ping_pong(200_000),
        lambda: peer.ping_pong(30_000),
        lambda: asynchronous.ping_pong(50_000),
        lambda: pykka.ping_pong(5_000),
    )
    report(BENCH, "ping_pong", mine, simples, "simpleSystemBase", "messages/s")
    report(BENCH, "ping_pong", mine, asyncios, "asyncio queue", "messages/s")
    report(BENCH, "ping_pong", mine, pykkas, "Pykka", "messages/s")

    mine, simples, pykkas = best(
        lambda: ours().create(20_000), lambda: simple().create(20_000), lambda: pykka.create(500)
    )
    report(BENCH, "create", mine, simples, "simpleSystemBase", "actors/s")
    report(BENCH, "create", mine, pykkas, "Pykka", "actors/s")
    asyncios, fanned = asynchronous.create_and_fan_out(CHILDREN)
    report(BENCH, "create", mine, asyncios, "asyncio queue", "actors/s")

    base.create(CHILDREN)
    peer.create(CHILDREN)
    mine, simples = best(lambda: base.fan_out(CHILDREN), lambda: peer.fan_out(CHILDREN))
    report(BENCH, "fan_out_100k", mine, simples, "simpleSystemBase", "messages/s")
    report(BENCH, "fan_out_100k", mine, fanned, "asyncio queue", "messages/s")

    without, armed = ours(), ours()
    armed.arm(100_000)
    mine, unarmed = best(lambda: armed.ping_pong(200_000), lambda: without.ping_pong(200_000))
    report(BENCH, "pending_timers", mine, unarmed, "ours without timers", "messages/s")


if __name__ == "__main__":
    sys.exit(main())
