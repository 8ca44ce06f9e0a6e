"""Large requests are several messages inside a node, and one everywhere else (`messages.parts`; design 2.7)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from messages.conversation import SLICE
from messages.errors import NONE
from messages.parts import PARTED, cut, entries_of, joined
from messages.requests import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    MetadataRequest,
    MetadataResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
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
def test_what_is_cut_is_whole_again(message: Any, entries: int) -> None:
    whole = attrs.evolve(message, **{PARTED[type(message)].field: tuple(range(entries))})
    parts, last = cut(whole)
    lengths = [len(slice) for slice in entries_of(parts, last)]
    assert len(parts) == max(0, (entries - 1) // SLICE)
    assert sum(lengths) == entries
    assert not lengths or 0 < min(lengths) <= max(lengths) <= SLICE
    assert joined(parts, last) == whole


def test_a_message_without_a_list_goes_whole() -> None:
    message = UpdateMetadataResponse(0)
    assert cut(message) == ((), message)


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
