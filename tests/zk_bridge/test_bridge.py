"""Test the bridge's answers and notifications on the in-memory ZooKeeper (controller.md 2, zookeeper.md 1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from messages import zookeeper
from messages.ask import Done, Failure
from messages.client_quotas import QuotaEntity
from messages.cluster import Broker, ConfigEntry, Endpoint, PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PreferredReplicaLeaderElection,
    Reelect,
    SessionEstablished,
    SessionExpired,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from messages.flow.conversation import SLICE
from messages.store import (
    BAD_VERSION,
    CONNECTION_LOSS,
    CREATE,
    CREATE_SEQUENTIAL,
    DELETE,
    NO_NODE,
    NODE_EXISTS,
    OK,
    SET,
    StoreRead,
    StoreReply,
    StoreWrite,
    Watches,
    WriteOp,
    Znode,
)
from tests.zk_bridge.bridging import SUBSCRIBER, Bridged, broker, controlled, led, with_led_topic, with_topic
from zk_bridge import partition_states, paths, reassignments
from zk_bridge.brokers import encode_broker
from zk_bridge.configs import encode_config
from zk_bridge.conversations import WRITE_OPS, Conversation, Read
from zk_bridge.core import CONVERSATIONS
from zk_bridge.memory_store import MemoryZooKeeper
from zk_bridge.notifications import decode_config_change, encode_log_dir_event, encode_partitions
from zk_bridge.reassignments import encode_reassignments


@pytest.fixture
def server() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def bridge(server: MemoryZooKeeper) -> Bridged:
    return Bridged(server)


@pytest.fixture
def admin(server: MemoryZooKeeper) -> Bridged:
    """Return another client of the same ZooKeeper."""
    return Bridged(server)


# ------------------------------------------------------------------------------------------------- the cluster


def test_parents_are_made_once(bridge: Bridged) -> None:
    assert bridge.ask(zookeeper.EnsurePaths()) == Done()
    assert bridge.server.read("/brokers/ids").data is None
    assert bridge.counted(zookeeper.EnsurePaths()) == (Done(), 1, 0)


def test_the_first_node_sets_the_cluster_id(bridge: Bridged, admin: Bridged) -> None:
    assert bridge.ask(zookeeper.GetClusterId("first")) == zookeeper.ClusterId("first")
    assert admin.ask(zookeeper.GetClusterId("second")) == zookeeper.ClusterId("first")


def test_an_unknown_question_is_answered(bridge: Bridged) -> None:
    answer = bridge.ask(Done())
    assert isinstance(answer, Failure)
    assert "Done" in answer.detail


def test_a_bug_is_answered(bridge: Bridged) -> None:
    answer = bridge.ask(zookeeper.GetAssignments(("\ud800", 7)))  # type: ignore[arg-type]
    assert bridge.ask(zookeeper.GetTopics()) == zookeeper.TopicNames(())
    assert isinstance(answer, Failure | zookeeper.Assignments)


def test_a_later_registration_replaces_the_node(bridge: Bridged, admin: Bridged) -> None:
    mine, theirs = (
        zookeeper.NodeRegistration(1, ("broker",), "h", 1, 10),
        zookeeper.NodeRegistration(1, ("controller",), "h", 2, 20),
    )
    assert bridge.ask(zookeeper.RegisterNode(mine)) == Done()
    assert bridge.ask(zookeeper.RegisterNode(mine)) == Done()
    assert admin.ask(zookeeper.RegisterNode(theirs)) == Done()
    assert bridge.ask(zookeeper.GetNodes()) == zookeeper.Nodes((theirs,))
    admin.store.stop()
    assert bridge.ask(zookeeper.GetNodes()) == zookeeper.Nodes(())


# ------------------------------------------------------------------------------------------------- registration


def test_the_broker_epoch_is_the_czxid(bridge: Bridged, admin: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    registered = bridge.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6"))
    node = bridge.server.read("/brokers/ids/1")
    assert registered == zookeeper.BrokerRegistered(node.czxid)
    assert (node.version, node.owner) == (1, bridge.store.session_id)
    assert bridge.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6")) == registered
    assert admin.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6")) == zookeeper.RegistrationRefused(
        bridge.store.session_id
    )


def test_a_node_of_our_own_earlier_session_is_replaced(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    bridge.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6"))
    left = bridge.server.read("/brokers/ids/1")
    bridge.store.expire()
    bridge.server.nodes["/brokers/ids/1"] = node = type(bridge.server.nodes["/"])(left.data, left.czxid, left.owner)
    bridge.server.nodes["/brokers/ids"].children["1"] = None
    registered = bridge.ask(zookeeper.RegisterBroker(broker(1, 9999), 5, "2.6"))
    assert registered.epoch > node.czxid
    assert bridge.ask(zookeeper.GetBroker(1)).brokers[0].endpoints[0].port == 9999


def test_an_updated_registration_keeps_its_broker_epoch(bridge: Bridged, admin: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    registered = bridge.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6"))
    assert bridge.ask(zookeeper.UpdateBroker(broker(1, 9999), 6, "2.6")) == Done()
    (found,) = bridge.ask(zookeeper.GetBroker(1)).brokers
    assert (found.endpoints[0].port, found.epoch) == (9999, registered.epoch)


def test_a_registration_of_another_session_is_not_changed(bridge: Bridged, admin: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    assert bridge.ask(zookeeper.UpdateBroker(broker(1), 6, "2.6")) == Done()
    assert bridge.ask(zookeeper.GetBroker(1)).brokers == ()
    admin.ask(zookeeper.RegisterBroker(broker(1), 5, "2.6"))
    before = dict(bridge.server.walk())
    assert bridge.ask(zookeeper.UpdateBroker(broker(1, 9999), 6, "2.6")) == Done()
    assert dict(bridge.server.walk()) == before


@pytest.mark.parametrize(
    "question", [zookeeper.RegisterBroker(broker(1), 5, "2.6"), zookeeper.Elect(1, 5), zookeeper.GetClusterId("x")]
)
def test_a_lost_answer_changes_no_result(bridge: Bridged, server: MemoryZooKeeper, question: object) -> None:
    """After the reconnect the result has the same type, whichever of the question's requests lost its answer."""
    expected = Bridged(MemoryZooKeeper())
    expected.ask(zookeeper.EnsurePaths())
    wanted = type(expected.ask(question))
    for nth in range(4):
        fresh = Bridged(MemoryZooKeeper())
        fresh.ask(zookeeper.EnsurePaths())
        number = _losing(fresh, question, nth)
        assert type(fresh.answers[number].result) is wanted
        assert number in fresh.answers


