"""Summaries of scripted faults in the deterministic simulation: their figures match the faults."""

from __future__ import annotations

from pathlib import Path

from actors.public.simulated import SimulatedCluster
from actors.storage.log_directories import FAILING
from messages.apis.elect_leaders import ElectLeadersRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.facts.declarations import StateWrite, TracePosition
from messages.facts.trace_facts import TraceFacts, gather
from messages.trace.files.runs import find_runs
from messages.wire.record_batch import read_records
from spark.incidents import find_incidents, headline
from spark.questions import failovers
from spark.results import Summary
from tests.cli.test_why_situations import cluster, create, delete, others, start_second_process
from tests.facts.summaries import summary_of
from tests.storage.batches import batch


def summary(folder: Path) -> Summary:
    return summary_of(gather(find_runs(folder).runs))


def elections(found: Summary) -> dict[str, tuple[int, int]]:
    """Return the numbers of clean and unclean elections by event."""
    return {row.event: (row.clean, row.unclean) for row in found["leader_elections"]}


def elect_preferred(running: SimulatedCluster) -> None:
    assert running.controller_id is not None
    running.ask(running.controller_id, ElectLeadersRequest(1, None, 30_000))


def produce(running: SimulatedCluster, leader: int) -> None:
    part = ProducePartition(TopicPartition("t", 0), read_records(batch(b"x")))
    running.ask(leader, ProduceRequest(8, None, 1, 5000, (part,)))


def fail_over(running: SimulatedCluster, leader: int, heir: int) -> None:
    """Kill a leader, wait until its follower leads, restart the broker, and wait until it is in the ISR."""
    running.kill(leader)
    running.wait_for(lambda: running.leader_of("t") == heir)
    running.start_broker(leader)
    running.wait_for(lambda: leader in running.isr_of("t"))


def test_clean_elections_after_isrs_that_leaders_changed(tmp_path: Path) -> None:
    """After kills, restarts and preferred elections, each new leader was in the ISR. Only leaders expanded the ISR."""
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        for _ in range(2):
            fail_over(running, leader, follower)
            elect_preferred(running)
            running.wait_for(lambda: running.leader_of("t") == leader)
            running.run(1.0)
    found = summary(tmp_path)
    assert elections(found) == {"BrokerChange": (2, 0), "ElectLeadersRequest": (2, 0)}
    (isr,) = found["isr_churn"]
    assert (isr.shrunk, isr.shrunk_by_controller, isr.grown) == (2, 2, 2)
    out = [(row.broker, row.by, row.partitions, row.examples) for row in found["out_of_isr"]]
    assert out == [(leader, "controller", 1, "t-0")] * 2 and all(row.back_at for row in found["out_of_isr"])
    incidents = find_incidents(found)
    assert [each.what for each in incidents.incidents] == [f"Broker {leader} was killed"] * 2
    assert all(each.until for each in incidents.incidents) and incidents.status.text.startswith(
        "Over: every partition has"
    )


def test_an_unclean_election_is_unclean(tmp_path: Path) -> None:
    with SimulatedCluster(
        3, seed=1, directory=tmp_path, settings={"unclean.leader.election.enable": "true"}
    ) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(follower)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        running.run(1.0)
        running.kill(leader)
        running.run(10.0)
        running.start_broker(follower)
        running.wait_for(lambda: running.leader_of("t") == follower)
        running.run(1.0)
    assert elections(summary(tmp_path)) == {"BrokerChange": (0, 1)}


