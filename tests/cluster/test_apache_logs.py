"""The questions asked of the logs that Apache's own brokers write, as Kafka ships their log4j.properties."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark.session import open_session
from spark.summary import summarise_logs
from tests.cluster.processes import ApacheBroker, free_ports, run_ours
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

APPENDERS = {"S": "server.log", "C": "controller.log", "X": "state-change.log"}


def _shipped(folder: Path, states: str) -> str:
    """Kafka's log4j.properties as far as these files go; `states` is the level of state changes: INFO since 2.5."""
    folder.mkdir(parents=True)
    text = "log4j.rootLogger=INFO, S\n"
    for name, file in APPENDERS.items():
        text += (
            f"log4j.appender.{name}=org.apache.log4j.FileAppender\n"
            f"log4j.appender.{name}.File={folder / file}\n"
            f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout\n"
            f"log4j.appender.{name}.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        )
    for name, level, appender in (("kafka.controller", "TRACE", "C"), ("state.change.logger", states, "X")):
        text += f"log4j.logger.{name}={level}, {appender}\nlog4j.additivity.{name}=false\n"
    return text


@pytest.mark.parametrize("states", ["INFO", "TRACE"])
def test_a_killed_broker_and_what_followed_are_in_the_logs(
    tmp_path: Path, apache_jars: Path, zookeeper: EmbeddedZooKeeper, states: str
) -> None:
    connect = zookeeper.connect_string
    zk = PatientZooKeeperClient(connect)
    zk.start()
    brokers: dict[int, ApacheBroker] = {}

    def state(topic: str, partition: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(zk.get(f"/brokers/topics/{topic}/partitions/{partition}/state")[0])
        return found

    try:
        for node, port in enumerate(free_ports(3)):
            place = tmp_path / "cluster" / f"broker-{node}"
            logging = _shipped(place / "logs", states)
            brokers[node] = ApacheBroker(apache_jars, place, node, port, connect, logging=logging)
            until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"broker {node}", timeout=90)
        for topic, assignment in (("t", "1:2,2:1,2:0,0:1"), ("one", "1"), ("gone", "0:2")):
            options = ("--create", "--topic", topic, "--replica-assignment", assignment)
            assert run_ours("topics", "--zookeeper", connect, *options).returncode == 0
            last = f"/brokers/topics/{topic}/partitions/{assignment.count(',')}/state"
            until(lambda last=last: zk.exists(last), what=last, timeout=60)
        assert run_ours("topics", "--zookeeper", connect, "--delete", "--topic", "gone").returncode == 0
        until(lambda: not zk.exists("/brokers/topics/gone"), what="gone is deleted", timeout=60)
        before = {n: state("t", n)["leader"] for n in range(4)}
        brokers[1].kill()
        until(lambda: (state("t", 0)["leader"], state("one", 0)["leader"]), lambda who: who == (2, -1), "led", 60)
        after = {("t", n): state("t", n) for n in range(4)} | {("one", 0): state("one", 0)}
        controller = json.loads(zk.get("/controller")[0])["brokerid"]
        epoch = int(zk.get("/controller_epoch")[0])
    finally:
        for broker in brokers.values():
            broker.kill()
        zk.stop()
        zk.close()

    session = open_session()
    try:
        summary = summarise_logs(tmp_path / "cluster", session)
    finally:
        session.stop()
    assert [(row.node, row.epoch) for row in summary["elections"]] == [(controller, epoch)]
    assert {row.node for row in summary["runs"]} == {0, 1, 2}
    [gone] = summary["episodes"]
    assert (gone.broker, gone.seen_by, gone.after) == (1, controller, "BrokerChange")
    assert gone.partitions == list(before.values()).count(1) + 1 == 2 and gone.still_leaderless == 1
    assert [(row.topic, row.still_leaderless) for row in summary["unavailable"]] == [("one", True), ("t", False)]
    last = {(row.topic, row.partition): row for row in summary["leadership"]}
    for partition, reported in after.items():
        row = last[partition]
        assert (row.leader, row.controller_epoch) == (reported["leader"], epoch)
        assert row.leader_epoch == reported["leader_epoch"] or row.before is None, "who still leads has no new line"
    assert [(row.clean, row.unclean) for row in summary["leader_elections"]] == [(1, 0)]
    assert [row.topic for row in summary["deletions"]] == ["gone"]
    assert all(row.seconds > 0 for row in summary["deletions"])
    assert any("one-0" in row.error for row in summary["failures"]), "that no leader could be elected is an error"