def _losing(bridged: Bridged, question: object, nth: int) -> int:
    """Send a question, lose the answer to its nth store request, reconnect, and return the question's id."""
    submit, count = bridged.store.submit, iter(range(1000))

    def losing(request: object) -> None:
        if next(count) == nth:
            bridged.store.lose_next_answer()
        submit(request)  # type: ignore[arg-type]

    bridged.store.submit = losing  # type: ignore[method-assign]
    number = bridged.put(question)
    bridged.store.submit = submit  # type: ignore[method-assign]
    bridged.store.reconnect()
    return number


# --------------------------------------------------------------------------------------------------- controller


def test_only_one_of_two_bridges_is_elected(bridge: Bridged, admin: Bridged) -> None:
    assert bridge.ask(zookeeper.GetController()) == zookeeper.ControllerRead(-1, 0)
    assert bridge.ask(zookeeper.Elect(1, 0)) == zookeeper.Elected(1, 1)
    assert admin.ask(zookeeper.Elect(2, 0)) == zookeeper.NotElected(1)
    assert admin.ask(zookeeper.GetController()) == zookeeper.ControllerRead(1, 1)
    assert bridge.ask(zookeeper.GetController()) == zookeeper.ControllerRead(1, 1, ours=True)
    assert admin.ask(zookeeper.ResignController()) == Done()
    assert admin.ask(zookeeper.GetController()) == zookeeper.ControllerRead(1, 1)
    assert bridge.ask(zookeeper.ResignController()) == Done()
    assert admin.ask(zookeeper.Elect(2, 0)) == zookeeper.Elected(2, 2)
    assert bridge.ask(zookeeper.ResignController()) == Done()
    assert admin.ask(zookeeper.GetController()) == zookeeper.ControllerRead(2, 2, ours=True)


def test_a_resignation_depends_on_the_session_and_not_on_the_epoch(bridge: Bridged, admin: Bridged) -> None:
    controlled(bridge)
    bridge.server.write((WriteOp(SET, "/controller_epoch", b"7"),), 0)
    assert bridge.ask(zookeeper.ResignController()) == Done()
    assert bridge.ask(zookeeper.GetController()) == zookeeper.ControllerRead(-1, 7)


def test_a_resignation_that_another_election_overtakes_deletes_nothing(bridge: Bridged, admin: Bridged) -> None:
    controlled(bridge)
    submit = bridge.store.submit

    def slowly(request: object) -> None:
        if getattr(request, "ops", ()):
            bridge.store.submit = submit  # type: ignore[method-assign]
            bridge.server.write((WriteOp(DELETE, "/controller"),), 0)
            admin.ask(zookeeper.Elect(2, 0))
        submit(request)  # type: ignore[arg-type]

    bridge.store.submit = slowly  # type: ignore[method-assign]
    assert bridge.ask(zookeeper.ResignController()).name == "ControllerMoved"
    assert admin.ask(zookeeper.GetController()) == zookeeper.ControllerRead(2, 2, ours=True)


def test_an_election_that_another_wins_in_between(bridge: Bridged, admin: Bridged) -> None:
    """Both candidates have read that no controller exists. The slower one must lose the election."""
    bridge.ask(zookeeper.EnsurePaths())
    submit = bridge.store.submit

    def slowly(request: object) -> None:
        if any(op.path == "/controller" for op in getattr(request, "ops", ())):
            bridge.store.submit = submit  # type: ignore[method-assign]
            admin.ask(zookeeper.Elect(2, 0))
        submit(request)  # type: ignore[arg-type]

    bridge.store.submit = slowly  # type: ignore[method-assign]
    assert bridge.ask(zookeeper.Elect(1, 0)) == zookeeper.NotElected(2)
    assert admin.ask(zookeeper.GetController()) == zookeeper.ControllerRead(2, 1, ours=True)


def test_a_torn_controller_is_named(bridge: Bridged) -> None:
    bridge.server.write((WriteOp(CREATE, "/controller", b"{"),), 0)
    assert bridge.ask(zookeeper.GetController()).name == "BadZnode"
    assert "/controller" in bridge.ask(zookeeper.Elect(1, 0)).detail


# ------------------------------------------------------------------------------------------------------- brokers


def test_an_invalid_registration_is_named_and_does_not_affect_others(
    bridge: Bridged, caplog: pytest.LogCaptureFixture
) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    good = Broker(10, (Endpoint("PLAINTEXT", "h", 1),))
    data = {"10": encode_broker(good, 0, "2.6"), "2": b"{torn", "3": None, "x": b"{}", "007": b"{}", "9" * 10: b""}
    bridge.server.write(tuple(WriteOp(CREATE, f"/brokers/ids/{name}", each) for name, each in data.items()), 0)
    for question in (zookeeper.GetBrokers(), zookeeper.GetBrokers(watch=False)):
        found = bridge.ask(question)
        assert [broker.id for broker in found.brokers] == [10] and found.unreadable == (2, 3)
    (foreign,) = {record.getMessage() for record in caplog.records if "that are not broker ids" in record.getMessage()}
    assert foreign.endswith(": 007, 9999999999, x")
    assert any("/brokers/ids/2: no valid JSON" in record.getMessage() for record in caplog.records)
    assert bridge.ask(zookeeper.GetBroker(2)) == zookeeper.Brokers((), (2,))
    assert bridge.ask(zookeeper.GetBroker(4)) == zookeeper.Brokers(())


def _deposed_by_another_election(bridge: Bridged) -> None:
    bridge.server.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    Bridged(bridge.server).ask(zookeeper.Elect(2, 0))


def _expired(bridge: Bridged) -> None:
    """Expire the session. Requests of its term that are still on their way then reach the next session."""
    bridge.store.expire()


