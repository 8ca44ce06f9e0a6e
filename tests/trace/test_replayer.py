"""A recorded run replays exactly. Otherwise the replay names the first difference and the deliveries that led to it."""

from __future__ import annotations

import json
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorExitRequest

from actors.runtime import LocalBase, local_system
from actors.runtime.trace import code_version
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from messages.apis.stop_replica import StopReplicaRequest
from messages.events import BrokerModifications, TopicChange
from messages.metrics import Gauge, Gauges
from messages.trace.endings import DAMAGED
from messages.trace.files.runs import RunRecords
from messages.trace.schema import TraceRecord
from tests.trace.altering import only_run, rewritten
from tests.trace.small_system import ACTORS, Boss, Clock, Disk, Small, Worker, divergence_with, replay_only


@pytest.fixture
def lived(tmp_path: Path) -> Path:
    small = Small(tmp_path / "lived")
    small.live()
    small.recorder.close()
    return tmp_path / "lived"


def records(folder: Path) -> list[TraceRecord]:
    return list(RunRecords(only_run(folder)))


def test_a_run_replays_exactly(lived: Path) -> None:
    run = replay_only(lived)
    assert run.divergence is None, run.divergence.text()
    assert run.ok and run.complete and not run.warnings and not run.problem
    kinds = [record.kind for record in records(lived)]
    assert kinds[0] == "created"
    assert (run.inputs, run.timers, run.messages) == tuple(map(kinds.count, ("outside", "timer", "sent")))
    assert run.deliveries == run.inputs + run.timers + run.messages
    assert run.timers == 4 and run.errors == 2
    assert run.effects == sum(len(record.effects) for record in records(lived)) > 10
    assert {effect.error for record in records(lived) for effect in record.effects} == {"", "13 Permission denied"}


