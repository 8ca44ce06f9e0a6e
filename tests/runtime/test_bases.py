"""Run the same small actors on our base and on Thespian's base with one process per actor."""

from __future__ import annotations

import logging
import os
import socket
import uuid
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from thespian.actors import ActorSystem

from actors.runtime import LocalBase, local_system
from tests.runtime.scenarios import Adder, Meet, Oracle, Parent, Player, Raise, Serve, Sleep, Sleeper, Sum

PATIENCE = 30
MARK = "KAFKA_ACTORS_TEST_SYSTEM"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def reap(mark: str) -> None:
    """Kill the remaining processes of the actor system with this mark, except multiprocessing's resource tracker."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and "resource_tracker" not in " ".join(process.cmdline()):
                process.kill()
                process.wait(PATIENCE)
        except psutil.Error:
            continue


def quiet() -> dict[str, Any]:
    """Return a logging configuration for actor processes that logs nothing."""
    return {"version": 1, "disable_existing_loggers": False, "root": {"handlers": [], "level": logging.CRITICAL}}


@pytest.fixture(params=["LocalBase", "multiprocTCPBase"], scope="module")
def whole_system(request: pytest.FixtureRequest) -> Iterator[ActorSystem]:
    if request.param == "LocalBase":
        system = local_system(LocalBase())
        yield system
        system.shutdown()
        return
    # psutil reads the environment of a process's start. A forked process has its parent's, without the mark.
    mark = os.environ[MARK] = uuid.uuid4().hex
    capabilities = {"Admin Port": free_port(), "Process Startup Method": "spawn"}
    system = ActorSystem("multiprocTCPBase", capabilities, logDefs=quiet(), transientUnique=True)
    try:
        yield system
    finally:
        system.shutdown()
        del os.environ[MARK]
        reap(mark)


@pytest.fixture
def system(whole_system: ActorSystem) -> Iterator[ActorSystem]:
    """Return a private mailbox for each test, because ask() returns any message, also one for an earlier test."""
    with whole_system.private() as private:
        yield private


def test_two_actors_exchange_messages_until_the_end(system: ActorSystem) -> None:
    one, two = system.createActor(Player), system.createActor(Player)
    assert system.ask(one, Serve(two, 20), PATIENCE) == "game over"


@pytest.mark.parametrize("fails", [False, True])
def test_the_parent_is_notified_of_its_childs_exit(system: ActorSystem, fails: bool) -> None:
    assert system.ask(system.createActor(Parent), Raise(fails), PATIENCE) is True


def test_timers_fire_in_the_order_of_their_times(system: ActorSystem) -> None:
    seconds = (0.3, 0.1, 0.2)
    assert system.ask(system.createActor(Sleeper), Sleep(seconds), PATIENCE) == ((0.1, 0.2, 0.3), True)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_flow_asks_another_actor(system: ActorSystem, at_once: bool) -> None:
    oracle, adder = system.createActor(Oracle), system.createActor(Adder)
    system.tell(adder, Meet(oracle))
    assert system.ask(adder, Sum((1, 2, 3), at_once), PATIENCE) == 14


def test_a_flow_that_fails_is_over_and_the_next_one_runs(system: ActorSystem) -> None:
    oracle, adder = system.createActor(Oracle), system.createActor(Adder)
    system.tell(adder, Meet(oracle))
    assert system.ask(adder, Sum((1, -2, 3), False), PATIENCE) == "ConnectionLoss: -2"
    assert system.ask(adder, Sum((4,), False), PATIENCE) == 16
