"""Scripts that each cause one failure in a cluster; `kafka-actors why` must find the causes.

A script causes its failure, waits for the effect, and leaves a cluster in which the next script can begin. Each
script's clients have their own client ids, so that the trace names the client that acted.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from actors.public import KafkaCluster
from messages import errors
from messages.apis.add_partitions_to_txn import AddPartitionsToTxnRequest
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.create_topics import CreatableAssignment, CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.describe_groups import DescribeGroupsRequest
from messages.apis.end_txn import EndTxnRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.init_producer_id import InitProducerIdRequest
from messages.apis.join_group import JoinGroupRequest, JoinProtocol
from messages.apis.leave_group import LeaveGroupRequest, LeavingMember
from messages.apis.metadata import MetadataRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.produce import ACKS_ALL, ProducePartition, ProduceRequest
from messages.apis.sync_group import MemberAssignment, SyncGroupRequest
from messages.cluster import TopicPartition
from messages.wire.record_batch import read_records
from tests.storage.batches import batch
from tests.waiting import until
from tests.wire_client import WireClient

SETTINGS = {
    "group.min.session.timeout.ms": 200,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "auto.leader.rebalance.enable": "false",
}
SESSION_SECONDS = 0.5
SESSION_MS = 400
"""Session timeout of a group member."""
GROUP, TRANSACTION = 0, 1


@attrs.define
class Stage:
    """A running cluster and the actions of its clients; `values` are inserted into the texts that a test expects."""

    cluster: KafkaCluster
    values: dict[str, object] = attrs.field(factory=dict)

    # ------------------------------------------------------------------------------------------------ requests

    def ask(self, node: int, request: Any, client: str = "script") -> Any:
        """Send a request to a broker and return the response."""
        host, _, port = self.cluster.bootstrap_servers.split(",")[node].rpartition(":")
        with WireClient(host, int(port), client) as wire:
            return wire.call(request)

    def ask_controller(self, request: Any, client: str) -> Any:
        controller = self.cluster.controller_id
        assert controller is not None
        return self.ask(controller, request, client)

    def coordinator(self, key: str, kind: int) -> int:
        """Return the coordinator of a group or transactional id, as a running broker reports it."""

        def found() -> list[int]:
            answer = self.ask(self.cluster.live_brokers[0], FindCoordinatorRequest(1, key, kind))
            return [answer.node_id] if answer.error_code == errors.NONE else []

        return int(until(found, what=f"the coordinator of {key}")[0])

    def produce(
        self,
        topic: str,
        client: str,
        code: int = errors.NONE,
        acks: int = ACKS_ALL,
        producer: tuple[int, int, int] = (-1, -1, -1),
    ) -> None:
        """Produce a record until the leader responds with this error code. `producer` is (id, epoch, sequence)."""
        number, epoch, sequence = producer
        records = read_records(batch(b"record", producer=number, epoch=epoch, sequence=sequence))
        request = ProduceRequest(8, None, acks, 5000, (ProducePartition(TopicPartition(topic, 0), records),))

        def answered() -> bool:
            leader = self.cluster.leader_of(topic)
            assert leader is not None
            return bool(self.ask(leader, request, client).partitions[0].error_code == code)

        until(answered, what=f"Produce to {topic} is answered with {code}")

    def create(self, name: str, *replicas: int, **config: object) -> None:
        """Create a topic of one partition on these brokers, wait for its leader, and write one record."""
        configs = tuple(CreatableConfig(key.replace("_", "."), str(value)) for key, value in config.items())
        topic = CreatableTopic(name, assignments=(CreatableAssignment(0, replicas),), configs=configs)
        answer = self.ask_controller(CreateTopicsRequest(5, (topic,), 30_000), "creator")
        assert answer.topics[0].error_code == errors.NONE, answer
        self.cluster.wait_for_leader(name)
        self.produce(name, "first")

    # ------------------------------------------------------------------------------------------------ actions

    def others(self) -> list[int]:
        """Return the running brokers without the controller."""
        return [broker for broker in self.cluster.live_brokers if broker != self.cluster.controller_id]

    def kill(self, broker: int) -> None:
        """Write the traces to disk, and kill a broker."""
        self.cluster._ask("flush_traces")
        self.cluster.kill(broker)

    @contextlib.contextmanager
    def killed(self, broker: int) -> Iterator[None]:
        """Kill a broker. When the context ends, mark the time and start the broker again with its data."""
        self.kill(broker)
        yield
        self.mark()
        self.cluster.start_broker(broker)

    def mark(self) -> None:
        """Record the time to explain, once per script. Later actions only restore the cluster."""
        if "at" not in self.values:
            self.values["at"] = time.time()

    def gone(self, broker: int) -> None:
        """Wait until the controller's metadata no longer contains the broker."""

        def known() -> list[int]:
            return [each.id for each in self.ask_controller(MetadataRequest(8, ()), "watcher").brokers]

        until(known, good=lambda brokers: broker not in brokers, what=f"broker {broker} is gone")

    def in_sync(self, topic: str, count: int) -> None:
        self.cluster.wait_for(lambda: len(self.cluster.isr_of(topic)) == count)

    def join(self, group: str, client: str, member: str = "", session_ms: int = SESSION_MS) -> tuple[str, int]:
        """Join a group as its only member, synchronise, and return the member id and the generation."""
        node = self.coordinator(group, GROUP)
        protocols = (JoinProtocol("range", b""),)
        while True:
            request = JoinGroupRequest(5, group, session_ms, member, "consumer", protocols, session_ms)
            joined = self.ask(node, request, client)
            member = joined.member_id
            if joined.error_code != errors.MEMBER_ID_REQUIRED:
                break
        assert joined.error_code == errors.NONE, joined
        assignments = (MemberAssignment(member, b""),)
        synced = self.ask(node, SyncGroupRequest(3, group, joined.generation_id, member, assignments), client)
        assert synced.error_code == errors.NONE
        return member, joined.generation_id

    def begin(self, name: str, client: str, timeout_ms: int = 60_000) -> tuple[int, int]:
        """Begin a transaction, add partition ledger-0 to it, and return the producer id and epoch."""
        node = self.coordinator(name, TRANSACTION)

        def given() -> Any:
            answer = self.ask(node, InitProducerIdRequest(1, name, timeout_ms), client)
            return answer if answer.error_code == errors.NONE else None

        answer = until(given, what=f"{name} has a producer id")
        producer = answer.producer_id, answer.producer_epoch
        add = AddPartitionsToTxnRequest(1, name, *producer, (TopicPartition("ledger", 0),))
        until(lambda: self.ask(node, add, client).partitions[0].error_code == errors.NONE, what="the transaction began")
        return producer