@pytest.mark.parametrize("ended", [_deposed_by_another_election, _expired])
@pytest.mark.parametrize(
    "question",
    [
        zookeeper.SetAssignments((zookeeper.TopicAssignment("t", ()),), 1),
        zookeeper.CreatePartitionStates(led([TopicPartition("t", 1)], 1, 0), 1),
        zookeeper.UpdatePartitionStates(led([TopicPartition("t", 0)], 1, 1, 0), 1),
        zookeeper.DeleteTopicDeletionRequests(("t",), 1),
        zookeeper.DeleteTopics(("t",), 1),
        zookeeper.DeleteIsrChangeNotifications(("isr_change_0",), 1),
        zookeeper.DeleteLogDirEvents(("log_dir_event_0",), 1),
    ],
)
def test_every_write_of_an_ended_term_is_refused(
    bridge: Bridged, question: object, ended: Callable[[Bridged], None]
) -> None:
    assert controlled(bridge) == 1
    with_led_topic(bridge, "t", 1, 1)
    bridge.ask(zookeeper.RequestTopicDeletion("t"))
    ended(bridge)
    before = list(bridge.server.walk())
    assert bridge.ask(question).name == "ControllerMoved"
    assert list(bridge.server.walk()) == before


# ------------------------------------------------------------------------------------------------------- topics


