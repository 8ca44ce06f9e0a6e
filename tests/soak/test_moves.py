"""Move replicas between log directories, while their broker is killed in the middle of the copying."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from actors.public import ClusterError, KafkaCluster
from tests.public.contract import read

MOVES = 20
SETTINGS = {"replica.alter.log.dirs.io.max.bytes.per.second": 200_000}


def place_of(cluster: KafkaCluster, broker: int) -> tuple[Path, Path]:
    """Return the log directory of the replica, and the other one."""
    home, other = sorted(map(Path, cluster.log_dirs_of(broker)), key=lambda place: not (place / "t-0").is_dir())
    return home, other


def move(cluster: KafkaCluster, directory: Path) -> None:
    try:
        cluster.move_replica("t", 0, directory)
    except ClusterError as error:
        assert "not running" in str(error)


@pytest.mark.soak
@pytest.mark.long
def test_no_record_is_lost_by_moves_with_kills(pytestconfig: pytest.Config) -> None:
    """The killed broker continues the move after its start, under load; all replicas have all records at the end."""
    chance, sent = random.Random(pytestconfig.getoption("soak_seed")), []
    with KafkaCluster(session_timeout=0.5, log_dirs=2, settings=SETTINGS) as cluster:
        cluster.create_topic("t", config={"segment.bytes": 100_000})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0})

        def send(count: int) -> None:
            for _ in range(count):
                sent.append(f"{len(sent)} {'x' * 5_000}")
                producer.produce("t", sent[-1], partition=0)
            assert producer.flush(60) == 0

        send(100)
        for _ in range(MOVES):
            broker = chance.randrange(3)
            _, other = place_of(cluster, broker)
            mover = threading.Thread(target=move, args=(cluster, other))
            mover.start()
            cluster.wait_for(lambda other=other: list(other.glob("t-0*")), 30)
            send(3)
            cluster.kill(broker)
            mover.join()
            send(3)
            cluster.start_broker(broker)
            cluster.wait_for(lambda: len(cluster.isr_of("t")) == 3, 60)
            cluster.wait_for(lambda other=other: (other / "t-0").is_dir(), 60)
        assert read(cluster, "t", len(sent)) == sent
        logs = set()
        for broker in range(3):
            home, other = place_of(cluster, broker)
            assert not list(other.glob("t-0.*-future"))
            logs.add(b"".join(file.read_bytes() for file in sorted((home / "t-0").glob("*.log"))))
        assert len(logs) == 1
