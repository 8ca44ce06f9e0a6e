"""CM1-CM18 of controller.md 9.3: the requests of a batch to each broker; the channel's test covers the responses."""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.controller import responses
from actors.core.controller.batch import RequestBatch, request_versions
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LiveLeader
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import LEADER_DURING_DELETE, Broker, TopicPartition
from messages.events import TopicDeletionStopReplicaResponseReceived
from messages.flow.conversation import SLICE
from messages.parts import join_parts
from messages.topic_deletion import DeletionSets
from tests.core.controller.driver import EPOCH, Scene, leadership

FOO0, FOO1, BAR1 = TopicPartition("foo", 0), TopicPartition("foo", 1), TopicPartition("bar", 1)
PARTITIONS = {FOO0: (1, (1, 2)), FOO1: (2, (2, 3)), BAR1: (3, (1, 3))}

VERSIONS = [
    ("0.8.2", 0, 0, 0),
    ("0.9.0", 0, 1, 0),
    ("0.10.0-IV0", 0, 1, 0),
    ("0.10.0-IV1", 0, 2, 0),
    ("0.10.1", 0, 2, 0),
    ("0.10.2-IV0", 0, 3, 0),
    ("0.10.2.2", 0, 3, 0),
    ("0.11.0", 0, 3, 0),
    ("1.0", 1, 4, 0),
    ("2.1-IV2", 1, 4, 0),
    ("2.2", 2, 5, 1),
    ("2.3", 2, 5, 1),
    ("2.4-IV0", 3, 5, 1),
    ("2.4-IV1", 4, 6, 2),
    ("2.4", 4, 6, 2),
    ("2.5", 4, 6, 2),
    ("2.6-IV0", 4, 6, 3),
    ("2.6", 4, 6, 3),
    ("2.8-IV0", 4, 6, 3),
    ("2.8", 5, 7, 3),
]


def scene(ibp: str = "2.6", **options: Any) -> Scene:
    made = Scene(1, 2, 3, inter_broker_protocol_version=ibp, **options)
    made.assign("foo", (1, 2, 3), (2, 3, 1))
    made.assign("bar", (1, 2, 3), (3, 1, 2))
    for partition, (leader, isr) in PARTITIONS.items():
        made.lead(partition, leader, *isr, epoch=4, version=6)
    return made


def shut_down_2_and_lose_3(made: Scene) -> None:
    made.context.begin_shutdown(2)
    made.context.remove_broker(3)


def add(made: Scene, batch: RequestBatch, partition: TopicPartition, *broker_ids: int, is_new: bool = False) -> None:
    context = made.context
    batch.add_leader_and_isr(
        broker_ids, partition, context.leadership[partition], context.assignments[partition], is_new
    )


def test_cm1_leader_and_isr() -> None:
    made = scene()
    batch = RequestBatch(made.context)
    for partition in PARTITIONS:
        add(made, batch, partition, 2)
    made.run(batch.send())
    (request,) = made.requests(LeaderAndIsrRequest)
    assert made.receivers(LeaderAndIsrRequest) == [2]
    assert made.receivers(UpdateMetadataRequest) == [1, 2, 3]
    assert (request.version, request.controller_id, request.controller_epoch, request.broker_epoch) == (4, 5, EPOCH, 1)
    assert [(s.partition, s.leader, s.isr, s.leader_epoch, s.zk_version) for s in request.partition_states] == [
        (partition, leader, isr, 4, 6) for partition, (leader, isr) in PARTITIONS.items()
    ]
    assert request.live_leaders == tuple(LiveLeader(b, f"host{b}", 9092) for b in (1, 2, 3))
    assert [type(r) for _, r in made.sent] == [LeaderAndIsrRequest] + [UpdateMetadataRequest] * 3


@pytest.mark.parametrize("order", [(True, False), (False, True)])
def test_cm2_is_new_sticks_and_the_last_state_wins(order: tuple[bool, bool]) -> None:
    made = scene()
    batch = RequestBatch(made.context)
    add(made, batch, FOO0, 2, is_new=order[0])
    made.context.lead(FOO0, leadership(2, 2, epoch=5, version=7))
    add(made, batch, FOO0, 2, is_new=order[1])
    made.run(batch.send())
    (request,) = made.requests(LeaderAndIsrRequest)
    assert [(s.is_new, s.leader, s.leader_epoch) for s in request.partition_states] == [(True, 2, 5)]


