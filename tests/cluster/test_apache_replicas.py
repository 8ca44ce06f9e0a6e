"""Partitions with one replica of ours and one of Apache's: each leads, follows, and is killed under load."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.cluster.java_tools import run_tool
from tests.cluster.load import Load, records
from tests.cluster.nodes import Nodes
from tests.cluster.processes import run_ours
from tests.waiting import until

pytestmark = pytest.mark.apache

OURS, APACHE = 0, 1


@pytest.fixture(scope="module", params=["ours", pytest.param("apache", marks=[pytest.mark.soak, pytest.mark.long])])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, apache_jars: Path, kcat: str
) -> Iterator[Nodes]:
    """Run one node of each kind. The parameter names the controller, which starts first."""
    order = (OURS, APACHE) if request.param == "ours" else (APACHE, OURS)
    place, quick = tmp_path_factory.mktemp("replicas"), {"replica__lag__time__max__ms": 3000}
    with Nodes.running(place, {APACHE: apache_jars}, order, **quick) as made:
        yield made


def test_a_diverged_replica_is_truncated_to_the_new_leaders_log(cluster: Nodes) -> None:
    """Records with acks=1 that no follower has are lost with their leader, whichever kind it is.

    A delayed fetch of the frozen follower is answered once, and the follower reads that response when it resumes. Only
    later records are lost.
    """
    cluster.create("d", 2)
    for partition, (leader, follower) in enumerate(((OURS, APACHE), (APACHE, OURS))):
        until(lambda p=partition: cluster.zk.leaders("d")[p], lambda seen, n=leader: seen == n, "leads", 60)
        load = Load(cluster.bootstrap, "d", partition=partition)
        load.until_acknowledged(20)
        load.settle()
        cluster.nodes[follower].send(signal.SIGSTOP)
        alone = Load(f"127.0.0.1:{cluster.ports[leader]}", "d", partition=partition, acks="1")
        alone.until_acknowledged(1)
        alone.until_acknowledged(len(alone.acknowledged) + 40)
        cluster.kill(leader)
        cluster.nodes[follower].send(signal.SIGCONT)
        until(lambda p=partition: cluster.zk.leaders("d")[p], lambda seen, n=follower: seen == n, "another leads", 60)
        after = Load(cluster.bootstrap, "d", partition=partition)
        after.until_acknowledged(20)
        cluster.start(leader)
        until(lambda: cluster.in_sync("d"), what="in sync again", timeout=60)
        after.settle()
        until(lambda p=partition: len(cluster.logs("d", p)), lambda kinds: kinds == 1, "the logs are equal")
        values = {value for number, _, value in records(cluster.bootstrap, "d") if number == partition}
        assert {*load.acknowledged, *after.acknowledged} <= values
        assert alone.acknowledged[-1] not in values


def test_an_unclean_election_loses_only_what_it_must(cluster: Nodes) -> None:
    """An unclean election loses only the records that the last leader alone has, whichever kind that leader is.

    If the topic does not allow unclean elections, it has no leader until the last leader returns, and loses nothing.
    """
    for leader, follower in ((OURS, APACHE), (APACHE, OURS)):
        topics = {f"lossy-{leader}": {"unclean__leader__election__enable": "true"}, f"safe-{leader}": {}}
        loads: dict[str, list[Load]] = {}
        for topic, config in topics.items():
            cluster.create(topic, {0: [leader, follower]}, **config)
            loads[topic] = [Load(cluster.bootstrap, topic)]
            loads[topic][0].until_acknowledged(20)
            loads[topic][0].settle()
        cluster.kill(follower)
        for topic in topics:
            until(lambda t=topic, n=leader: cluster.in_sync(t, {n}), what="one is alone", timeout=60)
            loads[topic].append(Load(f"127.0.0.1:{cluster.ports[leader]}", topic))
            loads[topic][1].until_acknowledged(40)
            loads[topic][1].settle()
        cluster.kill(leader)
        cluster.start(follower)
        lossy, safe = topics
        until(lambda t=lossy: cluster.zk.leaders(t), lambda seen, n=follower: seen == {0: n}, "an unclean leader", 60)
        until(lambda t=safe: cluster.zk.leaders(t), lambda seen: seen == {0: -1}, "no leader", 60)
        loads[lossy].append(Load(cluster.bootstrap, lossy))
        loads[lossy][2].until_acknowledged(10)
        loads[lossy][2].settle()
        cluster.start(leader)
        for topic in topics:
            until(lambda t=topic: cluster.in_sync(t), what="in sync again", timeout=60)
            until(lambda t=topic: len(cluster.logs(t, 0)), lambda kinds: kinds == 1, "the logs are equal")
        assert cluster.zk.leaders(safe) == {0: leader}
        kept = {topic: [value for _, _, value in records(cluster.bootstrap, topic)] for topic in topics}
        before, alone, after = (load.acknowledged for load in loads[lossy])
        assert sorted(kept[lossy]) == sorted(before + after)
        assert not {*alone} & {*kept[lossy]}
        assert sorted(kept[safe]) == sorted(value for load in loads[safe] for value in load.acknowledged)


def test_either_kind_follows_leads_dies_and_comes_back(cluster: Nodes) -> None:
    cluster.create("t", 2)
    until(lambda: cluster.zk.leaders("t"), lambda seen: seen == {0: OURS, 1: APACHE}, "each leads one")
    load = Load(cluster.bootstrap, "t")
    load.until_acknowledged(500)
    for victim, other in ((OURS, APACHE), (APACHE, OURS)):
        cluster.kill(victim)
        until(lambda other=other: set(cluster.zk.leaders("t").values()), lambda seen, o=other: seen == {o}, "led", 60)
        load.until_acknowledged(len(load.acknowledged) + 500)
        cluster.start(victim)
        until(lambda: cluster.in_sync("t"), what="in sync again", timeout=60)
        load.until_acknowledged(len(load.acknowledged) + 500)
        load.settle()
        for partition in (0, 1):
            until(lambda p=partition: len(cluster.logs("t", p)), lambda kinds: kinds == 1, "the logs are equal")
    rows = records(cluster.bootstrap, "t")
    values = [value for _, _, value in rows]
    assert set(load.acknowledged) <= set(values)
    assert len(values) == len(set(values)), "no record twice"
    for partition in (0, 1):
        offsets = [offset for number, offset, _ in rows if number == partition]
        assert offsets == list(range(len(offsets)))
    assert cluster.nodes[OURS].stop() == 0
    replayed = run_ours("replay", str(cluster.place))
    assert replayed.returncode == 0, replayed.stdout


@pytest.fixture(params=[pytest.param("clean", marks=[pytest.mark.soak, pytest.mark.long]), "killed"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_data_directory_goes_from_one_to_the_other_and_back(
    how: str, tmp_path: Path, apache_jars: Path, kcat: str
) -> None:
    """Broker 0 runs three times, as ours and as Apache's in turn, and keeps its records.

    After each kill, the log's tail is also torn and an index is deleted.
    """
    data = tmp_path / "0" / "data"
    expected: list[bytes] = []
    with Nodes.running(tmp_path, ids=(0,), log__segment__bytes=8000) as cluster:
        cluster.create("t", 1)
        for life, kind in enumerate((OURS, APACHE, OURS)):
            if life:
                cluster.apache = {0: apache_jars} if kind == APACHE else {}
                cluster.start(0)
            until(lambda: cluster.zk.leaders("t"), lambda seen: seen == {0: 0}, "led", 60)
            until(lambda: watermarks(cluster, "t"), lambda seen, n=len(expected): seen == (0, n), "its end", 60)
            assert [value for _, _, value in records(cluster.bootstrap, "t")] == expected
            load = Load(cluster.bootstrap, "t", name=f"life {life}")
            load.until_acknowledged(400)
            load.settle()
            expected = [value for _, _, value in records(cluster.bootstrap, "t")]
            assert len(expected) == len(set(expected)) and set(load.acknowledged) <= set(expected)
            if how == "clean":
                cluster.nodes[0].stop()
                assert (data / ".kafka_cleanshutdown").exists()
            else:
                cluster.kill(0)
                active = max((data / "t-0").glob("*.log"))
                with active.open("ab") as file:
                    file.write(b"\xff" * 100)
                active.with_suffix(".index").unlink(missing_ok=True)
        if how == "clean":
            kinds = (".log", ".index", ".timeindex")
            files = sorted(str(file) for file in (data / "t-0").iterdir() if file.suffix in kinds)
            said = run_tool(apache_jars, "kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files))
            assert said.returncode == 0, said.stderr
            assert "isvalid: false" not in said.stdout and "mismatch" not in said.stdout


def watermarks(cluster: Nodes, topic: str) -> tuple[int, int]:
    """Return (log start offset, high watermark) of partition 0 as a consumer receives them; (-1, -1) on an error."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "missing"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10) or (-1, -1)
    except KafkaException:
        return -1, -1
    finally:
        consumer.close()
