"""Verdicts of `kafka-actors why` that must not contradict the end of the recording, in the deterministic simulation.

Each test asserts the subject of the verdict, its cause, and the act that it advises or must not advise.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.explain.causes import cause_of
from actors.explain.explanations import outages as outage_lines
from actors.explain.explanations import why_records_missing
from actors.explain.verdicts import verdict_of
from actors.public.simulated import SimulatedCluster
from actors.trace.explanation import TraceExplanation, explain
from messages.apis.alter_configs import ChangedResource, ConfigChange
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.create_topics import CreatableAssignment, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_records import DeleteRecordsRequest, TrimmedPartition
from messages.apis.describe_configs import TOPIC
from messages.apis.end_txn import EndTxnRequest
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.join_group import JoinGroupRequest, JoinProtocol
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.client_quotas import ClientsThrottled, ThrottledClient
from messages.cluster import TopicPartition
from messages.error_names import name_of
from messages.errors import INVALID_PRODUCER_EPOCH, NONE
from messages.events import NOT_ELECTED
from messages.facts import declarations, histories
from messages.facts.node_facts import PARTITION, NodeFacts
from messages.facts.trace_facts import TraceFacts, gather
from messages.log_cleaner import CLEANED, LogCleaned
from messages.store import WriteOp
from messages.trace.endings import RUNNING
from messages.trace.files.runs import find_runs
from messages.trace.schema import STOPPED
from messages.wire.record_batch import read_records
from spark.questions import housekeeping
from tests.cli.test_why_situations import cluster, create, delete, others
from tests.storage.batches import batch

T0 = TopicPartition("t", 0)
START = re.compile(r"[Ss]tart (a )?broker")
"""The advice to start a broker."""


def why(folder: Path, about: str, name: str | None = None) -> TraceExplanation:
    return explain(find_runs(folder).runs, about, name)


def state_path(topic: str) -> str:
    return f"/brokers/topics/{topic}/partitions/0/state"


def set_znode(running: SimulatedCluster, path: str, data: bytes) -> None:
    running._cluster.write(WriteOp("set", path, data))


def state_of_newer_controller(leader: int, *isr: int) -> bytes:
    """Return the state that a controller of KRaft leaves behind: its epoch is above that of /controller_epoch."""
    fields = {"version": 1, "leader": leader, "leader_epoch": 9, "isr": isr, "controller_epoch": 1_000_000}
    return json.dumps(fields).encode()


def new_controller(running: SimulatedCluster) -> None:
    before = running.controller_id
    assert before is not None
    running.expire_session(before)
    running.wait_for(lambda: running.controller_id is not None)
    running.run(5.0)


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (lambda leader, follower: state_of_newer_controller(-1, leader, follower), "epoch 1000000"),
        (lambda leader, follower: b'{"version":1,"leader":', "state"),
    ],
    ids=["newer controller epoch", "torn znode"],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_state_that_the_controller_refuses_is_the_cause_not_a_living_broker(
    tmp_path: Path, state: object, cause: str, restarted: bool
) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        set_znode(running, state_path("t"), state(leader, follower))  # type: ignore[operator]
        if restarted:
            running.kill(leader)
            running.run(10.0)
            running.start_broker(leader)
        new_controller(running)
    for about, name in (("partition", "t-0"), ("topic", "t"), ("cluster", None)):
        verdict = why(tmp_path, about, name).verdict
        assert "t-0" in verdict and cause in verdict, verdict
        assert not START.search(verdict) and "is alive" not in verdict, verdict


def test_a_leader_that_is_gone_does_not_lead_although_its_state_cannot_be_replaced(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        set_znode(running, state_path("t"), state_of_newer_controller(leader, leader, follower))
        new_controller(running)
        running.kill(leader)
        running.run(20.0)
    verdict = why(tmp_path, "partition", "t-0").verdict
    assert "no leader" in verdict and "epoch 1000000" in verdict, verdict


def test_a_partition_that_never_led_although_a_replica_is_registered(tmp_path: Path) -> None:
    """A torn state znode is already there when the controller first reads the topic."""
    with cluster(tmp_path) as running:
        first, second = others(running)
        topic = json.dumps({"version": 2, "partitions": {"0": [first, second]}}).encode()
        for path, data in (
            ("/brokers/topics/t", topic),
            ("/brokers/topics/t/partitions", b""),
            ("/brokers/topics/t/partitions/0", b""),
            (state_path("t"), b"{"),
        ):
            running._cluster.write(WriteOp("create", path, data))
        running.run(5.0)
    verdict = why(tmp_path, "partition", "t-0").verdict
    assert "never had a leader" in verdict and not START.search(verdict) and "no live broker" not in verdict, verdict


def test_a_throttle_not_a_living_broker_holds_a_reassignment_up(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, new = others(running)
        create(running, "t", leader)
        for _ in range(60):
            records = read_records(batch(b"x" * 100_000))
            part = ProducePartition(T0, records)
            running.ask(leader, ProduceRequest(8, None, 1, 5000, (part,)))
        throttle = {f"{side}.replication.throttled.replicas": "*" for side in ("leader", "follower")}
        rates = {f"{side}.replication.throttled.rate": "1" for side in ("leader", "follower")}
        for number, (entity, config) in enumerate(
            (("topics/t", throttle), *((f"brokers/{broker}", rates) for broker in (leader, new)))
        ):
            data = json.dumps({"version": 1, "config": config}).encode()
            running._cluster.write(WriteOp("create", f"/config/{entity}", data))
            running._cluster.write(WriteOp("set", f"/config/{entity}", data))
            change = json.dumps({"version": 2, "entity_path": entity}).encode()
            running._cluster.write(WriteOp("create", f"/config/changes/config_change_000000010{number}", change))
        running.run(5.0)
        wanted = ReassignableTopic("t", (ReassignablePartition(0, (new,)),))
        assert running.controller_id is not None
        running.ask(running.controller_id, AlterPartitionReassignmentsRequest(0, 30_000, (wanted,)))
        running.run(20.0)
        assert running.isr_of("t") == [leader]
    verdict = why(tmp_path, "partition", "t-0").verdict
    assert "reassignment of t-0" in verdict and "throttle" in verdict and not START.search(verdict), verdict


def test_a_reassignment_to_a_living_broker_does_not_ask_to_start_it(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, new = others(running)
        create(running, "t", leader)
        running.partition_network(leader, new)
        wanted = ReassignableTopic("t", (ReassignablePartition(0, (new,)),))
        assert running.controller_id is not None
        running.ask(running.controller_id, AlterPartitionReassignmentsRequest(0, 30_000, (wanted,)))
        running.run(20.0)
    verdict = why(tmp_path, "partition", "t-0").verdict
    assert "reassignment of t-0" in verdict and f"broker {new}" in verdict and not START.search(verdict), verdict


def test_a_topic_that_was_created_again_with_fewer_partitions(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        first, second = others(running)
        assert running.controller_id is not None
        wide = CreatableTopic("inv", assignments=(CreatableAssignment(0, (first,)), CreatableAssignment(1, (second,))))
        running.ask(running.controller_id, CreateTopicsRequest(5, (wide,), 30_000))
        running.wait_for(lambda: running.leader_of("inv", 1) == second)
        running.run(1.0)
        delete(running, "inv")
        running.run(5.0)
        create(running, "inv", first)
        create(running, "t", first, second)
        running.kill(second)
        running.run(10.0)
    assert "inv-1" not in why(tmp_path, "topic", "inv").verdict
    [lives] = [each for each in why(tmp_path, "topic", "inv").answers if each.question.startswith("Who deleted")]
    assert [line.text.split()[0] for line in lives.lines] == ["created", "deleted:", "created"]
    assert all("client" in line.text for line in lives.lines), lives
    assert "t-0" in why(tmp_path, "cluster").verdict or f"broker {second}" in why(tmp_path, "cluster").verdict
    verdict = why(tmp_path, "partition", "inv-1").verdict
    assert "no leader" not in verdict and not START.search(verdict), verdict


def test_an_outage_does_not_begin_before_its_topic_exists(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        running.run(20.0)
        running._cluster.kill(leader)
        running.run(2.0)  # its session lives, so the controller elects it
        topic = CreatableTopic("t", assignments=(CreatableAssignment(0, (leader, follower)),))
        created = running.now
        assert running.controller_id is not None
        running.ask(running.controller_id, CreateTopicsRequest(5, (topic,), 0))
        running.wait_for(lambda: running.leader_of("t") == follower)
        elected = running.now
        running.start_broker(leader)
        running.wait_for(lambda: len(running.isr_of("t")) == 2)
        running.run(2.0)
    verdict = why(tmp_path, "partition", "t-0").verdict
    found = re.search(r"\(([\d.]+) s\)", verdict)
    assert found and float(found[1]) <= elected - created + 0.1, verdict
    (outages,) = (
        answer.lines for answer in why(tmp_path, "partition", "t-0").answers if "no leader" in answer.question
    )
    assert float(outages[0].text.split()[0]) <= elected - created + 0.1, outages


def test_a_broker_that_runs_again_is_not_to_be_started(tmp_path: Path) -> None:
    """It was killed, left the ISR, and runs again, but cannot reach the leader."""
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(follower)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        running.partition_network(leader, follower)
        running.start_broker(follower)
        running.run(10.0)
    for about, name in (("partition", "t-0"), ("broker", str(follower)), ("cluster", None)):
        verdict = why(tmp_path, about, name).verdict
        assert f"broker {follower}" in verdict and not START.search(verdict), verdict


def test_a_recording_that_ends_with_all_processes_has_a_controller(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        running.run(5.0)
        controller = running.controller_id
    verdict = why(tmp_path, "controller").verdict
    assert f"broker {controller}" in verdict and "no controller" not in verdict, verdict


def test_a_killed_broker_is_to_be_started(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running.kill(follower)
        running.run(40.0)
    for about, name in (("partition", "t-0"), ("broker", str(follower)), ("cluster", None)):
        assert f"Start broker {follower}" in why(tmp_path, about, name).verdict


def test_a_group_whose_coordinator_partition_is_offline(tmp_path: Path) -> None:
    settings = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    with SimulatedCluster(3, seed=1, directory=tmp_path, settings=settings) as running:
        coordinator = coordinator_of(running, "g", 0)
        join(running, coordinator, "g")
        if running.controller_id == coordinator:
            new_controller(running)
        running.kill(coordinator)
        running.run(20.0)
    verdict = why(tmp_path, "consumer-group", "g").verdict
    assert "g" in verdict and "__consumer_offsets-0" in verdict and "no leader" in verdict, verdict
    assert f"tart broker {coordinator}" in verdict


def coordinator_of(running: SimulatedCluster, key: str, kind: int) -> int:
    found = []

    def is_found() -> bool:
        found.append(running.ask(0, FindCoordinatorRequest(1, key, kind)))
        return bool(found[-1].error_code == NONE)

    running.wait_for(is_found)
    return int(found[-1].node_id)


def join(running: SimulatedCluster, coordinator: int, group: str) -> None:

    member = ""
    for _ in range(20):
        request = JoinGroupRequest(5, group, 300_000, member, "consumer", (JoinProtocol("range", b""),), 300_000)
        joined = running.ask(coordinator, request)
        member = joined.member_id or member
        if joined.error_code == NONE:
            break
        running.run(0.5)
    sync = SyncGroupRequest(3, group, joined.generation_id, member, (MemberAssignment(member, b""),))
    assert running.ask(coordinator, sync).error_code == NONE
    running.run(1.0)


@pytest.mark.parametrize("name", ["client", "pay", "producer id"])
def test_a_refused_end_of_a_transaction_is_a_refused_request_of_its_producer(tmp_path: Path, name: str) -> None:
    settings = {"transaction.state.log.num.partitions": 1}
    with SimulatedCluster(3, seed=1, directory=tmp_path, settings=settings) as running:
        coordinator = coordinator_of(running, "pay", 1)
        given = running.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1))
        while given.error_code != NONE:
            running.run(0.5)
            given = running.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1))
        old = given.producer_id, given.producer_epoch
        assert running.ask(coordinator, InitProducerIdRequest(1, "pay", 5000, -1, -1)).error_code == NONE
        assert running.ask(coordinator, EndTxnRequest(1, "pay", *old, True)).error_code == INVALID_PRODUCER_EPOCH
    verdict = why(tmp_path, "producer", str(old[0]) if name == "producer id" else name).verdict
    assert "EndTxn" in verdict and "INVALID_PRODUCER_EPOCH" in verdict, verdict


def test_a_config_that_was_changed_is_why_a_producer_is_refused(tmp_path: Path) -> None:
    def alter(name: str, value: str) -> None:
        resource = ChangedResource(TOPIC, "t", (ConfigChange(name, value),))
        assert running.ask(leader, IncrementalAlterConfigsRequest(0, (resource,))).responses[0].error_code == NONE
        running.run(2.0)

    def produce() -> None:
        part = ProducePartition(T0, read_records(batch(b"x" * 50)))
        running.ask(leader, ProduceRequest(8, None, -1, 1000, (part,)))
        running.run(1.0)

    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        alter("max.message.bytes", "60")
        produce()
        alter("max.message.bytes", "6000")
        running.kill(follower)
        running.wait_for(lambda: running.isr_of("t") == [leader])
        alter("min.insync.replicas", "2")
        produce()
    found = gather(find_runs(tmp_path).runs)
    too_large, too_few = found.select(declarations.ErrorAnswered, api="Produce")
    assert [name_of(each.code) for each in (too_large, too_few)] == ["MESSAGE_TOO_LARGE", "NOT_ENOUGH_REPLICAS"]
    for error, changed in ((too_large, {"max.message.bytes": "60"}), (too_few, {"min.insync.replicas": "2"})):
        cause = cause_of(found, error)
        assert isinstance(cause, declarations.OverridesChanged) and (cause.resource, cause.changes) == (
            "topic t",
            changed,
        )
    assert "min.insync.replicas=2" in why(tmp_path, "partition", "t-0").verdict
    lines = why(tmp_path, "cluster").answers[0].lines
    assert sum("the config of topic t was changed" in line.text for line in lines) == 3


def test_deleted_records_are_why_an_offset_is_out_of_range(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        for _ in range(3):
            part = ProducePartition(T0, read_records(batch(b"x")))
            running.ask(leader, ProduceRequest(8, None, -1, 1000, (part,)))
        running.ask(leader, DeleteRecordsRequest(1, (TrimmedPartition(T0, 2),), 1000))
        running.ask(leader, FetchRequest(11, -1, 0, 1, (FetchPartition(T0, 0, 1000),)))
        running.run(2.0)
    found = gather(find_runs(tmp_path).runs)
    moved = {(each.place.node, each.before, each.start) for each in found.select(declarations.LogStartMoved)}
    assert moved == {(leader, 0, 2), (follower, 0, 2)}
    askers = {each.place.node: each.client_id for each in found.select(declarations.LogStartMoved)}
    assert (askers[leader] is None, askers[follower]) == (False, None), "only the leader was asked"
    [error] = found.select(declarations.ErrorAnswered, api="Fetch")
    cause = cause_of(found, error)
    assert isinstance(cause, declarations.LogStartMoved) and cause.place.node == leader
    [missing] = [each for each in why(tmp_path, "partition", "t-0").answers if each.question.startswith("Why are")]
    assert len(missing.lines) == 2


def test_cleaning_retention_and_quotas_are_why_records_are_gone_and_clients_slow() -> None:
    found: list[declarations.Fact] = []
    facts: Any = NodeFacts(found.append, 6.0, False)
    place, record = declarations.TracePosition(3.0, 1, "r1", 3), SimpleNamespace(receiver="", actor="")
    for result in ((0, 0, ""), (5, 1, "retention.bytes")):
        effect = SimpleNamespace(port="logs", method="expire", args=("/d/t-0", 9), result=result, error="")
        facts.on_disk(place, SimpleNamespace(actor=PARTITION, effects=(effect,)))
    facts.take(place, record, LogCleaned("/d/t-0", CLEANED, (5, 9, 400, 100, 4, 2, 1), "", 0.1))
    facts.take(place, record, LogCleaned("/d/t-0", CLEANED, (9, 12, 100, 100, 4, 2, 1), "", 0.1))
    slow = ThrottledClient("u", "c", "producer_byte_rate", "users/u/clients/<default>", 10.0, 2, 300)
    facts.take(place, record, ClientsThrottled((slow,)))
    of_all = TraceFacts(found)
    assert [line.text for line in why_records_missing(of_all, T0)] == [
        "broker 1 removed the records of t-0 before offset 5, because its retention was over (retention.bytes)",
        "broker 1 cleaned offsets 5 to 8 of t-0: 100 of 400 bytes remained, with the last record of each key",
    ]
    assert "producer_byte_rate=10 of users/u/clients/<default>" in verdict_of(of_all, "client", "c", str).text
    rows = housekeeping.cleanings(of_all).rows
    assert [row[1:6] for row in rows] == [("t-0", "cleaner", 1, 5, 9), ("t-0", "retention.bytes", 1, 0, 5)]
    assert [row[2:8] for row in housekeeping.throttles(of_all).rows] == [("c", *slow[2:5], 2, 300)]


def test_a_failed_disk_of_a_living_broker_is_why_it_is_not_elected() -> None:
    def at(seconds: float, node: int = 2) -> declarations.TracePosition:
        return declarations.TracePosition(seconds, node, f"r{node}", int(seconds))

    failed = declarations.LogDirectoryFailed(at(3.0, 1), T0, "No space left")
    facts = TraceFacts(
        [
            declarations.ReplicasAssigned(at(1.0), T0, (1,), (), ()),
            declarations.BrokersRead(at(1.0), 2, {1: 1, 2: 2}),
            declarations.StateWrite(at(2.0), T0, 1, 0, (1,), "controller 2", 2.0, None, 0),
            declarations.StateWrite(at(4.0), T0, -1, 1, (1,), "controller 2", 4.0, None, 1),
            failed,
            declarations.StateChangeRefused(at(5.0), T0, "move to OnlinePartition", f"{NOT_ELECTED} for partition t-0"),
            *[declarations.NodeRun(at(9.0, node), 0.5, RUNNING, ((node, 0.6),)) for node in (1, 2)],
        ]
    )
    verdict = verdict_of(facts, "partition", T0, str)
    assert "No space left" in verdict.text and "disk" in verdict.text and "no replica" not in verdict.text
    assert verdict.steps[-1].place == failed.place


def test_the_verdict_and_the_answer_name_the_same_beginning_of_an_outage(tmp_path: Path) -> None:
    """The partition loses its leader when the process ends, not when its session has expired."""
    with cluster(tmp_path) as running:
        leader, _ = others(running)
        create(running, "t", leader)
        running.kill(leader)
        running.run(30.0)
    facts = gather(find_runs(tmp_path).runs)
    (outage,) = histories.outages(facts, T0)
    (killed,) = facts.select(declarations.NodeRun, node=leader)
    assert outage.since == killed.end and outage.until == math.inf
    assert f"since {killed.end}" in verdict_of(facts, "partition", T0, str).text
    (line,) = outage_lines(facts, T0)
    assert re.fullmatch(
        rf"[\d.]+ s without a leader until the end of the trace, since the last record of broker {leader}", line.text
    )


def test_the_outage_of_a_suspended_leader_begins_with_its_silence(tmp_path: Path) -> None:
    with cluster(tmp_path) as running:
        leader, follower = others(running)
        create(running, "t", leader, follower)
        running._cluster.pause(leader)
        running.wait_for(lambda: running.leader_of("t") == follower)
        running._cluster.resume(leader)
        running.run(10.0)
    facts = gather(find_runs(tmp_path).runs)
    [outage], [gone] = histories.outages(facts, T0), histories.absences(facts, leader)
    assert (outage.shown_by, outage.since) == (declarations.SILENCE, gone.since)
    assert outage.until - outage.since > 5.0, "its session had to expire first"


def test_what_a_broker_did_after_it_was_gone_is_no_cause() -> None:
    """Another client deleted the znode of broker 1; the broker ran on, and was stopped half a second later."""

    def at(seconds: float, node: int) -> declarations.TracePosition:
        return declarations.TracePosition(seconds, node, f"r{node}", int(seconds * 10))

    noticed = [declarations.BrokersRead(at(1.0, 2), 2, {1: 7, 2: 8}), declarations.BrokersRead(at(2.0, 2), 2, {2: 8})]
    ran = declarations.NodeRun(at(2.9, 1), 0.5, STOPPED, ((7, 0.6),))
    for stopped_at, cause in ((2.5, None), (1.5, ran)):
        facts = TraceFacts([*noticed, ran, declarations.StopRequested(at(stopped_at, 1))])
        [gone] = histories.absences(facts, 1)
        assert histories.end_of_registration(facts, gone) == cause
