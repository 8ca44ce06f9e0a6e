"""Test `actors.node.process`: young cyclic garbage is freed, and old objects are not examined."""

from __future__ import annotations

import gc
import resource
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.gateway.listener import Connection
from actors.node import process
from messages.apis.api_versions import ApiVersionsRequest
from tests.broker.harness import ServedBroker
from tests.waiting import until
from tests.wire_client import WireClient


class Knot:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def tamed() -> Iterator[None]:
    thresholds = gc.get_threshold()
    gc.collect()  # otherwise the first collection would also examine young objects of earlier tests
    process.tame()
    yield
    gc.set_threshold(*thresholds)
    gc.enable()
    gc.unfreeze()


def test_no_collection_looks_at_much_however_much_there_is() -> None:
    looked_at: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(sum(len(gc.get_objects(generation)) for generation in range(info["generation"] + 1)))

    gc.callbacks.insert(0, count)
    try:
        kept = [[number] for number in range(40 * process.YOUNG)]
    finally:
        gc.callbacks.remove(count)
    assert len(looked_at) >= 30
    assert max(looked_at) < (process.OFTEN + 3) * process.YOUNG
    assert len(gc.get_objects(generation=2)) > 30 * process.YOUNG
    assert len(kept) == 40 * process.YOUNG


def test_no_collection_runs_python_meanwhile() -> None:
    before = list(gc.callbacks)
    process.tame()
    process.GarbageCollectionSchedule()()
    assert gc.callbacks == before, "other threads would run in a callback, and create objects that are not collected"


def test_the_memory_of_large_requests_is_used_again() -> None:
    pages = (1 << 20) // resource.getpagesize()
    begun = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        requests = [bytearray(1 << 20) for _ in range(4)]
        requests.clear()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - begun < 3 * 4 * pages


def test_cycles_that_die_young_are_freed() -> None:
    knots = weakref.WeakSet[Knot]()
    most = 0
    for _ in range(10 * process.YOUNG):
        knots.add(Knot())
        most = max(most, len(knots))
    assert most < (process.OFTEN + 3) * process.YOUNG


def test_on_a_loop_cycles_of_turns_that_make_little_are_freed() -> None:
    collections, knots, most = process.GarbageCollectionSchedule(), weakref.WeakSet[Knot](), 0
    for _ in range(200):
        for _ in range(process.MUCH // 4):
            knots.add(Knot())
        collections()
        most = max(most, len(knots))
    assert most < 2 * process.YOUNG


def test_what_a_turn_makes_much_of_is_not_looked_at() -> None:
    collections = process.GarbageCollectionSchedule()
    collections()
    before = [each["collections"] for each in gc.get_stats()]
    kept = []
    for _ in range(20):
        kept.append([[number] for number in range(2 * process.MUCH)])
        collections()
    assert [each["collections"] for each in gc.get_stats()] == before
    assert len(gc.get_objects(generation=0)) < 2 * process.MUCH and len(kept) == 20


def test_connections_that_were_old_when_they_closed_are_freed(tmp_path: Path) -> None:
    with ServedBroker(tmp_path / "data") as broker:
        clients = [WireClient("127.0.0.1", broker.port) for _ in range(20)]
        for client in clients:
            client.call(ApiVersionsRequest(0))
        alive = weakref.WeakSet(each for each in gc.get_objects() if isinstance(each, Connection))
        assert len(alive) == 20
        gc.collect(1)
        young = gc.get_objects(generation=0) + gc.get_objects(generation=1)
        assert not any(isinstance(each, Connection) for each in young), "they should be old"
        for client in clients:
            client.close()
        until(lambda: not alive, what="no connection left")
