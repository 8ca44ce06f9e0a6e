"""Brokers start, fail and return (controller.md 7.4, 7.5; cases CH1, CI18, CI20, BE1's controller side)."""

from __future__ import annotations

from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import Broker, Endpoint, TopicPartition
from messages.errors import BROKER_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, STALE_BROKER_EPOCH, STALE_CONTROLLER_EPOCH
from messages.events import LeaderAndIsrResponseReceived
from messages.network import ClientRequest, ClientResponse, Forwarded
from messages.store import CREATE_EPHEMERAL, DELETE, SET, WriteOp
from messages.zookeeper import NotifyLogDirFailure, RegisterBroker
from tests.controller.world import World, endpoint, good_answer
from zk_bridge import paths
from zk_bridge.brokers import encode_broker
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore


def test_ch1_a_new_broker_first_gets_every_partition(world: World) -> None:
    world.node(1)
    world.broker(8)
    (partition,) = world.topic("t", (1, 8))
    world.wire.clear()
    world.broker(9)
    (first,) = world.sent(9)
    assert isinstance(first, UpdateMetadataRequest)
    assert (first.version, first.controller_id, first.controller_epoch) == (6, 1, 1)
    assert [(s.partition, s.leader, s.isr, s.offline_replicas) for s in first.partition_states] == [
        (partition, 1, (1, 8), ())
    ]
    assert [broker.id for broker in first.live_brokers] == [1, 8, 9]
    (old,) = world.sent(8)
    assert old.partition_states == () and [broker.id for broker in old.live_brokers] == [1, 8, 9]
    assert {t.client_id for t in world.transmits} == {"1"}
    world.wire.clear()
    world.lose(9)
    assert [broker.id for broker in world.sent(8, UpdateMetadataRequest)[-1].live_brokers] == [1, 8]


