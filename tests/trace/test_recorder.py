"""The recorder writes what was delivered, loses at most the last batch, and never harms the node."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest
from thespian.actors import ActorAddress

from actors.runtime import recorder as recorder_module
from actors.runtime.delivery import Delivery, Effect
from actors.runtime.recorder import Recorder
from messages.cluster import TopicPartition
from messages.conversation import Failure
from messages.node import NodeSettings
from messages.requests import UpdateMetadataPartitionState, UpdateMetadataRequest
from messages.trace.codec import decode
from messages.trace.frames import Records, Run, SegmentWriter, find_runs
from messages.trace.schema import Record

SENDER, RECEIVER = ActorAddress("A.1"), ActorAddress("B.2")


class Time:
    """A clock that the test moves."""

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


def delivery(
    n: int, message: Any, at: float = 100.0, effects: tuple[Effect, ...] = (), error: str | None = None
) -> Delivery:
    return Delivery(n, "sent", n - 1, SENDER, RECEIVER, "B", message, at - 0.5, at, at + 0.125, effects, error)


def run_in(folder: Path) -> Run:
    [run] = find_runs(folder).runs
    return run


def read(folder: Path) -> list[Record]:
    return list(Records(run_in(folder)))


def test_a_record_tells_the_whole_delivery(recorder: Recorder, tmp_path: Path) -> None:
    effects = (
        Effect("disk", "make_directory", ("/d/t-0",), None, ""),
        Effect("disk", "remove", ("/d/t-1",), None, "2 No such file"),
    )
    recorder.delivered(delivery(1, Failure("AskFailed", "because"), effects=effects, error="ValueError: no"))
    recorder.close()
    record, _ = read(tmp_path)
    assert (record.n, record.kind, record.cause, record.sender, record.receiver) == (1, "sent", 0, "A.1", "B.2")
    assert (record.actor, record.type, record.queued_at, record.taken_at, record.took) == (
        "B",
        "Failure",
        99.5,
        100.0,
        0.125,
    )
    assert decode(record.type, record.payload) == Failure("AskFailed", "because")
    assert [tuple(effect.args) for effect in record.effects] == [("/d/t-0",), ("/d/t-1",)]
    assert [effect.error for effect in record.effects] == ["", "2 No such file"]
    assert record.error == "ValueError: no"


def test_the_header_tells_the_node(tmp_path: Path, time: Time) -> None:
    settings = NodeSettings(3, (), (), ("/d",), "zk:2181")
    Recorder(tmp_path, node=3, roles=("broker",), settings=settings, now=time.now).close()
    header = run_in(tmp_path).header
    assert (header.node, header.roles, header.segment) == (3, ("broker",), 0)
    assert header.settings["zookeeper_connect"] == "zk:2181"
    assert header.clock_offset + 100.0 == pytest.approx(header.started_ms / 1000, abs=0.01)


def test_a_clean_end_is_told_and_a_kill_is_not(recorder: Recorder, tmp_path: Path) -> None:
    recorder.delivered(delivery(1, None))
    recorder.flush()
    assert [record.kind for record in read(tmp_path)] == ["sent"]
    recorder.close()
    recorder.close()
    assert [(record.kind, record.n) for record in read(tmp_path)] == [("sent", 1), ("closed", 1)]
    assert recorder.recorded == 2


def test_it_writes_by_time_and_by_number(recorder: Recorder, tmp_path: Path, time: Time) -> None:
    recorder.delivered(delivery(1, None))
    assert read(tmp_path) == []
    time.seconds = 101.0
    recorder.delivered(delivery(2, None, at=101.0))
    assert len(read(tmp_path)) == 2
    for n in range(3, 3 + recorder_module.FLUSH_DELIVERIES):
        recorder.delivered(delivery(n, None))
    assert len(read(tmp_path)) == 2 + recorder_module.FLUSH_DELIVERIES


def test_an_idle_loop_writes_what_waits(recorder: Recorder, tmp_path: Path) -> None:
    async def idle() -> None:
        recorder.attach(asyncio.get_running_loop())
        recorder.delivered(delivery(1, None))
        for _ in range(200):
            await asyncio.sleep(0.01)
            if read(tmp_path):
                return

    asyncio.run(idle())
    assert len(read(tmp_path)) == 1


def test_a_big_batch_is_cut_into_frames(recorder: Recorder, tmp_path: Path) -> None:
    states = tuple(UpdateMetadataPartitionState(TopicPartition("t", i), 1, 1, 0, (1,), 0, (1,)) for i in range(10_000))
    for n in range(1, 6):
        recorder.delivered(delivery(n, UpdateMetadataRequest(6, 1, 1, n, states, ())))
    recorder.flush()
    records = read(tmp_path)
    assert [record.n for record in records] == [1, 2, 3, 4, 5]
    assert decode(records[4].type, records[4].payload) == UpdateMetadataRequest(6, 1, 1, 5, states, ())
    [path] = run_in(tmp_path).paths
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert [record.n for record in read(tmp_path)] == [1, 2, 3, 4]


class Stranger:
    pass


def test_a_message_without_form_is_recorded_as_such(recorder: Recorder, tmp_path: Path) -> None:
    for n, message in enumerate((Failure("a", "b"), Stranger(), Failure("\ud800", "c"), Failure("d", "e")), 1):
        recorder.delivered(delivery(n, message))
    recorder.close()
    records = read(tmp_path)
    assert [record.type for record in records] == ["Failure", "Stranger", "Failure", "Failure", ""]
    assert "Stranger" in msgspec.json.decode(records[1].payload)["unencodable"]
    assert "surrogates" in msgspec.json.decode(records[2].payload)["unencodable"]
    assert not recorder.failed


def test_a_full_disk_ends_the_recording_loudly_once(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.delivered(delivery(1, None))
    recorder.flush()

    def full(writer: SegmentWriter, lines: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SegmentWriter, "write", full)
    with caplog.at_level(logging.DEBUG):
        for n in range(2, 5000):
            recorder.delivered(delivery(n, None))
        recorder.close()
    assert recorder.failed and recorder.recorded == 1
    [told] = caplog.records
    assert told.levelno == logging.CRITICAL and "No space left" in told.message and str(tmp_path) in told.message
    assert [record.n for record in read(tmp_path)] == [1]


def test_a_folder_that_cannot_be_made_leaves_the_node_unrecorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    recorder = Recorder(tmp_path / "file" / "trace", node=0)
    assert recorder.failed and "in the way" not in caplog.text and "the trace in" in caplog.text
    recorder.delivered(delivery(1, None))
    recorder.close()
