"""Metadata responses to clients: broker.md 3.9, and case WI5 of the conformance suite."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.broker.metadata_cache import MetadataCache
from actors.core.broker.validation import view_disagreements
from messages import errors
from messages.apis.describe_cluster import DescribeClusterRequest
from messages.apis.fetch import FetchedPartition, FetchRequest, FetchResponse
from messages.apis.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataTopic
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.cluster import LEADER_DURING_DELETE, TopicId, TopicPartition
from messages.flow.conversation import SLICE
from messages.network import ClientRequest
from tests.broker.harness import CLUSTER_ID, alive, known

BOTH = (alive(0, 1000), alive(9, 1009, rack="r9"))


def cache(*states: object, live: tuple = BOTH, controller: int = 100) -> MetadataCache:
    made = MetadataCache()
    merge(made, *states, live=live, controller=controller)
    return made


def merge(into: MetadataCache, *states: object, live: tuple = BOTH, controller: int = 100) -> None:
    into.merge(UpdateMetadataRequest(6, controller, 1, -1, states, live))


def ask(of: MetadataCache, *topics: str, version: int = 8, listener: str = "PLAINTEXT") -> MetadataResponse:
    view, request = of.view, MetadataRequest(version, topics)
    return view.answer(view.describe(view.names(request), listener, version), CLUSTER_ID, listener)


def topic(of: MetadataCache, name: str, **how: object) -> MetadataTopic:
    return ask(of, name, **how).topics[0]


def test_an_empty_cache_has_no_brokers() -> None:
    response = ask(MetadataCache(), "t")
    assert (response.brokers, response.controller_id, response.cluster_id) == ((), -1, CLUSTER_ID)
    assert response.topics[0].error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


def test_live_brokers_and_controller_are_replaced_and_partitions_merged() -> None:
    of = cache(known("t"), known("t", 1, leader=9, isr=(9, 0), epoch=4))
    merge(of, live=(alive(0, 1000), alive(55, 5555)), controller=7)
    response = ask(of)
    assert [(broker.id, broker.port) for broker in response.brokers] == [(0, 1000), (55, 5555)]
    assert response.controller_id == 7
    assert len(topic(of, "t").partitions) == 2


def test_a_partition_is_answered_with_its_state() -> None:
    partition = topic(cache(known("t", 1, leader=9, epoch=4, isr=(9,), replicas=(9, 0), offline_replicas=(0,))), "t")
    (one,) = partition.partitions
    assert (one.error_code, one.partition, one.leader, one.leader_epoch) == (errors.NONE, 1, 9, 4)
    assert (one.replicas, one.isr, one.offline_replicas) == ((9, 0), (9,), (0,))


def test_a_leader_that_is_not_alive_is_no_leader() -> None:
    (one,) = topic(cache(known("t", leader=9, epoch=2), live=(alive(0),)), "t").partitions
    assert (one.error_code, one.leader, one.leader_epoch) == (errors.LEADER_NOT_AVAILABLE, -1, 2)


@pytest.mark.parametrize(
    ("version", "code"),
    [(8, errors.LISTENER_NOT_FOUND), (6, errors.LISTENER_NOT_FOUND), (5, errors.LEADER_NOT_AVAILABLE)],
)
def test_a_living_leader_without_the_clients_listener(version: int, code: int) -> None:
    of = cache(known("t", leader=9), live=(alive(0, 1000, "PLAINTEXT", "OUTER"), alive(9)))
    (one,) = topic(of, "t", version=version, listener="OUTER").partitions
    assert (one.error_code, one.leader) == (code, -1)
    assert [broker.id for broker in ask(of, listener="OUTER").brokers] == [0]


def test_leader_during_delete_forgets_the_partition_and_at_last_the_topic() -> None:
    of = cache(known("t"), known("t", 1), known("u"))
    merge(of, known("t", 0, leader=LEADER_DURING_DELETE))
    assert [one.partition for one in topic(of, "t").partitions] == [1]
    merge(of, known("t", 1, leader=LEADER_DURING_DELETE), known("never", leader=LEADER_DURING_DELETE))
    assert topic(of, "t").error_code == errors.UNKNOWN_TOPIC_OR_PARTITION
    assert topic(of, "u").error_code == errors.NONE


def test_all_topics_no_topics_and_each_topic_once() -> None:
    of = cache(known("b"), known("a"))
    assert list(of.view.names(MetadataRequest(8, None))) == ["a", "b"]
    assert ask(of).topics == ()
    assert [one.name for one in ask(of, version=0).topics] == ["a", "b"]
    assert [one.name for one in ask(of, "b", "a", "b").topics] == ["b", "a"]


def test_version_0_lists_only_replicas_that_are_alive() -> None:
    of = cache(known("t", leader=0, isr=(0, 5), replicas=(0, 5)))
    (one,) = topic(of, "t", version=0).partitions
    assert (one.error_code, one.replicas, one.isr) == (errors.REPLICA_NOT_AVAILABLE, (0,), (0,))
    (one,) = topic(of, "t", version=1).partitions
    assert (one.error_code, one.replicas, one.isr) == (errors.NONE, (0, 5), (0, 5))


def test_internal_topics_are_marked() -> None:
    of = cache(known("__consumer_offsets"), known("t"))
    assert topic(of, "__consumer_offsets").is_internal
    assert not topic(of, "t").is_internal


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\n"])
def test_a_name_that_no_topic_can_have(name: str) -> None:
    assert topic(MetadataCache(), name).error_code == errors.INVALID_TOPIC


@pytest.mark.parametrize("name", ["a", "...", "x" * 249, "A.b_c-9"])
def test_a_name_that_a_topic_can_have(name: str) -> None:
    assert topic(MetadataCache(), name).error_code == errors.UNKNOWN_TOPIC_OR_PARTITION


ID, OTHER_ID = "kTl4kQ6RR2m3wKZ1zV6dPg", "AAAAAAAAAAAAAAAAAAAAAQ"


def test_topic_ids_are_those_of_the_last_update() -> None:
    of = cache(known("t"), known("u"))
    assert topic(of, "t", version=12).topic_id == ""
    for ids, left in (((TopicId("t", ID),), ID), ((TopicId("t", OTHER_ID),), OTHER_ID), ((), "")):
        of.merge(UpdateMetadataRequest(7, 100, 1, -1, (known("t"),), BOTH, ids))
        merge(of, known("u"))
        assert topic(of, "t", version=12).topic_id == left
    of.merge(UpdateMetadataRequest(7, 100, 1, -1, (known("t"),), BOTH, (TopicId("t", ID),)))
    merge(of, known("t", leader=LEADER_DURING_DELETE))
    assert of.view.topic_ids == {}


def test_topics_are_requested_by_id() -> None:
    of = cache()
    of.merge(UpdateMetadataRequest(7, 100, 1, -1, (known("t"), known("u")), BOTH, (TopicId("t", ID),)))
    mixed = [MetadataRequestTopic(OTHER_ID), MetadataRequestTopic(ID, "u"), MetadataRequestTopic(name="u")]
    request = MetadataRequest(12, (), named_or_ids=tuple(mixed))
    assert list(of.view.names(request)) == ["t"], "with an id, names are ignored"
    assert of.view.unresolved_topics(request) == (MetadataTopic(errors.UNKNOWN_TOPIC_ID, "", False, (), OTHER_ID),)
    nameless = MetadataRequest(12, (), named_or_ids=(MetadataRequestTopic(), MetadataRequestTopic(name="u")))
    assert list(of.view.names(nameless)) == ["u"]
    assert [each.error_code for each in of.view.unresolved_topics(nameless)] == [errors.INVALID_REQUEST]


def test_refused_clients_get_the_leader_and_its_endpoint() -> None:
    of = cache()
    states = known("t", leader=9, epoch=4), known("u", leader=9), known("v", leader=0, epoch=5)
    of.merge(UpdateMetadataRequest(7, 100, 1, -1, states, BOTH, (TopicId("t", ID),)))
    client = ClientRequest(1, 1, "c", "PLAINTEXT", FetchRequest(16, -1, 0, 0, ()))

    def hints(*partitions: FetchedPartition) -> tuple[list, list]:
        response = of.view.with_leaders(FetchResponse(partitions), client, 0)
        return [each.current_leader for each in response.partitions], [each.id for each in response.node_endpoints]

    t, u, v = [TopicPartition(name, 0) for name in (ID, "u", "v")]
    assert hints(FetchedPartition(t, 6), FetchedPartition(t, 74), FetchedPartition(u, 3)) == (
        [(9, 4), (9, 4), None],
        [9],
    )
    assert hints(FetchedPartition(v, 6), FetchedPartition(v, 74)) == ([None, (0, 5)], [0]), "the cache is older"
    assert hints(FetchedPartition(TopicPartition("x", 0), 6), FetchedPartition(t, 75)) == ([None, None], [])


@pytest.mark.parametrize(
    ("kind", "code"), [(1, 0), (2, errors.MISMATCHED_ENDPOINT_TYPE), (9, errors.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_the_cluster_is_described(kind: int, code: int) -> None:
    response = cache(controller=9).view.describe_cluster(DescribeClusterRequest(1, True, kind), CLUSTER_ID, "PLAINTEXT")
    found = (response.error_code, response.cluster_id, response.controller_id, [each.id for each in response.brokers])
    assert found == ((code, CLUSTER_ID, 9, [0, 9]) if code == errors.NONE else (code, "", -1, []))


states = st.builds(known, st.sampled_from("ab"), st.integers(0, 2), st.sampled_from([-2, -1, 0, 9]), st.integers(0, 5))


@given(st.lists(st.lists(states, max_size=4), max_size=6))
def test_the_cache_holds_the_last_word_on_every_partition(updates: list) -> None:
    of, last = MetadataCache(), dict[TopicPartition, object]()
    for update in updates:
        merge(of, *update)
        for state in update:
            last[state.partition] = state
    alive_states = {p: s for p, s in last.items() if s.leader != LEADER_DURING_DELETE}
    held = {TopicPartition(t, n): state for t, partitions in of.view.topics.items() for n, state in partitions.items()}
    assert held == alive_states
    assert view_disagreements(of.view) == []


def test_states_that_are_sent_again_replace_nothing_whether_or_not_they_are_the_same_objects() -> None:
    """A replay decodes every state again, so the cache's responses must not depend on object identity."""
    again = [known("t", number, epoch=3) for number in range(2 * SLICE)]
    for states in (again, [attrs.evolve(state) for state in again]):
        of = cache(*again)
        merge(of, *states)
        assert of.drop_old() == 0 and of.view.topics["t"][0] is again[0]
