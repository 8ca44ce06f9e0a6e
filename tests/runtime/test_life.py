"""Test rule 4: children, exits, dead letters, shutdown."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from thespian import actors

from actors.runtime import LocalBase, local_system
from actors.runtime.thespian.base import CHILDREN_AT_ONCE
from tests.runtime.actors import Scripted, World


def child_of(
    world: World, parent: actors.ActorAddress, actor_class: type[actors.Actor] = Scripted
) -> actors.ActorAddress:
    made = []
    world.tell(parent, lambda actor, _: made.append(actor.createActor(actor_class)))
    return made[0]


class Mortal(Scripted):
    """Records in `exits` that it received an exit request."""

    exits: list[str] = []

    def receiveMessage(self, message: Any, sender: actors.ActorAddress) -> None:
        if isinstance(message, actors.ActorExitRequest):
            Mortal.exits.append(str(self.myAddress))
        super().receiveMessage(message, sender)


def test_children_exit_with_their_parent_by_default() -> None:
    world = World()
    for recursive in (True, False):
        parent = world.actor()
        child = child_of(world, parent)
        grandchild = child_of(world, child)
        world.tell(parent, actors.ActorExitRequest(recursive=recursive))
        alive = [world.base.instance_of(address) is not None for address in (parent, child, grandchild)]
        assert alive == [False, not recursive, not recursive]


@pytest.mark.parametrize("count", [CHILDREN_AT_ONCE - 1, CHILDREN_AT_ONCE, 3 * CHILDREN_AT_ONCE + 7])
def test_many_children_are_asked_to_go_some_at_a_time(count: int) -> None:
    world = World()
    parent = world.actor()
    world.tell(parent, lambda actor, _: [actor.createActor(Scripted) for _ in range(count)])
    world.base.inject(parent, actors.ActorExitRequest())
    longest = 0
    while world.base.run(limit=1) == 0.0:
        longest = max(longest, world.base.queued)
    assert len(world.base.register) == 0
    assert longest <= CHILDREN_AT_ONCE + 2  # the next slice, and the message that the parent has exited
    exits = [each for each in world.journal.deliveries if isinstance(each.message, actors.ActorExitRequest)]
    assert [str(each.receiver) for each in exits[1:]] == [f"Scripted.{number}" for number in range(2, count + 2)]


def test_an_actor_may_keep_its_children_from_exiting() -> None:
    world = World()

    class Kind(Scripted):
        def receiveMessage(self, message: Any, sender: actors.ActorAddress) -> None:
            if isinstance(message, actors.ActorExitRequest):
                message.notRecursive()
            super().receiveMessage(message, sender)

    parent = world.actor(Kind)
    child = child_of(world, parent)
    world.tell(parent, actors.ActorExitRequest())
    assert world.base.instance_of(child) is not None


def test_an_exit_handler_that_raises_exits_all_the_same() -> None:
    world = World()

    class Stubborn(actors.Actor):
        def receiveMessage(self, message: Any, sender: actors.ActorAddress) -> None:
            raise ValueError("never")

    one = world.actor(Stubborn)
    world.tell(one, actors.ActorExitRequest())
    assert world.base.instance_of(one) is None
    assert world.journal.deliveries[0].error == "ValueError: never"


def test_constructors_get_capabilities_and_requirements_and_nothing_else() -> None:
    world = World(capabilities={"colour": "blue"})

    class Wants(Scripted):
        def __init__(self, capabilities: dict[str, Any], requirements: Any = None, other: int = 1) -> None:
            super().__init__()
            self.got = [capabilities["colour"], requirements, other]

    assert world.got(world.actor(Wants)) == ["blue", None, 1]


def test_capability_checks_are_asked() -> None:
    refused = actors.requireCapability("trains")(type("Trains", (Scripted,), {}))
    world = World()
    with pytest.raises(actors.NoCompatibleSystemForActor):
        world.actor(refused)
    world.system.updateCapability("trains", True)
    assert world.got(world.actor(refused)) == []


def test_dead_letters_are_recorded_counted_and_handled() -> None:
    world = World()
    handler, dead = world.actor(), world.actor()
    world.tell(handler, lambda actor, _: actor.handleDeadLetters())
    world.tell(dead, actors.ActorExitRequest(), "too late")
    assert world.got(handler) == [actors.DeadEnvelope(dead, "too late")]
    assert world.base.dead_letters == 1
    assert [d.error for d in world.journal.deliveries if d.message == "too late"] == ["dead letter"]


def test_shutdown_sends_exit_requests_parents_first() -> None:
    world = World()
    Mortal.exits = []
    parent = world.actor(Mortal)
    child_of(world, parent, Mortal)
    world.actor(Mortal)
    world.system.shutdown()
    assert Mortal.exits == ["Mortal.1", "Mortal.3", "Mortal.2"]
    world.base.inject(parent, "after")
    assert world.base.queued == 0


def test_an_actor_may_shut_the_system_down() -> None:
    world = World()
    Mortal.exits = []
    one = world.actor(Mortal)
    world.tell(one, lambda actor, _: actor.actorSystemShutdown())
    assert Mortal.exits == ["Mortal.1"]


def test_addresses_are_values_that_survive_pickle_and_copy() -> None:
    world = World()
    one, two = world.actor(), world.actor()
    plain = pickle.loads(pickle.dumps(one))
    assert plain == one and one == plain and one != two
    assert copy.deepcopy(one) is one and copy.copy(one) is one
    world.tell(two, lambda actor, _: actor.send(plain, "by text"))
    assert world.got(one) == ["by text"]
    with pytest.raises(actors.InvalidActorAddress):
        world.base.instance_of(one).send("Scripted.1", "no address")


def test_two_bases_in_one_process_write_to_each_other() -> None:
    here, there = World(), World()
    one, other = here.actor(), there.actor()
    assert one != other
    here.tell(one, lambda actor, _: actor.send(other, "across"))
    there.base.run()
    assert there.got(other) == ["across"]
    assert str(there.journal.deliveries[0].sender) == "Scripted.1"
    there.tell(other, lambda actor, _: actor.send(there.journal.deliveries[0].sender, "back"))
    here.base.run()
    assert here.got(one) == ["back"]


def test_a_dead_actor_leaves_nothing_behind() -> None:
    base = LocalBase()
    system = local_system(base)
    parent = system.createActor(Scripted)
    before = len(base.register)
    for _ in range(100):
        base.inject(parent, lambda actor, _: actor.send(actor.createActor(Scripted), actors.ActorExitRequest()))
    base.run()
    assert len(base.register) == before
    assert base.address_of("Scripted.1").children == 0
