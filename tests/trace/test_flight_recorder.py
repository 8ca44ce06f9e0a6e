"""A flight recorder writes a dump only after a trigger or on request, and each dump can be replayed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from thespian.actors import ActorAddress

from actors.runtime import Dispatcher, LocalBase, RealClock, local_system
from actors.runtime.trace.flight_recorder import ASKED, DUMP_SECONDS, FlightRecorder
from actors.runtime.trace.replay_report import SAME_EARLY, RunReplay
from actors.runtime.trace.replayer import replay_directory
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.events import BrokerChange
from messages.metrics import Gauges
from messages.node import StartBridge
from messages.trace.files.runs import Run, RunRecords, find_runs, snapshots
from messages.trace.schema import DUMPED
from tests.trace import deliveries
from tests.trace.altering import rows_of, write
from tests.trace.small_system import ACTORS, Boss, Clock, Disk, Small, Store

KEPT = 40


class Flying(Small):
    """The small system, observed by a flight recorder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, by=FlightRecorder, deliveries=KEPT)


def runs(folder: Path) -> tuple[Run, ...]:
    return find_runs(folder).runs if folder.is_dir() else ()


def replays(folder: Path) -> list[RunReplay]:
    report = replay_directory(folder, ACTORS)
    assert not report.unreadable
    return list(report.runs)


def test_nothing_is_written_where_nothing_happens(tmp_path: Path) -> None:
    flying = Flying(tmp_path / "trace")
    for _ in range(5):
        flying.live()
    flying.recorder.close()
    assert not (tmp_path / "trace").exists()


def test_a_requested_dump_has_the_last_messages_and_replays(tmp_path: Path) -> None:
    flying = Flying(tmp_path)
    for number in range(1, 6):
        for _ in range(4):
            flying.live()
        flying.recorder.dump()
        run = runs(tmp_path)[-1]
        assert run.header.run == f"{flying.recorder.run}.{number}"
        assert run.ended is not None and run.ended.reason == DUMPED
    assert flying.base.n > 10 * KEPT
    for replayed in replays(tmp_path):
        assert replayed.result == SAME_EARLY, replayed
        assert replayed.why == ASKED
    last = replays(tmp_path)[-1]
    assert last.began + last.deliveries == flying.base.n
    assert KEPT <= last.deliveries < 6 * KEPT
    assert last.snapshots == 0 and len(snapshots(runs(tmp_path)[-1])) == 1


def test_the_first_dump_begins_where_the_node_did(tmp_path: Path) -> None:
    flying = Flying(tmp_path)
    flying.inject(BrokerChange())
    flying.recorder.dump()
    [replayed] = replays(tmp_path)
    assert (replayed.result, replayed.began, replayed.deliveries) == (SAME_EARLY, 0, flying.base.n)


# ------------------------------------------------------------------------------------------------ reasons for a dump


def delivery(n: int, message: Any, took: float = 0.0, error: str | None = None) -> tuple[Any, ...]:
    return deliveries.delivery(n, message, 1.0, 1.0, 1.0 + took, error=error)


def epoch(number: int) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(6, 1, number, 7, (), ())


@pytest.mark.parametrize(
    ("latest", "why"),
    [
        ([delivery(1, Gauges(())), delivery(2, Gauges(()), error="ValueError: no")], None),
        ([delivery(1, Gauges(()), took=0.4)], None),
        ([delivery(1, Gauges(()), took=0.6)], "B.2 took 600 ms to handle Gauges (delivery 1)"),
        ([delivery(1, epoch(3)), delivery(2, epoch(3)), delivery(3, epoch(2))], None),
        ([delivery(1, epoch(3)), delivery(2, epoch(4))], "the controller's epoch is 4, after 3"),
        (
            [delivery(1, Gauges(()), error="Inconsistent: a leader outside its ISR")],
            "B.2 contradicts itself (delivery 1): Inconsistent: a leader outside its ISR",
        ),
    ],
)
def test_why_it_is_dumped(tmp_path: Path, latest: list[tuple[Any, ...]], why: str | None) -> None:
    recorder = FlightRecorder(tmp_path, node=0, now=lambda: 1000.0, slow_seconds=0.5)
    for fields in latest:
        recorder.keep(fields)
        recorder.write_if_due()
    assert recorder.dumps == (why is not None)
    assert [list(RunRecords(run))[-1].error for run in runs(tmp_path)] == ([] if why is None else [why])


