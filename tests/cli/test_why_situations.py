"""`kafka-actors why` about scripted faults in the deterministic simulation: its answers match the faults."""

from __future__ import annotations

import json
import re
from pathlib import Path

import attrs
from click.testing import CliRunner

from actors.cli import replay, why
from actors.explain.subjects import SUBJECTS
from actors.public.simulated import SimulatedCluster
from actors.simulation.disk import Disks
from actors.simulation.simulated_cluster import Machine, host_of
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.create_topics import CreatableAssignment, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.facts.trace_facts import TraceFacts, gather
from messages.store import CREATE, WriteOp
from messages.trace.files.runs import find_runs
from messages.zookeeper import RequestedReassignment
from tests.cli.test_why import without_numbers
from zk_bridge import paths
from zk_bridge.reassignments import encode_reassignments

NAMES = {"partition": ("t-0", "u-0", "pair-0", "unclean-0", "moved-0"), "topic": ("t", "moved"), "broker": "012"}


def cluster(folder: Path, brokers: int = 3) -> SimulatedCluster:
    return SimulatedCluster(brokers, seed=1, directory=folder)


def others(running: SimulatedCluster) -> list[int]:
    """Return the brokers that are not the controller."""
    return [broker for broker in range(running.brokers) if broker != running.controller_id]


def create(running: SimulatedCluster, name: str, *replicas: int) -> None:
    topic = CreatableTopic(name, assignments=(CreatableAssignment(0, replicas),))
    assert running.controller_id is not None
    answer = running.ask(running.controller_id, CreateTopicsRequest(5, (topic,), 30_000))
    assert answer.topics[0].error_code == NONE
    running.wait_for(lambda: running.leader_of(name) == replicas[0])
    running.run(1.0)


def delete(running: SimulatedCluster, name: str) -> None:
    assert running.controller_id is not None
    running.ask(running.controller_id, DeleteTopicsRequest(4, (name,), 1000))


def start_second_process(running: SimulatedCluster, broker: int) -> None:
    """Start another process with the same broker id on a separate machine."""
    simulated = running._cluster
    key = 9
    disks = Disks(running.directory / host_of(key), 2, simulated.wall_ms, lambda *held: None)
    settings = simulated.machines[broker].settings
    listeners = (attrs.evolve(settings.listeners[0], host=host_of(key)),)
    changed = attrs.evolve(settings, listeners=listeners, advertised_listeners=listeners, log_dirs=disks.names)
    simulated.machines[key] = Machine(broker, changed, disks, simulated.machines[broker].clock)
    simulated.start(key)
    simulated.machines[key].wanted = False


def facts(folder: Path) -> TraceFacts:
    return gather(find_runs(folder).runs)


def lines(folder: Path, about: str, subject: object, question: str) -> list[str]:
    """Return the answer to a question, without delivery numbers."""
    name = subject if isinstance(subject, str) else "t"
    found = facts(folder)
    about_whom = TopicPartition(name, 0) if about == "partition" else subject
    (answer,) = (answer for words, answer in SUBJECTS[about].questions if words.startswith(question))
    return without_numbers([line.text for line in answer(found, about_whom)])


def shares(line: str) -> dict[str, float]:
    """Return the seconds of each part of an outage, by the part's description."""
    parts = line.partition(": ")[2].replace("[", "(").split(" s ")
    seconds = [float(part.rpartition(" ")[2] if " " in part else part) for part in parts[:-1]]
    words = [re.sub(r", [\d.]+$", "", part) for part in parts[1:]]
    return dict(zip(words, seconds, strict=True))


OUTAGES = "When did it have no leader"
TERMS = "Which broker was controller"


def test_a_killed_controller_s_term_ends_with_its_process(tmp_path: Path) -> None:
    """It does not end minutes later, when the session of the restarted process expires."""
    with cluster(tmp_path) as running:
        first = running.controller_id
        assert first is not None
        running.run(1.0)  # the beginning of its trace is on disk
        running.kill(first)
        running.wait_for(lambda: running.controller_id not in (None, first))
        second = running.controller_id
        running.start_broker(first)
        running.run(100.0)
        running.expire_session(first)
        running.run(5.0)
    killed = "its process was killed, and this is its last record"
    assert lines(tmp_path, "controller", None, TERMS) == [
        f"broker {first} was elected, epoch 1",
        f"broker {first} ended its term: {killed}",
        f"broker {second} was elected, epoch 2",
        f"broker {second} ended its term: {killed}",
    ]


