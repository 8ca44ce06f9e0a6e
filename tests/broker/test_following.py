"""A follower's fetchers under a controller's requests: which requests stop them, and that late data changes nothing.

broker.md 1.2, 2.1 and 4.3: a partition accepts or refuses a request before its fetcher changes (`ReplicaManagerActor`,
rule 6).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.partition import PartitionActor
from actors.broker.replica_fetcher import ReplicaFetcherActor
from actors.runtime import Delivery
from messages.apis.fetch import FetchedPartition, FetchRequest, FetchResponse
from messages.apis.offset_for_leader_epoch import EpochEnd, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from messages.cluster import TopicPartition
from messages.errors import FENCED_LEADER_EPOCH, NONE, STALE_CONTROLLER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION
from messages.flow.conversation import SLICE
from messages.network import CloseConnection, Received, Transmit
from messages.node import ShuttingDown
from messages.partition import Replicate, Replicated, TruncateFullyAndStartAt, TruncateToEpochEnd, Unfollow
from messages.vocabulary import Message
from messages.wire.record_batch import body_of
from tests.broker.harness import Broker, alive, codes, known, order
from tests.storage.batches import batch

T0 = TopicPartition("t", 0)
STOPPED_FETCHERS = "Stopped fetchers as part of"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "data")
    made.update(known("t", leader=1), live=(alive(0), alive(1, 1), alive(2, 2)))
    yield made
    made.end()


def follow(broker: Broker, leader: int = 1, epoch: int = 0, number: int = 0, **fields: object) -> dict[str, int]:
    """Make broker 0 a follower and return the error codes by partition."""
    replicas = {"replicas": (0, 1, 2), "isr": (leader, 0), "zk_version": epoch}
    return codes(broker.lead(order("t", number, leader=leader, epoch=epoch, **{**replicas, **fields})))


def fetchers(broker: Broker) -> dict[int, ReplicaFetcherActor]:
    """Return the running fetchers by leader id."""
    return {each._start.leader_id: each for each in broker.base.actors(ReplicaFetcherActor)}


def under_way(broker: Broker, leader: int) -> Transmit:
    """Return the last request that the leader's fetcher sent."""
    sent = [each for each in broker.transmitted if isinstance(each, Transmit) and each.endpoint.port == leader]
    return sent[-1]


def reply(broker: Broker, leader: int, response: Message) -> Message:
    """Answer the leader's fetcher and return its next request."""
    transmit = under_way(broker, leader)
    answer = Received(transmit.channel, transmit.correlation_id, response)
    broker.base.inject(fetchers(broker)[leader].myAddress, answer, broker.network)
    broker.run()
    return under_way(broker, leader).request


def records(*values: bytes, base: int, high_watermark: int, epoch: int = 0) -> FetchResponse:
    """Return a leader's fetch response with one batch for t-0."""
    body = body_of(batch(*values, base_offset=base, leader_epoch=epoch))
    return FetchResponse((FetchedPartition(T0, NONE, high_watermark, high_watermark, 0, body=body),))


def fetched_from(request: Message) -> dict[TopicPartition, int]:
    assert isinstance(request, FetchRequest)
    return {part.partition: part.fetch_offset for part in request.partitions}


def log_end_offset(broker: Broker, partition: TopicPartition = T0) -> int:
    return partition_actor(broker, partition).partition.log.end


def partition_actor(broker: Broker, partition: TopicPartition = T0) -> PartitionActor:
    [actor] = [each for each in broker.base.actors(PartitionActor) if each.partition.role.partition == partition]
    return actor


# ------------------------------------------------------------------------------------------------ refused orders


def test_hd5_refused_states_do_not_affect_the_fetcher(broker: Broker) -> None:
    """Otherwise the follower would fetch nothing until its next LeaderAndIsr, and leave the ISR."""
    follow(broker, epoch=2)
    assert codes(broker.stop(("t", 0, 1, False))) == {"t-0": FENCED_LEADER_EPOCH}
    assert codes(broker.lead(order("t", epoch=1, replicas=(0, 1)))) == {"t-0": STALE_CONTROLLER_EPOCH}
    assert follow(broker, leader=2, epoch=2) == {"t-0": STALE_CONTROLLER_EPOCH}
    foreign = order("t", epoch=3, replicas=(1, 2), zk_version=9)
    assert codes(broker.lead(foreign)) == {"t-0": UNKNOWN_TOPIC_OR_PARTITION}
    assert codes(broker.lead(order("t", epoch=3, replicas=(0, 1), zk_version=1))) == {"t-0": NONE}, "superseded"
    assert list(fetchers(broker)) == [1]
    request = reply(broker, 1, records(b"a", base=0, high_watermark=0, epoch=2))
    assert fetched_from(request) == {T0: 1}, "it still follows"
    assert log_end_offset(broker) == 1