def test_an_actor_that_takes_long_is_dumped_once_in_a_while(tmp_path: Path) -> None:
    flying = Flying(tmp_path)

    class Sleepy(Dispatcher):
        def receiveMsg_Gauges(self, message: Gauges, sender: ActorAddress) -> None:
            flying.base.clock.advance(2)  # type: ignore[attr-defined]

    sleepy = flying.system.createActor(Sleepy)
    for wait in (0.0, 1.0, DUMP_SECONDS, 1.0):
        flying.base.clock.advance(wait)  # type: ignore[attr-defined]
        flying.base.inject(sleepy, Gauges(()), flying.out)
        flying.base.run()
    assert flying.recorder.dumps == 2


def test_an_unwritable_dump_is_logged_and_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    flying = Flying(tmp_path / "file")
    flying.live()
    flying.recorder.dump()
    assert flying.recorder.failed and "could not be dumped" in flying.recorder.reason
    flying.live()
    flying.recorder.close()


def test_memory_is_bounded_without_snapshots(tmp_path: Path) -> None:
    flying = Flying(tmp_path)
    flying.base.external_endpoint("store", lambda message, sender: None)
    flying.inject(BrokerChange())
    assert not flying.base.resting
    for _ in range(8 * KEPT):
        flying.base.clock.advance(0.5)
        flying.inject(BrokerChange())
    flying.recorder.dump()
    [replayed] = replays(tmp_path)
    assert "there is no snapshot to begin with" in replayed.problem
    [run] = runs(tmp_path)
    assert run.ended is not None and run.ended.records < 5 * KEPT


def test_a_recent_snapshot_is_kept_without_idle_sessions(tmp_path: Path) -> None:
    flying = Flying(tmp_path)
    while flying.base.n < KEPT + 10:
        flying.live()
    flying.base.external_endpoint("store", lambda message, sender: None)
    while flying.base.n <= 4 * KEPT + 5:
        flying.base.clock.advance(0.5)
        flying.inject(BrokerChange())
    assert not flying.base.resting
    flying.recorder.dump()
    [run], [replayed] = runs(tmp_path), replays(tmp_path)
    assert replayed.result == SAME_EARLY, replayed
    assert run.header.begins > 0


# ------------------------------------------------------------------------------------------------ attacks


def test_where_a_dump_begins_cannot_be_altered(tmp_path: Path) -> None:
    flying = Flying(tmp_path / "run")
    for _ in range(8):
        flying.live()
    flying.recorder.dump()
    [run] = runs(tmp_path / "run")
    assert run.header.begins > 0
    rows = rows_of(run)
    for number, begins in enumerate((0, run.header.begins, run.header.begins - 1, run.header.begins + 1)):
        altered = write(tmp_path / str(number), msgspec.structs.replace(run.header, begins=begins), rows)
        [replayed] = replays(altered)  # `write` has omitted the snapshot
        assert replayed.problem and not replayed.deliveries


# ------------------------------------------------------------------------------------------------ with an event loop


def test_with_a_loop_child_processes_do_the_work(tmp_path: Path) -> None:
    """A dump can be replayed, unless its snapshot came too late: the memory's limit has then discarded it (Rule 1)."""

    def has_snapshot(run: Run) -> bool:
        return run.header.begins > 0 and len(snapshots(run)) > 0

    async def life() -> None:
        loop = asyncio.get_running_loop()
        recorder = FlightRecorder(tmp_path, node=0, deliveries=4 * KEPT)
        base = LocalBase(clock=RealClock(), observer=recorder, ports={"disk": Disk(), "time": Clock()})
        store, out = Store(base), base.external_endpoint("process", lambda message, sender: None)
        boss = local_system(base).createActor(Boss)
        base.attach(loop)
        recorder.attach(loop)
        base.inject(boss, StartBridge(store.address, out), out)
        async with asyncio.timeout(30):
            while recorder.dumps < 4 or not any(map(has_snapshot, runs(tmp_path))):
                before = base.n
                while base.n < before + 3 * KEPT:
                    base.inject(boss, BrokerChange(), out)
                    await asyncio.sleep(0.001)
                recorder.dump()
        base.detach()
        recorder.close()

    asyncio.run(life())
    for run, replayed in zip(runs(tmp_path), replays(tmp_path), strict=True):
        assert replayed.run == run.header.run
        if run.header.begins and not has_snapshot(run):
            assert "there is no snapshot to begin with" in replayed.problem
        else:
            assert replayed.result == SAME_EARLY, replayed
    assert any(map(has_snapshot, runs(tmp_path)))
