"""Measure the cost of recording and replaying traces: `python -m tests.benchmarks.trace`.

* record_failover: one of three brokers loses its session, and the controller elects leaders for 10,000 partitions. The
  run includes the watch, reads, elections, writes and requests on the in-memory ZooKeeper. It ends when all responses
  are handled and the trace is written. The unit is partitions per second; the peer is the same run without a trace.
* record_ping_pong: two actors send a small message to each other; in messages per second, with the same peer.
* Both are recorded with each `trace.detail`: full, inputs, and flight recorder.
* replay_failover: replays a full trace of the failover; the peer is the time of the recorded run.
* replay_million: replays a million deliveries of ping-pong in a new process, from the beginning and from a late
  snapshot. The unit is deliveries per second. Peak memory is compared with that of a tenth of the deliveries.

All times are CPU times. Rounds of recording alternate between the details, and the median of ROUNDS counts. Replays are
measured once.
"""

from __future__ import annotations

import gc
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from actors.node import process
from actors.node.assembly import RING
from actors.node.node import NodeActor
from actors.runtime import LocalBase, local_system
from actors.runtime.trace.flight_recorder import FlightRecorder
from actors.runtime.trace.recorder import Recorder
from actors.runtime.trace.replayer import replay_directory
from messages.ask import Continue
from messages.trace.schema import FULL, INPUTS
from messages.zookeeper import EnsurePaths
from tests.benchmarks.players import Player, Wall
from tests.benchmarks.report import report
from tests.controller.world import World

BENCH = "trace"
PEER = "untraced"
PARTITIONS = 10_000
PER_TOPIC = 100
BROKERS = (1, 2, 3)
MESSAGES = 100_000
MILLION = 1_000_000
ROUNDS = 9
SEGMENT_BYTES = 2 << 20
"""Small segments, so that a trace contains snapshots."""
DETAILS = (FULL, INPUTS, RING)


def observer(detail: str, folder: Path, now: Callable[[], float]) -> Recorder | FlightRecorder | None:
    """Return the recorder of this detail; None for PEER."""
    if detail == RING:
        return FlightRecorder(folder, node=0, now=now)
    if detail == PEER:
        return None
    return Recorder(folder, node=0, now=now, detail=detail, segment_bytes=SEGMENT_BYTES)


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this thread that `work` takes."""
    started = time.thread_time()
    work()
    return time.thread_time() - started


def failover(detail: str, folder: Path) -> float:
    """Return the CPU seconds of the failover of 10,000 partitions after a broker has lost its session.

    The trace is written below `folder`.
    """
    world = World()
    world.base.observer = recorder = observer(detail, folder, world.base.clock.now)
    world.admin.ask(EnsurePaths())
    world.node(0, validate_state=False)
    for broker in BROKERS:
        world.broker(broker)
    replicas = [tuple(BROKERS[(partition + place) % 3] for place in range(3)) for partition in range(PER_TOPIC)]
    for topic in range(PARTITIONS // PER_TOPIC):
        world.topic(f"topic-{topic}", *replicas, run=False)
    world.run()
    if recorder is not None:
        recorder.flush()
    settle()

    def lose() -> None:
        world.lose(BROKERS[0])
        if recorder is not None:
            recorder.flush()

    took = seconds(lose)
    if recorder is not None:
        recorder.close()
        assert not recorder.failed
    world.close()
    return took


def settle() -> None:
    """Collect the garbage of earlier rounds, freeze the remaining objects, and set a node's thresholds."""
    gc.unfreeze()
    gc.collect()
    gc.freeze()
    process.tame()


def ping_pong(detail: str, folder: Path, messages: int = MESSAGES) -> float:
    """Return the CPU seconds of this number of messages. The trace is written below `folder`."""
    recorder = observer(detail, folder, time.monotonic)
    base = LocalBase(observer=recorder)
    player = local_system(base).createActor(Player)
    base.inject(player, Continue(messages // 2))
    settle()

    def play() -> None:
        base.run()
        if recorder is not None:
            recorder.flush()

    took = seconds(play)
    if recorder is not None:
        recorder.close()
        assert not recorder.failed
    return took


def compare(case: str, run: Callable[[str, Path], float], amount: int, unit: str, here: Path) -> None:
    """Measure each detail and the run without a trace in turns, and print the rows."""
    took: dict[str, list[float]] = {detail: [] for detail in (PEER, *DETAILS)}
    for number in range(ROUNDS):
        for detail, rounds in took.items():
            folder = here / f"{case}-{detail}-{number}"
            rounds.append(run(detail, folder))
            shutil.rmtree(folder, ignore_errors=True)
    for detail in DETAILS:
        name = case if detail == FULL else f"{case}_{detail}"
        report(BENCH, name, amount / median(took[detail]), amount / median(took[PEER]), PEER, unit)


def replay_failover(here: Path) -> None:
    """Record a whole run with a failover, replay it, and print the row."""
    lived = seconds(lambda: failover(FULL, here / "replayed"))
    replayed = seconds(lambda: check(here / "replayed"))
    report(BENCH, "replay_failover", PARTITIONS / replayed, PARTITIONS / lived, "recorded", "partitions/s")


def replay_million(here: Path) -> None:
    """Replay a million deliveries and a tenth of them, and print the rows of speed and peak memory."""
    lived = ping_pong(FULL, here / "million", MILLION)
    ping_pong(FULL, here / "tenth", MILLION // 10)
    tenth = apart(here / "tenth")
    for case, begin in (("replay_million", None), ("replay_million_from_snapshot", MILLION)):
        deliveries, took, peak = apart(here / "million", begin)
        report(BENCH, case, deliveries / took, MILLION / lived, "recorded", "deliveries/s")
        report(BENCH, f"{case}_peak", peak, tenth[2], "a tenth of them", "MB", less_is_better=True)


def apart(folder: Path, begin: int | None = None) -> tuple[int, float, float]:
    """Replay in a new process; return (number of deliveries, CPU seconds, peak memory in MB)."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(_replayed, (folder, begin))


def _replayed(folder: Path, begin: int | None) -> tuple[int, float, float]:
    deliveries = 0

    def replay() -> None:
        nonlocal deliveries
        deliveries = check(folder, begin)

    took = seconds(replay)
    return deliveries, took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(folder: Path, begin: int | None = None) -> int:
    """Replay a trace, assert that there is no difference, and return the number of deliveries."""
    report = replay_directory(folder, (NodeActor, Player, Wall), begin=begin)
    assert report.ok, report
    return report.runs[0].deliveries


def main() -> None:
    """Run all cases. The traces are in the directory for temporary files."""
    here = Path(tempfile.mkdtemp(prefix="kafka-actors-trace-"))
    try:
        compare("record_failover", failover, PARTITIONS, "partitions/s of CPU", here)
        compare("record_ping_pong", ping_pong, MESSAGES, "messages/s of CPU", here)
        replay_failover(here)
        replay_million(here)
    finally:
        shutil.rmtree(here)


if __name__ == "__main__":
    main()
