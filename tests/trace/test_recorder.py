"""The recorder writes each delivery, loses at most the last batch, and does not affect the node."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.runtime import Dispatcher, LocalBase
from actors.runtime.kernel.delivery import AdapterCall, Delivery
from actors.runtime.trace import recorder as recorder_module
from actors.runtime.trace.recorder import Recorder
from messages.apis.update_metadata import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.ask import Failure
from messages.cluster import TopicPartition
from messages.node import NodeSettings
from messages.trace.codec import decode
from messages.trace.endings import KILLED
from messages.trace.files.runs import RunRecords, survey
from messages.trace.files.writer import RunWriter
from messages.trace.schema import DISK_FULL, GIVEN_UP, STOPPED, TraceRecord
from messages.trace.text import FrameText
from tests.trace import deliveries
from tests.trace.altering import only_run


class Time:
    """A clock that the test advances."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def recorder(tmp_path: Path, time: Time) -> Recorder:
    return Recorder(tmp_path, node=3, roles=("broker",), settings={"node_id": 3}, now=time.now)


def delivery(n: int, message: Any, at: float | None = None, **outcome: Any) -> Delivery:
    at = 100.0 + n / 8 if at is None else at
    return deliveries.delivery(n, message, at - 0.5, at, at + 0.125, **outcome)


def read(folder: Path) -> list[TraceRecord]:
    return list(RunRecords(only_run(folder)))


def test_a_record_has_the_whole_delivery(recorder: Recorder, tmp_path: Path, time: Time) -> None:
    effects = (
        AdapterCall("disk", "make_directory", ("/d/t-0",), None, ""),
        AdapterCall("disk", "remove", ("/d/t-1",), None, "2 No such file"),
    )
    message = Failure("AskFailed", "because")
    recorder.observe_delivery(delivery(1, message, at=100.0, effects=effects, error="ValueError: no"))
    time.seconds += 1
    recorder.close()
    record, _ = read(tmp_path)
    assert (record.n, record.kind, record.cause, record.sender, record.receiver) == (1, "sent", 0, "A.1", "B.2")
    assert (record.actor, record.type, record.queued_at, record.taken_at, record.finished_at) == (
        "B",
        "Failure",
        99.5,
        100.0,
        100.125,
    )
    assert decode(record.type, record.payload) == Failure("AskFailed", "because")
    assert [tuple(effect.args) for effect in record.effects] == [("/d/t-0",), ("/d/t-1",)]
    assert [effect.error for effect in record.effects] == ["", "2 No such file"]
    assert record.error == "ValueError: no"


def test_the_header_describes_the_node(tmp_path: Path, time: Time) -> None:
    settings = NodeSettings(3, (), (), ("/d",), "zk:2181")
    Recorder(tmp_path, node=3, roles=("broker",), settings=settings, now=time.now).close()
    header = only_run(tmp_path).header
    assert (header.node, header.roles, header.segment) == (3, ("broker",), 0)
    assert header.settings["zookeeper_connect"] == "zk:2181"
    assert header.clock_offset + 100.0 == pytest.approx(header.started_ms / 1000, abs=0.01)


def test_a_clean_end_is_recorded_and_a_kill_is_not(recorder: Recorder, tmp_path: Path, time: Time) -> None:
    recorder.observe_delivery(delivery(1, None))
    recorder.flush()
    assert [record.kind for record in read(tmp_path)] == ["sent"]
    assert only_run(tmp_path).ended is None
    time.seconds = 105.0
    recorder.close()
    recorder.close()
    _, end = read(tmp_path)
    assert (end.kind, end.n, end.type, bytes(end.payload), end.error) == ("ended", 1, STOPPED, b"1", None)
    assert recorder.recorded == 1 and not recorder.failed
    assert survey(only_run(tmp_path)) == (STOPPED, ())


