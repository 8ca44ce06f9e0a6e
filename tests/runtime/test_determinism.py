"""Test that the same messages cause the same deliveries with each seed of Python's hashes."""

from __future__ import annotations

import os
import subprocess
import sys

STORY = """
import hashlib
from thespian.actors import ActorExitRequest
from tests.runtime.actors import World

world = World()
names = ["alpha", "beta", "gamma", "delta", "epsilon"]

def populate(actor, sender):
    for name in names:
        actor.send(actor.createActor(type(actor), globalName=name), name)
        actor.wakeupAfter(len(name), name)

root = world.actor()
world.tell(root, populate)
world.tell(root, lambda actor, sender: actor.handleDeadLetters())
world.tell(world.base.address_of("Scripted.3"), ActorExitRequest(), "late")
world.base.simulate(5.5)
world.system.shutdown()
rows = [(d.n, d.kind, d.cause, str(d.sender), str(d.receiver), type(d.message).__name__, d.taken_at, d.error)
        for d in world.journal.deliveries]
assert len(rows) > 20
print(hashlib.sha256(repr(rows).encode()).hexdigest())
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", STORY],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