def test_ci18_the_only_replica_stops_and_comes_back(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    (partition,) = world.topic("t", (2,))
    world.lose(2)
    assert world.led(partition) == (-1, 1, (2,))
    assert node.gauge("offlinepartitionscount") == 1
    world.broker(2)
    assert world.led(partition) == (2, 2, (2,))
    assert node.gauge("offlinepartitionscount") == 0


def test_the_death_of_a_leader_costs_one_epoch(world: World) -> None:
    world.node(1)
    world.broker(2)
    led, followed = world.topic("t", (2, 1), (1, 2))
    world.lose(2)
    assert world.led(led) == (1, 1, (1,))
    assert world.led(followed) == (1, 1, (1,))


def test_a_restarted_broker_receives_all_state_again(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    (partition,) = world.topic("t", (2, 1))
    old = node.context.brokers[2].epoch
    world.wire.clear()
    node.store.disconnect()
    world.bounce(2)
    node.store.reconnect()
    world.run()
    assert node.context.brokers[2].epoch > old
    assert world.led(partition) == (1, 1, (1,))
    assert len(world.closed) == 1
    heard = world.sent(2)
    assert isinstance(heard[0], UpdateMetadataRequest) and heard[0].partition_states
    assert isinstance(heard[1], LeaderAndIsrRequest)
    assert {request.broker_epoch for request in heard} == {node.context.brokers[2].epoch}


def test_other_endpoints_are_announced_and_another_rack_is_not(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    world.wire.clear()
    path = f"{paths.BROKER_IDS}/2"
    racked = Broker(2, (endpoint(2),), rack="r1")
    world.zk.write((WriteOp(SET, path, encode_broker(racked, 0, "2.6")),), 0)
    world.run()
    assert world.wire == []
    epoch = node.context.brokers[2].epoch
    moved = Broker(2, (endpoint(2), Endpoint("CLIENTS", "127.0.0.1", 7)))
    for _ in range(2):
        world.zk.write((WriteOp(SET, path, encode_broker(moved, 0, "2.6")),), 0)
        world.run()
    assert [to for to, _ in world.wire] == [1, 2]
    assert len(world.sent(1)[0].live_brokers[1].endpoints) == 2
    assert node.context.brokers[2].epoch == epoch


def test_a_broker_without_the_inter_broker_listener_stops_the_whole_event(world: World) -> None:
    node = world.node(1)
    world.expected_failures = 1
    odd = Broker(7, (Endpoint("CLIENTS", "127.0.0.1", 1),))
    world.zk.write((WriteOp(CREATE_EPHEMERAL, f"{paths.BROKER_IDS}/7", encode_broker(odd, 0, "2.6")),), 77)
    world.run()
    assert set(node.context.brokers) == {1} and node.context.active


def test_a_lost_follower_is_reported_once(world: World) -> None:
    """If an ISR shrinks, its UpdateMetadata request has the live brokers too.

    Only the loss of a broker that changes no partition needs its own request.
    """
    world.node(1)
    world.broker(2)
    world.topic("t", (1, 2))
    world.wire.clear()
    world.lose(2)
    (metadata,) = world.sent(1, UpdateMetadataRequest)
    assert len(metadata.partition_states) == 1 and [broker.id for broker in metadata.live_brokers] == [1]
    world.broker(3)
    world.wire.clear()
    world.lose(3)
    (metadata,) = world.sent(1, UpdateMetadataRequest)
    assert metadata.partition_states == () and [broker.id for broker in metadata.live_brokers] == [1]


def test_a_new_broker_gets_no_topics_in_deletion(world: World) -> None:
    world.node(1)
    for broker_id in (2, 3):
        world.broker(broker_id)
    world.topic("gone", (1, 3))
    (kept,) = world.topic("kept", (1, 2))
    world.lose(3)
    world.delete("gone")
    world.broker(4)
    assert [s.partition for request in world.sent(4) for s in request.partition_states] == [kept]


# ------------------------------------------------------------------------------------------------- torn registrations


def registration(broker_id: int, *more: Endpoint) -> bytes:
    """Return the data of a valid registration."""
    return encode_broker(Broker(broker_id, (endpoint(broker_id), *more)), 0, "2.6")


def test_an_invalid_registration_does_not_affect_other_brokers(world: World) -> None:
    node = world.node(1)
    path = paths.broker(2)
    world.zk.write((WriteOp(CREATE_EPHEMERAL, path, b"{torn"),), 77)
    world.zk.write((WriteOp(CREATE_EPHEMERAL, f"{paths.BROKER_IDS}/missing", b"{}"),), 77)
    world.broker(3)
    (partition,) = world.topic("t", (2, 3))
    assert set(node.context.brokers) == {1, 3} and world.led(partition) == (3, 0, (3,))
    world.zk.write((WriteOp(SET, path, registration(2)),), 0)
    world.run()
    assert set(node.context.brokers) == {1, 2, 3}
    assert isinstance(world.sent(2)[1], LeaderAndIsrRequest), "it is welcome as soon as it can be read"


def test_a_known_broker_stays_as_known_while_its_registration_is_torn(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    (partition,) = world.topic("t", (2, 1))
    known = node.context.brokers[2]
    world.zk.write((WriteOp(SET, paths.broker(2), b""),), 0)
    world.broker(3)
    assert node.context.brokers[2] == known and set(node.context.brokers) == {1, 2, 3}
    assert world.led(partition) == (2, 0, (2, 1))
    world.wire.clear()
    world.zk.write((WriteOp(SET, paths.broker(2), registration(2, Endpoint("CLIENTS", "127.0.0.1", 7))),), 0)
    world.run()
    assert [to for to, _ in world.wire] == [1, 2, 3] and len(node.context.brokers[2].endpoints) == 2


def test_a_broker_that_bounced_into_a_torn_registration_has_bounced_when_it_can_be_read(world: World) -> None:
    node = world.node(1)
    world.broker(2)
    (partition,) = world.topic("t", (2, 1))
    old, path = node.context.brokers[2], paths.broker(2)
    world.zk.write((WriteOp(DELETE, path), WriteOp(CREATE_EPHEMERAL, path, b"?")), 77)
    world.run()
    assert node.context.brokers[2] == old and world.led(partition) == (2, 0, (2, 1))
    world.zk.write((WriteOp(SET, path, registration(2)),), 0)
    world.run()
    assert node.context.brokers[2].epoch > old.epoch and world.led(partition) == (1, 1, (1,))


def test_a_term_begins_in_spite_of_a_torn_registration(world: World) -> None:
    first = world.node(1)
    world.broker(2)
    (partition,) = world.topic("t", (2,))
    second = world.node(3)
    world.zk.write((WriteOp(SET, paths.broker(2), b"{torn"),), 0)
    world.run()
    first.kill()
    assert second.context.active and set(second.context.brokers) == {3}
    world.zk.write((WriteOp(SET, paths.broker(2), registration(2)),), 0)
    world.run()
    assert set(second.context.brokers) == {2, 3} and world.led(partition)[0] == 2


def test_a_broker_that_registers_another_endpoint_is_reached_there_at_once(world: World) -> None:
    """Kafka's channel retries the old endpoint forever."""
    world.node(1)
    world.broker(2)
    world.answers[2] = lambda request: None
    world.topic("t", (2, 1))
    assert isinstance(world.sent(2)[-1], LeaderAndIsrRequest)
    elsewhere = Broker(2, (endpoint(3),))
    world.zk.write((WriteOp(SET, paths.broker(2), encode_broker(elsewhere, 0, "2.6")),), 0)
    world.run(0.05)
    assert isinstance(world.sent(3)[0], LeaderAndIsrRequest)


def test_requests_are_sent_to_the_inter_broker_listener(world: World) -> None:
    """The requests still name leaders by their inter-broker listener, because followers fetch there."""
    node = world.node(1)
    both = Broker(2, (endpoint(2), Endpoint("CONTROL", "127.0.0.1", endpoint(3).port)))
    own = Broker(1, (endpoint(1), Endpoint("CONTROL", "127.0.0.1", endpoint(4).port)))
    node.kill()
    world.node(1, control_plane_listener_name="CONTROL", advertised_listeners=own.endpoints)
    Client(MemoryStore(world.zk)).ask(RegisterBroker(both, 0, "2.6"))
    world.run()
    world.wire.clear()
    world.topic("t", (2, 1))
    assert world.sent(1) == world.sent(2) == []
    (request,) = world.sent(3, LeaderAndIsrRequest)
    assert [(leader.broker_id, leader.port) for leader in request.live_leaders] == [(2, endpoint(2).port)]
    assert world.sent(4, LeaderAndIsrRequest)


def test_a_leader_without_the_listener_does_not_affect_others(world: World) -> None:
    """Kafka sends no requests in this case, and none afterwards."""
    world.node(1)
    world.broker(2)
    clients = Broker(2, (Endpoint("CLIENTS", "127.0.0.1", 1),))
    world.zk.write((WriteOp(SET, paths.broker(2), encode_broker(clients, 0, "2.6")),), 0)
    world.run()
    world.wire.clear()
    (partition,) = world.topic("t", (2, 1))
    (request,) = world.sent(1, LeaderAndIsrRequest)
    assert [s.partition for s in request.partition_states] == [partition] and request.live_leaders == ()
    assert world.sent(2, LeaderAndIsrRequest), "the channel to it is still there"


# ------------------------------------------------------------------------------------------------- controlled shutdown


def test_ci20_a_controlled_shutdown_moves_the_leaders(world: World) -> None:
    node = world.node(0)
    for broker_id in (1, 2):
        world.broker(broker_id)
    (partition,) = world.topic("t", (0, 1, 2))
    epochs = {b: broker.epoch for b, broker in node.context.brokers.items()}
    assert world.shut_down(node, 2, epochs[2]).remaining_partitions == ()
    assert world.led(partition)[0::2] == (0, (0, 1))
    assert world.shut_down(node, 1, epochs[1]).remaining_partitions == ()
    assert world.led(partition)[0::2] == (0, (0,))
    last = world.shut_down(node, 0, epochs[0])
    assert (last.error_code, last.remaining_partitions) == (0, (partition,))
    assert world.led(partition)[0] == 0


def test_a_shutting_down_leader_is_replaced_and_both_are_notified(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    (partition, alone) = world.topic("t", (1, 0), (1,))
    world.wire.clear()
    assert world.shut_down(node, 1).remaining_partitions == ()
    assert world.led(partition) == (0, 1, (0,))
    assert world.led(alone) == (1, 0, (1,))
    assert [to for to, request in world.wire if isinstance(request, LeaderAndIsrRequest)] == [1, 0]
    world.lose(1)
    assert node.context.shutting_down == {}
    assert world.led(partition) == (0, 1, (0,))


def test_a_follower_that_shuts_down_is_stopped_and_shrunk(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    (partition,) = world.topic("t", (0, 1))
    world.wire.clear()
    world.shut_down(node, 1)
    assert world.led(partition) == (0, 1, (0,))
    stops = world.sent(1, StopReplicaRequest)
    assert len(stops) == 2
    assert {s.delete_partition for request in stops for s in request.partition_states} == {False}


def test_controlled_shutdown_is_refused(world: World) -> None:
    first, second = world.node(0), world.node(1)
    world.broker(2)
    epoch = first.context.brokers[2].epoch
    assert world.shut_down(first, 2, epoch - 1).error_code == STALE_BROKER_EPOCH
    assert world.shut_down(first, 9, 12345).error_code == BROKER_NOT_AVAILABLE
    assert world.shut_down(second, 2, epoch).error_code == STALE_CONTROLLER_EPOCH
    assert not first.context.shutting_down


def test_waiting_requests_get_not_controller_when_the_session_expires(world: World) -> None:
    node = world.node(0)
    world.broker(1)
    world.topic("t", (1, 0))
    node.store.disconnect()
    for number in (1, 2):
        mail = ClientRequest(number, number, "b", "PLAINTEXT", ControlledShutdownRequest(3, 1))
        world.base.inject(node.controller, Forwarded(world.client, mail), world.client)
    world.run()
    assert world.responses == [] and node.actor.stashed == 1
    node.store.expire(reconnect=False)
    world.run()
    assert [(type(r), r.connection, r.response.error_code) for r in world.responses] == [
        (ClientResponse, 1, STALE_CONTROLLER_EPOCH),
        (ClientResponse, 2, STALE_CONTROLLER_EPOCH),
    ]


# ------------------------------------------------------------------------------------------------- log directories


def disk_error(broken: set[TopicPartition]) -> object:
    """Return the responder of a broker whose disk cannot serve these partitions."""

    def answer(request: object) -> object:
        if not isinstance(request, LeaderAndIsrRequest):
            return good_answer(request)
        codes = ((s.partition, KAFKA_STORAGE_ERROR if s.partition in broken else 0) for s in request.partition_states)
        return LeaderAndIsrResponse(0, tuple(PartitionError(*code) for code in codes))

    return answer


def test_a_failed_log_directory_is_forgotten_with_its_topic(world: World) -> None:
    """The controller also ignores a broker's report of the failure after the topic was removed."""
    node = world.node(0)
    hurt = TopicPartition("t", 0)
    world.answers[1] = disk_error({hurt})  # type: ignore[assignment]
    world.broker(1)
    world.topic("t", (1, 0))
    assert node.context.offline_dirs == {1: {hurt: None}}
    gone = (paths.partition_state(hurt), paths.partition(hurt), paths.partitions("t"), paths.topic("t"))
    world.zk.write(tuple(WriteOp(DELETE, path) for path in gone), 0)
    world.run()
    assert node.context.offline_dirs == {}
    late = LeaderAndIsrResponse(0, (PartitionError(hurt, KAFKA_STORAGE_ERROR),))
    node.send(LeaderAndIsrResponseReceived(1, late), node.actor._channels[1])
    del world.answers[1]
    world.topic("t", (1, 0))
    assert node.context.offline_dirs == {} and world.led(hurt) == (1, 0, (1, 0))


def test_a_failed_log_directory_moves_the_leader(world: World) -> None:
    node = world.node(0)
    broken: set[TopicPartition] = set()
    world.answers[1] = disk_error(broken)  # type: ignore[assignment]
    world.broker(1)
    hurt, well = world.topic("t", (1, 0), (1, 0))
    broken.add(hurt)
    world.brokers[1].ask(NotifyLogDirFailure(1))
    world.run()
    assert world.led(hurt) == (0, 1, (0,))
    assert world.led(well) == (1, 0, (1, 0))
    assert world.zk.children(paths.LOG_DIR_EVENTS).names == ()
    assert node.context.offline_dirs == {1: {hurt: None}}
    metadata = world.sent(0, UpdateMetadataRequest)[-1]
    assert {s.partition: s.offline_replicas for s in metadata.partition_states}[hurt] == (1,)
    broken.clear()
    world.brokers[1].ask(NotifyLogDirFailure(1))
    world.run()
    assert node.context.offline_dirs == {}
