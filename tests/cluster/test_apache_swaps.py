"""After a kill during a swap of segments, Apache's broker and ours complete the same swaps (broker.md 5.6.4)."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.cluster.processes import ApacheBroker, free_ports
from tests.storage.test_leftovers import STATES, left, served
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper


def test_both_leave_the_same_segments_byte_for_byte(
    tmp_path: Path, apache_jars: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Each broker opens a directory with one log in each interrupted state."""
    ours, theirs = tmp_path / "ours", tmp_path / "apache" / "data"
    for number, state in enumerate(STATES):
        folder = left(tmp_path / state.__name__, state)
        for directory in (ours, theirs):
            shutil.copytree(folder, directory / f"t-{number}")
        served(ours / f"t-{number}", clean=False)
    (port,) = free_ports(1)
    broker = ApacheBroker(
        apache_jars,
        tmp_path / "apache",
        0,
        port,
        zookeeper.connect_string,
        log__retention__ms=-1,
        log__cleaner__enable="false",
    )
    try:
        until(lambda: "started (kafka.server.KafkaServer)" in broker.output, what="Apache's broker started", timeout=90)
    finally:
        broker.kill()
    for number, state in enumerate(STATES):
        found = [
            {path.name: path.read_bytes() for path in (directory / f"t-{number}").glob("*.log*")}
            for directory in (ours, theirs)
        ]
        assert found[0] == found[1], state.__name__