def test_replay_calls_nothing_outside(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def loud(*_: Any) -> None:
        raise AssertionError("the outside was called")

    monkeypatch.setattr(Disk, "remove", loud)
    assert replay_only(lived).ok


def test_a_killed_run_replays_to_its_last_record(lived: Path) -> None:
    whole = records(lived)
    for kept in range(1, len(whole)):
        counted = iter(range(kept))
        folder = rewritten(lived, lambda row: row if next(counted, None) is not None else None)  # noqa: B023
        run = replay_only(folder)
        assert run.ok and not run.complete, run
        for path in folder.iterdir():
            path.unlink()


def test_threads_that_inject_replay_exactly(tmp_path: Path) -> None:
    base = LocalBase(observer=(recorder := Recorder(tmp_path, node=0)), ports={"disk": Disk(), "time": Clock()})
    worker = local_system(base).createActor(Worker)
    heard: list[Any] = []
    out = base.external_endpoint("process", lambda message, sender: heard.append(message))

    def inject(number: int) -> None:
        for n in range(200):
            base.inject(worker, StopReplicaRequest(3, number, n, 1, ()), out)

    threads = [threading.Thread(target=inject, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or base.queued:
        base.run(10)
    recorder.close()
    assert len(heard) == 800
    run = replay_only(tmp_path)
    assert run.ok and (run.inputs, run.messages) == (800, 800)


def test_several_top_level_actors_get_their_numbers_back(tmp_path: Path) -> None:
    small = Small(tmp_path)
    second = small.system.createActor(Worker)
    small.inject(BrokerModifications(1))
    third = small.system.createActor(Worker)
    for worker in (third, second):
        small.base.inject(worker, StopReplicaRequest(3, 1, 1, 1, ()), small.out)
    small.base.run()
    small.recorder.close()
    created = [record.receiver for record in records(tmp_path) if record.kind == "created"]
    assert created == ["Boss.1", str(second.actorAddressString), str(third.actorAddressString)]
    assert replay_only(tmp_path).ok


def test_the_shutdown_of_a_system_replays(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.live()
    small.system.shutdown()
    small.recorder.close()
    assert [record.type for record in records(tmp_path)].count("ActorExitRequest") == 4
    assert replay_only(tmp_path).ok


# ------------------------------------------------------------------------------------------------ differences


def test_a_changed_actor_is_caught_at_its_first_effect(lived: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(actor: Worker, message: StopReplicaRequest, sender: Any) -> None:
        actor.send(sender, BrokerModifications(actor.port("time").wall_ms() % 7))

    divergence = divergence_with(monkeypatch, "receiveMsg_StopReplicaRequest", changed, lived, Worker)
    assert "another effect while Worker.2 handled StopReplicaRequest" in divergence.what
    assert divergence.recorded == "disk.remove('/data/t-0')"
    assert divergence.replayed == "time.wall_ms()"
    text = divergence.text()
    for step in ("StopReplicaRequest", "Answer", "from outside, after delivery"):
        assert step in text
    assert [line.split()[0] for line in divergence.chain] == sorted(
        (line.split()[0] for line in divergence.chain), key=int, reverse=True
    )


CHANGES: dict[str, tuple[str, Any, str, str, str]] = {
    "another payload": (
        "receiveMsg_BrokerModifications",
        lambda a, m, s: a.send(a.out, BrokerModifications(m.broker_id, 9)),
        "another BrokerModifications from Boss.1 to outside:process",
        "BrokerModifications.generation = 0",
        "BrokerModifications.generation = 9",
    ),
    "another receiver": (
        "receiveMsg_BrokerModifications",
        lambda a, m, s: a.send(s, m),
        "another message",
        "Boss.1 -> outside:process: BrokerModifications",
        "Boss.1 -> Worker.2: BrokerModifications",
    ),
    "a message less": (
        "receiveMsg_NodeReady",
        lambda a, m, s: None,
        "another outcome while Boss.1 handled NodeReady",
        "ValueError: cannot be ready with epoch -1",
        "handled without an error",
    ),
    "a timer less": (
        "receiveMsg_WakeupMessage",
        lambda a, m, s: a.send(a.out, _gauges(a)),
        "a timer was not armed",
        "Boss.1 -> Boss.1: WakeupMessage",
        "armed none",
    ),
    "a timer more": (
        "receiveMsg_WakeupMessage",
        lambda a, m, s: (a.wakeupAfter(0.5, None), _as_before(a, m, s)),
        "a timer more was armed",
        "",
        "WakeupMessage",
    ),
    "an error more": (
        "receiveMsg_StopNode",
        lambda a, m, s: 1 // 0,
        "another outcome while Boss.1 handled StopNode",
        "handled without an error",
        "ZeroDivisionError",
    ),
    "nothing sent": (
        "receiveMsg_StopNode",
        lambda a, m, s: None,
        "a message was not sent",
        "Boss.1 -> Worker.4: ActorExitRequest",
        "nothing (more) was sent",
    ),
}

_as_before = Boss.receiveMsg_WakeupMessage


def _gauges(actor: Any) -> Any:
    actor.rounds += 1
    return Gauges((Gauge("rounds", float(actor.rounds)), Gauge("now", actor.now)))


@pytest.mark.parametrize("name", CHANGES)
def test_each_kind_of_difference_is_named(lived: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    handler, changed, what, recorded, replayed = CHANGES[name]
    divergence = divergence_with(monkeypatch, handler, changed, lived)
    assert what in divergence.what
    assert recorded in divergence.recorded and replayed in divergence.replayed
    assert divergence.chain


def test_an_altered_input_shows_in_its_first_effect(lived: Path) -> None:
    def alter(row: dict[str, Any]) -> dict[str, Any]:
        if row["kind"] == "outside" and row["type"] == "Answer" and row["payload"]["result"][0] == "Brokers":
            row["payload"]["result"][1]["brokers"][2]["id"] = 77
        return row

    report = replay_directory(rewritten(lived, alter), ACTORS)
    assert not report.ok
    [run] = report.runs
    assert run.divergence is not None
    assert run.divergence.what == "another StopReplicaRequest from Boss.1 to Worker.2"
    assert run.divergence.recorded.startswith("StopReplicaRequest.partition_states[2].")
    assert "77" in "".join(run.divergence.chain)
    assert json.loads(json.dumps(report.as_dict()))["runs"][0]["divergence"]["n"] == run.divergence.n


def test_an_altered_answer_of_a_port_shows_in_its_first_effect(lived: Path) -> None:
    def alter(row: dict[str, Any]) -> dict[str, Any]:
        for effect in row["effects"]:
            if effect[1] == "wall_ms":
                effect[3] += 1
        return row

    divergence = replay_only(rewritten(lived, alter)).divergence
    assert divergence is not None and "BrokerModifications.broker_id" in divergence.recorded


def test_an_effect_less_is_named(lived: Path) -> None:
    def alter(row: dict[str, Any]) -> dict[str, Any]:
        if row["effects"]:
            row["effects"].append(["disk", "remove", ["/data/extra"], 1, ""])
        return row

    divergence = replay_only(rewritten(lived, alter)).divergence
    assert divergence is not None and divergence.what.startswith("an effect is missing")
    assert (divergence.recorded, divergence.replayed) == ("disk.remove('/data/extra')", "no further call")


# ------------------------------------------------------------------------------------------------ traces with faults


def test_a_missing_record_cannot_be_replayed(lived: Path) -> None:
    run = replay_only(rewritten(lived, lambda row: None if row["n"] == 10 else row))
    assert "delivery 10 is missing" in run.problem and not run.ok


def test_an_input_of_an_unknown_type_is_a_problem(lived: Path) -> None:
    run = replay_only(rewritten(lived, lambda row: row | {"type": "Novelty"} if row["type"] == "TopicChange" else row))
    assert "Novelty" in run.problem and "outside:process -> Boss.1" in run.problem


def test_an_actor_class_that_is_gone_is_a_problem(lived: Path) -> None:
    run = replay_only(
        rewritten(lived, lambda row: row | {"type": "actors.gone:Gone"} if row["kind"] == "created" else row)
    )
    assert "actors.gone:Gone" in run.problem


def test_a_missing_segment_is_a_problem(tmp_path: Path) -> None:
    small = Small(tmp_path, segment_bytes=1)
    for _ in range(3):
        small.live()
        small.recorder.flush()
    small.recorder.close()
    assert replay_only(tmp_path).ok
    missing = only_run(tmp_path).paths[1]
    missing.unlink()
    run = replay_only(tmp_path)
    assert run.problem == f"{missing} is missing" and run.ending == DAMAGED


def test_a_damaged_run_is_not_replayed_and_the_error_has_the_place(lived: Path) -> None:
    [path] = only_run(lived).paths
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    run = replay_only(lived)
    assert run.ending == DAMAGED and run.result == "not replayed"
    assert str(path) in run.problem and "byte" in run.problem and "checksum" in run.problem


def test_another_code_version_is_a_warning(lived: Path) -> None:
    run = replay_only(rewritten(lived, lambda row: row, code_version="0+other"))
    assert run.ok and "0+other" in run.warnings[0]


def test_the_code_version_depends_on_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (code_version.ROOT / "actors" / "runtime" / "trace" / "code_version.py").samefile(code_version.__file__)
    assert code_version.code_version().startswith(metadata.version("kafka-actors") + "+")
    monkeypatch.setattr(code_version, "ROOT", tmp_path)
    sources = [tmp_path / "actors" / "a.py", tmp_path / "messages" / "b" / "c.py"]
    for source in sources:
        source.parent.mkdir(parents=True)
        source.write_text("from messages import errors")
    compute = code_version.code_version.__wrapped__
    versions = {compute()}
    for source in sources:
        source.write_text("from messages import node")
        versions.add(compute())
    sources[0].write_text("from kafka_actors._internal.messages import node")
    assert len(versions) == 3 and compute() in versions


@pytest.mark.parametrize("version", [1, 2, 3, 4, 99])
def test_another_schema_version_is_refused(lived: Path, version: int) -> None:
    """Versions up to 4 have other message names."""
    report = replay_directory(rewritten(lived, lambda row: row, schema_version=version), ACTORS)
    assert not report.ok and not report.runs
    [refusal] = report.unreadable
    assert f"schema version {version}" in refusal


@pytest.mark.parametrize("type_", ["os:abort", "subprocess:Popen", "tests.trace.small_system:Small", "builtins:exit"])
def test_a_trace_is_no_program(lived: Path, type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.abort", lambda: pytest.fail("a trace called what it named"))
    folder = rewritten(lived, lambda row: row | {"type": type_} if row["kind"] == "created" else row)
    run = replay_only(folder)
    assert type_ in run.problem and "none of the actors" in run.problem and run.deliveries == 0


def test_one_node_of_many(tmp_path: Path) -> None:
    for node in (0, 1, 1):
        small = Small(tmp_path / f"n{node}.trace", node=node)
        small.live()
        small.recorder.close()
    assert [run.node for run in replay_directory(tmp_path, ACTORS).runs] == [0, 1, 1]
    assert [run.node for run in replay_directory(tmp_path, ACTORS, node=1).runs] == [1, 1]
    assert replay_directory(tmp_path, ACTORS).ok
    assert not replay_directory(tmp_path, ACTORS, node=5).ok


def test_timers_and_messages_of_removed_actors_replay(tmp_path: Path) -> None:
    small = Small(tmp_path)
    small.base.clock.advance(1.5)
    small.base.inject(small.boss, ActorExitRequest(), small.out)
    small.base.inject(small.boss, TopicChange(), small.out)
    small.base.simulate(1020.0)
    small.recorder.close()
    assert "dead letter" in [record.error for record in records(tmp_path)]
    run = replay_only(tmp_path)
    assert run.ok, run
    assert run.errors == 1


def test_a_late_reply_to_a_request_replays(tmp_path: Path) -> None:
    base = LocalBase(observer=(recorder := Recorder(tmp_path, node=0)), ports={"time": Clock()})
    asker = base.external_endpoint("request.1", lambda message, sender: None)
    base.inject(local_system(base).createActor(Worker), StopReplicaRequest(3, 1, 1, 1, ()), asker)
    base.dismiss(asker)
    base.run()
    recorder.close()
    assert records(tmp_path)[-2].error == "dead letter"
    assert replay_only(tmp_path).ok
