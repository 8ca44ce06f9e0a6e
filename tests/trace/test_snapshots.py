"""A trace has snapshots of all actors: a replay can begin at one, and is compared with each."""

from __future__ import annotations

import asyncio
import errno
import resource
import signal
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.runtime import LocalBase, RealClock, VirtualClock, local_system
from actors.runtime.trace.forked_work import MOST_BYTES, ForkedWork
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replay_report import SAME, SAME_EARLY
from actors.runtime.trace.replayer import Replay, replay_run
from actors.runtime.trace.snapshots import restore_lines, system_lines
from messages.events import BrokerChange
from messages.node import StartBridge
from messages.trace.files.errors import Damaged
from messages.trace.files.frames import RECORDS, SNAPSHOT
from messages.trace.files.runs import Run, RunRecords, snapshots
from messages.trace.files.snapshots import Piece, Snapshot, pieces
from messages.trace.files.writer import RunWriter
from messages.trace.text import compress, decompress
from tests.trace.altering import kill, only_run, rows_of
from tests.trace.small_system import ACTORS, Boss, Clock, Disk, Small, Store, divergence_with, replay_only


def lived(folder: Path, rounds: int = 12, **options: Any) -> Run:
    """Record a run of several segments, each with a snapshot; many snapshots have pending timers and messages."""
    small = Small(folder, segment_bytes=1500, **options)
    for _ in range(rounds):
        small.live()
        small.inject(StartBridge(small.store.address, small.out))
        small.base.clock.advance(1)
        small.inject(BrokerChange())
    small.recorder.close()
    return only_run(folder)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return lived(tmp_path_factory.mktemp("lived"))


def test_a_replay_is_held_to_every_snapshot(run: Run) -> None:
    found = snapshots(run)
    assert len(found) > 5
    replayed = replay_run(run, ACTORS)
    assert replayed.result == SAME, replayed
    assert (replayed.began, replayed.snapshots) == (0, len(found))


def test_a_replay_begins_at_any_snapshot_and_ends_the_same(run: Run) -> None:
    whole, found = replay_run(run, ACTORS), snapshots(run)
    resting = [each for each in found if each.end.resting]
    assert len(resting) > 5
    moments = [each.after for each in found]
    for snapshot in found:
        if not snapshot.end.resting:
            continue
        begin = moments.index(snapshot.after)  # the last segment may be closed without a delivery
        replayed = replay_run(run, ACTORS, snapshot.after + 1)
        assert replayed.result == SAME, replayed
        assert replayed.began == snapshot.after
        assert replayed.deliveries == whole.deliveries - snapshot.after
        assert replayed.snapshots == len(found) - begin - 1
        assert replayed.undelivered == whole.undelivered


def test_from_means_the_nearest_snapshot_before(run: Run) -> None:
    first, second = [each.after for each in snapshots(run)][:2]
    assert [replay_run(run, ACTORS, n).began for n in (1, first, first + 1, second, second + 1)] == [
        *(0, 0, first, first, second)
    ]


def test_pending_timers_are_part_of_a_snapshot(tmp_path: Path) -> None:
    """A snapshot with pending timers is restored in a new system, whose snapshot is then equal."""
    small = Small(tmp_path)
    small.base.inject(small.boss, BrokerChange(), small.out)
    small.base.run()
    assert small.base.state().timers
    lines = list(system_lines(small.base))
    fresh = LocalBase(clock=VirtualClock())
    fresh.ports.recorded = iter(())
    restore_lines(fresh, iter(lines), ACTORS)
    assert list(system_lines(fresh)) == lines
    assert [str(ref) for ref in fresh.living()] == ["Boss.1", "Worker.2", "Worker.3", "Worker.4"]


def test_a_rotated_run_is_replayed_from_its_first_snapshot(tmp_path: Path) -> None:
    run = lived(tmp_path, 25, max_bytes=60_000)
    assert run.removed > 3
    replayed = replay_only(tmp_path)
    assert replayed.result == SAME, replayed
    assert replayed.began > 0 and replayed.snapshots > 0
    assert f"replayed from delivery {replayed.began + 1} on" in replayed.warnings[0]
    late = replay_only(tmp_path, begin=snapshots(run)[-1].after)
    assert late.result == SAME and late.began > replayed.began