def test_a_controller_that_loses_its_session_and_one_that_stops(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        first = running.controller_id
        assert first is not None
        running.run(1.0)
        running.expire_session(first)
        running.wait_for(lambda: running.controller_id not in (None, first))
        running.run(2.0)
        second = running.controller_id
        assert second is not None
        running.stop_broker(second)
        running.wait_for(lambda: running.controller_id is not None)
        running.run(2.0)
    answer = lines(tmp_path, "controller", None, TERMS)
    assert f"broker {first} ended its term: its ZooKeeper session expired" in answer
    assert f"broker {second} ended its term: its node was stopped" in answer


def test_time_in_which_no_replica_was_alive_is_not_a_delay_of_the_controller(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(follower)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        running.kill(leader)
        running.run(71.0)
        running.start_broker(follower)
        running.run(10.0)
        running.start_broker(leader)
        running.wait_for(lambda: running.leader_of("t") == leader)
        running.run(1.0)
    (outage,) = lines(tmp_path, "partition", "t", OUTAGES)
    assert outage.partition(",")[2].startswith(f" from the last record of broker {leader} until broker {leader} led: ")
    found = shares(outage)
    dead = found.pop(f"with no live replica in the ISR ({leader}]")
    assert 80.0 < dead < 85.0
    assert sum(found.values()) < 0.1


def test_time_until_unclean_elections_are_allowed_is_time_without_a_live_replica_of_the_isr(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(follower)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        running.kill(leader)
        running.run(10.0)
        running.start_broker(follower)
        running.run(20.0)
        config = json.dumps({"version": 1, "config": {"unclean.leader.election.enable": "true"}})
        running._cluster.write(WriteOp("set", "/config/topics/t", config.encode()))
        running._cluster.write(WriteOp("create", "/config/topics/t", config.encode()))
        change = json.dumps({"version": 2, "entity_path": "topics/t"})
        running._cluster.write(WriteOp("create", "/config/changes/config_change_0000000099", change.encode()))
        running.wait_for(lambda: running.leader_of("t") == follower)
        running.run(1.0)
    (outage,) = lines(tmp_path, "partition", "t", OUTAGES)
    found = shares(outage)
    assert found.pop(f"with no live replica in the ISR ({leader}]") > 29.5
    assert sum(found.values()) < 0.1


def test_a_reassignment_is_made_by_the_event_that_wrote_it(tmp_path: Path) -> None:
    """The event's own write fires PartitionModifications, which reads the same assignment again."""
    with cluster(tmp_path, 4) as running:
        first, second, third = others(running)
        create(running, "t", first, second)
        running.kill(third)
        running.run(10.0)
        wanted = encode_reassignments([RequestedReassignment(TopicPartition("t", 0), (second, third))])
        running._cluster.zookeeper.write((WriteOp(CREATE, paths.REASSIGNMENTS, wanted),), 0)
        running.run(10.0)
    answer = lines(tmp_path, "partition", "t", "Why is its reassignment")
    assert answer == [
        f"adding [{third}], removing [{first}], by ZkPartitionReassignment",
        f"waits for broker {third}, which is not in the ISR [{first}, {second}]",
        answer[2],
    ]
    assert answer[2].startswith(f"broker {third} is gone for controller ")


def test_a_reassignment_that_the_next_controller_found_is_still_the_admin_s(tmp_path: Path) -> None:
    with cluster(tmp_path, 4) as running:
        first, second, third = others(running)
        create(running, "t", first, second)
        running.partition_network(first, third)
        wanted = ReassignableTopic("t", (ReassignablePartition(0, (first, third)),))
        assert running.controller_id is not None
        running.ask(running.controller_id, AlterPartitionReassignmentsRequest(0, 30_000, (wanted,)))
        running.run(1.0)
        running.expire_session(running.controller_id)
        running.run(5.0)
    answer = lines(tmp_path, "partition", "t", "Why is its reassignment")
    assert answer[0] == f"adding [{third}], removing [{second}], by AlterPartitionReassignmentsRequest"


def test_a_recreated_topic_does_not_inherit_earlier_events(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        first, second = others(running)
        create(running, "t", first, second)
        delete(running, "t")
        running.run(5.0)
        create(running, "t", second, first)
        running.kill(second)
        running.run(3.0)
        delete(running, "t")
        running.run(20.0)
    answer = lines(tmp_path, "topic", "t", "Why is it not deleted?")
    assert "not deleted at the end of the trace" in answer and "its znodes were removed" not in " ".join(answer)
    assert lines(tmp_path, "partition", "t", OUTAGES) == [], "another topic's leader is no outage"
    assert "queued for deletion, first during TopicDeletion" in answer


def test_a_broker_that_only_earlier_controllers_saw_is_gone(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        first, (leader, heir) = running.controller_id, others(running)
        assert first is not None
        running.run(1.0)  # the beginning of its trace is on disk
        running.kill(first)
        running.kill(leader)
        running.wait_for(lambda: running.controller_id == heir)
        running.run(2.0)
    answer = lines(tmp_path, "broker", leader, "Why does the controller consider it dead")
    assert answer[-1] == f"gone for controller {heir}: Reelect"


def test_a_broker_that_answers_again_is_reported(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.stop_broker(leader)
        running.run(8.0)
        running.start_broker(leader)
        running.run(5.0)
    answer = lines(tmp_path, "broker", leader, "Why does it receive no")
    assert answer[-1] == "it has responded to requests since then"


def printed(folder: Path) -> set[str]:
    """Return the `replay` options that `why` prints about all subjects."""
    asked = [(about, name) for about, names in NAMES.items() for name in names] + [("controller", "")]
    found: set[str] = set()
    for about, name in asked:
        result = CliRunner().invoke(why.command, [about, *([name] if name else []), str(folder), "--pointers"])
        assert result.exit_code == 0
        found.update(re.findall(r"(--run \S+ --until \d+)\]$", result.stdout, re.MULTILINE))
    return found


def test_every_printed_pointer_runs_as_it_is_printed(lived: Path) -> None:
    assert len({run.header.node for run in find_runs(lived).runs}) < len(find_runs(lived).runs)
    pointers = printed(lived)
    assert len(pointers) > 20
    for pointer in sorted(pointers):
        result = CliRunner().invoke(replay.command, [str(lived), *pointer.split()], standalone_mode=False)
        assert (result.exit_code, result.exception, result.return_value) == (0, None, 0), pointer
