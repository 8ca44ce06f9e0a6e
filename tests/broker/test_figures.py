"""Metrics of a broker's records and replicas, and when the broker publishes them (conventions.md 7)."""

from __future__ import annotations

from pathlib import Path

from actors.broker.replica_fetcher import ReplicaFetcherActor
from messages.apis.fetch import FetchedPartition, FetchResponse
from messages.apis.offset_for_leader_epoch import EpochEnd, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from messages.cluster import ConfigEntry, TopicPartition
from messages.network import Received
from messages.partition import ThrottledTopic, ThrottleReplicas, ThrottleReplication
from messages.vocabulary import Message
from messages.wire.record_batch import body_of
from tests.broker.harness import Broker, alive, known, order
from tests.broker.test_records import U0, configure, fetch, lead, produce, skip
from tests.storage.batches import batch


def test_records_are_counted_and_published_once_a_second(tmp_path: Path) -> None:
    broker = Broker(tmp_path, counted=True)
    broker.run()
    lead(broker)
    for _ in range(3):
        produce(broker, batch(b"a", b"b"))
    fetch(broker, 0)
    assert broker.counts == {}
    skip(broker, 1.0)
    size = len(batch(b"a", b"b"))
    assert broker.counts[("messagesin", "t")] == broker.counts[("messagesin", "")] == 6
    assert broker.counts[("bytesin", "t")] == broker.counts[("bytesout", "t")] == 3 * size
    assert (broker.counts[("totalproducerequests", "")], broker.counts[("totalfetchrequests", "t")]) == (3, 1)
    awaited = [timer for timer in broker.base.timers if timer.receiver == broker.partition_requests]
    assert awaited == [], "without counts no timer is set"
    broker.end()


def test_a_throttled_follower_that_is_behind_waits_one_in_sync_does_not_and_both_are_counted(tmp_path: Path) -> None:
    broker = Broker(tmp_path, counted=True)
    broker.run()
    lead(broker, 1, 2, isr=(0, 1))
    size = len(batch(b"a"))
    for _ in range(4):
        produce(broker, batch(b"a"))
    for message in (ThrottleReplicas((ThrottledTopic("t", (0,)),)), ThrottleReplication(size - 1)):
        broker.base.inject(broker.partition_requests, message)

    def fetched(replica: int) -> int:
        return fetch(broker, 0, replica=replica, max_bytes=size).body.size

    rate = "kafka_server_leaderreplication_byte_rate"
    assert [fetched(2), fetched(2), fetched(1)] == [size, 0, size], "the first is answered before it is counted"
    skip(broker, 1.0)
    assert broker.gauges[rate] == 2 * size
    assert fetched(2) == 0
    skip(broker, 1.5)
    assert fetched(2) == size, "2.5 seconds for two"
    broker.base.inject(broker.partition_requests, ThrottleReplication(None))
    assert [fetched(2), fetched(2)] == [size, size]
    skip(broker, 20.0)
    assert broker.gauges[rate] == 0
    assert not [timer for timer in broker.base.timers if timer.receiver == broker.partition_requests]
    broker.end()


def test_reassignment_bytes_are_counted_on_both_sides(tmp_path: Path) -> None:
    """An adding replica's bytes count as replication and as reassignment bytes.

    Once the replica is added, they count only as replication bytes.
    """
    broker = Broker(tmp_path, counted=True)
    broker.run()
    lead(broker, 1, 2, isr=(0, 1), adding_replicas=(2,))
    size = len(batch(b"a"))
    produce(broker, batch(b"a"))
    for replica in (1, 2):
        fetch(broker, 0, replica=replica)
    lead(broker, 1, 2, epoch=1)
    fetch(broker, 0, replica=2)
    skip(broker, 1.0)
    assert (broker.counts[("replicationbytesout", "")], broker.counts[("reassignmentbytesout", "")]) == (3 * size, size)
    for epoch, adding in enumerate(((0,), ())):
        broker.update(known("u", leader=1, epoch=epoch), live=(alive(0), alive(1, 1)))
        broker.lead(order("u", leader=1, epoch=epoch, replicas=(1, 0), isr=(1,), adding_replicas=adding))
        [fetcher] = broker.base.actors(ReplicaFetcherActor)
        for _ in range(3):  # the request in flight, OffsetForLeaderEpoch, and the fetch of the records
            sent = broker.transmitted[-1]
            answer: Message = FetchResponse(())
            if isinstance(sent.request, OffsetForLeaderEpochRequest):
                answer = OffsetForLeaderEpochResponse((EpochEnd(U0, 0, 0, epoch),))
            elif any(part.fetch_offset == epoch for part in sent.request.partitions):
                answer = FetchResponse(
                    (
                        FetchedPartition(
                            U0, 0, 0, 0, 0, body=body_of(batch(b"a", base_offset=epoch, leader_epoch=epoch))
                        ),
                    )
                )
            broker.base.inject(fetcher.myAddress, Received(sent.channel, sent.correlation_id, answer), broker.network)
            broker.run()
    skip(broker, 1.0)
    assert (broker.counts[("replicationbytesin", "")], broker.counts[("reassignmentbytesin", "")]) == (2 * size, size)
    assert ("reassignmentbytesin", "u") not in broker.counts
    broker.end()


def test_a_topic_that_is_followed_and_not_led_any_more_loses_its_figures(broker: Broker) -> None:
    lead(broker)
    broker.update(known("t", leader=1), live=(alive(0), alive(1, 1)))
    broker.lead(order("t", leader=1, epoch=1, zk_version=1))
    [dropped] = broker.dropped
    assert dropped.labels == ((("topic", "t"),),)
    assert "kafka_server_brokertopicmetrics_messagesin_total" in dropped.names


def test_unhealthy_partitions_are_counted(broker: Broker) -> None:
    broker.configs["t"] = (ConfigEntry("min.insync.replicas", "2"),)
    lead(broker, 1, 2, isr=(0, 1))

    def health_flags() -> tuple[float, ...]:
        names = ("underreplicatedpartitions", "underminisrpartitioncount", "atminisrpartitioncount")
        return tuple(broker.gauges[name] for name in names)

    assert health_flags() == (1, 0, 1)
    configure(broker, min_insync_replicas=3)
    assert health_flags() == (1, 1, 0)
    configure(broker, min_insync_replicas=1)
    assert health_flags() == (1, 0, 0)
    broker.grants = True
    fetch(broker, 0, replica=2)
    assert health_flags() == (0, 0, 0)
    assert broker.counts[("isrexpands", "")] == 1


def test_the_number_of_replicas_is_published_when_it_changes(broker: Broker) -> None:
    tp = TopicPartition("t", 0)
    broker.update(known("t", leader=9), live=(alive(0), alive(1, 1)))
    published = []
    for state in (
        order("t", leader=9),  # not alive: the partition does not take its role
        order("t", epoch=1, replicas=(0, 1), zk_version=1),
        order("t", epoch=2, replicas=(0, 1), zk_version=2),
        order("t", epoch=3, replicas=(0, 1, 2), zk_version=3),
        order("t", epoch=4, replicas=(0, 1), zk_version=2),
        order("t", epoch=5, leader=1, zk_version=4),
    ):
        broker.replicas.clear()
        broker.lead(state)
        published.append(dict(broker.replicas))
    assert published == [{tp: 0}, {tp: 2}, {}, {tp: 3}, {}, {tp: 0}]
    broker.stop(("t", 0, 6, True))
    assert broker.replicas == {tp: None}
