"""Summarise the logs that Apache's brokers write with the log4j.properties that Kafka ships."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from kazoo.exceptions import NoNodeError
from pyspark.sql import SparkSession

from spark.session import open_session
from spark.summary import summarise_logs
from tests.cluster.processes import ApacheBroker, free_ports, run_ours
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient
from zk_bridge.embedded import EmbeddedZooKeeper

APPENDERS = {"S": "server.log", "C": "controller.log", "X": "state-change.log"}
SECTIONS = "elections episodes unavailable leadership leader_elections deletions failures".split()
LEVELS = ("INFO", "TRACE")
"""Levels of the state change log. Kafka ships INFO since 2.5."""


def _shipped(folder: Path, node: int) -> str:
    """Return Kafka's log4j.properties for these files. The files of each level are in their own folder."""
    text = ""
    for level in LEVELS:
        for name, file in APPENDERS.items():
            path = folder / level / f"broker-{node}" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            text += (
                f"log4j.appender.{name}{level}=org.apache.log4j.FileAppender\n"
                f"log4j.appender.{name}{level}.File={path}\n"
                f"log4j.appender.{name}{level}.layout=org.apache.log4j.PatternLayout\n"
                f"log4j.appender.{name}{level}.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
            )
        text += f"log4j.appender.X{level}.Threshold={level}\n"

    def to(appender: str) -> str:
        return ", ".join(f"{appender}{level}" for level in LEVELS)

    text += f"log4j.rootLogger=INFO, {to('S')}\n"
    for name, appender in (("kafka.controller", "C"), ("state.change.logger", "X")):
        text += f"log4j.logger.{name}=TRACE, {to(appender)}\nlog4j.additivity.{name}=false\n"
    return text


@attrs.frozen
class Life:
    """The logs of three brokers, and ZooKeeper's state before and after broker 1 is killed."""

    logs: Path
    before: dict[int, int]
    """The leader of each partition of t before the kill."""
    after: dict[tuple[str, int], dict[str, Any]]
    """The state of each partition after the kill."""
    controller: int
    epoch: int


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory, apache_jars: Path) -> Life:
    """Run three brokers, delete a topic, kill broker 1, and wait until its partitions have new leaders or none."""
    place = tmp_path_factory.mktemp("logs")
    brokers: dict[int, ApacheBroker] = {}
    with (
        EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper,
        PatientZooKeeperClient.opened(zookeeper.connect_string) as zk,
    ):
        connect = zookeeper.connect_string
        try:
            for node, port in enumerate(free_ports(3)):
                folder = place / f"broker-{node}"
                folder.mkdir()
                logging = _shipped(place / "logs", node)
                brokers[node] = ApacheBroker(apache_jars, folder, node, port, connect, logging=logging)
                until(lambda node=node: zk.exists(f"/brokers/ids/{node}"), what=f"broker {node}", timeout=90)
            for topic, assignment in (("t", [[1, 2], [2, 1], [2, 0], [0, 1]]), ("one", [[1]]), ("gone", [[0, 2]])):
                zk.create_topic(topic, dict(enumerate(assignment)))
                until(lambda topic=topic: zk.states(topic), what=topic, timeout=60, ignore=(NoNodeError,))
            delete = ("topics", "--zookeeper", connect, "--delete", "--topic", "gone")
            until(lambda: run_ours(*delete).returncode == 0, what="the brokers know gone", timeout=60)
            until(lambda: not zk.exists("/brokers/topics/gone"), what="gone is deleted", timeout=60)
            before = zk.leaders("t")
            brokers[1].kill()
            until(lambda: zk.leaders("t")[0] == 2 and zk.leaders("one")[0] == -1, what="led", timeout=60)
            after = {(topic, n): state for topic in ("t", "one") for n, state in zk.states(topic).items()}
            controller, epoch = zk.controller, int(zk.get("/controller_epoch")[0])
        finally:
            for broker in brokers.values():
                broker.kill()
    return Life(place / "logs", before, after, controller, epoch)


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    opened = open_session()
    yield opened
    opened.stop()


@pytest.mark.parametrize("level", ["INFO", "TRACE"])
@pytest.mark.soak
@pytest.mark.long
def test_a_killed_broker_and_what_followed_are_in_the_logs(life: Life, session: SparkSession, level: str) -> None:
    summary = summarise_logs(life.logs / level, session, only=SECTIONS)
    assert [(row.node, row.epoch) for row in summary["elections"]] == [(life.controller, life.epoch)]
    assert {row.node for row in summary["runs"]} == {0, 1, 2}
    [gone] = summary["episodes"]
    assert (gone.broker, gone.seen_by, gone.after) == (1, life.controller, "BrokerChange")
    assert gone.partitions == list(life.before.values()).count(1) + 1 == 2 and gone.still_leaderless == 1
    assert [(row.topic, row.still_leaderless) for row in summary["unavailable"]] == [("one", True), ("t", False)]
    last = {(row.topic, row.partition): row for row in summary["leadership"]}
    for partition, reported in life.after.items():
        row = last[partition]
        assert (row.leader, row.controller_epoch) == (reported["leader"], life.epoch)
        assert row.leader_epoch == reported["leader_epoch"] or row.before is None, "who still leads has no new line"
    assert [(row.clean, row.unclean) for row in summary["leader_elections"]] == [(1, 0)]
    assert [row.topic for row in summary["deletions"]] == ["gone"]
    assert all(row.seconds > 0 for row in summary["deletions"])
    assert any("one-0" in row.error for row in summary["failures"]), "that no leader could be elected is an error"
