"""Faults of a real ZooKeeper: a restart, and an invalid response."""

from __future__ import annotations

import sys
from pathlib import Path

from kazoo.exceptions import NoNodeError

from tests.cluster.processes import Running, free_ports, properties, run_ours, start_up
from tests.waiting import until
from tests.zk_bridge.proxy import Proxy
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper


def test_a_restart_of_zookeeper_loses_no_session_and_no_watch(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    connect, folder = zookeeper.connect_string, tmp_path / "cluster"
    options = ("--brokers", "2", "--port", "0", "--zookeeper", connect)
    up, _ = start_up(folder, tmp_path / "up.log", *options)
    try:
        with PatientZooKeeperClient.opened(connect) as zk:

            def epochs() -> tuple[int, int, bytes]:
                """Return the broker epochs, which are the czxids of the registrations, and the controller epoch."""
                first, second = (zk.exists(f"/brokers/ids/{id}").czxid for id in (0, 1))
                return first, second, zk.get("/controller_epoch")[0]

            def lead(topic: str, *replicas: int) -> dict[int, int]:
                zk.create_topic(topic, {0: replicas})
                return until(lambda: zk.leaders(topic), what=f"{topic} has a leader", ignore=(NoNodeError,))

            lead("before", 0, 1)
            before = epochs()
            zookeeper.stop()
            zookeeper.start()
            until(lambda: zk.connected, what="reconnected")
            assert lead("after", 1, 0) == {0: 1}
            assert epochs() == before
            zk.create("/admin/delete_topics/before")
            until(lambda: not zk.exists("/admin/delete_topics/before"), what="the deletion watch is armed")
            assert not zk.exists("/brokers/topics/before")
    finally:
        up.stop()
    replayed = run_ours("replay", str(folder))
    assert replayed.returncode == 0 and "2 runs" in replayed.stdout, replayed.stdout


UNGUARDED = """
import contextlib
from actors.cli import main
from zk_bridge import kazoo_client
kazoo_client._sense_expected = contextlib.nullcontext
main()
"""
"""A node without the guard for invalid responses, which then end kazoo's thread, as any unexpected error does."""


def test_a_node_ends_when_its_zookeeper_thread_fails(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> None:
    link = Proxy(zookeeper.port)
    [port] = free_ports(1)
    file = properties(
        tmp_path / "server.properties",
        broker__id=0,
        listeners=f"PLAINTEXT://127.0.0.1:{port}",
        log__dirs=tmp_path / "data",
        zookeeper__connect=link.hosts,
        zookeeper__session__timeout__ms=3000,
    )
    node = Running([sys.executable, "-c", UNGUARDED, "broker", str(file)], tmp_path / "out.log")
    try:
        until(lambda: "] started (" in node.output, what="the node serves", timeout=30)
        link.alter_next(lambda frame: bytes(4), lambda xid: True)  # a frame without content
        assert node.process.wait(10) == 1
        assert "the ZooKeeper client thread has ended: " in node.output.splitlines()[-1]
    finally:
        node.kill()
        link.close()