def test_a_process_refused_for_its_broker_id_is_not_the_broker_s_death(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        start_second_process(running, leader)
        running.run(260.0)
        create(running, "u", leader)  # a record in the trace shows that broker `leader` still runs
        running.kill(leader)
        running.wait_for(lambda: running.leader_of("t") == follower)
        running.run(1.0)
    found = summary(tmp_path)
    (gone,) = found["episodes"]
    assert (gone.broker, gone.ending) == (leader, "killed")
    assert 5.9 < gone.seen_s < 8.0
    assert {row.topic: 5.9 < row.seconds < 8.0 for row in found["unavailable"] if not row.still_leaderless} == {
        "t": True
    }
    (sentence,) = (each for each in headline(found) if each.startswith(f"Broker {leader} was killed"))
    assert "2 partitions lost their leader: t-0, u-0." in sentence and f"Broker {leader} is not back" in sentence
    assert headline(found)[-1].startswith("Not over: 1 partition has no leader, broker ")


def test_a_process_started_within_the_session_of_the_one_before(tmp_path: Path) -> None:
    """The new process is refused until the old session expires, and then registers.

    Only the first process was killed.
    """
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running._cluster.kill(leader)
        running.run(1.0)
        running._cluster.start(leader)
        running.wait_for(lambda: leader in running.isr_of("t") and running.leader_of("t") == follower)
        running.run(1.0)
    found = summary(tmp_path)
    (gone,) = found["episodes"]
    assert (gone.broker, gone.ending) == (leader, "killed")
    assert 5.9 < gone.seen_s < 7.0
    (outage,) = found["unavailable"]
    assert 5.9 < outage.seconds < 7.0, "it begins at the end of the first process"


def test_a_lost_session_is_not_the_end_of_its_process(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.expire_session(leader)
        running.wait_for(lambda: leader in running.isr_of("t") and running.leader_of("t") == follower)
        running.run(1.0)
    found = summary(tmp_path)
    (gone,) = found["episodes"]
    assert (gone.broker, gone.ending, gone.seen_s) == (leader, None, 0.0)
    (incident,) = find_incidents(found).incidents
    assert incident.what == f"Broker {leader} lost its ZooKeeper session"


def test_a_deleted_partition_does_not_stay_without_a_leader(tmp_path: Path) -> None:
    """Its leader is killed, and the topic is deleted and created again. In the end no partition is without a leader."""
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader)
        running.kill(leader)
        running.wait_for(lambda: running.leader_of("t") is None)
        running.run(5.0)
        delete(running, "t")
        running.run(5.0)
        running.start_broker(leader)
        running.wait_for(lambda: not running._cluster.exists("/brokers/topics/t"))
        create(running, "t", follower)
    found = summary(tmp_path)
    (gone,) = found["episodes"]
    assert (gone.partitions, gone.still_leaderless, gone.led_again_s) == (1, 0, None)
    assert 10.0 < gone.partition_seconds < 14.0
    assert elections(found) == {}, "the first leader of a topic made anew is not elected"
    assert not len(found["out_of_isr"]) and find_incidents(found).status.level == "ok"


def test_a_partition_that_loses_its_leader_while_no_broker_fails(tmp_path: Path) -> None:
    """The log directory of the partition's only replica fails."""
    with cluster(tmp_path) as running:
        leader, _ = others(running)
        create(running, "t", leader)
        disks = running._cluster.machines[leader].disks
        (held,) = (disks.names[disk] for disk in range(2) if "t-0" in disks.logs_on(disk))
        disks.faults[held] = FAILING
        produce(running, leader)
        running.wait_for(lambda: running.leader_of("t") is None)
        running.run(5.0)
    found = summary(tmp_path)
    (row,) = found["leaderless"]
    assert (row.broker, row.over_at, row.partitions, row.examples) == (None, None, 1, "t-0")
    assert [(row.still_leaderless, row.since_at) for row in found["unavailable"]] == [(True, row.lost_at)]
    incidents = find_incidents(found)
    assert [each.what for each in incidents.incidents] == ["1 partition had no leader, though no broker failed"]
    assert incidents.status == ("bad", "Not over: 1 partition has no leader.")


def test_a_running_follower_that_leaves_the_isr(tmp_path: Path) -> None:
    """The follower cannot reach its leader."""
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.partition_network(leader, follower)
        produce(running, leader)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        running.run(15.0)  # leaders propagate ISR changes after five seconds
        running.heal_network()
        running.wait_for(lambda: follower in running.isr_of("t"))
        running.run(15.0)
    incidents = find_incidents(summary(tmp_path))
    assert [each.what for each in incidents.incidents] == [
        f"Broker {follower} left the ISR of 1 partition while it was running"
    ]
    assert incidents.incidents[0].until is not None and incidents.status.level == "ok"


def test_a_run_without_a_fault_has_no_incident(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        create(running, "t", *others(running))
    found = summary(tmp_path)
    assert headline(found)[-1] == "No broker failed or stopped, and all partitions kept a leader."
    assert not find_incidents(found).incidents
    assert not len(found["isr_churn"]) and not len(found["leader_elections"])
    assert not len(found["episodes"])


def test_topics_of_users_come_before_internal_topics() -> None:
    def state(topic: str, number: int, leader: int, at: int) -> StateWrite:
        place = TracePosition(float(at), 0, "r", at)
        return StateWrite(place, TopicPartition(topic, number), leader, at, (0,), "controller 0", float(at), None, at)

    ends = {"__x": 9, "t": 2, "u": 3}
    facts = TraceFacts(
        state(topic, number, leader, at)
        for topic, over in ends.items()
        for number in range(2)
        for leader, at in ((0, 0), (-1, 1), (0, over))
    )
    found = summary_of(facts)
    assert [row.topic for row in found["unavailable"]] == ["u", "u", "t", "t", "__x", "__x"]
    assert failovers.examples(facts.states) == "t-0, t-1, u-0, u-1, __x-0"