def test_it_writes_by_time_and_by_number(recorder: Recorder, tmp_path: Path, time: Time) -> None:
    recorder.observe_delivery(delivery(1, None, at=100.0))
    assert read(tmp_path) == []
    time.seconds = 101.0
    recorder.observe_delivery(delivery(2, None, at=101.0))
    assert len(read(tmp_path)) == 2
    for n in range(3, 3 + recorder_module.FLUSH_DELIVERIES):
        recorder.observe_delivery(delivery(n, None, at=101.0 + n / 8))
    assert len(read(tmp_path)) == 2 + recorder_module.FLUSH_DELIVERIES


def test_an_idle_loop_writes_what_waits(recorder: Recorder, tmp_path: Path, time: Time) -> None:
    async def idle() -> None:
        recorder.attach(asyncio.get_running_loop())
        recorder.observe_delivery(delivery(1, None))
        time.seconds += 1
        while not read(tmp_path):
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(idle(), 10))
    assert len(read(tmp_path)) == 1


BIG = tuple(UpdateMetadataPartitionState(TopicPartition("t", i), 1, 1, 0, (1,), 0, (1,)) for i in range(10_000))


def test_a_big_batch_is_cut_into_frames(recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "FRAME_BYTES", 1 << 20)
    for n in range(1, 6):
        recorder.observe_delivery(delivery(n, UpdateMetadataRequest(6, 1, 1, n, BIG, ())))
    recorder.flush()
    records = read(tmp_path)
    assert [record.n for record in records] == [1, 2, 3, 4, 5]
    assert decode(records[4].type, records[4].payload) == UpdateMetadataRequest(6, 1, 1, 5, BIG, ())
    [path] = only_run(tmp_path).paths
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert [record.n for record in read(tmp_path)] == [1, 2, 3, 4]


def test_waiting_messages_are_handled_between_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(tmp_path, node=0)
    base = LocalBase(observer=recorder)
    order: list[str] = []
    work = recorder._work

    class Taker(Dispatcher):
        def receiveMsg_str(self, message: str, sender: object) -> None:
            order.append(message)

    def noted(until: float) -> bool:
        order.append("slice")
        return work(until)

    monkeypatch.setattr(recorder, "_work", noted)

    async def busy() -> None:
        loop = asyncio.get_running_loop()
        taker = base.newPrimaryActor(Taker)
        base.attach(loop)
        recorder.attach(loop)
        await asyncio.sleep(0)
        loop.call_later(0, base.inject, taker, "mail")  # like mail from a socket; it is due before the slice
        for n in range(1, recorder_module.SLICE_DELIVERIES + 1):
            recorder.observe_delivery(delivery(n, "hello"))
        while "slice" not in order:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(busy(), 60))
    assert order[:2] == ["mail", "slice"]  # on a busy machine, one slice may not be enough for all deliveries
    base.detach()
    recorder.close()