def test_a_refused_state_affects_only_its_own_partition(broker: Broker) -> None:
    follow(broker, epoch=2)
    follow(broker, epoch=2, number=1)
    mixed = broker.lead(order("t", 0, epoch=1, replicas=(0, 1)), order("t", 1, epoch=3, replicas=(0, 1), zk_version=3))
    assert codes(mixed) == {"t-0": STALE_CONTROLLER_EPOCH, "t-1": NONE}
    stopped = broker.stop(("t", 0, 1, False), ("t", 1, 3, False))
    assert codes(stopped) == {"t-0": FENCED_LEADER_EPOCH, "t-1": NONE}
    request = reply(broker, 1, FetchResponse(()))
    assert fetched_from(request) == {T0: 0}


# ------------------------------------------------------------------------------------------------ accepted orders


def test_a_stop_without_deletion_ends_the_idle_fetcher(broker: Broker) -> None:
    follow(broker)
    channel = under_way(broker, 1).channel
    assert codes(broker.stop(("t", 0, 0, False))) == {"t-0": NONE}
    assert fetchers(broker) == {}
    assert CloseConnection(channel) in broker.transmitted


@pytest.mark.parametrize("delete", [False, True])
def test_a_fetcher_ends_with_the_last_partition_that_it_follows(broker: Broker, delete: bool) -> None:
    follow(broker)
    follow(broker, number=1)
    broker.stop(("t", 0, 0, delete))
    assert list(fetchers(broker)) == [1]
    assert fetched_from(reply(broker, 1, FetchResponse(()))) == {TopicPartition("t", 1): 0}
    broker.stop(("t", 1, 0, delete))
    assert fetchers(broker) == {}


def test_a_new_leader_stops_following_its_old_leader(broker: Broker) -> None:
    follow(broker)
    assert codes(broker.lead(order("t", epoch=1, replicas=(0, 1), zk_version=1))) == {"t-0": NONE}
    assert fetchers(broker) == {}


def test_a_follower_leaves_its_old_leader(broker: Broker) -> None:
    follow(broker)
    channel = under_way(broker, 1).channel
    assert follow(broker, leader=2, epoch=1) == {"t-0": NONE}
    assert list(fetchers(broker)) == [2]
    assert CloseConnection(channel) in broker.transmitted


def test_a_follower_leaves_its_old_leader_also_as_the_broker_shuts_down(broker: Broker) -> None:
    follow(broker)
    broker.base.inject(broker.manager, ShuttingDown())
    assert follow(broker, leader=2, epoch=1) == {"t-0": NONE}
    assert fetchers(broker) == {}


class Unfollowed:
    """Record how many partitions each Unfollow to the fetcher manager names."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def observe_delivery(self, delivery: Delivery) -> None:
        if delivery.actor_class == ReplicaFetcherManagerActor.__name__ and isinstance(delivery.message, Unfollow):
            self.sizes.append(len(delivery.message.partitions))


def test_fetchers_of_many_new_leaders_are_stopped_in_batches(broker: Broker) -> None:
    """100,000 new leaders must not cost one message each."""
    unfollowed = Unfollowed()
    broker.base.observer = unfollowed
    count = SLICE + 100
    answer = broker.lead(*(order("t", number, is_new=True) for number in range(count)))
    assert set(codes(answer).values()) == {NONE}
    assert unfollowed.sizes == [SLICE, count - SLICE]


# ------------------------------------------------------------------------------------------------ late data


LATE = {
    "Replicate": lambda epoch, end: Replicate(epoch, end, body_of(batch(b"late", base_offset=end)), 9, 0),
    "TruncateToEpochEnd": lambda epoch, end: TruncateToEpochEnd(epoch, -1, 0, 0),
    "TruncateFullyAndStartAt": lambda epoch, end: TruncateFullyAndStartAt(epoch, 50),
}
"""Messages from a fetcher to a partition; each would change the log."""

ROLES = {
    "follows in a newer epoch": lambda broker: follow(broker, leader=2, epoch=1),
    "leads": lambda broker: codes(broker.lead(order("t", epoch=1, replicas=(0, 1), zk_version=1))),
    "is stopped in the same epoch": lambda broker: codes(broker.stop(("t", 0, 0, False))),
}


@pytest.mark.parametrize("what", LATE)
@pytest.mark.parametrize("role", ROLES)
def test_late_messages_of_a_stopped_fetcher_have_no_effect(broker: Broker, what: str, role: str) -> None:
    """The fetcher may send a message before the request that replaces it; the partition receives it afterwards."""
    follow(broker)
    reply(broker, 1, records(b"a", b"b", base=0, high_watermark=1))
    assert ROLES[role](broker) == {"t-0": NONE}
    actor = partition_actor(broker)
    before = (actor.partition.log.start, actor.partition.log.end, actor.partition.log.high_watermark)
    assert before[:2] == (0, 2)
    broker.base.inject(actor.myAddress, LATE[what](0, 2), broker.network)
    broker.run()
    assert broker.transmitted[-1] == Replicated(T0, 0, FENCED_LEADER_EPOCH, 2)
    assert (actor.partition.log.start, actor.partition.log.end, actor.partition.log.high_watermark) == before


def test_records_received_before_the_role_change_count(broker: Broker) -> None:
    """The partition's reply to the role change gives the new fetcher the log end offset."""
    follow(broker)
    reply(broker, 1, records(b"a", b"b", base=0, high_watermark=2))
    follow(broker, leader=2, epoch=1)
    request = under_way(broker, 2).request
    assert isinstance(request, OffsetForLeaderEpochRequest)
    assert fetched_from(reply(broker, 2, OffsetForLeaderEpochResponse((EpochEnd(T0, NONE, 0, 2),)))) == {T0: 2}