def test_a_topic_is_created_with_its_configuration(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    topic = zookeeper.TopicAssignment("t", (PartitionAssignment(0, ReplicaAssignment((1, 2))),))
    config = (ConfigEntry("k", "v"),)
    assert bridge.ask(zookeeper.CreateTopic(topic, config)) == Done()
    assert bridge.ask(zookeeper.CreateTopic(topic)) == zookeeper.TopicExists("t")
    assert bridge.ask(zookeeper.GetTopics()) == zookeeper.TopicNames(("t",))
    assert bridge.ask(zookeeper.GetAssignments(("t", "none"))) == zookeeper.Assignments((topic._replace(zk_version=0),))
    configs = (zookeeper.TopicConfig("t", config), zookeeper.TopicConfig("none", ()))
    assert bridge.ask(zookeeper.GetTopicConfigs(("t", "none"))) == zookeeper.TopicConfigs(configs)


def test_producer_ids_have_64_bits(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())

    def after(end: str) -> Any:
        data = json.dumps({"version": 1, "broker": 9, "block_start": "0", "block_end": end}).encode()
        bridge.server.write((WriteOp(SET, paths.PRODUCER_IDS, data),), 0)
        return bridge.ask(zookeeper.TakeProducerIds(3))

    for end in (9_999_999_999, 10_000_000_000, 2**63 - 1001):
        assert after(f"{end}") == zookeeper.ProducerIds(end + 1, end + 1001)
    written = json.loads(bridge.server.read(paths.PRODUCER_IDS).data or b"")
    assert written == {"version": 1, "broker": 3, "block_start": f"{2**63 - 1000}", "block_end": f"{2**63 - 1}"}
    for text in (f"{2**63 - 1000}", f"{2**63 - 1}", f"{2**63}", "x", "-5"):  # no block of 1,000 ids is left, or no id
        failed = after(text)
        assert (failed.name, paths.PRODUCER_IDS in failed.detail) == ("BadZnode", True)


def test_an_invalid_topic_does_not_affect_other_topics(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    with_topic(bridge, "good", 1)
    bridge.server.write(
        (WriteOp(CREATE, "/brokers/topics/torn", b"?"), WriteOp(CREATE, "/config/topics/torn", b"?")), 0
    )
    found = bridge.ask(zookeeper.GetAssignments(("good", "torn")))
    assert [each.topic for each in found.topics] == ["good"]
    assert found.unreadable == ("torn",)
    assert bridge.ask(zookeeper.GetTopicConfigs(("torn",))) == zookeeper.TopicConfigs(
        (zookeeper.TopicConfig("torn", (), readable=False),)
    )


def test_a_changed_configuration_leaves_a_notification(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    with_topic(bridge, "t", 1)
    assert bridge.ask(zookeeper.SetTopicConfig("t", (ConfigEntry("a", "b"),))) == Done()
    (change,) = bridge.server.children("/config/changes").names
    data = bridge.server.read(f"/config/changes/{change}").data
    assert decode_config_change("", data) == "topics/t"


def test_the_overrides_of_a_deleted_topic_are_not_written(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    refusal = bridge.ask(zookeeper.SetTopicConfig("gone", (ConfigEntry("a", "b"),)))
    assert refusal == Failure("UnknownTopic", "/brokers/topics/gone does not exist")
    assert not bridge.server.children("/config/topics").names and not bridge.server.children("/config/changes").names


def test_client_quotas_share_znodes_with_other_configs(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    pair, user, client = QuotaEntity("u", "<default>"), QuotaEntity("u"), QuotaEntity(None, "c%20")
    scram = encode_config((ConfigEntry("SCRAM-SHA-256", "salt=a"),))
    bridge.server.write((WriteOp(CREATE, "/config/users/u", scram),), 0)

    def change(entity: QuotaEntity, **values: str | None) -> None:
        changes = tuple(zookeeper.QuotaSetting(*each) for each in values.items())
        assert bridge.ask(zookeeper.SetClientQuotas(entity, changes)) == Done()

    def quotas(*entities: QuotaEntity) -> dict[QuotaEntity, dict[str, str]]:
        found = bridge.ask(zookeeper.GetClientQuotas(entities or None)).quotas
        return {entity: dict(entries) for entity, entries in found}

    for entity in (pair, user, client):
        change(entity, producer_byte_rate="1", consumer_byte_rate="2")
        change(entity, producer_byte_rate="3", consumer_byte_rate=None)
    assert quotas() == {pair: {"producer_byte_rate": "3"}, user: {"producer_byte_rate": "3"}} | quotas(client)
    assert quotas(client, QuotaEntity("none")) == {client: {"producer_byte_rate": "3"}, QuotaEntity("none"): {}}
    for entity in (user, pair, client, QuotaEntity("none")):
        change(entity, producer_byte_rate=None)
    assert bridge.server.read("/config/users/u").data == scram, "what is not a quota is kept"
    left = [path for path, _ in bridge.server.walk() if path.startswith(("/config/users/", "/config/clients/"))]
    assert left == ["/config/users/u"], "an empty znode is deleted, as Kafka 3.4 does"
    changes = [data for path, data in bridge.server.walk() if path.startswith("/config/changes/")]
    assert [decode_config_change("", data) for data in changes[-4:]] == [
        *("users/u", "users/u/clients/<default>", "clients/c%20", "users/none"),
    ]


def test_a_request_for_preferred_leaders_is_read_sent_and_removed(bridge: Bridged, admin: Bridged) -> None:
    fence = controlled(bridge)
    first, second = TopicPartition("t", 1), TopicPartition("t", 0)
    assert bridge.ask(zookeeper.GetPreferredElections()) == zookeeper.PreferredElections(False)
    for data, named in ((encode_partitions((first, second, first)), (first, second)), (b"{torn", ())):
        admin.server.write((WriteOp(CREATE, "/admin/preferred_replica_election", data),), 0)
        assert [type(event) for event in bridge.events()] == [PreferredReplicaLeaderElection]
        assert bridge.ask(zookeeper.GetPreferredElections()) == zookeeper.PreferredElections(True, named)
        assert bridge.ask(zookeeper.DeletePreferredElections(fence)) == Done()
        assert bridge.ask(zookeeper.GetPreferredElections()) == zookeeper.PreferredElections(False)
    assert bridge.ask(zookeeper.DeletePreferredElections(fence)) == Done()
    assert bridge.ask(zookeeper.DeletePreferredElections(fence + 1)).name == "ControllerMoved"


def test_requests_for_reassignments_are_taken_out_one_by_one(bridge: Bridged, admin: Bridged) -> None:
    fence = controlled(bridge)
    path = "/admin/reassign_partitions"
    first, second = (zookeeper.RequestedReassignment(TopicPartition("t", n), (n, 7)) for n in (0, 1))
    other = first._replace(replicas=(9,))
    assert bridge.ask(zookeeper.GetReassignments()) == zookeeper.Reassignments(False)
    admin.server.write((WriteOp(CREATE, path, encode_reassignments((other, first, second))),), 0)
    assert bridge.events() == [ZkPartitionReassignment(1)]
    assert bridge.ask(zookeeper.GetReassignments()) == zookeeper.Reassignments(True, (first, second))
    assert bridge.ask(zookeeper.RemoveReassignments((other,), fence)) == zookeeper.Reassignments(True, (first, second))
    assert bridge.ask(zookeeper.RemoveReassignments((first,), fence)) == zookeeper.Reassignments(True, (second,))
    assert admin.server.read(path).data == encode_reassignments((second,))
    assert bridge.ask(zookeeper.RemoveReassignments((second,), fence + 1)).name == "ControllerMoved"
    assert bridge.ask(zookeeper.RemoveReassignments((second,), fence)) == zookeeper.Reassignments(False)
    assert bridge.ask(zookeeper.RemoveReassignments((second,), fence)) == zookeeper.Reassignments(False)
    admin.server.write((WriteOp(CREATE, path, b"{torn"),), 0)
    assert bridge.ask(zookeeper.GetReassignments()) == zookeeper.Reassignments(True)


def test_a_request_that_is_written_meanwhile_is_not_lost() -> None:
    done, new = (zookeeper.RequestedReassignment(TopicPartition("t", n), (7,)) for n in (0, 1))
    talk = reassignments.forget_reassignments(zookeeper.RemoveReassignments((done,), 3))
    next(talk)
    before = Znode(OK, encode_reassignments((done,)), 4)
    delete = talk.send(StoreReply(1, OK, nodes=(before,)))
    assert delete.ops[-1] == WriteOp(DELETE, "/admin/reassign_partitions", None, 4)
    talk.send(StoreReply(1, BAD_VERSION, culprit=len(delete.ops) - 1))
    after = Znode(OK, encode_reassignments((done, new)), 5)
    rewrite = talk.send(StoreReply(1, OK, nodes=(after,)))
    assert rewrite.ops[-1] == WriteOp(SET, "/admin/reassign_partitions", encode_reassignments((new,)), 5)


def test_assignments_of_absent_topics_are_refused(bridge: Bridged) -> None:
    fence = controlled(bridge)
    answer = bridge.ask(zookeeper.SetAssignments((zookeeper.TopicAssignment("none", ()),), fence))
    assert answer == Failure("ZooKeeperRefused", "ZooKeeper returned NO_NODE for /brokers/topics/none")


def test_a_deleted_topic_leaves_nothing(bridge: Bridged) -> None:
    fence = controlled(bridge)
    before = list(bridge.server.walk())
    partitions = with_topic(bridge, "t", 400) + with_topic(bridge, "u", 400)
    bridge.ask(zookeeper.CreatePartitionStates(led(partitions, 1, 0), fence))
    assert bridge.ask(zookeeper.RequestTopicDeletion("t")) == Done()
    assert bridge.ask(zookeeper.RequestTopicDeletion("t")) == zookeeper.TopicAlreadyMarkedForDeletion("t")
    assert bridge.ask(zookeeper.GetTopicDeletions()) == zookeeper.TopicNames(("t",))
    result, reads, writes = bridge.counted(zookeeper.DeleteTopics(("t", "u", "none"), fence))
    assert result == Done()
    assert (reads, writes) == (3, 2)
    assert list(bridge.server.walk()) == before


def test_a_topic_with_other_nodes_than_usual_is_deleted_as_well(bridge: Bridged) -> None:
    fence = controlled(bridge)
    before = list(bridge.server.walk())
    with_led_topic(bridge, "t", 10, fence)
    bridge.server.write((WriteOp(DELETE, "/brokers/topics/t/partitions/3/state"),), 0)
    bridge.server.write((WriteOp(CREATE, "/brokers/topics/t/partitions/4/state/more", b""),), 0)
    assert bridge.ask(zookeeper.DeleteTopics(("t",), fence)) == Done()
    assert list(bridge.server.walk()) == before


def test_deletion_survives_lost_answers_and_newcomers(bridge: Bridged) -> None:
    fence = controlled(bridge)
    before = list(bridge.server.walk())
    with_led_topic(bridge, "t", 900, fence)
    number = _losing(bridge, zookeeper.DeleteTopics(("t",), fence), 7)
    assert bridge.answers[number].result == Done()
    assert list(bridge.server.walk()) == before


# --------------------------------------------------------------------------------------------- partition states


def test_states_are_made_with_their_parents_in_few_transactions(bridge: Bridged) -> None:
    fence = controlled(bridge)
    partitions = with_topic(bridge, "t", 1000)
    result, reads, writes = bridge.counted(zookeeper.CreatePartitionStates(led(partitions, 1, 0), fence))
    assert result.results == tuple(zookeeper.WriteResult(tp, OK, 0) for tp in partitions)
    assert (reads, writes) == (0, 2)
    states = bridge.ask(zookeeper.GetPartitionStates(tuple(partitions))).states
    assert [(each.partition, each.state.zk_version) for each in states] == [(tp, 0) for tp in partitions]


@pytest.mark.parametrize(("first", "expected"), [(500, (0, 1)), (0, (2, 2))], ids=["as it is", "which is wrong"])
def test_a_question_may_name_topics_with_partitions(bridge: Bridged, first: int, expected: tuple[int, int]) -> None:
    fence = controlled(bridge)
    partitions = with_topic(bridge, "t", 1000)
    bridge.ask(zookeeper.CreatePartitionStates(led(partitions[:first], 1, 0), fence))
    result, *counts = bridge.counted(zookeeper.CreatePartitionStates(led(partitions[500:], 1, 0), fence, ("t",)))
    assert {each.code for each in result.results} == {OK}
    assert tuple(counts) == expected


def test_an_existing_state_is_left_alone_and_the_rest_is_made(bridge: Bridged) -> None:
    fence = controlled(bridge)
    partitions = with_topic(bridge, "t", 100)
    bridge.ask(zookeeper.CreatePartitionStates(led(partitions[:1], 9, 9), fence))
    result, reads, writes = bridge.counted(
        zookeeper.CreatePartitionStates(led([*partitions, TopicPartition("gone", 0)], 1, 0), fence)
    )
    codes = [each.code for each in result.results]
    assert codes == [NODE_EXISTS] + [OK] * 99 + [NO_NODE]
    assert (reads, writes) == (1, 2)


def test_states_are_updated_in_bulk_and_conditionally(bridge: Bridged) -> None:
    fence = controlled(bridge)
    partitions = with_led_topic(bridge, "t", 2000, fence)
    result, reads, writes = bridge.counted(zookeeper.UpdatePartitionStates(led(partitions, 2, 1, 0), fence))
    assert result.results == tuple(zookeeper.WriteResult(tp, OK, 1) for tp in partitions)
    assert (reads, writes) == (0, 2)
    other = bridge.ask(zookeeper.UpdatePartitionStates(led(partitions[5:6], 3, 2, 1), fence))
    assert other.results[0].zk_version == 2
    bridge.server.write((WriteOp(DELETE, "/brokers/topics/t/partitions/7/state"),), 0)
    result, reads, writes = bridge.counted(zookeeper.UpdatePartitionStates(led(partitions, 4, 2, 1), fence))
    codes = {each.partition.partition: each.code for each in result.results if each.code != OK}
    assert codes == {5: BAD_VERSION, 7: NO_NODE}
    assert (reads, writes) == (2, 3)


def test_row_65_an_identical_state_counts_as_written(bridge: Bridged) -> None:
    """broker.md 9.5: a version conflict is a success if the znode already holds the state to be written.

    The result has the znode's current version.
    """
    fence = controlled(bridge)
    partitions = with_led_topic(bridge, "t", 1, fence)
    for _ in range(2):
        written = bridge.ask(zookeeper.UpdatePartitionStates(led(partitions, 2, 1, 0), None))
        assert written.results == (zookeeper.WriteResult(partitions[0], OK, 1),)


@pytest.mark.parametrize("nth", range(4))
def test_a_lost_answer_is_settled_by_one_read(bridge: Bridged, nth: int) -> None:
    """A write that was applied is successful and has the znode's current version. It is not written twice."""
    fence = controlled(bridge)
    partitions = with_led_topic(bridge, "t", 2500, fence)
    before = len(bridge.requests)
    number = _losing(bridge, zookeeper.UpdatePartitionStates(led(partitions, 2, 1, 0), fence), nth)
    assert bridge.answers[number].result.results == tuple(zookeeper.WriteResult(tp, OK, 1) for tp in partitions)
    assert len(bridge.requests) - before <= 5


@pytest.mark.parametrize("nth", range(3))
def test_a_created_state_whose_answer_was_lost_is_created(bridge: Bridged, nth: int) -> None:
    """Trap T7: Kafka takes the state for one that another client created, and the partition stays NewPartition."""
    fence = controlled(bridge)
    partitions = with_topic(bridge, "t", 900)
    number = _losing(bridge, zookeeper.CreatePartitionStates(led(partitions, 1, 0), fence), nth)
    assert bridge.answers[number].result.results == tuple(zookeeper.WriteResult(tp, OK, 0) for tp in partitions)


def test_torn_and_absent_states_differ(bridge: Bridged) -> None:
    fence = controlled(bridge)
    partitions = with_topic(bridge, "t", 3)
    bridge.ask(zookeeper.CreatePartitionStates(led(partitions[:2], 1, 0), fence))
    bridge.server.write((WriteOp(SET, "/brokers/topics/t/partitions/1/state", b"{}"),), 0)
    good, torn, absent = bridge.ask(zookeeper.GetPartitionStates(tuple(partitions))).states
    assert good.state.leader == 1
    assert torn.state is None
    assert torn.error == "/brokers/topics/t/partitions/1/state: leader is missing"
    assert (absent.state, absent.error) == (None, "")


# ------------------------------------------------------------------------------------------------- notifications


def test_notifications_are_read_and_deleted(bridge: Bridged) -> None:
    fence = controlled(bridge)
    tp = TopicPartition("t", 0)
    for data in (encode_partitions((tp,)), b"torn", encode_partitions((tp, TopicPartition("t", 1)))):
        bridge.server.write((WriteOp(CREATE_SEQUENTIAL, "/isr_change_notification/isr_change_", data),), 0)
    for data in (b"torn", encode_log_dir_event(3)):
        bridge.server.write((WriteOp(CREATE_SEQUENTIAL, "/log_dir_event_notification/log_dir_event_", data),), 0)
    assert bridge.ask(zookeeper.NotifyLogDirFailure(3)) == Done()
    isr, events = bridge.ask(zookeeper.GetIsrChangeNotifications()), bridge.ask(zookeeper.GetLogDirEvents())
    names = tuple(f"isr_change_{n:010d}" for n in range(3))
    assert isr == zookeeper.IsrChanges(names, (tp, TopicPartition("t", 1)))
    assert events == zookeeper.LogDirEvents(tuple(f"log_dir_event_{n:010d}" for n in range(3)), (3,))
    assert bridge.ask(zookeeper.DeleteIsrChangeNotifications((*isr.names, "isr_change_gone"), fence)) == Done()
    assert bridge.ask(zookeeper.DeleteLogDirEvents(events.names, fence)) == Done()
    assert bridge.ask(zookeeper.GetIsrChangeNotifications()) == zookeeper.IsrChanges((), ())


def test_a_child_with_another_name_is_not_a_notification(bridge: Bridged) -> None:
    bridge.ask(zookeeper.EnsurePaths())
    for parent in ("/isr_change_notification", "/log_dir_event_notification"):
        bridge.server.write((WriteOp(CREATE, f"{parent}/other", b"?"), WriteOp(CREATE, f"{parent}/other/child")), 0)
    assert bridge.ask(zookeeper.GetIsrChangeNotifications()) == zookeeper.IsrChanges((), ())
    assert bridge.ask(zookeeper.GetLogDirEvents()) == zookeeper.LogDirEvents((), ())


def test_a_broker_leaves_word_of_a_lost_log_directory(bridge: Bridged) -> None:
    assert bridge.ask(zookeeper.NotifyLogDirFailure(3)) == Done(), "also without the parent znode"
    path = "/log_dir_event_notification/log_dir_event_0000000000"
    assert bridge.server.read(path).data == b'{"version":1,"broker":3,"event":1}'
    assert bridge.server.read(path).owner == 0, "it outlives its broker"


# ------------------------------------------------------------------------------------------------------ watches

CHANGES = [
    (zookeeper.GetController(), (WriteOp(CREATE, "/controller", b"x"),), ControllerChange(1)),
    (zookeeper.GetBrokers(), (WriteOp(CREATE, "/brokers/ids/9", b"x"),), BrokerChange(1)),
    (zookeeper.WatchBrokers((1,)), (WriteOp(SET, "/brokers/ids/1", b"x"),), BrokerModifications(1, 1)),
    (zookeeper.GetBroker(1), (WriteOp(SET, "/brokers/ids/1", b"x"),), BrokerModifications(1, 1)),
    (zookeeper.GetTopics(), (WriteOp(DELETE, "/brokers/topics/t"),), TopicChange(1)),
    (zookeeper.GetAssignments(("t",)), (WriteOp(SET, "/brokers/topics/t", b"x"),), PartitionModifications("t", 1)),
    (zookeeper.GetTopicDeletions(), (WriteOp(CREATE, "/admin/delete_topics/t"),), TopicDeletion(1)),
    (zookeeper.GetIsrChangeNotifications(), (WriteOp(CREATE, "/isr_change_notification/x"),), IsrChangeNotification(1)),
    (zookeeper.GetLogDirEvents(), (WriteOp(CREATE, "/log_dir_event_notification/x"),), LogDirEventNotification(1)),
]


@pytest.fixture
def watching(bridge: Bridged) -> Bridged:
    """Return a bridge whose ZooKeeper has a broker and a topic."""
    bridge.ask(zookeeper.EnsurePaths())
    bridge.ask(zookeeper.RegisterBroker(broker(1), 0, "2.6"))
    with_topic(bridge, "t", 1)
    bridge.events(SUBSCRIBER)
    return bridge


@pytest.mark.parametrize(("question", "ops", "event"), CHANGES)
def test_each_watch_notifies_once_until_it_is_set_again(
    watching: Bridged, question: object, ops: tuple[WriteOp, ...], event: object
) -> None:
    watching.ask(question)
    watching.server.write(ops, 0)
    assert watching.events() == [event]
    watching.server.write((WriteOp(CREATE, "/brokers/topics/another"),), 0)
    assert watching.events() == []
    assert watching.events(SUBSCRIBER) == []


@pytest.mark.parametrize(("question", "ops", "event"), CHANGES)
def test_no_watch_is_lost_with_the_connection(
    watching: Bridged, admin: Bridged, question: object, ops: tuple[WriteOp, ...], event: object
) -> None:
    """Changes during a disconnect are notified after the reconnect."""
    watching.ask(question)
    watching.store.disconnect()
    admin.server.write(ops, 0)
    assert watching.events() == []
    watching.store.reconnect()
    assert watching.events() == [event]


def test_the_controllers_epoch_is_read_behind_a_transaction_or_not_at_all(bridge: Bridged) -> None:
    assert bridge.ask(zookeeper.GetControllerEpoch()).name == "ControllerMoved", "no controller was ever elected"
    bridge.ask(zookeeper.Elect(1, 0))
    bridge.requests.clear()
    assert bridge.ask(zookeeper.GetControllerEpoch()) == zookeeper.ControllerEpochRead(1)
    assert [type(request) for request in bridge.requests] == [StoreWrite, StoreRead]
    bridge.store.disconnect()
    assert bridge.ask(zookeeper.GetControllerEpoch()).name == "ConnectionLoss", "at once"
    bridge.store.reconnect()
    assert bridge.ask(zookeeper.GetControllerEpoch()) == zookeeper.ControllerEpochRead(1)


def test_an_absent_controller_means_reelect_on_reconnect(bridge: Bridged) -> None:
    bridge.ask(zookeeper.GetController())
    bridge.store.disconnect()
    bridge.store.reconnect()
    assert bridge.events() == [Reelect(1)]
    bridge.ask(zookeeper.GetController())
    bridge.ask(zookeeper.Elect(1, 0))
    assert bridge.events() == [ControllerChange(1)]
    bridge.ask(zookeeper.GetController())
    bridge.ask(zookeeper.ResignController())
    assert bridge.events() == [Reelect(1)]


def test_a_watch_armed_again_on_reconnect_fires_for_real(watching: Bridged, admin: Bridged) -> None:
    watching.ask(zookeeper.GetTopics())
    watching.store.disconnect()
    watching.store.reconnect()
    assert watching.events() == []
    with_topic(admin, "new", 1)
    assert watching.events() == [TopicChange(1)]
    watching.store.disconnect()
    watching.store.reconnect()
    with_topic(admin, "newer", 1)
    assert watching.events() == []  # notified before, and not read again since
    assert watching.ask(zookeeper.GetTopics()) == zookeeper.TopicNames(("new", "newer", "t"))
    with_topic(admin, "newest", 1)
    assert watching.events() == [TopicChange(1)]


def test_a_reconnect_costs_what_changed(watching: Bridged, admin: Bridged) -> None:
    """Of 1,000 watched topics three change: the reconnect sends three events and takes three store requests."""
    names = tuple(f"t{n}" for n in range(1000))
    for name in names:
        with_topic(admin, name, 1)
    for question in (
        zookeeper.GetTopics(),
        zookeeper.GetAssignments(names),
        zookeeper.GetBrokers(),
        zookeeper.GetPreferredElections(),
        zookeeper.GetReassignments(),
    ):
        watching.ask(question)
    watching.store.disconnect()
    for name in ("t7", "t70", "t700"):
        admin.server.write((WriteOp(SET, f"/brokers/topics/{name}", b""),), 0)
    watching.requests.clear()
    watching.store.reconnect()
    assert watching.events() == [PartitionModifications(name, 1) for name in ("t7", "t70", "t700")]
    armed = [request.watches for request in watching.requests if isinstance(request, StoreRead)]
    assert [sum(map(bool, watches)) for watches in armed] == [1, 1, 1], "data, exists, children"
    watching.store.disconnect()
    watching.store.reconnect()
    assert watching.events() == [], "notified once"


def test_changes_are_reported_after_a_second_disconnect(
    watching: Bridged, admin: Bridged, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the disconnects an answer arrives that includes the change, but the request to set the watch is lost."""
    watching.ask(zookeeper.GetTopics())
    watching.store.disconnect()
    with_topic(admin, "new", 1)
    carried_out = watching.store.submit

    def lost(request: object) -> None:
        if isinstance(request, StoreRead) and any(request.watches):
            watching.core.take(StoreReply(request.id, CONNECTION_LOSS))
        else:
            carried_out(request)

    monkeypatch.setattr(watching.store, "submit", lost)
    watching.store.reconnect()
    assert isinstance(watching.ask(zookeeper.GetController(watch=False)), zookeeper.ControllerRead)
    watching.store.disconnect()
    monkeypatch.undo()
    assert watching.events() == []
    watching.store.reconnect()
    assert watching.events() == [TopicChange(1)]


def test_the_last_known_state_of_a_node_is_reported(watching: Bridged, admin: Bridged) -> None:
    requested = WriteOp(CREATE, "/admin/preferred_replica_election", b"")
    gone = WriteOp(DELETE, "/admin/preferred_replica_election")
    admin.server.write((requested,), 0)
    watching.ask(zookeeper.GetPreferredElections())
    watching.store.disconnect()
    watching.store.reconnect()
    assert watching.events() == [], "it was there before"
    admin.server.write((gone,), 0)
    watching.ask(zookeeper.GetPreferredElections())
    watching.store.disconnect()
    admin.server.write((requested,), 0)
    watching.store.reconnect()
    assert watching.events() == [PreferredReplicaLeaderElection(1)]


@pytest.mark.parametrize(
    ("question", "path", "event"),
    [
        (zookeeper.GetReassignments(), "/admin/reassign_partitions", ZkPartitionReassignment(1)),
        (zookeeper.GetPreferredElections(), "/admin/preferred_replica_election", PreferredReplicaLeaderElection(1)),
    ],
)
def test_a_replaced_request_is_reported_after_a_disconnect(
    watching: Bridged, admin: Bridged, question: object, path: str, event: object
) -> None:
    """The server reports a data change, which causes no event in other cases."""
    admin.server.write((WriteOp(CREATE, path, b"one"),), 0)
    watching.ask(question)
    watching.store.disconnect()
    admin.server.write((WriteOp(DELETE, path),), 0)
    admin.server.write((WriteOp(CREATE, path, b"another"),), 0)
    watching.store.reconnect()
    assert watching.events() == [event]
    watching.ask(question)
    admin.server.write((WriteOp(SET, path, b"rewritten"),), 0)
    assert watching.events() == []


def test_every_watcher_is_notified(watching: Bridged) -> None:
    watching.ask(zookeeper.GetTopics(), "one")
    watching.ask(zookeeper.GetTopics(), "two")
    with_topic(watching, "new", 1)
    assert (watching.events("one"), watching.events("two")) == ([TopicChange(1)], [TopicChange(1)])


def test_no_event_follows_the_end_of_watching(watching: Bridged) -> None:
    with_topic(watching, "u", 1)
    for asker in ("one", "two"):
        watching.ask(zookeeper.GetAssignments(("t", "u")), asker)
        watching.ask(zookeeper.GetTopics(), asker)
    watching.ask(zookeeper.StopWatching(("PartitionModifications",), ("t",)), "one")
    watching.ask(zookeeper.StopWatching(("TopicChange",)), "two")
    watching.server.write((WriteOp(SET, "/brokers/topics/t", b""), WriteOp(SET, "/brokers/topics/u", b"")), 0)
    with_topic(watching, "new", 1)
    assert watching.events("one") == [PartitionModifications("u", 1), TopicChange(1)]
    assert watching.events("two") == [PartitionModifications("t", 1), PartitionModifications("u", 1)]


def test_thousands_of_watches_survive(watching: Bridged) -> None:
    names = tuple(f"t{n}" for n in range(12_000))
    for name in names:
        watching.server.write((WriteOp(CREATE, f"/brokers/topics/{name}", b""),), 0)
    watching.ask(zookeeper.GetAssignments(names))
    watching.store.disconnect()
    for name in names:
        watching.server.write((WriteOp(SET, f"/brokers/topics/{name}", b""),), 0)
    watching.store.reconnect()
    assert watching.events() == [PartitionModifications(name, 1) for name in names]


def test_a_recreated_topic_is_not_watched_until_requested(watching: Bridged) -> None:
    """As in Kafka, the watch ends when the znode is deleted. TopicChange announces the new topic."""
    watching.ask(zookeeper.GetAssignments(("t",)))
    watching.server.write((WriteOp(DELETE, "/brokers/topics/t"),), 0)
    with_topic(watching, "t", 1)
    watching.server.write((WriteOp(SET, "/brokers/topics/t", b""),), 0)
    assert watching.events() == []


# ----------------------------------------------------------------------------------------------------- sessions


def test_questions_before_the_first_connection_wait(server: MemoryZooKeeper) -> None:
    bridge = Bridged(server, start=False)
    number = bridge.put(zookeeper.GetController())
    assert bridge.answers == {}
    bridge.start()
    assert bridge.answers[number].result == zookeeper.ControllerRead(-1, 0)
    assert bridge.answers[number].generation == 1
    assert bridge.events(SUBSCRIBER) == [SessionEstablished(1)]


def test_questions_while_cut_off_wait(watching: Bridged) -> None:
    watching.store.disconnect()
    number = watching.put(zookeeper.GetTopics())
    assert number not in watching.answers
    watching.store.reconnect()
    assert watching.answers[number].result == zookeeper.TopicNames(("t",))


def test_an_expired_session_ends_everything_begun_in_it(watching: Bridged) -> None:
    watching.ask(zookeeper.GetTopics(), "watcher")
    watching.store.disconnect()
    lost = [watching.put(zookeeper.GetTopics()), watching.put(zookeeper.EnsurePaths())]
    watching.mail.clear()
    watching.store.expire(reconnect=False)
    for number in lost:
        answer = watching.answers[number]
        assert (answer.result.name, answer.generation) == ("SessionLost", 1)
    notified = [to for to, message in watching.mail if isinstance(message, SessionExpired)]
    assert notified == [SUBSCRIBER, "watcher"]
    assert watching.mail[0] == (SUBSCRIBER, SessionExpired(1))
    assert watching.events("watcher") == [SessionExpired(1)]
    waiting = watching.put(zookeeper.GetBrokers())
    assert waiting not in watching.answers
    watching.store.reconnect()
    assert watching.answers[waiting].generation == 2
    assert watching.answers[waiting].result == zookeeper.Brokers(())
    assert watching.events(SUBSCRIBER) == [SessionExpired(1), SessionEstablished(2)]
    with_topic(watching, "new", 1)
    assert watching.events("watcher") == []


def test_events_carry_the_new_generation(watching: Bridged) -> None:
    watching.store.expire()
    watching.ask(zookeeper.GetTopics())
    with_topic(watching, "new", 1)
    assert watching.events() == [TopicChange(2)]


# ------------------------------------------------------------------------------------------------------ in slices


def many_topics(bridged: Bridged, count: int, partitions: int) -> tuple[str, ...]:
    names = tuple(f"t{n:03d}" for n in range(count))
    for name in names:
        with_topic(bridged, name, partitions)
    return names


def test_large_questions_are_read_in_slices(bridge: Bridged) -> None:
    """No delivery handles more than one slice, whatever the size of the question."""
    controlled(bridge)
    partitions = with_topic(bridge, "t", partition_states.READ_AT_ONCE + 10)
    del bridge.requests[:]
    bridge.pauses = 0
    states = bridge.ask(zookeeper.GetPartitionStates(tuple(partitions))).states
    assert [each.partition for each in states] == partitions
    assert [len(read.data) for read in bridge.requests] == [partition_states.READ_AT_ONCE, 10]
    assert bridge.pauses == partition_states.READ_AT_ONCE // SLICE - 1


def test_assignments_are_read_in_slices_of_partitions(bridge: Bridged) -> None:
    controlled(bridge)
    names = many_topics(bridge, 9, SLICE // 2)
    assert [each.topic for each in bridge.ask(zookeeper.GetAssignments(names)).topics] == list(names)
    assert bridge.pauses == 4


def test_a_paused_conversation_ends_with_the_session(bridge: Bridged) -> None:
    controlled(bridge)
    names = many_topics(bridge, 5, SLICE // 2)
    bridge.pausing = []
    number = bridge.put(zookeeper.GetAssignments(names))
    (kept,) = bridge.pausing
    bridge.store.expire()
    assert bridge.answers[number].result.name == "SessionLost"
    bridge.core.take(kept)
    assert len(bridge.pausing) == 1, "no flow continues"


def test_transactions_are_made_as_they_are_sent(bridge: Bridged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoding 100,000 leaderships at once would block the node for 0.1 s."""
    fence = controlled(bridge)
    partitions = with_led_topic(bridge, "t", 3 * WRITE_OPS, fence)
    made: list[int] = []
    written: list[int] = []
    send = bridge.core._send

    def counted(kind: type, fields: tuple[Any, ...]) -> Any:
        made.extend([1] if kind is WriteOp else [])
        return tuple.__new__(kind, fields)

    monkeypatch.setattr(partition_states, "_new", counted)

    def watched(receiver: Any, message: Any) -> None:
        if isinstance(message, StoreWrite):
            written.append(len(made))
        send(receiver, message)

    bridge.core._send = watched
    result = bridge.ask(zookeeper.UpdatePartitionStates(led(partitions, 2, 1, 0), fence))
    assert {each.code for each in result.results} == {OK}
    assert len(result.results) == len(partitions)
    assert written[0] <= WRITE_OPS
    assert len(written) == 4


def test_watching_an_unknown_path_is_refused(bridge: Bridged, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(question: zookeeper.EnsurePaths) -> Conversation:
        yield Read(watches=Watches(exists=("/brokers/seqid",)))

    monkeypatch.setitem(CONVERSATIONS, zookeeper.EnsurePaths, careless)
    assert bridge.ask(zookeeper.EnsurePaths()) == Failure(
        "AskFailed",
        "znode /brokers/seqid cannot be watched for 'node': no controller event is declared for such changes",
    )