def test_without_snapshots_a_rotated_run_is_an_error_that_explains_it(tmp_path: Path) -> None:
    run = lived(tmp_path, 20, max_bytes=20_000, snapshot_segments=0)
    assert run.removed and not snapshots(run)
    replayed = replay_only(tmp_path)
    assert not replayed.ok and replayed.complete
    assert "trace.max.bytes, and there is no snapshot" in replayed.problem


def test_a_setting_limits_the_segments_without_a_snapshot(tmp_path: Path) -> None:
    every = len(snapshots(lived(tmp_path / "every")))
    assert every / 5 < len(snapshots(lived(tmp_path / "fourth", snapshot_segments=4))) < every / 2


def test_a_killed_run_replays_from_its_last_snapshot(tmp_path: Path) -> None:
    small = Small(tmp_path, segment_bytes=1500)
    for _ in range(5):
        small.live()
        small.inject(StartBridge(small.store.address, small.out))
        small.recorder.flush()
    kill(small.recorder)
    last = snapshots(only_run(tmp_path))[-1]
    replayed = replay_only(tmp_path, last.after + 1)
    assert replayed.result == SAME_EARLY and replayed.began == last.after


def test_no_snapshot_is_taken_in_the_middle_of_a_conversation(tmp_path: Path) -> None:
    small = Small(tmp_path, segment_bytes=1, snapshot_segments=1)
    answers, small.base = deque[Any](), small.base
    small.store.received = lambda message, sender: answers.append((message, sender))  # type: ignore[method-assign]
    small.base.external_endpoint("store", small.store.received)
    small.inject(BrokerChange())
    assert answers and not small.base.resting
    before = len(snapshots(only_run(tmp_path)))
    for _ in range(5):
        small.base.clock.advance(0.3)
        small.base.run()
    assert len(snapshots(only_run(tmp_path))) == before
    small.recorder.close()
    [last] = snapshots(only_run(tmp_path))[before:]
    assert not last.end.resting
    replayed = replay_only(tmp_path)
    assert replayed.result == SAME and replayed.snapshots == before + 1


# ------------------------------------------------------------------------------------------------ differences