def test_a_loop_is_held_up_by_slices_only(tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock advances by 0.1 ms with each step of the work. No turn of the loop takes longer than a slice."""
    recorder = Recorder(tmp_path, node=0, now=time.now)
    turns: list[float] = []
    step, work = FrameText.step, recorder._work

    def slow_step(text: FrameText) -> bool:
        time.seconds += 0.0001
        return step(text)

    def measured(until: float) -> bool:
        before = time.seconds
        done = work(until)
        turns.append(time.seconds - before)
        return done

    monkeypatch.setattr(FrameText, "step", slow_step)
    monkeypatch.setattr(recorder, "_work", measured)

    async def busy() -> None:
        recorder.attach(asyncio.get_running_loop())
        for n in range(1, 21):
            states = tuple(attrs.evolve(state) for state in BIG)
            recorder.observe_delivery(delivery(n, UpdateMetadataRequest(6, 1, 1, n, states, ())))
        while recorder.recorded < 20:
            time.seconds += 0.0001  # a frame that is not full is written after FLUSH_SECONDS
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(busy(), 60))
    assert len(turns) > 20
    assert max(turns) <= recorder_module.SLICE_SECONDS + 0.0002
    time.seconds += 100
    recorder.close()
    assert [record.n for record in read(tmp_path)] == [*range(1, 21), 20]


def test_the_number_of_waiting_deliveries_is_bounded(
    tmp_path: Path, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock advances by 0.1 ms with each step.

    The loop gets no turn, and still at most MOST_WAITING deliveries wait.
    """
    monkeypatch.setattr(recorder_module, "MOST_WAITING", 2000)
    recorder = Recorder(tmp_path, node=0, now=time.now)
    step = FrameText.step
    most_waiting, longest = 0, 0.0

    def slow_step(text: FrameText) -> bool:
        time.seconds += 0.0001
        return step(text)

    monkeypatch.setattr(FrameText, "step", slow_step)

    async def flood() -> None:
        nonlocal most_waiting, longest
        recorder.attach(asyncio.get_running_loop())
        for n in range(1, 20_001):
            before = time.seconds
            recorder.observe_delivery(delivery(n, None))
            longest = max(longest, time.seconds - before)
            most_waiting = max(most_waiting, len(recorder._kept))

    asyncio.run(flood())
    assert most_waiting <= 2000
    assert 0 < longest <= recorder_module.MOST_SLICE_SECONDS + 0.0002
    time.seconds += 20_000
    recorder.close()
    assert len(read(tmp_path)) == 20_001


@pytest.mark.parametrize(
    ("error", "reason", "todo"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), DISK_FULL, "free some space"),
        (OSError(errno.EDQUOT, "Quota exceeded"), DISK_FULL, "free some space"),
        (OSError(errno.EIO, "Input/output error"), GIVEN_UP, "set trace.dir"),
        (RuntimeError("a fault of ours"), GIVEN_UP, "set trace.dir"),
    ],
)
def test_the_end_of_a_recording_is_logged_once_and_traced(
    recorder: Recorder,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    reason: str,
    todo: str,
) -> None:
    recorder.observe_delivery(delivery(1, None, at=99.0))
    recorder.flush()

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(RunWriter, "write", refuse)
    with caplog.at_level(logging.DEBUG):
        for n in range(2, 5000):
            recorder.observe_delivery(delivery(n, None))
        recorder.close()
    assert recorder.failed and recorder.recorded == 1
    [reported] = caplog.records
    assert reported.levelno == logging.CRITICAL and reported.message == "R" + recorder.reason[1:]
    assert str(error) in recorder.reason and str(tmp_path) in recorder.reason and todo in recorder.reason
    first, end = read(tmp_path)
    assert (first.n, end.kind, end.n, end.type) == (1, "ended", 1, reason)
    assert end.error is not None and str(error) in end.error
    assert survey(only_run(tmp_path)) == (reason, ())


def test_where_not_even_that_can_be_written_the_run_just_breaks_off(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.observe_delivery(delivery(1, None))
    recorder.flush()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("messages.trace.files.segments.write_all", full)
    recorder.observe_delivery(delivery(2, None))
    recorder.close()
    assert recorder.failed
    assert [record.n for record in read(tmp_path)] == [1]
    assert survey(only_run(tmp_path)) == (KILLED, ())


def test_a_folder_that_cannot_be_made_leaves_the_node_unrecorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    recorder = Recorder(tmp_path / "file" / "trace", node=0)
    assert recorder.failed and "in the way" not in caplog.text
    assert "set trace.dir" in recorder.reason and recorder.reason[1:] in caplog.text
    recorder.observe_delivery(delivery(1, None))
    recorder.close()


def test_a_full_disk_ends_the_recording(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, node=0, free_bytes=1 << 62)
    recorder.observe_delivery(delivery(1, None))
    recorder.close()
    assert recorder.failed and "must stay free" in recorder.reason
    assert survey(only_run(tmp_path)) == (DISK_FULL, ())
