"""Test I/O adapters: live calls are recorded in the delivery; a replay compares each call with its record."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from thespian.actors import ActorAddress

from actors.runtime import OUTSIDE, Adapter, AdapterCall, Dispatcher, EffectDiverged
from tests.runtime.actors import World


class Disk:
    """An I/O adapter that counts its calls and raises for the path "full"."""

    def __init__(self) -> None:
        self.calls = 0

    def make_directory(self, path: str) -> int:
        self.calls += 1
        if path == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.calls


class Clerk(Dispatcher):
    """Creates directories, and continues after an error."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    def receiveMsg_tuple(self, paths: tuple[str, ...], sender: ActorAddress) -> None:
        for path in paths:
            try:
                self.results.append(self.port("disk").make_directory(path))
            except OSError as error:
                self.results.append((error.errno, error.strerror))

    def receiveMsg_str(self, name: str, sender: ActorAddress) -> None:
        self.port(name)

    def receiveMsg_list(self, call: list[Any], sender: ActorAddress) -> None:
        self.results.append(self.call_adapter(*call))


MADE = AdapterCall("disk", "make_directory", ("a",), 1, "")
FULL = AdapterCall("disk", "make_directory", ("full",), None, f"{errno.ENOSPC} No space left on device")


def test_live_calls_are_made_and_noted() -> None:
    disk = Disk()
    world = World(ports={"disk": disk})
    clerk = world.actor(Clerk)
    world.tell(clerk, ("a", "full"), ())
    assert world.base.instance_of(clerk).results == [1, (errno.ENOSPC, "No space left on device")]
    assert [d.effects for d in world.journal.deliveries] == [(MADE, FULL), ()]
    assert disk.calls == 2


def test_a_call_by_a_computed_name_is_recorded() -> None:
    world = World(ports={"disk": Disk()})
    clerk = world.actor(Clerk)
    world.tell(clerk, ["disk", "make_directory", ("a",)])
    assert world.base.instance_of(clerk).results == [1]
    assert [d.effects for d in world.journal.deliveries] == [(MADE,)]


def test_effects_do_not_pile_up_without_an_observer() -> None:
    world = World(ports={"disk": Disk()})
    world.base.observer = None
    world.tell(world.actor(Clerk), ("a", "b"))
    assert world.base.ports.made == []


def replay(effects: list[AdapterCall], *paths: str) -> tuple[World, Any]:
    world = World()
    clerk = world.actor(Clerk)
    envelope = world.base.outside(clerk, paths, world.outside)
    assert envelope.kind == OUTSIDE
    return world, world.base.deliver(envelope, 5.0, effects)


def test_in_replay_the_record_answers() -> None:
    world, delivery = replay([MADE, FULL], "a", "full")
    assert world.base.instance_of(world.base.address_of("Clerk.1")).results == [
        1,
        (errno.ENOSPC, "No space left on device"),
    ]
    assert delivery.effects == (MADE, FULL)
    assert delivery.taken_at == 5.0


@pytest.mark.parametrize("paths, recorded", [(("b",), MADE), (("full", "a"), None)])
def test_another_call_than_recorded_ends_the_replay_at_once(
    paths: tuple[str, ...], recorded: AdapterCall | None
) -> None:
    with pytest.raises(EffectDiverged) as raised:
        replay([MADE] if recorded else [FULL], *paths)
    assert raised.value.recorded == recorded


def test_a_call_left_out_shows_in_the_delivery() -> None:
    _, delivery = replay([MADE, FULL], "a")
    assert delivery.effects == (MADE,)


def test_an_unknown_port_is_an_error_with_its_name() -> None:
    world = World()
    world.tell(world.actor(Clerk), "tape")
    assert "'tape'" in (world.journal.deliveries[0].error or "")
    with pytest.raises(AttributeError):
        Adapter(world.base, "disk")._private