def test_a_replay_with_different_state_names_the_difference(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted_twice(actor: Any, message: Any, sender: Any) -> None:
        actor.rounds += 1
        actor.send(actor.out, message)

    monkeypatch.setattr(Boss, "receiveMsg_WakeupMessage", lambda *_: None)
    assert divergence_with(monkeypatch, "receiveMsg_Failure", counted_twice, run.folder).chain


def test_a_state_that_no_message_shows_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Small(tmp_path)
    small.live()
    small.recorder.close()
    as_before = Boss.receiveMsg_BrokerModifications

    def remembered(actor: Any, message: Any, sender: Any) -> None:
        actor.last = message
        as_before(actor, message, sender)

    divergence = divergence_with(monkeypatch, "receiveMsg_BrokerModifications", remembered, tmp_path)
    assert divergence.what.startswith("Boss.1 holds something else after delivery")
    assert divergence.recorded == "Boss.1.last = null"
    assert "BrokerModifications" in divergence.replayed


def rewritten(run: Run, folder: Path, change: Any) -> Path:
    """Write the run again into `folder`: `change` returns each snapshot's lines, and all checksums are correct."""
    writer = RunWriter(folder, run.header)
    found = {each.places[0]: each for each in snapshots(run)}
    after = 0
    frames = list(RunRecords(run).frames())
    records = [(frame.content, frame.records, frame.after) for _, frame in frames if frame.kind == RECORDS]
    end = list(RunRecords(run))[-1]
    for path, frame in frames:
        snapshot: Snapshot | None = found.get((path, frame.offset))
        if frame.kind == SNAPSHOT and snapshot is not None:
            changed = change(list(snapshot.lines()))
            for piece in pieces(changed, snapshot.end.resting):
                writer.write_snapshot(piece.content, piece.lines, snapshot.after)
        elif frame.kind == RECORDS and (frame.content, frame.records, frame.after) != records[-1]:
            writer.write(frame.content, frame.records, frame.after)
    assert after == 0
    writer.end(end)
    writer.close()
    return folder


def test_a_snapshot_altered_with_all_sums_right_is_not_the_same(tmp_path: Path) -> None:
    original = lived(tmp_path / "run", 3)
    assert replay_only(rewritten(original, tmp_path / "same", lambda lines: lines)).result == SAME
    places = [(b'"rounds"', b'"bounds"'), (b'"created":4', b'"created":5'), (b'"armed_by":', b'"armed_by":1')]
    for number, (was, becomes) in enumerate(places):
        altered = rewritten(
            original,
            tmp_path / str(number),
            lambda lines: [each.replace(was, becomes) for each in lines],  # noqa: B023
        )
        assert replay_only(altered).result not in (SAME, SAME_EARLY), was
    assert replay_only(rewritten(original, tmp_path / "less", lambda lines: lines[:-1])).result not in (
        SAME,
        SAME_EARLY,
    )


@pytest.mark.parametrize(
    ("was", "becomes", "why"),
    [
        (b'"actor":"tests.trace.small_system:Boss"', b'"actor":"os:abort"', "is not part of this project"),
        (
            b'"actor":"tests.trace.small_system:Boss"',
            b'"actor":"actors.runtime.thespian.base:LocalBase"',
            "not an actor class",
        ),
        (b'"StateItems",{"items"', b'"StateItems",{"kind"', "cannot be"),
        (b'"rounds"', b'"_myRef"', "cannot be"),
    ],
)
def test_a_snapshot_is_no_program(run: Run, tmp_path: Path, was: bytes, becomes: bytes, why: str) -> None:
    assert any(was in each for each in snapshots(run)[0].lines())
    altered = rewritten(run, tmp_path, lambda lines: [each.replace(was, becomes) for each in lines])
    replayed = replay_only(altered, begin=run.ended.records if run.ended else 0)
    assert not replayed.ok
    assert why in replayed.problem, replayed


def test_a_piece_that_does_not_belong_there_is_damage(run: Run, tmp_path: Path) -> None:
    snapshot = snapshots(run)[0]
    [*_, (content, lines)] = pieces(snapshot.lines(), True)
    for number, (bad, count, after) in enumerate(
        [
            (content, lines + 1, snapshot.after),
            (content, lines, snapshot.after + 1),
            (compress([*decompress(content).split(b"\n")[:-2], b'{"actors":1,"resting":true,"digest":""}']), lines, 5),
        ]
    ):
        folder = tmp_path / str(number)
        writer = RunWriter(folder, run.header)
        writer.write_snapshot(bad, count, after)
        writer.close()
        with pytest.raises(Damaged, match="snapshot"):
            snapshots(only_run(folder))


# ------------------------------------------------------------------------------------------------ stopping a replay


def test_a_replay_stops_at_the_given_delivery(run: Run) -> None:
    n = rows_of(run)[40]["n"]
    replay = Replay(run, ACTORS, until=n)
    assert replay.result().ok
    assert replay.base.n == n and replay.stopped_at is not None and replay.stopped_at.n == n + 1
    broken = Replay(run, ACTORS, begin=n, break_at="StopNode")
    broken.result()
    assert broken.stopped_at is not None and broken.stopped_at.type == "StopNode"
    assert broken.base.n == broken.stopped_at.n - 1
    nowhere = Replay(run, ACTORS, break_at="Nothing")
    assert nowhere.result().result == SAME and nowhere.stopped_at is None


# ------------------------------------------------------------------------------------------------ with an event loop


def test_with_a_loop_a_child_process_takes_the_snapshot(tmp_path: Path) -> None:
    async def life() -> None:
        loop = asyncio.get_running_loop()
        recorder = Recorder(tmp_path, node=0, segment_bytes=1)
        base = LocalBase(clock=RealClock(), observer=recorder, ports={"disk": Disk(), "time": Clock()})
        store, out = Store(base), base.external_endpoint("process", lambda message, sender: None)
        boss = local_system(base).createActor(Boss)
        base.attach(loop)
        recorder.attach(loop)
        base.inject(boss, StartBridge(store.address, out), out)
        async with asyncio.timeout(30):
            while len(snapshots(only_run(tmp_path))) < 3:
                base.inject(boss, BrokerChange(), out)
                await asyncio.sleep(0.01)
        base.detach()
        recorder.close()

    asyncio.run(life())
    run = only_run(tmp_path)
    found = snapshots(run)
    frames = [frame for _, frame in RunRecords(run).frames()]
    assert any(frame.kind == RECORDS and frame.after >= found[0].after for frame in frames)
    for begin in (None, found[0].after + 1, found[-1].after + 1):
        assert replay_run(run, ACTORS, begin).result == SAME


def test_a_killed_child_process_costs_only_its_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(base: LocalBase) -> Any:
        raise RuntimeError("no way")

    async def life() -> None:
        small = Small(tmp_path, segment_bytes=1)
        small.recorder.attach(asyncio.get_running_loop())
        monkeypatch.setattr("actors.runtime.trace.snapshots.system_lines", fails)
        async with asyncio.timeout(30):
            while "no way" not in caplog.text:
                small.base.clock.advance(0.3)
                small.inject(BrokerChange())
                await asyncio.sleep(0.01)
        monkeypatch.undo()
        small.recorder.close()

    asyncio.run(life())
    assert "a snapshot for the trace in" in caplog.text
    assert replay_only(tmp_path).result == SAME


def test_if_fork_fails_the_recording_continues_without_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> int:
        raise BlockingIOError(errno.EAGAIN, "too many processes")

    async def life() -> None:
        small = Small(tmp_path, segment_bytes=1)
        small.recorder.attach(asyncio.get_running_loop())
        monkeypatch.setattr("os.fork", fails)
        async with asyncio.timeout(30):
            while "too many processes" not in caplog.text:
                small.base.clock.advance(0.3)
                small.inject(BrokerChange())
                await asyncio.sleep(0.01)
        assert not small.recorder.failed
        small.recorder.close()

    asyncio.run(life())
    assert "a snapshot for the trace in" in caplog.text
    assert replay_only(tmp_path).result == SAME


async def outcome(work: Callable[[Callable[[Piece], None]], object], heard: Callable[[Piece], None]) -> str:
    """Run the work in a child, and return its error text."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[str] = loop.create_future()
    ForkedWork(work, loop, heard, done.set_result)
    async with asyncio.timeout(30):
        return await done


def test_the_memory_of_a_child_is_limited() -> None:
    assert asyncio.run(outcome(lambda _: bytearray(2 * MOST_BYTES), [].append)) == "MemoryError: "


def test_a_child_keeps_a_limit_of_the_user() -> None:
    before = resource.getrlimit(resource.RLIMIT_AS)
    own = (1 << 40, before[1])
    limits: list[Piece] = []
    resource.setrlimit(resource.RLIMIT_AS, own)
    try:
        tell_limit = outcome(
            lambda tell: tell(Piece(repr(resource.getrlimit(resource.RLIMIT_AS)).encode(), 1)), limits.append
        )
        assert asyncio.run(tell_limit) == ""
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert limits == [Piece(repr(own).encode(), 1)]


def test_messages_of_a_child_are_recorded_without_a_waiting_parent() -> None:
    """A process may inherit an ignored SIGCHLD; the kernel then reaps children, and the parent cannot wait for them."""
    heard: list[Piece] = []
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    try:
        assert asyncio.run(outcome(lambda tell: tell(Piece(b"a piece", 1)), heard.append)) == ""
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert heard == [Piece(b"a piece", 1)]