def test_a_stopped_follower_follows_again_by_its_next_order(broker: Broker) -> None:
    follow(broker)
    reply(broker, 1, records(b"a", base=0, high_watermark=1))
    broker.stop(("t", 0, 0, False))
    assert follow(broker, epoch=1) == {"t-0": NONE}
    reply(broker, 1, OffsetForLeaderEpochResponse((EpochEnd(T0, NONE, 0, 1),)))
    reply(broker, 1, records(b"b", base=1, high_watermark=2, epoch=1))
    assert log_end_offset(broker) == 2


# ------------------------------------------------------------------------------------------------ truncation


def behind(broker: Broker) -> None:
    """Follow broker 1 until the log has three records and high watermark 1; then follow broker 2."""
    follow(broker)
    reply(broker, 1, records(b"a", base=0, high_watermark=0))
    reply(broker, 1, records(b"b", b"c", base=1, high_watermark=1))
    assert (log_end_offset(broker), partition_actor(broker).partition.log.high_watermark) == (3, 1)
    follow(broker, leader=2, epoch=1)


@pytest.mark.parametrize(("end", "kept"), [(3, 3), (5, 3), (1, 1)])
def test_kip_101_a_follower_is_cut_where_its_epoch_ends_not_at_its_high_watermark(
    broker: Broker, end: int, kept: int
) -> None:
    """Records above the follower's high watermark may be acknowledged: a leader's high watermark can be ahead of it."""
    behind(broker)
    request = under_way(broker, 2).request
    assert isinstance(request, OffsetForLeaderEpochRequest)
    assert [(query.partition, query.leader_epoch) for query in request.partitions] == [(T0, 0)]
    assert fetched_from(reply(broker, 2, OffsetForLeaderEpochResponse((EpochEnd(T0, NONE, 0, end),)))) == {T0: kept}
    assert log_end_offset(broker) == kept


def test_the_fetcher_gets_the_high_watermark_at_which_a_leader_without_epochs_cuts(broker: Broker) -> None:
    behind(broker)
    assert fetched_from(reply(broker, 2, OffsetForLeaderEpochResponse((EpochEnd(T0, NONE, -1, -1),)))) == {T0: 1}
    assert log_end_offset(broker) == 1


# ------------------------------------------------------------------------------------------------ log messages


def test_stopped_fetchers_are_logged_by_their_number(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "state.change.logger")
    follow(broker, epoch=1)
    assert f"{STOPPED_FETCHERS} become-follower request from controller 100 epoch 1" in caplog.text
    assert caplog.text.rstrip().endswith("for 1 partitions")
    caplog.clear()
    orders = [order("t", number, epoch=2, replicas=(0, 1), zk_version=2) for number in range(3)]
    broker.lead(*orders, order("t", 3, epoch=0, replicas=(8, 9)))
    assert f"{STOPPED_FETCHERS} LeaderAndIsr request correlationId" in caplog.text
    assert "as part of the become-leader transition for 3 partitions" in caplog.text, "only accepted ones count"
    caplog.clear()
    broker.lead(*orders)
    assert STOPPED_FETCHERS not in caplog.text, "nothing was accepted"


def test_changes_of_an_isr_are_logged_before_and_after_their_write(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.cluster.Partition")
    broker.grants = True
    broker.lead(order("t", epoch=1, replicas=(0, 1), isr=(0, 1), zk_version=1))
    broker.base.simulate(50)
    words = [record.getMessage() for record in caplog.records]
    assert len(words) == 2
    assert words[0].startswith("[Partition t-0 broker=0] Shrinking ISR from 0,1 to 0. Leader: (highWatermark: 0,")
    assert words[1] == "[Partition t-0 broker=0] ISR updated to 0 and version updated to 2"
    broker.grants = False
