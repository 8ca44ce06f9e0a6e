"""The compiled `pack_rows` encodes entries exactly as the generated Python code does, or leaves them to it."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from messages.apis import API_BY_REQUEST, BINDINGS
from messages.apis.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.cluster import TopicPartition
from messages.wire import compiler
from messages.wire.codec import UNENCODABLE
from messages.wire.layout import Schema

KINDS = {
    LeaderAndIsrRequest: LeaderAndIsrPartitionState,
    UpdateMetadataRequest: UpdateMetadataPartitionState,
    StopReplicaRequest: StopReplicaPartitionState,
}
EDGES = (-(2**31) - 1, -(2**31), -1, 0, 1, 127, 128, 2**15, 2**31 - 1, 2**31, 2**63, True, None, 1.0, "1")
"""Numbers of every size, and values that are no numbers."""


def _writers(request: type) -> list[Any]:
    """Return the row encoder of each version of the request that has compiled code."""
    api, found = API_BY_REQUEST[request], []
    for version in range(api.min_version, api.max_version + 1):
        try:
            code = compiler.compile_rows(request, Schema(request.__name__).layout(version), version, BINDINGS)
        except ValueError:
            continue
        if isinstance(code.write, partial):
            found.append(code.write)
    return found


def _entry(rng: random.Random, kind: type, odd: float) -> Any:
    """Return a partition state; each value is an unusual one with probability `odd`."""

    def number(usual: int) -> Any:
        return rng.choice(EDGES) if rng.random() < odd else usual

    def ids() -> Any:
        made = [number(rng.randrange(9)) for _ in range(rng.choice((0, 1, 3, 3, 3, 140 if odd else 2)))]
        return rng.choice((made, None, 7)) if rng.random() < odd else tuple(made)

    topic = rng.choice(("a", "b", "größe")).encode().decode()  # equal texts, but not always one object
    values: dict[str, Any] = {"partition": TopicPartition(topic, number(rng.randrange(100)))}
    for name, hint in kind.__annotations__.items():
        if name != "partition":
            values[name] = (
                ids() if "tuple" in hint else rng.random() < 0.5 if hint == "bool" else number(rng.randrange(50))
            )
    return kind(**values)


def _result(write: Any, entries: tuple[Any, ...]) -> Any:
    try:
        return {topic: (rows.values, rows.data) for topic, rows in write(entries).items()}
    except UNENCODABLE as error:
        return type(error)


@pytest.mark.skipif(compiler.pack_rows is None, reason="messages/wire/_walk.c is not compiled")
@pytest.mark.parametrize("request_class", KINDS, ids=lambda kind: kind.__name__)
def test_compiled_rows_are_those_of_python(request_class: type) -> None:
    rng, kind, writers = random.Random(47), KINDS[request_class], _writers(request_class)
    assert len(writers) >= 2
    packed = refused = 0
    for _ in range(40):
        odd = rng.choice((0.0, 0.0, 0.01, 0.2))
        size, made = rng.choice((0, 1, 5, 30)), random.Random(rng.random())
        entries = tuple([_entry(made, kind, odd) for _ in range(size)])
        for write in writers:
            _pack, columns, plain = write.args
            by_python = _result(plain, entries)
            assert repr(_result(write, entries)) == repr(by_python)
            if compiler.pack_rows(entries, *columns) is None:
                refused += 1
            else:
                packed += 1
                assert not isinstance(by_python, type)
    assert packed > 60
    assert refused > 5


@pytest.mark.skipif(compiler.pack_rows is None, reason="messages/wire/_walk.c is not compiled")
def test_rows_of_topics_that_take_turns_are_joined() -> None:
    entries = tuple([StopReplicaPartitionState(TopicPartition("ab"[n % 2], n), 5, False) for n in range(7)])
    [*_, write] = _writers(StopReplicaRequest)
    assert _result(write, entries) == _result(write.args[2], entries)
    assert [len(rows.values) for rows in write(entries).values()] == [4, 3]
