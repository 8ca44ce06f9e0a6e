"""Move replicas between log directories, while their broker is killed in the middle of the copying."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from actors.public import KafkaCluster
from messages.apis.alter_replica_log_dirs import AlterReplicaLogDirsRequest, ReplicaLogDir
from messages.cluster import TopicPartition
from messages.errors import NONE
from tests.public.contract import read, send
from tests.wire_client import WireClient

MOVES = 20
SETTINGS = {"replica.alter.log.dirs.io.max.bytes.per.second": 700_000}


def place_of(cluster: KafkaCluster, broker: int) -> tuple[Path, Path]:
    """Return the log directory of the replica, and the other one."""
    home, other = sorted(map(Path, cluster.log_dirs_of(broker)), key=lambda place: not (place / "t-0").is_dir())
    return home, other


def begin_to_move(cluster: KafkaCluster, broker: int, directory: Path) -> None:
    host, _, port = cluster.bootstrap_servers.split(",")[broker].rpartition(":")
    request = AlterReplicaLogDirsRequest(2, (ReplicaLogDir(str(directory), (TopicPartition("t", 0),)),))
    with WireClient(host, int(port)) as client:
        [begun] = client.call(request).partitions
    assert begun.error_code == NONE


@pytest.mark.soak
@pytest.mark.long
def test_no_record_is_lost_by_moves_with_kills(pytestconfig: pytest.Config) -> None:
    """The killed broker continues the move after its start, under load; all replicas have all records at the end."""
    chance, sent = random.Random(pytestconfig.getoption("soak_seed")), list[str]()
    with KafkaCluster(session_timeout=0.5, log_dirs=2, settings=SETTINGS) as cluster:
        cluster.create_topic("t", config={"segment.bytes": 1_500_000})

        def write(count: int) -> None:
            for _ in range(0, count, 50):
                values = [f"{len(sent) + number} {'x' * 5_000}" for number in range(min(count, 50))]
                send(cluster, "t", values, enable_idempotence=True)  # a request may meet the election of a leader
                sent.extend(values)

        write(500)
        interrupted = 0
        for _ in range(MOVES):
            broker = chance.randrange(3)
            _, other = place_of(cluster, broker)
            begin_to_move(cluster, broker, other)
            write(3)
            cluster.kill(broker)
            interrupted += bool(list(other.glob("t-0.*-future")))
            write(3)
            cluster.start_broker(broker)
            cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3, 60)
            cluster.wait_for(lambda other=other: (other / "t-0").is_dir(), 60)
        assert interrupted > MOVES // 2
        assert read(cluster, "t", len(sent)) == sent
        logs = set()
        for broker in range(3):
            home, other = place_of(cluster, broker)
            assert not list(other.glob("t-0.*-future"))
            logs.add(b"".join(file.read_bytes() for file in sorted((home / "t-0").glob("*.log"))))
        assert len(logs) == 1
