"""A recorded run of two whole controllers: elections, topics, a lost broker, a deletion, and a controller failover."""

from __future__ import annotations

import sys
from pathlib import Path

from actors.node.node import NodeActor
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from messages.zookeeper import EnsurePaths
from tests.controller.world import World

ACTORS = (NodeActor,)
"""The classes of which a top-level actor may be."""


def live(folder: Path) -> None:
    """Run it on virtual time and the in-memory ZooKeeper, and record it below `folder`."""
    world = World()
    world.base.observer = recorder = Recorder(folder, node=0, now=world.base.clock.now)
    world.admin.ask(EnsurePaths())
    first = world.node(0)
    world.node(1)
    for broker in (2, 3, 4):
        world.broker(broker)
    world.topic("orders", *[(2 + n % 3, 2 + (n + 1) % 3, 2 + (n + 2) % 3) for n in range(6)])
    world.topic("payments", (2, 3), (3, 4), (4, 2))
    world.lose(2)
    world.answers[3] = lambda request: ConnectionError("refused")
    world.topic("late", (3, 4))
    world.answers.clear()
    world.broker(2)
    world.delete("payments")
    first.store.disconnect()
    world.run()
    first.store.reconnect()
    world.run()
    first.kill()
    world.bounce(3)
    world.close()
    recorder.close()
    assert not recorder.failed


if __name__ == "__main__":
    [run] = replay_directory(sys.argv[1], ACTORS).runs
    print(run)
    sys.exit(not (run.ok and run.complete and run.deliveries > 500))
