"""What recording costs: `python -m tests.benchmarks.trace`. The peer is the same run without a trace.

* record_failover: a broker of three dies, and the controller moves 10,000 partitions: watch, reads, elections, writes,
  requests, all on the in-memory ZooKeeper; in partitions per second, until everything is answered and on the disk.
* record_ping_pong: two actors send one small message to and fro; in messages per second, likewise.
* replay_failover: replaying that record; the peer is the recorded run's own time. Reported.

Traced and untraced rounds take turns; the best of each counts.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from thespian.actors import Actor, ActorAddress

from actors.node.node import NodeActor
from actors.runtime import LocalBase, local_system
from actors.runtime.recorder import Recorder
from actors.runtime.replayer import replay_directory
from messages.events import BrokerModifications
from messages.metrics import DropMetric
from messages.zookeeper import EnsurePaths
from tests.benchmarks.report import report, seconds
from tests.controller.world import World

ACTORS = (NodeActor,)
BENCH = "trace"
PEER = "untraced"
PARTITIONS = 10_000
PER_TOPIC = 100
GC_THRESHOLDS = (50_000, 20, 100)
"""Those that a node's process sets after its start (and freezes what is there by then)."""
BROKERS = (1, 2, 3)
MESSAGES = 200_000
ROUNDS = 5


def failover(folder: Path | None) -> float:
    """Seconds until 10,000 partitions have got over the death of a broker (and are recorded below `folder`)."""
    world = World()
    recorder = None
    if folder is not None:
        world.base.observer = recorder = Recorder(folder, node=0, now=world.base.clock.now)
    world.admin.ask(EnsurePaths())
    world.node(0, validate_state=False)
    for broker in BROKERS:
        world.broker(broker)
    replicas = [tuple(BROKERS[(partition + place) % 3] for place in range(3)) for partition in range(PER_TOPIC)]
    for topic in range(PARTITIONS // PER_TOPIC):
        world.topic(f"topic-{topic}", *replicas, run=False)
    world.run()
    if recorder is not None:
        recorder.flush()
    settle()

    def lose() -> None:
        world.lose(BROKERS[0])
        if recorder is not None:
            recorder.flush()

    took = seconds(lose)
    if recorder is not None:
        recorder.close()
        assert not recorder.failed
    world.close()
    return took


def settle() -> None:
    """As a node does after its start; what earlier rounds left behind is looked at once more."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class Wall(Actor):
    """Sends everything back."""

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """One message."""
        self.send(sender, message)


class Player(Actor):
    """Plays against a wall until all messages are used up."""

    left = MESSAGES // 2

    def receiveMessage(self, message: object, sender: ActorAddress) -> None:
        """The first message begins the game; a DropMetric is no return."""
        if isinstance(message, DropMetric):
            self.send(self.createActor(Wall), BrokerModifications(1, 2))
            return
        self.left -= 1
        if self.left:
            self.send(sender, message)


def ping_pong(folder: Path | None) -> float:
    """Seconds for 200,000 messages (and their record below `folder`)."""
    recorder = None if folder is None else Recorder(folder, node=0)
    base = LocalBase(observer=recorder)
    player = local_system(base).createActor(Player)
    base.inject(player, DropMetric("", ()))
    settle()

    def play() -> None:
        base.run()
        if recorder is not None:
            recorder.flush()

    took = seconds(play)
    if recorder is not None:
        recorder.close()
        assert not recorder.failed
    return took


def compare(case: str, run: Callable[[Path | None], float], amount: int, unit: str, here: Path) -> None:
    """Traced and untraced, in turns; prints the row."""
    traced, untraced = [], []
    for number in range(ROUNDS):
        untraced.append(run(None))
        traced.append(run(here / f"{case}-{number}"))
    report(BENCH, case, amount / min(traced), amount / min(untraced), PEER, unit)


def main() -> None:
    """All cases, on the disk that temporary files are on."""
    here = Path(tempfile.mkdtemp(prefix="kafka-actors-trace-"))
    try:
        compare("record_failover", failover, PARTITIONS, "partitions/s", here)
        compare("record_ping_pong", ping_pong, MESSAGES, "messages/s", here)
        lived = seconds(lambda: failover(here / "replayed"))
        replayed = seconds(lambda: check(here / "replayed"))
        report(BENCH, "replay_failover", PARTITIONS / replayed, PARTITIONS / lived, "recorded", "partitions/s")
    finally:
        shutil.rmtree(here)


def check(folder: Path) -> None:
    """Replay without a difference."""
    assert replay_directory(folder, ACTORS).ok


if __name__ == "__main__":
    main()
