"""Large requests are several messages inside a node, one message elsewhere (`messages.parts`; actors.md 3 row 7)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from actors.core.broker.hosting import PARTITIONS_AT_ONCE
from actors.core.broker.metadata_cache import MetadataCache
from actors.runtime import Delivery
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.metadata import MetadataRequest, MetadataResponse
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from messages.ask import Ask
from messages.broker import BecomeFollower, BecomeLeader
from messages.errors import NONE, STALE_CONTROLLER_EPOCH
from messages.flow.conversation import SLICE
from messages.parts import PARTED, cut, entries_of, join_parts
from tests.broker.harness import CONTROLLER, Broker, ServedBroker, alive, codes, known, order
from tests.wire_client import WireClient

LARGE = 2 * SLICE + 1
SHORT: tuple[Any, ...] = (
    LeaderAndIsrRequest(4, 1, 1, 1, (), ()),
    StopReplicaRequest(3, 1, 1, 1, ()),
    UpdateMetadataRequest(6, 1, 1, 1, (), ()),
    LeaderAndIsrResponse(0),
    StopReplicaResponse(0),
    MetadataResponse((), "c", 1, ()),
)


def test_every_parted_message_is_tried() -> None:
    assert {type(message) for message in SHORT} == set(PARTED)


@pytest.mark.parametrize("message", SHORT, ids=lambda message: type(message).__name__)
@pytest.mark.parametrize("entries", [0, 1, SLICE, SLICE + 1, 2 * SLICE, LARGE])
def test_a_request_cut_into_parts_is_restored(message: Any, entries: int) -> None:
    whole = attrs.evolve(message, **{PARTED[type(message)].field: tuple(range(entries))})
    parts, last = cut(whole)
    lengths = [len(slice) for slice in entries_of(parts, last)]
    assert len(parts) == max(0, (entries - 1) // SLICE)
    assert sum(lengths) == entries
    assert not lengths or 0 < min(lengths) <= max(lengths) <= SLICE
    assert join_parts(parts, last) == whole


def test_a_message_without_a_list_is_not_cut() -> None:
    message = UpdateMetadataResponse(0)
    assert cut(message) == ((), message)


class Seen:
    """Pass each delivered message to a function."""

    def __init__(self, look: Callable[[Any], None]) -> None:
        self._look = look

    def observe_delivery(self, delivery: Delivery) -> None:
        self._look(delivery.message)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path / "data")
    yield made
    assert made.base.failures == 0


def test_a_large_leader_and_isr_is_obeyed_and_answered_as_one(broker: Broker) -> None:
    orders = [order("t", number) for number in range(LARGE)]
    assert codes(broker.lead(*orders)) == {str(state.partition): NONE for state in orders}
    assert broker.gauges["leadercount"] == LARGE
    stopped = broker.stop(*(("t", number, 0, True) for number in range(LARGE)))
    assert codes(stopped) == {str(state.partition): NONE for state in orders}
    assert broker.gauges["partitioncount"] == 0


def test_a_large_refusal_names_every_partition(broker: Broker) -> None:
    broker.lead(order("t", 0), epoch=5)
    refused = broker.lead(*(order("t", number, epoch=1) for number in range(LARGE)), epoch=4)
    assert len(refused.partition_errors) == LARGE
    assert {refused.error_code, *(error.error_code for error in refused.partition_errors)} == {11}


def test_a_large_update_metadata_is_merged_as_one(broker: Broker) -> None:
    topics = LARGE
    assert broker.update(*(known(f"t{number}") for number in range(topics)), live=(alive(0),)).error_code == NONE
    answer = broker.metadata(everything=True)
    assert [topic.name for topic in answer.topics] == sorted(f"t{number}" for number in range(topics))


def test_clients_see_a_large_update_metadata_whole_or_not_at_all(broker: Broker) -> None:
    names = [f"t{number}" for number in range(LARGE)]
    broker.update(*(known(name) for name in names), live=(alive(0),))
    broker.post(UpdateMetadataRequest(6, CONTROLLER, 1, -1, tuple(known(name, epoch=7) for name in names), (alive(0),)))
    seen = []
    while broker.base.queued:
        broker.post(MetadataRequest(8, (names[0], names[-1])))
        broker.base.run(4)
    broker.run()
    for answer in broker.answers:
        if isinstance(answer.response, MetadataResponse):
            seen.append(tuple(topic.partitions[0].leader_epoch for topic in answer.response.topics))
    assert set(seen) == {(0, 0), (7, 7)}
    assert seen == sorted(seen)


def test_an_update_metadata_that_broke_off_leaves_nothing_behind() -> None:
    cache = MetadataCache()
    cache.stage((known("left"), known("over")), begins=True)
    cache.merge(UpdateMetadataRequest(6, 1, 1, -1, (known("t"),), ()), begins=True)
    assert list(cache.view.topics) == ["t"]


def test_all_topics_responses_share_objects_until_a_change(broker: Broker) -> None:
    def reported() -> list[Any]:
        broker.raw.clear()
        broker.metadata(everything=True)
        return [getattr(message, "part", None) or message.response for message in broker.raw]

    broker.update(*(known(f"t{number // 100}", number % 100) for number in range(LARGE)), live=(alive(0),))
    first, second = reported(), reported()
    assert len(first) > 1
    assert all(map(operator.is_, first, second))
    broker.update(known("t0", epoch=1), live=(alive(0),))
    assert not any(map(operator.is_, first, reported()))


def test_a_topic_is_never_cut_in_two() -> None:
    states = [known("a", number) for number in range(LARGE)] + [known("b"), known("c")]
    cache = MetadataCache()
    cache.stage(states, begins=True)
    cache.merge(UpdateMetadataRequest(6, 1, 1, -1, (), ()), begins=False)
    assert list(cache.view.in_parts("abc")) == [("a",), ("b", "c")]


def test_other_messages_are_handled_during_a_large_request(broker: Broker) -> None:
    """However large the LeaderAndIsr, a client's request waits for fewer than `6 * PARTITIONS_AT_ONCE` deliveries."""
    broker.update(known("t"))
    longest = 0
    broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, tuple(order("u", n) for n in range(LARGE)), ()))
    while not any(isinstance(answer.response, LeaderAndIsrResponse) for answer in broker.answers[1:]):
        asked, already = broker.base.n, len(broker.answers)
        broker.post(MetadataRequest(8, ("t",)))
        while len(broker.answers) == already:
            broker.base.run(1)
        longest = max(longest, broker.base.n - asked)
    assert longest < 6 * PARTITIONS_AT_ONCE


