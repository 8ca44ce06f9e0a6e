"""Kafka Connect, MirrorMaker 2 and Kafka Streams 3.9 on three nodes, with kills, while their topics are cleaned.

`FileStreamSource` writes the lines of a file exactly once to a topic, and `WordCount.java` counts their words.
MirrorMaker copies the topic, and `FileStreamSink` writes the copy to another file. A killed program continues from its
compacted topics, which are cleaned all the time: a record that is missing there, or is there again, makes a result
wrong.
"""

from __future__ import annotations

import faulthandler
import itertools
import json
import random
import signal
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from messages.wire.batch_records import records
from messages.wire.record_batch import whole_batches
from tests.cluster.apache_java import apache_java
from tests.cluster.exactly_once import COUNTS, LINES, PARTITIONS, SETTINGS, WordCounter, committed, restart
from tests.cluster.nodes import NODES, Nodes
from tests.cluster.processes import ON_THE_CONSOLE, Running, free_ports, properties
from tests.waiting import until

KILLS = 6
A_ROUND = 200
"""Lines that are written before each kill."""
MIRRORED = f"a.{LINES}"
CLEANING = {
    "default__replication__factor": 3,
    "log__roll__ms": 2000,
    "log__cleaner__backoff__ms": 500,
    "log__cleaner__min__cleanable__ratio": 0.01,
}
"""Settings by which segments become old, and are cleaned, within seconds."""
WORKER: dict[str, object] = {
    "config__storage__replication__factor": -1,
    "status__storage__replication__factor": -1,
    "offset__storage__replication__factor": -1,
    "offset__storage__partitions": 3,
    "status__storage__partitions": 2,
    "offset__flush__interval__ms": 1000,
    "scheduled__rebalance__max__delay__ms": 1000,
    "plugin__discovery": "service_load",
    "key__converter": "org.apache.kafka.connect.storage.StringConverter",
    "value__converter": "org.apache.kafka.connect.storage.StringConverter",
}
INTERNAL = {
    "connect-configs",
    "connect-offsets",
    "connect-status",
    "mm2-configs.a.internal",
    "mm2-offsets.a.internal",
    "mm2-status.a.internal",
    "mm2-offset-syncs.b.internal",
    "a.checkpoints.internal",
    "word-count-count-changelog",
    "__consumer_offsets",
    "__transaction_state",
}
"""Compacted topics of which each program needs some."""


class Program(Running):
    """A program of the jars in its own JVM; its argument is a properties file with the settings."""

    def __init__(self, jars: Path, place: Path, main: str, settings: dict[str, object]) -> None:
        file = properties(place / f"{main}.properties", **settings)
        log4j = place / "log4j.properties"
        log4j.write_text(ON_THE_CONSOLE.replace("INFO", "WARN"))
        java = [*apache_java(jars, "256m"), f"-Dlog4j.configuration=file:{log4j}"]
        super().__init__([*java, f"org.apache.kafka.connect.{main}", str(file)], place / f"{main}.txt")


class Programs:
    """The three programs of a cluster, by name; `start` also starts a killed one again."""

    def __init__(self, cluster: Nodes, jars: Path) -> None:
        self.cluster = cluster
        self.jars = jars
        self.place = cluster.place / "programs"
        self.source, self.sink = self.place / "source.txt", self.place / "sink.txt"
        [self.port] = free_ports(1)
        self.running: dict[str, Running] = {}
        for name in ("connect", "mirror", "streams"):
            self.start(name)

    def start(self, name: str) -> None:
        """Start a program."""
        bootstrap = self.cluster.bootstrap
        if name == "streams":
            self.running[name] = WordCounter(self.jars, self.jars, self.place, bootstrap, name)
        elif name == "connect":
            settings: dict[str, object] = {
                **WORKER,
                "bootstrap__servers": bootstrap,
                "group__id": "connect",
                "listeners": f"http://127.0.0.1:{self.port}",
                **{f"{kind}__storage__topic": f"connect-{kind}s" for kind in ("config", "offset")},
                "status__storage__topic": "connect-status",
                "exactly__once__source__support": "enabled",
            }
            self.running[name] = Program(self.jars, self.place, "cli.ConnectDistributed", settings)
        else:
            settings = {
                **{key: value for key, value in WORKER.items() if "converter" not in key},
                "clusters": "a,b",
                "a__bootstrap__servers": bootstrap,
                "b__bootstrap__servers": bootstrap,
                "a->b__enabled": "true",
                # both names are of one cluster: a heartbeat would be copied again and again
                **{f"{pair}__emit__heartbeats__enabled": "false" for pair in ("a->b", "b->a")},
                "a__consumer__isolation__level": "read_committed",
                "topics": LINES,
                "groups": "word-count",
                "replication__factor": 3,
                "offset__lag__max": 10,
                "sync__topic__acls__enabled": "false",
                "emit__checkpoints__interval__seconds": 2,
                "refresh__topics__interval__seconds": 5,
            }
            self.running[name] = Program(self.jars, self.place, "mirror.MirrorMaker", settings)

    def configure(self, number: int) -> None:
        """Write the configs of both connectors, which differ by `number`, as soon as the worker takes them."""
        common = {"tasks.max": 1, "errors.log.enable": str(number % 2 == 0).lower()}
        source = {"connector.class": "FileStreamSource", "topic": LINES, "file": str(self.source)}
        sink = {"connector.class": "FileStreamSink", "topics": MIRRORED, "file": str(self.sink)}
        for name, config in ("source", source), ("sink", sink):
            request = urllib.request.Request(
                f"http://127.0.0.1:{self.port}/connectors/{name}/config",
                json.dumps({**config, **common}).encode(),
                {"Content-Type": "application/json"},
                method="PUT",
            )
            until(
                lambda request=request: urllib.request.urlopen(request, timeout=30).status < 300,  # type: ignore[misc]
                what=f"the worker has the config of {name}",
                timeout=120,
                ignore=(OSError,),
            )

    def read_sink(self) -> set[str]:
        """Return the lines in the sink's file. Assert that no program has ended but by a kill."""
        for name, each in self.running.items():
            code = each.process.poll()
            assert code in (None, -signal.SIGKILL), f"{name} has ended with {code}: {each.output[-3000:]}"
        return set(self.sink.read_text().splitlines()) if self.sink.exists() else set()


