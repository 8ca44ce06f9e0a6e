"""A broker's life, with deletions, timers and failing disks, replays exactly from its trace."""

from __future__ import annotations

import shutil
from pathlib import Path

from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.isr_keeper import IsrKeeperActor
from actors.broker.metadata_cache import MetadataCacheActor
from actors.broker.partition_requests import PartitionRequestsActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.broker.request_handler import RequestHandlerActor
from actors.runtime import VirtualClock
from actors.runtime.recorder import Recorder
from actors.runtime.replayer import replay_directory
from messages.errors import KAFKA_STORAGE_ERROR
from tests.broker.harness import IO_ERROR, NO_SPACE, Broker, alive, codes, known, order, settings

ACTORS = (
    IsrKeeperActor,
    MetadataCacheActor,
    PartitionRequestsActor,
    ReplicaFetcherManagerActor,
    ReplicaManagerActor,
    RequestHandlerActor,
)


def test_a_brokers_life_replays_exactly(tmp_path: Path) -> None:
    directories = (tmp_path / "a", tmp_path / "b")
    (directories[0] / ("old-0." + "f" * 32 + "-delete")).mkdir(parents=True)
    clock = VirtualClock()
    recorder = Recorder(str(tmp_path / "trace"), 0, ("broker",), settings(*directories), now=clock.now)
    broker = Broker(*directories, clock=clock, observer=recorder)
    broker.register(7)
    broker.update(known("t", leader=9), live=(alive(0), alive(9)))
    broker.lead(*(order("t", number, is_new=True) for number in range(4)), order("u", leader=9, is_new=True))
    broker.base.simulate(61)
    broker.stop(("t", 0, -2, True), ("u", 0, 0, False), ("never", 0, -2, True))
    broker.metadata("t", "..", everything=False)
    broker.base.simulate(130)
    broker.disk.faults[f"{directories[0]}/x-0"] = broker.disk.faults[f"{directories[1]}/x-0"] = NO_SPACE
    assert codes(broker.lead(order("x", is_new=True))) == {"x-0": KAFKA_STORAGE_ERROR}
    broker.disk.faults[str(tmp_path)] = IO_ERROR
    broker.stop(*(("t", number, -2, True) for number in range(4)))
    broker.lead(order("t", 2, epoch=5), epoch=0)
    broker.system.shutdown()
    recorder.close()
    for directory in directories:
        shutil.rmtree(directory)
    (run,) = replay_directory(tmp_path / "trace", ACTORS).runs
    assert run.ok, run.divergence
    assert run.effects > 20
    assert not directories[0].exists()