Script = Callable[[Stage], None]


# ------------------------------------------------------------------------------------------------ without data


def refuse_a_topic(stage: Stage) -> None:
    topic = CreatableTopic("wide", 1, 9)
    stage.ask_controller(CreateTopicsRequest(5, (topic,), 1000), "hopeful")


def kill_the_only_replica(stage: Stage) -> None:
    broker = stage.others()[0]
    stage.values["broker"] = broker
    stage.create("alone", broker)
    with stage.killed(broker):
        stage.cluster.wait_for(lambda: stage.cluster.leader_of("alone") is None)
    stage.cluster.wait_for_leader("alone")


def kill_a_leader_for_a_while(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=leader, heir=follower)
    stage.create("pair", leader, follower)
    stage.kill(leader)
    stage.cluster.wait_for_leader("pair", other_than=leader)
    stage.cluster.start_broker(leader)
    stage.in_sync("pair", 2)


def stop_a_leader(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values["broker"] = leader
    stage.create("stopped", leader, follower)
    stage.cluster.stop_broker(leader)
    stage.cluster.wait_for(lambda: stage.cluster.leader_of("stopped") == follower)
    stage.cluster.wait_for(lambda: stage.cluster.isr_of("stopped") == [follower])
    stage.mark()
    stage.cluster.start_broker(leader)
    stage.in_sync("stopped", 2)


def expire_a_session(stage: Stage) -> None:
    broker = stage.others()[0]
    stage.values["broker"] = broker
    with stage.cluster.faults.session_expiry(broker):
        pass


def block_a_deletion(stage: Stage) -> None:
    first, second = stage.others()[:2]
    stage.values["broker"] = second
    stage.create("removed", first, second)
    with stage.killed(second):
        stage.cluster.wait_for(lambda: stage.cluster.isr_of("removed") == [first])
        stage.ask_controller(DeleteTopicsRequest(4, ("removed",), 500), "remover")  # its timeout is 500 ms
    until(lambda: "removed" not in stage.cluster.topics, what="the deletion is done")


def let_a_reassignment_wait(stage: Stage) -> None:
    controller = stage.cluster.controller_id
    first, second = stage.others()[:2]
    assert controller is not None
    stage.values["broker"] = second
    stage.create("moving", first, controller)
    with stage.cluster.faults.mute(second):
        wanted = ReassignableTopic("moving", (ReassignablePartition(0, (first, second)),))
        stage.ask_controller(AlterPartitionReassignmentsRequest(0, 30_000, (wanted,)), "mover")
        stage.kill(second)
        stage.gone(second)
        stage.mark()
    stage.cluster.start_broker(second)
    stage.cluster.wait_for(lambda: sorted(stage.cluster.isr_of("moving")) == sorted((first, second)))


# ------------------------------------------------------------------------------------------------ with data and groups


def refuse_producers(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=follower, leader=leader)
    stage.create("pay", leader, follower, min_insync_replicas=2)
    with stage.killed(follower):
        stage.cluster.wait_for(lambda: stage.cluster.isr_of("pay") == [leader])
        stage.produce("pay", "till", errors.NOT_ENOUGH_REPLICAS)
    stage.in_sync("pay", 2)


def slow_a_follower(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=follower, leader=leader)
    stage.create("slow", leader, follower)
    with stage.cluster.faults.delay("Fetch", 2.5, broker=leader, client_id=f"broker-{follower}-fetcher-0").every_time():
        stage.produce("slow", "writer", acks=1)
        stage.cluster.wait_for(lambda: stage.cluster.isr_of("slow") == [leader])
        stage.mark()
    stage.in_sync("slow", 2)


def pause_a_follower(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=follower, leader=leader)
    stage.create("paused", leader, follower)
    stage.cluster._ask("flush_traces")
    with stage.cluster.faults.pause(follower):
        stage.cluster.wait_for(lambda: stage.cluster.isr_of("paused") == [leader])
    stage.in_sync("paused", 2)


def lose_records(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=leader, heir=follower)
    stage.create("unclean", leader, follower, unclean_leader_election_enable="true")
    with stage.cluster.faults.mute(follower, to=leader):
        stage.produce("unclean", "writer", acks=1)
        stage.cluster.wait_for(lambda: stage.cluster.isr_of("unclean") == [leader])
        stage.produce("unclean", "writer")
        stage.kill(leader)
    stage.cluster.wait_for_leader("unclean", other_than=leader)
    stage.produce("unclean", "writer", acks=1)
    stage.cluster.start_broker(leader)
    stage.in_sync("unclean", 2)


def skip_a_sequence(stage: Stage) -> None:
    broker = stage.others()[0]
    stage.create("ordered", broker)
    answer = stage.ask(broker, InitProducerIdRequest(1, None, 60_000), "skipper")
    producer, epoch = answer.producer_id, answer.producer_epoch
    stage.produce("ordered", "skipper", producer=(producer, epoch, 0))
    stage.produce("ordered", "skipper", errors.OUT_OF_ORDER_SEQUENCE, producer=(producer, epoch, 5))


def fence_a_producer(stage: Stage) -> None:
    producer = stage.begin("fenced", "old")
    stage.begin("fenced", "new")
    node = stage.coordinator("fenced", TRANSACTION)
    end = stage.ask(node, EndTxnRequest(1, "fenced", *producer, True), "old")
    assert end.error_code == errors.INVALID_PRODUCER_EPOCH


def let_a_transaction_time_out(stage: Stage) -> None:
    producer = stage.begin("late", "sleeper", timeout_ms=300)
    node = stage.coordinator("late", TRANSACTION)
    add = AddPartitionsToTxnRequest(1, "late", *producer, (TopicPartition("ledger", 0),))
    fenced = errors.INVALID_PRODUCER_EPOCH
    until(lambda: stage.ask(node, add, "sleeper").partitions[0].error_code == fenced, what="the transaction timed out")


def expire_a_member(stage: Stage) -> None:
    stage.join("silent", "dozer")
    node = stage.coordinator("silent", GROUP)

    def state() -> str:
        return str(stage.ask(node, DescribeGroupsRequest(2, ("silent",)), "watcher").groups[0].group_state)

    until(state, good=lambda found: found == "Empty", what="the member has expired")


def leave_a_group(stage: Stage) -> None:
    member, _ = stage.join("left", "leaver")
    node = stage.coordinator("left", GROUP)
    stage.ask(node, LeaveGroupRequest(5, "left", (LeavingMember(member, None, "its shift is over"),)), "leaver")


def commit_in_an_old_generation(stage: Stage) -> None:
    member, generation = stage.join("stale", "worker", session_ms=10_000)
    stage.join("stale", "worker", member, session_ms=10_000)
    node = stage.coordinator("stale", GROUP)
    offsets = (CommittedPartition(TopicPartition("ledger", 0), 1),)
    commit = stage.ask(node, OffsetCommitRequest(7, "stale", generation, member, offsets), "worker")
    assert commit.partitions[0].error_code == errors.ILLEGAL_GENERATION


def move_a_coordinator(stage: Stage) -> None:
    stage.join("moved", "rider", session_ms=10_000)
    broker = stage.coordinator("moved", GROUP)
    stage.values["broker"] = broker
    with stage.killed(broker):
        heir = until(
            lambda: [each for each in [stage.coordinator("moved", GROUP)] if each != broker], what="another coordinator"
        )
        stage.values["heir"] = heir[0]
        until(lambda: _is_loaded(stage, "moved", heir[0]), what="the group is loaded")


def _is_loaded(stage: Stage, group: str, node: int) -> bool:
    leave = LeaveGroupRequest(3, group, (LeavingMember("missing"),))
    return stage.ask(node, leave, "prober").error_code == errors.NONE


def break_a_disk(stage: Stage) -> None:
    leader, follower = stage.others()[:2]
    stage.values.update(broker=leader, heir=follower)
    stage.create("stored", leader, follower)
    with stage.cluster.faults.broken_disk(leader):
        with contextlib.suppress(OSError, AssertionError):
            stage.ask(leader, _record("stored"), "writer")
        stage.cluster.wait_for(lambda: stage.cluster.leader_of("stored") == follower)
        stage.mark()
    stage.cluster.start_broker(leader)
    stage.in_sync("stored", 2)


def _record(topic: str) -> ProduceRequest:
    records = read_records(batch(b"record"))
    return ProduceRequest(8, None, 1, 5000, (ProducePartition(TopicPartition(topic, 0), records),))


def inject_an_error(stage: Stage) -> None:
    broker = stage.others()[0]
    stage.create("faulty", broker)
    with stage.cluster.faults.error("Produce", 87, topic="faulty").once():
        assert stage.ask(broker, _record("faulty"), "unlucky").partitions[0].error_code == 87