def test_cm3_only_live_brokers_receive_requests() -> None:
    made = scene()
    shut_down_2_and_lose_3(made)
    batch = RequestBatch(made.context)
    add(made, batch, FOO0, 1, 2, 3, -1)
    made.run(batch.send())
    assert made.receivers(LeaderAndIsrRequest) == made.receivers(UpdateMetadataRequest) == [1, 2]


@pytest.mark.parametrize(("ibp", "leader_and_isr", "update_metadata", "stop_replica"), VERSIONS)
def test_cm4_cm9_cm18_versions(ibp: str, leader_and_isr: int, update_metadata: int, stop_replica: int) -> None:
    assert request_versions(ibp) == (leader_and_isr, update_metadata, stop_replica)
    made = scene(ibp)
    batch = RequestBatch(made.context)
    add(made, batch, FOO0, 2)
    batch.add_stop_replicas(2, [BAR1], delete=False)
    made.run(batch.send())
    assert [request.version for to, request in made.sent if to == 2] == [leader_and_isr, update_metadata, stop_replica]


def test_cm5_update_metadata_carries_each_partitions_leadership() -> None:
    made = scene()
    batch = RequestBatch(made.context)
    batch.add_update_metadata((2,), PARTITIONS)
    made.run(batch.send())
    (request,) = made.requests(UpdateMetadataRequest, 2)
    assert [(s.partition, s.leader, s.isr) for s in request.partition_states] == [
        (partition, leader, isr) for partition, (leader, isr) in PARTITIONS.items()
    ]
    assert [broker.id for broker in request.live_brokers] == [1, 2, 3]


def test_cm6_a_partition_without_leadership_is_left_out() -> None:
    made = scene()
    made.context._leadership.dicts.clear()
    batch = RequestBatch(made.context)
    batch.add_update_metadata((2,), PARTITIONS)
    made.run(batch.send())
    (request,) = made.requests(UpdateMetadataRequest)
    assert (request.partition_states, len(request.live_brokers)) == ((), 3)


def test_cm7_a_topic_being_deleted_has_leader_minus_2() -> None:
    made = scene()
    made.context.set_deletions(DeletionSets(queued=("foo",)))
    batch = RequestBatch(made.context)
    batch.add_update_metadata((2,), PARTITIONS)
    made.run(batch.send())
    (request,) = made.requests(UpdateMetadataRequest)
    assert [(s.leader, s.leader_epoch, s.zk_version, s.isr) for s in request.partition_states] == [
        (LEADER_DURING_DELETE, 0, 0, (1, 2)),
        (LEADER_DURING_DELETE, 0, 0, (2, 3)),
        (3, 4, 6, (1, 3)),
    ]


def test_cm8_live_brokers_get_the_live_brokers() -> None:
    made = scene()
    shut_down_2_and_lose_3(made)
    batch = RequestBatch(made.context)
    batch.add_update_metadata((1, 2, 3), ())
    made.run(batch.send())
    assert made.receivers(UpdateMetadataRequest) == [1, 2]
    for request in made.requests(UpdateMetadataRequest):
        assert [broker.id for broker in request.live_brokers] == [1, 2]


def stop(made: Scene, *replicas: tuple[int, TopicPartition, bool]) -> list[StopReplicaRequest]:
    batch = RequestBatch(made.context)
    for broker_id, partition, delete in replicas:
        batch.add_stop_replicas(broker_id, [partition], delete)
    made.run(batch.send())
    return made.requests(StopReplicaRequest)


def test_cm10_stop_replica_carries_the_leader_epoch() -> None:
    (request,) = stop(scene(), *((2, partition, False) for partition in PARTITIONS))
    assert [(s.partition, s.leader_epoch, s.delete_partition) for s in request.partition_states] == [
        (partition, 4, False) for partition in PARTITIONS
    ]


