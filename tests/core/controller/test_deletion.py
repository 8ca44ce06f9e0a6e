"""TD1-TD4 of controller.md 9.9, and the agreement of controller and deletion record after any events."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.controller import deletion_steps
from actors.core.controller.context import ReplicasByBroker
from actors.core.controller.replica_state_machine import group_by_broker, move_replicas
from actors.core.controller.states import PartitionState, ReplicaState
from actors.core.controller.topic_deletion import TopicDeletions
from actors.core.controller.validation import inconsistencies
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import ZooKeeperRefused
from messages.cluster import Broker, PartitionReplica, TopicPartition
from messages.flow.conversation import SLICE, Worked
from messages.topic_deletion import (
    AnnounceDeletion,
    ChangePartitionStates,
    ChangeReplicaStates,
    DeletingTopic,
    QueueDeletions,
    ResetDeletions,
)
from messages.zookeeper import DeleteTopics, StopWatching, UpdatePartitionStates
from tests.core.controller.driver import Scene, endpoint, planned

S = ReplicaState


def scene(**options: bool) -> Scene:
    """Return topics foo and bar, 2 partitions each on brokers 1, 2, 3, all online."""
    made = Scene(1, 2, 3, **options)
    for topic in ("foo", "bar"):
        for partition in made.assign(topic, (1, 2, 3), (2, 3, 1)):
            made.lead(partition, partition.partition + 1, 1, 2, 3)
            made.put(partition, PartitionState.ONLINE)
            for broker_id in (1, 2, 3):
                made.put_replica(partition, broker_id, S.ONLINE)
    return made


def replicas_of(made: Scene, *topics: str, on: tuple[int, ...] = (1, 2, 3)) -> ReplicasByBroker:
    replicas = [r for topic in topics for r in made.context.deleting_topic(topic).replicas if r.broker_id in on]
    found: ReplicasByBroker = made.run(group_by_broker(replicas))
    return found


def states(made: Scene, topic: str, broker_id: int) -> set[ReplicaState]:
    return {made.context.replica_state(broker_id, tp) for tp in made.context.topics[topic].values()}


def sets(made: Scene) -> tuple[set[str], set[str], set[str]]:
    found = made.context.deletions
    return set(found.queued), set(found.started), set(found.ineligible)


def lose(made: Scene, broker_id: int) -> None:
    hosted = made.context.replicas_on([broker_id])
    made.context.remove_broker(broker_id)
    for partition in hosted.get(broker_id, ()):
        if made.context.replica_state(broker_id, partition) in (S.ONLINE, S.OFFLINE):
            made.put_replica(partition, broker_id, S.OFFLINE)


def come_back(made: Scene, broker_id: int) -> None:
    made.context.add_broker(Broker(broker_id, (endpoint(broker_id),), 2))


def test_td1_deletions_begin_with_the_stored_topics() -> None:
    made = scene()
    made.run(deletion_steps.begin(made.context, ["foo", "bar"]))
    assert sets(made) == ({"foo", "bar"}, set(), set())
    assert made.agreed()
    queued = tuple(made.context.deleting_topic(topic) for topic in ("foo", "bar"))
    made.run(deletion_steps._follow(made.context, ResetDeletions(queued, ineligible=("bar", "baz"))))
    assert sets(made) == ({"foo", "bar"}, set(), {"bar"})
    assert made.agreed()


def test_td2_a_queued_topic_is_deleted_on_all_replicas() -> None:
    made = scene()
    made.run(deletion_steps.queue(made.context, ["foo", "bar"]))
    assert sets(made) == ({"foo", "bar"}, {"foo", "bar"}, set())
    assert set(made.context.partition_states.values()) == {PartitionState.NON_EXISTENT}
    assert {s for topic in ("foo", "bar") for b in (1, 2, 3) for s in states(made, topic, b)} == {S.DELETION_STARTED}
    announced = made.requests(UpdateMetadataRequest, 1)
    assert [len(request.partition_states) for request in announced] == [4]
    assert {s.leader for s in announced[0].partition_states} == {-2}
    stops = made.requests(StopReplicaRequest, 1)
    assert [{s.delete_partition for s in request.partition_states} for request in stops] == [{False}, {True}]
    assert made.agreed()
    made.forget()
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", "bar")))
    assert sets(made) == (set(), set(), set())
    assert made.context.topics == made.context.assignments == made.context.partition_states == {}
    assert [type(question) for question in made.asked[1:]] == [StopWatching, DeleteTopics]
    assert made.asked[2].topics == ("foo", "bar")
    assert inconsistencies(made.context) == [] and made.agreed()


def test_td2_each_move_is_made_once_for_all_topics() -> None:
    made = scene()
    made.run(deletion_steps.queue(made.context, ["foo", "bar"]))
    made.forget()
    topics = tuple(DeletingTopic(t, made.context.deleting_topic(t).replicas) for t in ("foo", "bar"))
    plan = planned(TopicDeletions(), QueueDeletions(topics, ()))
    moves = [
        (type(step), getattr(step, "state", None))
        for step in plan.steps
        if isinstance(step, ChangePartitionStates | ChangeReplicaStates | AnnounceDeletion)
    ]
    assert moves == [
        (ChangePartitionStates, "OfflinePartition"),
        (ChangePartitionStates, "NonExistentPartition"),
        (AnnounceDeletion, None),
        (ChangeReplicaStates, "OfflineReplica"),
        (ChangeReplicaStates, "ReplicaDeletionStarted"),
    ]


def test_td3_deletion_with_a_broker_offline() -> None:
    made = scene()
    lose(made, 2)
    made.run(deletion_steps.queue(made.context, ["foo"]))
    assert sets(made) == ({"foo"}, {"foo"}, {"foo"})
    assert states(made, "foo", 1) == states(made, "foo", 3) == {S.DELETION_STARTED}
    assert states(made, "foo", 2) == {S.DELETION_INELIGIBLE}
    assert made.agreed()
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(1, 3))))
    assert sets(made) == ({"foo"}, {"foo"}, {"foo"})
    assert states(made, "foo", 1) == states(made, "foo", 3) == {S.DELETION_SUCCESSFUL}
    assert states(made, "foo", 2) == {S.OFFLINE}
    assert made.agreed()
    come_back(made, 2)
    made.run(deletion_steps.resume(made.context, ["foo"]))
    assert states(made, "foo", 2) == {S.DELETION_STARTED}
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(2,))))
    assert "foo" not in made.context.topics and sets(made) == (set(), set(), set())
    assert made.agreed()


def test_td4_broker_failure_after_deletion_started() -> None:
    made = scene()
    made.run(deletion_steps.queue(made.context, ["foo"]))
    lose(made, 2)
    made.run(deletion_steps.fail(made.context, replicas_of(made, "foo", on=(2,))))
    assert sets(made) == ({"foo"}, {"foo"}, {"foo"})
    assert states(made, "foo", 2) == {S.DELETION_INELIGIBLE}
    assert states(made, "foo", 1) == states(made, "foo", 3) == {S.DELETION_STARTED}
    come_back(made, 2)
    made.run(deletion_steps.resume(made.context, ["foo"]))
    assert sets(made) == ({"foo"}, {"foo"}, set())
    assert states(made, "foo", 2) == {S.DELETION_INELIGIBLE}
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(1, 3))))
    assert states(made, "foo", 1) == {S.DELETION_SUCCESSFUL}
    assert states(made, "foo", 2) == {S.DELETION_STARTED}
    assert made.agreed()


def test_t14_a_deleted_topic_is_not_ineligible_any_more() -> None:
    made = scene()
    lose(made, 2)
    made.run(deletion_steps.queue(made.context, ["foo"]))
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(1, 3))))
    come_back(made, 2)
    made.run(deletion_steps.resume(made.context, ["foo"]))
    lose(made, 3)
    made.run(deletion_steps.fail(made.context, replicas_of(made, "foo", on=(3,))))
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(2,))))
    assert sets(made) == (set(), set(), set())


def test_a_topic_without_replicas_is_finished_at_once() -> None:
    """A controller ended between two znode deletions: only the deletion request is left (controller.md 6.1)."""
    made = scene()
    made.run(deletion_steps.begin(made.context, ["gone"]))
    made.run(deletion_steps.resume(made.context))
    assert [q.topics for q in made.asked if isinstance(q, DeleteTopics)] == [("gone",)]
    assert sets(made) == (set(), set(), set())


def test_refused_moves_are_reported() -> None:
    """A replica on a dead broker can be Online, and an Online replica cannot become Ineligible."""
    made = scene()
    made.context.remove_broker(2)
    made.run(deletion_steps.queue(made.context, ["foo"]))
    assert states(made, "foo", 2) == {S.ONLINE}
    assert made.agreed()
    come_back(made, 2)
    made.run(deletion_steps.complete(made.context, replicas_of(made, "foo", on=(1, 3))))
    made.run(deletion_steps.resume(made.context, ["foo"]))
    assert states(made, "foo", 2) == {S.DELETION_STARTED}
    assert made.agreed()


def test_without_a_queued_topic_nothing_is_asked() -> None:
    made = scene()
    for flow in (
        deletion_steps.resume(made.context),
        deletion_steps.resume(made.context, ["foo"]),
        deletion_steps.fail(made.context, replicas_of(made, "foo")),
        deletion_steps.complete(made.context, replicas_of(made, "foo")),
    ):
        made.run(flow)
    assert made.asked == []


def test_a_plan_that_breaks_off_leaves_both_sides_agreed() -> None:
    made = scene()
    made.run(deletion_steps.queue(made.context, ["foo"]))
    made.raising[DeleteTopics] = ZooKeeperRefused("not allowed")
    with pytest.raises(ZooKeeperRefused):
        made.run(deletion_steps.complete(made.context, replicas_of(made, "foo")))
    assert isinstance(made.asked[-1], ResetDeletions)
    assert made.agreed()
    made.raising.clear()
    made.run(deletion_steps.resume(made.context))
    assert "foo" not in made.context.topics and made.agreed()


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["queue", "complete", "fail", "lose", "return", "online", "remove"]),
        st.sampled_from(["foo", "bar"]),
        st.integers(1, 3),
    ),
    max_size=25,
)


def law(made: Scene) -> None:
    """Check each queued topic after the deletion has resumed.

    A topic whose replicas are all deleted is finished, so it is no longer queued. A queued topic that is not ineligible
    has a replica in ReplicaDeletionStarted.
    """
    context = made.context
    for topic in context.queued:
        standing = {context.replica_state(b, tp) for b, tps in replicas_of(made, topic).items() for tp in tps}
        assert standing != {S.DELETION_SUCCESSFUL}
        assert topic in context.deletions.ineligible or S.DELETION_STARTED in standing


@settings(max_examples=60, deadline=None)
@given(EVENTS)
def test_whatever_happens_both_sides_agree(events: list[tuple[str, str, int]]) -> None:
    made = scene()
    context = made.context
    for what, topic, broker_id in events:
        mine = replicas_of(made, topic, on=(broker_id,))
        hosted: ReplicasByBroker = context.replicas_on([broker_id])
        queued = topic in context.queued
        match what:
            case "queue" if topic in context.topics:
                made.run(deletion_steps.queue(context, [topic]))
                law(made)
            case "complete":
                made.run(deletion_steps.complete(context, mine))
                if queued and mine:
                    law(made)
            case "fail":
                made.run(deletion_steps.fail(context, mine))
            case "lose" if broker_id in context.brokers:
                context.remove_broker(broker_id)
                kept = {broker_id: [tp for tp in hosted.get(broker_id, ()) if tp.topic not in context.queued]}
                made.run(move_replicas(context, kept, S.OFFLINE))
                made.run(deletion_steps.fail(context, hosted))
            case "return" if broker_id not in context.brokers:
                come_back(made, broker_id)
                made.run(move_replicas(context, hosted, S.ONLINE))
                made.run(deletion_steps.correct(context, list(context.queued)))
                made.run(deletion_steps.resume(context, sorted({tp.topic for tps in hosted.values() for tp in tps})))
            case "online":
                made.run(move_replicas(context, hosted, S.ONLINE))
                made.run(deletion_steps.correct(context, sorted(context.queued)))
            case "remove" if topic in context.topics:
                made.run(context.remove_topics([topic]))
                made.run(deletion_steps.correct(context, [topic]))
                made.run(deletion_steps.resume(context))
        assert made.agreed()
        assert inconsistencies(context) == []
    for broker_id in (1, 2, 3):
        if broker_id not in context.brokers:
            come_back(made, broker_id)
    for _ in range(3):
        for topic in sorted(context.queued):
            made.run(deletion_steps.resume(context, [topic]))
            made.run(deletion_steps.complete(context, replicas_of(made, topic)))
    assert context.queued == frozenset()
    assert made.agreed()


def test_a_large_topic_is_deleted_in_slices() -> None:
    """A topic of 5,000 partitions with two replicas is deleted in writes of at most SLICE partitions, with pauses."""
    made = Scene(1, 2)
    partitions = made.assign("large", *[(1, 2)] * 5_000)
    for partition in partitions:
        made.lead(partition, 1, 1, 2)
        made.put(partition, PartitionState.ONLINE)
        for broker_id in (1, 2):
            made.put_replica(partition, broker_id, S.ONLINE)
    made.run(deletion_steps.queue(made.context, ["large"]))
    assert max(len(q.states) for q in made.asked if isinstance(q, UpdatePartitionStates)) <= SLICE
    queueing, made.worked = made.worked, 0.0
    made.run(deletion_steps.complete(made.context, replicas_of(made, "large", on=(1, 2))))
    assert "large" not in made.context.topics and made.agreed()
    assert queueing > 20 and made.worked > 10


def test_the_record_pauses_over_many_replicas() -> None:
    replicas = tuple(PartitionReplica(TopicPartition("large", n), b) for n in range(3 * SLICE) for b in (1, 2))
    steps: list[object] = []
    flow = TopicDeletions().answer(QueueDeletions((DeletingTopic("large", replicas),), ()))
    with pytest.raises(StopIteration):
        while True:
            steps.append(flow.send(None))
    assert all(isinstance(step, Worked) for step in steps)
    assert sum(step.share for step in steps if isinstance(step, Worked)) >= 3