def committed_values(cluster: Nodes, topic: str) -> list[list[str]]:
    """Return the values of all committed records of each partition."""
    return [[value.decode() for _, value in part] for part in committed(cluster, topic).values()]


def check_cleaned_logs(data: Path) -> set[str]:
    """Assert that no key is twice in the cleaned part of a log. Return the names of the topics with such a part."""
    topics = set()
    for line in (data / "cleaner-offset-checkpoint").read_text().splitlines()[2:]:
        topic, partition, end = line.split(" ")
        keys = Counter[bytes | None]()
        for file in sorted((data / f"{topic}-{partition}").glob("*.log")):
            content = file.read_bytes()
            for position, header in whole_batches(content):
                if not header.is_control:
                    keys.update(each.key for each in records(content[position:], header) if each.offset < int(end))
        assert set(keys.values()) <= {1}, f"{topic}-{partition} of {data} below offset {end}: {keys.most_common(3)}"
        if int(end):
            topics.add(topic)
    return topics


@pytest.mark.soak
@pytest.mark.long
def test_connect_mirror_maker_and_streams_continue_from_cleaned_topics(
    tmp_path: Path, connect_jars: Path, pytestconfig: pytest.Config
) -> None:
    faulthandler.cancel_dump_traceback_later()
    chance = random.Random(pytestconfig.getoption("soak_seed"))
    written: list[str] = []
    with Nodes.running(tmp_path, **SETTINGS, **CLEANING) as cluster:
        for topic in (LINES, COUNTS):
            cluster.create(topic, PARTITIONS)
        programs = Programs(cluster, connect_jars)
        names = itertools.cycle(list(programs.running))
        for number in range(KILLS + 1):
            new = [f"n{len(written) + each} w{chance.randrange(20)} w{chance.randrange(20)}" for each in range(A_ROUND)]
            written += new
            with programs.source.open("a") as file:
                file.writelines(f"{line}\n" for line in new)
            programs.configure(number)
            goal = len(written) - (A_ROUND // 2 if number < KILLS else 0)
            until(programs.read_sink, lambda seen, goal=goal: len(seen) >= goal, f"{goal} lines", 300)  # type: ignore[misc]
            if number < KILLS:
                name = next(names)
                programs.running[name].kill()
                restart(cluster, number % 3)
                programs.start(name)
        expected = Counter(word for line in written for word in line.split())
        counts = until(
            lambda: Counter(counted for part in committed_values(cluster, COUNTS) for counted in part),
            lambda found: found.total() >= expected.total(),
            f"{expected.total()} counts",
            300,
        )
        lines, mirrored = committed_values(cluster, LINES), committed_values(cluster, MIRRORED)
        for each in programs.running.values():
            each.kill()
        for node in NODES:
            assert cluster.nodes[node].stop() == 0
        cleaned = [check_cleaned_logs(cluster.place / f"{node}" / "data") for node in NODES]
    assert sorted(itertools.chain(*lines)) == sorted(written), "each line is there once"
    assert [list(dict.fromkeys(part)) for part in mirrored] == lines, "the copy has each line, in the same order"
    assert programs.read_sink() == set(written)
    assert counts == Counter(str(n) for times in expected.values() for n in range(1, times + 1))
    assert not INTERNAL - set.union(*cleaned)