def test_cm11_a_deletion_sticks() -> None:
    (request,) = stop(scene(), (2, FOO0, True), (2, FOO0, False))
    assert [s.delete_partition for s in request.partition_states] == [True]


@pytest.mark.parametrize("ibp", [ibp for ibp, *_ in VERSIONS])
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("delete", [False, True])
def test_cm12_cm13_cm14_only_deletions_of_started_topics_are_events(ibp: str, started: bool, delete: bool) -> None:
    made = scene(ibp)
    made.record.topics = {}
    made.context.set_deletions(DeletionSets(queued=("foo",), started=("foo",) if started else ()))
    (request,) = stop(made, (2, FOO0, delete), (2, BAR1, delete))
    assert [s.leader_epoch for s in request.partition_states] == [-2, 4]
    deleted = tuple(s.partition for s in request.partition_states if s.delete_partition)
    response = StopReplicaResponse(0, tuple(PartitionError(tp, 0) for tp in (FOO0, BAR1)))
    made.forget()
    event = TopicDeletionStopReplicaResponseReceived(2, 0, 0, deleted, response)
    made.run(responses.replicas_deleted(made.context, event))
    concerned = [r.partition for question in made.asked for r in question.replicas]
    assert concerned == ([FOO0] if started and delete else [])


@pytest.mark.parametrize("ibp", [ibp for ibp, *_ in VERSIONS])
def test_cm15_deletions_come_first_where_one_request_cannot_hold_both(ibp: str) -> None:
    requests = stop(scene(ibp), (2, BAR1, False), (2, FOO0, True))
    flags = [[s.delete_partition for s in request.partition_states] for request in requests]
    assert flags == ([[False, True]] if ibp in ("2.6-IV0", "2.6", "2.8-IV0", "2.8") else [[True], [False]])


def test_cm16_stop_replica_groups_by_broker() -> None:
    made = scene()
    requests = stop(made, *((b, partition, False) for partition in PARTITIONS for b in (2, 3)))
    assert made.receivers(StopReplicaRequest) == [2, 3]
    assert [len(request.partition_states) for request in requests] == [3, 3]


def test_cm17_only_living_brokers_are_stopped() -> None:
    made = scene()
    shut_down_2_and_lose_3(made)
    stop(made, (2, FOO0, False), (3, FOO0, False))
    assert made.receivers(StopReplicaRequest) == [2]


def test_each_broker_gets_its_own_epoch_and_all_share_the_partitions() -> None:
    made = scene()
    made.context.add_broker(Broker(3, made.context.brokers[3].endpoints, 9))
    batch = RequestBatch(made.context)
    batch.add_update_metadata(made.context.brokers, PARTITIONS)
    made.run(batch.send())
    requests = made.requests(UpdateMetadataRequest)
    assert [request.broker_epoch for request in requests] == [1, 1, 9]
    assert len({id(request.partition_states) for request in requests}) == 1


def test_a_protocol_version_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError):
        request_versions("two")


def test_large_requests_go_in_shared_parts() -> None:
    made = Scene(1, 2, 3)
    partitions = made.assign("large", *[(1, 2)] * (2 * SLICE + 1))
    batch = RequestBatch(made.context)
    for partition in partitions:
        made.lead(partition, 1, 1, 2)
        leadership_now, assignment = made.context.leadership[partition], made.context.assignment(partition)
        batch.add_leader_and_isr((1, 2), partition, leadership_now, assignment, is_new=True)
        batch.add_stop_replicas(3, [partition], delete=False)
    made.run(batch.send())
    assert made.receivers(LeaderAndIsrRequest) == [1, 2]
    assert made.receivers(UpdateMetadataRequest) == [1, 2, 3]
    assert made.receivers(StopReplicaRequest) == [3]
    for (_, request), parts in zip(made.sent, made.parts, strict=True):
        assert [len(part.entries) for part in parts] == [SLICE, SLICE]
        assert [state.partition for state in join_parts(parts, request).partition_states] == partitions
    roles, metadata = made.parts[:2], made.parts[2:5]
    for shared in (roles, metadata):
        assert all(ours is first for parts in shared for ours, first in zip(parts, shared[0], strict=True))