def test_leaders_of_all_parts_come_before_the_first_follower(broker: Broker) -> None:
    broker.update(live=(alive(0), alive(9)))
    orders = [order("t", number, leader=number % 2 * 9, replicas=(0, 9)) for number in range(LARGE)]
    asked: list[Any] = []
    broker.base.observer = Seen(lambda message: asked.append(message.question) if isinstance(message, Ask) else None)
    assert set(codes(broker.lead(*orders)).values()) == {NONE}
    roles = [type(question) for question in asked if isinstance(question, BecomeLeader | BecomeFollower)]
    assert roles == [BecomeLeader] * (LARGE // 2 + 1) + [BecomeFollower] * (LARGE // 2)


def test_no_other_controller_request_comes_between_the_slices(broker: Broker) -> None:
    stale = order("t", LARGE - 1, epoch=0)
    broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, tuple(order("t", n, epoch=1) for n in range(LARGE)), ()))
    broker.post(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, (stale,), ()))
    broker.run()
    first, second = broker.answers
    assert set(codes(first.response).values()) == {NONE}
    assert codes(second.response) == {str(stale.partition): STALE_CONTROLLER_EPOCH}


def test_large_requests_and_answers_are_one_frame_on_the_wire(tmp_path: Path) -> None:
    topics = [f"t{number}" for number in range(LARGE)]
    with ServedBroker(tmp_path / "data") as served:
        served.start()
        with WireClient("127.0.0.1", served.port) as client:
            orders = tuple(order(topic) for topic in topics)
            roles = client.call(LeaderAndIsrRequest(4, CONTROLLER, 1, -1, orders, ()))
            assert [error.partition.topic for error in roles.partition_errors] == topics
            states = tuple(known(topic) for topic in topics)
            client.call(UpdateMetadataRequest(6, CONTROLLER, 1, -1, states, (alive(0, served.port),)))
            answer = client.call(MetadataRequest(8, None))
            assert [topic.name for topic in answer.topics] == sorted(topics)
        assert served.base.failures == 0
