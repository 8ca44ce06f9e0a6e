"""The last change of a part of a state, and moves in both directions through a run, compared with plain replays."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.replayer import NotReplayable, Replay
from actors.runtime.trace.snapshots import system_lines
from actors.runtime.trace.state import displayed_state, state_of
from actors.trace.changes import ABSENT, compare, differences, last_change
from actors.trace.debugger import Debugger
from actors.trace.moment import ACTORS, base_after
from actors.trace.reader import TraceRun, open_trace
from actors.trace.state_path import BadPath, StatePartReader, parse_path
from messages.trace.files.runs import RunRecords
from messages.trace.schema import CREATED, DELIVERIES, TraceRecord
from tests.trace import cluster_life

PATHS = 50


@pytest.fixture(scope="module")
def run(lived: Path) -> TraceRun:
    return open_trace(lived).only_run(node=cluster_life.CONTROLLER)


class EveryState:
    """Listener of a replay that records every change in the state of every actor."""

    def __init__(self, run: TraceRun) -> None:
        self.states: dict[str, list[tuple[int, str]]] = {}
        """Path -> the deliveries that changed its value, each with the new value as JSON."""
        self.texts: dict[str, dict[str, str]] = {}
        replay = Replay(run.run, ACTORS, listener=self)
        self.base: LocalBase = replay.base
        assert replay.result().ok
        self.last = replay.base.n

    def begins(self, base: LocalBase) -> None:
        raise AssertionError("it begins at the beginning")

    def holds(self, base: LocalBase) -> None:
        pass

    def take_record(self, record: TraceRecord) -> None:
        if record.kind not in (*DELIVERIES, CREATED):
            return
        here = {str(ref): ref for ref in self.base.living()}
        for address in {record.receiver, *(here.keys() ^ self.texts.keys())}:  # a handler changes only its own actor
            now = dict(leaves(f"{address}:", displayed_state(state_of(here[address].actor)))) if address in here else {}
            before = self.texts.get(address, {})
            for path in {*now, *before}:
                if now.get(path) != before.get(path):
                    self.states.setdefault(path, []).append((record.n, now.get(path, ABSENT)))
            self.texts[address] = now


def leaves(path: str, value: Any) -> list[tuple[str, str]]:
    """Return the plain values below a part of a state, with their paths."""
    if isinstance(value, dict) and not {"message", "same as", "suspended in"} & set(value):
        found = []
        for name, each in value.items():
            if name == "class":
                continue
            step = f".{name}" if name.isidentifier() else f"[{name}]"
            found += leaves(path + (step.removeprefix(".") if path.endswith(":") else step), each)
        return found
    return [(path, json.dumps(value))] if value is None or isinstance(value, bool | int | float | str) else []


@pytest.fixture(scope="module")
def every(run: TraceRun) -> EveryState:
    return EveryState(run)


def readable(path: str) -> bool:
    """Return whether the path can be parsed. Some dictionary keys need brackets that `leaves` does not write."""
    try:
        parse_path(path)
    except BadPath:
        return False
    return True


def test_a_change_is_that_of_brute_force(run: TraceRun, every: EveryState) -> None:
    chance = random.Random(7)
    paths = sorted(path for path in every.states if len(every.states[path]) > 1 and readable(path))
    compared = 0
    for path in chance.sample(paths, len(paths)):
        if not consistent(run, every, path):
            continue
        until = chance.randrange(1, every.last + 1)
        history = [(n, value) for n, value in every.states[path] if n <= until]
        change = last_change(run.run, parse_path(path), until)
        if not history or (len(history) == 1 and history[0][0] == 0):
            assert change is None, path
        else:
            assert change is not None, path
            assert change.record.n == history[-1][0], path
            after = ABSENT if change.after == ABSENT else json.dumps(change.after)
            assert after == history[-1][1], path
        compared += 1
        if compared == PATHS:
            break
    assert compared == PATHS


def consistent(run: TraceRun, every: EveryState, path: str) -> bool:
    """Return whether the path names the same value at the end.

    It does not if `leaves` wrote a key like an attribute.
    """
    value = StatePartReader(parse_path(path)).value(every.base)
    return (ABSENT if value == ABSENT else json.dumps(value)) == every.states[path][-1][1]


def test_paths_name_attributes_keys_and_indexes(every: EveryState) -> None:
    base = every.base
    controller = next(path.partition(":")[0] for path in every.states if path.startswith("ControllerActor."))
    whole = displayed_state(state_of(base.instance_of(base.address_of(controller))))
    assert StatePartReader(parse_path("ControllerActor:_asked")).value(base) == whole["_asked"]
    key, channel = next(iter(whole["_channels"].items()))
    assert StatePartReader(parse_path(f"{controller}:_channels[{key}]")).value(base) == channel
    assert StatePartReader(parse_path("ControllerActor:_missing")).value(base) == ABSENT
    assert StatePartReader(parse_path("ControllerActor:_channels[77]")).value(base) == ABSENT
    assert StatePartReader(parse_path("MissingActor:x")).value(base) == ABSENT
    assert set(StatePartReader(parse_path("ControllerActor:")).value(base)) == set(whole)
    with pytest.raises(BadPath, match=r"actors have the class BrokerChannelActor\. Name one of BrokerChannelActor"):
        StatePartReader(parse_path("BrokerChannelActor:_queue")).value(base)


@pytest.mark.parametrize("text", ["", "ControllerActor", ":x", "A:x y", "A:[0]", "A:x..y", "A:x[1"])
def test_a_malformed_path_is_named(text: str) -> None:
    with pytest.raises(BadPath, match=r"is not a path such as ControllerActor:_context"):
        parse_path(text)


def test_a_path_is_written_as_it_is_read() -> None:
    for text in ("ControllerActor:_context.partitions[orders-0].leader", "A.3:x[0][a.b].c", 'A:b[["/p", "x"]].c', "A:"):
        assert str(parse_path(text)) == text


def test_differences_are_the_parts_that_differ(run: TraceRun) -> None:
    before, after = base_after(run.run, 1390), base_after(run.run, 1400)
    found = list(differences(before, after))
    assert found and all(each.before != each.after for each in found)
    one = list(differences(before, after, "ControllerActor"))
    assert one == [each for each in found if each.path.startswith("ControllerActor.")] != []
    assert not list(differences(before, base_after(run.run, 1390)))
    started = list(differences(base_after(run.run, 1), base_after(run.run, 60), None))
    assert [(each.before, each.after) for each in started if re.fullmatch(r"ReplicaManagerActor\.\d+", each.path)] == [
        (ABSENT, "(an actor)")
    ]


def test_the_smallest_parts_are_named() -> None:
    before, after = {"a": [1, {"b c": 2}], "d": 1}, {"a": [1, {"b c": 3}], "e": 1}
    assert list(compare("X:", before, after)) == [("X:a[1][b c]", 2, 3), ("X:d", 1, ABSENT), ("X:e", ABSENT, 1)]


# ------------------------------------------------------------------------------------------------ forward and backward


@pytest.fixture
def debugger(run: TraceRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Debugger:
    monkeypatch.setattr("actors.trace.debugger.RETRY", 1)
    return Debugger(run, tmp_path, every=100)


def test_a_position_holds_what_a_replay_holds(run: TraceRun, debugger: Debugger) -> None:
    chance = random.Random(3)
    debugger.to_end()
    last = debugger.n
    assert last == max(record.n for record in RunRecords(run.run))
    for n in (last - 1, 0, 1, last, *(chance.randrange(last) for _ in range(12))):
        assert debugger.go(n)
        assert debugger.n == n
        if n:  # a replay to delivery 0 has created the top-level actor
            assert list(system_lines(debugger.base)) == list(system_lines(base_after(run.run, n)))
        here = debugger.delivery(n)
        assert (here is None) == (n == 0) and (here is None or here.seq == n)


def test_the_first_walk_keeps_snapshots(run: TraceRun, debugger: Debugger, tmp_path: Path) -> None:
    debugger.to_end()
    kept = list(tmp_path.rglob("*.snapshot"))
    assert len(kept) >= 8 and not debugger.notes
    again = Debugger(run, tmp_path, every=100)
    again.go(debugger.n - 1)
    before = max(int(path.name.partition(".")[0]) for path in kept)
    assert 0 <= debugger.n - before < 400
    assert list(system_lines(again.base)) == list(system_lines(base_after(run.run, debugger.n - 1)))
    assert len(list(tmp_path.rglob("*.snapshot"))) == len(kept)


def test_a_damaged_snapshot_is_ignored(run: TraceRun, debugger: Debugger, tmp_path: Path) -> None:
    debugger.to_end()
    for path in tmp_path.rglob("*.snapshot"):
        path.write_bytes(path.read_bytes()[:-3] + b"abc")
    again = Debugger(run, tmp_path, every=100)
    again.go(debugger.n - 1)
    assert list(system_lines(again.base)) == list(system_lines(base_after(run.run, debugger.n - 1)))


def test_a_cache_that_cannot_be_written_is_noted_once(run: TraceRun, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    debugger = Debugger(run, tmp_path / "file", every=100)
    debugger.to_end()
    (note,) = debugger.notes
    assert note.startswith(f"no snapshots are kept in {tmp_path}/file/") and "Not a directory" in note
    assert debugger.go(debugger.n - 1)


def test_the_ends_are_known(debugger: Debugger) -> None:
    assert not debugger.go(99999)
    with pytest.raises(NotReplayable, match="nothing before delivery 1"):
        debugger.go(-1)


def test_changes_are_found_from_kept_snapshots(run: TraceRun, debugger: Debugger) -> None:
    debugger.to_end()
    path = parse_path("ControllerActor:_asked")
    for n in (debugger.n, 900, 150):
        debugger.go(n)
        assert debugger.find_change(path) == last_change(run.run, path, n)


def test_records_begin_after_any_delivery(run: TraceRun) -> None:
    records = [record for record in RunRecords(run.run) if record.kind in DELIVERIES]
    for after in (1, 2, 62, 63, 64, 65, 293, 294, 295, 700, len(records) - 1, len(records)):
        assert [each for each in RunRecords(run.run, after) if each.kind in DELIVERIES] == records[after:]
