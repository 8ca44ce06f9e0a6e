"""Each argument of each operation is checked, in every kind of cluster, and no line ends the process of a cluster."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.cli.fixture import FixtureCluster
from actors.node.memory_cluster import MemoryCluster
from actors.public import AsyncKafkaCluster, ClusterError, KafkaCluster
from actors.public.fault_injection import FaultInjection
from actors.public.operations import FAULTS, OPERATIONS, ClusterOperations, SharedOperations, operation
from actors.public.simulated import SimulatedCluster
from tests.layering import ROOT

ANY = [True, [], [0], {"a": {}}, b"x", object(), 1 + 2j, float("nan")]
NOT_INTEGERS: list[Any] = [*ANY, None, "1", "x", 1.5, 10**400, -(10**400)]
NOT_SECONDS: list[Any] = [*ANY, None, "1", "x", -1, -0.5, float("-inf")]
NOT_TEXTS: list[Any] = [*ANY, None, 5, "\0", "\ud800", "x" * 40_000]

NONSENSE: dict[str, list[Any]] = {
    **{name: [*NOT_INTEGERS, -1, 2**31] for name in ("broker_id", "a", "b", "broker", "partition")},
    **{name: [*NOT_INTEGERS, -1, 0, 2**31] for name in ("partitions", "n", "milliseconds", "brokers", "log_dirs")},
    **{name: [*NOT_INTEGERS[9:], -1, 2**31] for name in ("replication_factor", "to")},
    "other_than": [True, "x", 1.5, -1],
    "config": [True, [1], 5, "x", {1: 2}, {"a": None}, {"a": []}, {"": "x"}],
    "settings": [True, [1], 5, "x", {1: 2}, {"a": None}, {"a": []}, {"": "x"}],
    **{name: [*NOT_TEXTS, ""] for name in ("topic", "group")},
    "api": [*ANY, 5, "\0", "", "Producer"],
    "fields": [*ANY[:3], None, "x", {1: 2}, {"unknown": 0}, {"throttle_time_ms": "x"}],
    "since": NOT_SECONDS,
    "times": [*ANY, "x", 0, -1],
    "read_committed": [*ANY[1:], 0, "x"],
    "code": [*NOT_INTEGERS, 0, 999, -2, 2**15, ""],
    "seconds": [*NOT_SECONDS, float("inf"), 1e300],
    "timeout": NOT_SECONDS,
    "session_timeout": [*NOT_SECONDS, 0, float("inf"), 1e300],
    "probability": [*NOT_SECONDS, 7, 1.0001, float("inf")],
    "seed": [*NOT_INTEGERS],
    "condition": [None, 5, "x"],
    "host": NOT_TEXTS,
    **{name: [*ANY, 5, "\0"] for name in ("advertised_host", "speaks", "protocol")},
    "directory": [*ANY, 5, "", "\0"],
    **{name: [*ANY, 5, "x"] for name in ("security", "mechanism")},
    "users": [True, [1], 5, "x", {1: 2}, {"a": None}, {"": "x"}],
    "ui": [0, 1, "x", []],
    "acls": [True, 5, "x", {"a": 1}, [1], ["x"]],
    **{name: [*NOT_TEXTS, ""] for name in ("user", "password")},
    "client": [*NOT_TEXTS, "x"],
    "request": [*ANY, None, "x"],
    "client_id": [*ANY, 5, "\0"],
}
"""Argument -> values that are errors, whatever the operation."""
VALID = {"a": 0, "api": "Produce", "b": 0, "broker": 0, "broker_id": 0, "code": 6, "condition": bool, "n": 1}
VALID |= {"topic": "t", "group": "g", "to": 0, "seconds": 0.1, "milliseconds": 1, "probability": 0.5, "request": None}
VALID |= {"partition": 0, "directory": "/d", "user": "u", "fields": {}, "password": "p", "acls": []}

Call = tuple[str, dict[str, Any]]


def calls_of(kind: type, but: tuple[str, ...] = ()) -> list[tuple[str, list[str], list[str]]]:
    """Return the methods of a class with arguments: their names, all arguments, and those without a default."""
    found = []
    for name in dir(kind):
        member = getattr(kind, name)
        if name.startswith("_") or name in but or not callable(member):
            continue
        parameters = [each for each in inspect.signature(member).parameters.values() if each.name in NONSENSE]
        if parameters:
            required = [each.name for each in parameters if each.default is each.empty]
            found.append((name, [each.name for each in parameters], required))
    return found


def nonsense(kind: type, but: tuple[str, ...] = ()) -> st.SearchStrategy[Call]:
    """Draw a method of a class, with one argument that is nonsense."""
    calls = [(name, bad, required) for name, all, required in calls_of(kind, but) for bad in all]

    def of(call: tuple[str, str, list[str]]) -> st.SearchStrategy[Call]:
        name, bad, required = call
        values = NONSENSE["seconds" if name == "clock_jump" and bad == "seconds" else bad]
        if name == "clock_jump" and bad == "seconds":
            values = [value for value in values if value not in (-1, -0.5)]
        others = {each: VALID[each] for each in required}
        return st.sampled_from(values).map(lambda value: (name, {**others, bad: value}))

    return st.sampled_from(calls).flatmap(of)


quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(1) as cluster:
        cluster.create_topic("t")
        yield cluster
        assert cluster.live_brokers == [0], "no call had an effect"
        assert cluster.topics == ["t"]
        assert cluster.faults.never_met() == []


@quick
@given(call=nonsense(KafkaCluster, but=("new_directory",)))
def test_a_blocking_cluster_refuses_nonsense(cluster: KafkaCluster, call: Call) -> None:
    name, arguments = call
    with pytest.raises(ClusterError):
        getattr(cluster, name)(**arguments)


@quick
@given(call=nonsense(AsyncKafkaCluster, but=("of",)))
def test_an_asynchronous_cluster_refuses_nonsense(cluster: KafkaCluster, call: Call) -> None:
    name, arguments = call

    async def scenario() -> None:
        done = getattr(AsyncKafkaCluster.of(cluster), name)(**arguments)
        await (done.__aenter__() if name in ("partition_network", "cut_clients") else done)

    with pytest.raises(ClusterError):
        asyncio.run(scenario())


@quick
@given(call=nonsense(FaultInjection, but=("inject",)))
def test_a_fault_refuses_nonsense(cluster: KafkaCluster, call: Call) -> None:
    name, arguments = call
    with pytest.raises(ClusterError):
        fault = getattr(cluster.faults, name)(**arguments)
        fault.every_time()  # the kinds for requests return a trigger


@quick
@given(
    trigger=st.sampled_from([("times", "n"), ("on_call", "n"), ("with_probability", "probability")]).flatmap(
        lambda each: st.tuples(st.just(each[0]), st.sampled_from(NONSENSE[each[1]]))
    ),
    name=st.sampled_from(["topic", "partition", "broker", "client_id"]).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from([each for each in NONSENSE[name] if each is not None]))
    ),
)
def test_a_trigger_and_a_filter_refuse_nonsense(
    cluster: KafkaCluster, trigger: tuple[str, Any], name: tuple[str, Any]
) -> None:
    with pytest.raises(ClusterError):
        getattr(cluster.faults.disconnect("Produce"), trigger[0])(trigger[1])
    with pytest.raises(ClusterError):
        cluster.faults.disconnect("Produce", **{name[0]: name[1]}).once()
    with pytest.raises(ClusterError):
        cluster.faults.disconnect("Produce").with_probability(0.5, seed="x")  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def simulated() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(1) as cluster:
        yield cluster
        assert cluster.live_brokers == [0], "no call had an effect"


@quick
@given(call=nonsense(SimulatedCluster))
def test_a_simulated_cluster_refuses_nonsense(simulated: SimulatedCluster, call: Call) -> None:
    name, arguments = call
    with pytest.raises(ClusterError):
        getattr(simulated, name)(**arguments)


@pytest.mark.parametrize("kind", [KafkaCluster, AsyncKafkaCluster, SimulatedCluster])
def test_a_constructor_refuses_nonsense(kind: Callable[..., object]) -> None:
    for name in inspect.signature(kind).parameters:
        for value in NONSENSE[name]:
            if value is None:
                continue
            with pytest.raises(ClusterError):
                kind(**{name: value})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=5)
    | st.just("x" * 99_999),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
"""Any JSON value. Valid values are small numbers, so that no operation takes long."""
SLOW = "add_broker stop move_controller start kill stop_broker restart coordinator_of move_coordinator remove_broker"
HARMLESS = tuple(name for name in OPERATIONS if name not in SLOW.split())
ARGUMENTS = sorted({*NONSENSE, "value", "kind", "first", "last", "number"})
LINES = st.fixed_dictionaries(
    {
        "do": st.sampled_from(HARMLESS) | JSON,
        "with": st.dictionaries(st.sampled_from(ARGUMENTS), JSON, max_size=4) | JSON,
    }
).map(lambda line: json.dumps(line).encode())


def test_no_line_ends_the_process(tmp_path: Path) -> None:
    """Each line has one answer, and the cluster runs afterwards."""

    async def scenario() -> None:
        fixture = FixtureCluster()
        start = {"do": "start", "with": {"directory": str(tmp_path / "c"), "brokers": 1}}
        assert "done" in await fixture.answer(json.dumps(start).encode())
        loop = asyncio.get_running_loop()
        answers: list[dict[str, object]] = []

        @settings(max_examples=50, deadline=None)
        @given(line=LINES | st.binary(max_size=30) | st.just(b"[" * 100_000))
        def answer(line: bytes) -> None:
            answers.append(asyncio.run_coroutine_threadsafe(fixture.answer(line), loop).result(60))
            assert answers[-1].keys() <= {"done", "failed", "kind"}
            assert json.dumps(answers[-1])

        try:
            await asyncio.to_thread(answer)
            assert "done" in await fixture.answer(b'{"do": "sight"}')
        finally:
            await fixture.stop()

    asyncio.run(scenario())


def test_each_operation_is_implemented_as_it_is_declared_and_documented() -> None:
    pages = ("how-to/cluster-for-tests.md", "reference/python-api.md")
    page = "".join((ROOT / "docs" / each).read_text() for each in pages)
    for name in OPERATIONS:
        assert hasattr(MemoryCluster, name) or hasattr(FixtureCluster, name), name
        assert f"`{name}`" in page or f'"{name}"' in page or f"### KafkaCluster.{name}" in page, name
    for declared in (ClusterOperations, SharedOperations):
        for name, member in vars(declared).items():
            if isinstance(member, operation):
                ours, theirs = inspect.signature(member.function), inspect.signature(getattr(MemoryCluster, name))
                shape = [(each.name, each.default) for each in ours.parameters.values()]
                assert shape == [(each.name, each.default) for each in theirs.parameters.values()], name
    assert {name for name, _, _ in calls_of(FaultInjection)} <= {*FAULTS, "inject"}
