"""The picture of a cluster is what ZooKeeper says at the end of a run, whether folded whole or while it is recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.page.picture import BAD, Picture, timeline
from actors.public.simulated import SimulatedCluster
from actors.trace.following import FactFollower
from messages.facts.trace_facts import gather
from messages.trace.files.runs import find_runs

Rows = dict[tuple[str, int], tuple[object, ...]]


def rows_of(picture: dict[str, Any]) -> Rows:
    """Return leader, ISR, replicas and minimum by partition."""
    found: Rows = {}
    for topic in picture["topics"]:
        minimums = topic["minimums"]
        for row, leader in enumerate(topic["leaders"]):
            number = row if topic["numbers"] is None else topic["numbers"][row]
            isr, replicas = (picture["lists"][topic[name][row]] for name in ("isrs", "replicas"))
            minimum = minimums if isinstance(minimums, int) else minimums[row]
            found[topic["name"], number] = leader, isr, replicas, minimum
    return found


class Mirror:
    """A page: it has loaded the picture once, and then takes the changes."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self.load()

    def load(self) -> None:
        self.whole = self._picture.whole()
        self.rows = rows_of(self.whole)
        self.feed = {line["n"]: line for line in self.whole["feed"]}

    def take(self) -> None:
        changes = self._picture.changes()
        if changes is None:
            self.load()
            return
        self.rows |= {(topic, number): tuple(row) for topic, number, *row in changes.pop("rows", ())}
        self.feed |= {line["n"]: line for line in changes.pop("feed", ())}
        self.whole |= changes


def test_the_picture_is_the_state_in_zookeeper(tmp_path: Path) -> None:
    growing, follower = Picture(), FactFollower(tmp_path)
    mirror = Mirror(growing)

    def follow() -> None:
        for fact in follower.poll():
            growing.apply(fact)
        mirror.take()

    settings = {"replica.lag.time.max.ms": 2000, "min.insync.replicas": 2}
    with SimulatedCluster(settings=settings, seed=7, directory=tmp_path) as cluster:
        for topic, partitions in (("orders", 3), ("gone", 2)):
            cluster.create_topic(topic, partitions=partitions)
        dead = cluster.leader_of("orders")
        assert dead is not None
        follow()
        cluster.kill(dead)
        cluster.wait_for(lambda: cluster.leader_of("orders") not in (None, dead))
        cluster.run(2.0)
        follow()
        broker = next(each for each in mirror.whole["brokers"] if each["id"] == dead)
        assert (broker["process"], broker["live"]) == ("killed", False)
        assert any(line["level"] == BAD and "killed" in line["text"] for line in mirror.feed.values())
        cluster.start_broker(dead)
        cluster.expire_session(next(id for id in cluster.live_brokers if id != dead))
        cluster.wait_for(lambda: all(len(cluster.isr_of("orders", number)) == 3 for number in range(3)))
        cluster.run(8.0)  # metadata caches get a changed ISR some seconds later
        expected = {
            (topic, number): (cluster.leader_of(topic, number), set(cluster.isr_of(topic, number)))
            for topic, partitions in (("orders", 3), ("gone", 2))
            for number in range(partitions)
        }
        controller = cluster.controller_id
        alive = {*cluster.live_brokers}
    follow()
    alone = Picture()
    (folder,) = {run.folder for run in find_runs(tmp_path).runs if run.header.node == next(iter(alive - {controller}))}
    for fact in FactFollower(folder, metadata=True).poll():
        alone.apply(fact)
    assert alone.whole()["cluster"]["controller"] == controller
    whole = Picture()
    for fact in timeline(gather(find_runs(tmp_path).runs).all()):
        whole.apply(fact)
    for rows in (mirror.rows, rows_of(whole.whole()), rows_of(alone.whole())):
        assert {each: (leader, {*isr}) for each, (leader, isr, *_) in rows.items()} == expected
        assert {minimum for *_, minimum in rows.values()} <= {1, 2}
    assert mirror.rows == rows_of(growing.whole())
    assert [*mirror.feed] == [line["n"] for line in growing.whole()["feed"]]
    for section in ("brokers", "groups", "transactions", "refused"):
        assert mirror.whole[section] == growing.whole()[section]
    for each in (whole, alone):
        assert {broker["id"] for broker in each.whole()["brokers"] if broker["live"]} == alive
    assert {minimum for *_, minimum in mirror.rows.values()} == {2}
    assert any(f"broker {controller} became controller" in line["text"] for line in whole.whole()["feed"])
