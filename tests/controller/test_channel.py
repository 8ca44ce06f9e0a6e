"""The channel to a broker (controller.md 5; case CH3): order, one request in flight, endless retry, and its events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest

from actors.controller.channel import QUEUE_SIZE, QUEUE_TIME, BrokerChannelActor
from actors.runtime import local_system
from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from messages.apis.stop_replica import StopReplicaPartitionState, StopReplicaRequest, StopReplicaResponse
from messages.apis.update_metadata import ControllerRequest, UpdateMetadataRequest, UpdateMetadataResponse
from messages.channel import MoveChannel, StartChannel
from messages.cluster import EPOCH_DURING_DELETE, Endpoint, TopicPartition
from messages.errors import KAFKA_STORAGE_ERROR, NONE, STALE_CONTROLLER_EPOCH
from messages.events import (
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
    UpdateMetadataResponseReceived,
)
from messages.flow.conversation import SLICE, slices
from messages.metrics import DropMetric, Gauges, Samples
from messages.network import ChannelPart, CloseConnection, Received, Transmit, TransmitFailed
from messages.parts import NoErrorsPart, cut
from tests.broker.harness import order
from tests.frozen_time import FrozenTime, frozen

__all__ = ["frozen"]

ENDPOINT = Endpoint("PLAINTEXT", "host2", 9092)
ROLES = LeaderAndIsrRequest(4, 1, 1, 1, (), ())
METADATA = UpdateMetadataRequest(6, 1, 1, 1, (), ())
KEEP, GO = TopicPartition("t", 0), TopicPartition("t", 1)
STOP = StopReplicaRequest(
    3, 1, 1, 1, (StopReplicaPartitionState(KEEP), StopReplicaPartitionState(GO, EPOCH_DURING_DELETE, True))
)
NAME = "controller-1-broker-2-1"


class Line:
    """A channel with a network and a controller that only record messages."""

    def __init__(self, time: FrozenTime) -> None:
        self.time = time
        self.base = time.base()
        self.system = local_system(self.base)
        self.network_mail: list[Any] = []
        self.events: list[Any] = []
        self.figures: list[Any] = []
        self.network = self.base.external_endpoint("network", lambda message, sender: self.network_mail.append(message))
        self.controller = self.base.external_endpoint("controller", lambda message, sender: self.events.append(message))
        self.metrics = self.base.external_endpoint("metrics", lambda message, sender: self.figures.append(message))
        self.channel = self.system.createActor(BrokerChannelActor)
        self.send(StartChannel(2, 1, ENDPOINT, NAME, 10.0, 30.0, self.network, self.metrics), self.controller)

    def send(self, message: Any, sender: ActorAddress | None = None) -> None:
        self.base.inject(self.channel, message, sender or self.controller)
        self.base.run()

    def answer(self, response: Any) -> None:
        """Respond to the last transmitted request."""
        self.send(Received(NAME, self.network_mail[-1].correlation_id, response), self.network)

    def fail(self, reason: str = "reset") -> None:
        self.send(TransmitFailed(NAME, self.network_mail[-1].correlation_id, reason), self.network)

    def wait(self, seconds: float) -> None:
        self.time.advance(seconds)

    @property
    def transmitted(self) -> list[Any]:
        return [message.request for message in self.network_mail if isinstance(message, Transmit)]


@pytest.fixture
def line(frozen: FrozenTime) -> Iterator[Line]:
    made = Line(frozen)
    yield made
    assert made.base.failures == 0


def test_one_request_is_in_flight_and_order_is_kept(line: Line) -> None:
    for request in (ROLES, METADATA, STOP):
        line.send(request)
    assert line.transmitted == [ROLES]
    line.answer(LeaderAndIsrResponse(0))
    assert line.transmitted == [ROLES, METADATA]
    line.answer(UpdateMetadataResponse(0))
    line.answer(StopReplicaResponse(0))
    assert line.transmitted == [ROLES, METADATA, STOP]
    first = line.network_mail[0]
    assert first == Transmit(NAME, ENDPOINT, 1, "1", ROLES, 30.0, 10.0)
    assert [message.correlation_id for message in line.network_mail] == [1, 2, 3]


def test_each_response_of_a_broker_becomes_an_event(line: Line) -> None:
    for request, response in (
        (ROLES, LeaderAndIsrResponse(0)),
        (METADATA, UpdateMetadataResponse(77)),
        (STOP, StopReplicaResponse(0)),
    ):
        line.send(request)
        line.answer(response)
    assert line.events == [
        LeaderAndIsrResponseReceived(2, LeaderAndIsrResponse(0)),
        UpdateMetadataResponseReceived(2, UpdateMetadataResponse(77)),
        TopicDeletionStopReplicaResponseReceived(2, 1, 0, (GO,), StopReplicaResponse(0)),
    ]


def test_parts_precede_their_request_each_time_it_is_sent(line: Line) -> None:
    parts, last = cut(LeaderAndIsrRequest(4, 1, 1, 1, tuple(order("t", n) for n in range(2 * SLICE + 1)), ()))
    for message in (METADATA, *parts, last):
        line.send(message)
    line.answer(UpdateMetadataResponse(0))
    ahead = [ChannelPart(NAME, part) for part in parts]
    assert len(ahead) == 2
    assert line.network_mail[1:] == [*ahead, Transmit(NAME, ENDPOINT, 2, "1", last, 30.0, 10.0)]
    line.fail()
    line.wait(0.11)
    assert line.network_mail[4:] == [*ahead, Transmit(NAME, ENDPOINT, 3, "1", last, 30.0, 10.0)]


def test_the_controller_gets_new_and_cleared_errors_of_leader_and_isr(line: Line) -> None:
    def answered(*errors: PartitionError) -> tuple[PartitionError, ...]:
        line.send(ROLES)
        line.answer(LeaderAndIsrResponse(0, errors))
        response: LeaderAndIsrResponse = line.events[-1].response
        return response.partition_errors

    lost, served, stale = (PartitionError(KEEP, code) for code in (KAFKA_STORAGE_ERROR, NONE, STALE_CONTROLLER_EPOCH))
    other = PartitionError(GO, NONE)
    assert answered(served, other) == ()
    assert answered(lost, other) == (lost,)
    assert answered(lost) == (lost,)
    assert answered(stale, other) == ()
    assert answered(served, other) == (served,)
    assert answered(served) == ()


def test_a_large_answer_to_stop_replica_becomes_events_of_its_requests_parts(line: Line) -> None:
    gone = [TopicPartition("t", number) for number in range(2 * SLICE + 1)]
    stop = StopReplicaRequest(
        3, 1, 1, 1, tuple(StopReplicaPartitionState(tp, EPOCH_DURING_DELETE, True) for tp in gone)
    )
    parts, last = cut(stop)
    for message in (*parts, last):
        line.send(message)
    failed = PartitionError(gone[0], KAFKA_STORAGE_ERROR)
    answer = StopReplicaResponse(0, (*(PartitionError(tp, NONE) for tp in reversed(gone[1:])), failed))
    ahead, response = cut(answer)
    for part in ahead:
        line.send(ChannelPart(NAME, part), line.network)
    line.answer(response)
    assert [event.deleted for event in line.events] == [tuple(slice) for slice in slices(gone)]
    errors = [error for event in line.events for error in event.response.partition_errors]
    assert errors == [failed, *(PartitionError(tp, NONE) for tp in gone[1:])]


def test_a_large_response_without_errors_is_summarised(line: Line) -> None:
    many = [TopicPartition("t", number) for number in range(2 * SLICE)]
    lost = PartitionError(many[5], KAFKA_STORAGE_ERROR)

    def answered(request: ControllerRequest, response: Any, *ahead: Any) -> Any:
        parts, last = cut(request)
        for message in (*parts, last):
            line.send(message)
        for part in ahead:
            line.send(ChannelPart(NAME, part), line.network)
        line.answer(response)
        return line.events[-1].response

    roles = LeaderAndIsrRequest(4, 1, 1, 1, tuple(order("t", number) for number in range(2 * SLICE)), ())
    none = NoErrorsPart(len(many))
    assert answered(roles, LeaderAndIsrResponse(0), none) == LeaderAndIsrResponse(0)
    assert answered(roles, LeaderAndIsrResponse(0, (lost,))) == LeaderAndIsrResponse(0, (lost,))
    assert answered(roles, LeaderAndIsrResponse(0), none) == LeaderAndIsrResponse(0, (PartitionError(many[5], NONE),))
    assert answered(roles, LeaderAndIsrResponse(0), none) == LeaderAndIsrResponse(0)
    stop = StopReplicaRequest(
        3, 1, 1, 1, tuple(StopReplicaPartitionState(tp, EPOCH_DURING_DELETE, True) for tp in many)
    )
    assert answered(stop, StopReplicaResponse(0), none) == StopReplicaResponse(0)
    assert [event.deleted for event in line.events[-2:]] == [tuple(slice) for slice in slices(many)]


def test_a_stop_without_deletion_is_no_event(line: Line) -> None:
    line.send(StopReplicaRequest(3, 1, 1, 1, (StopReplicaPartitionState(KEEP),)))
    line.answer(StopReplicaResponse(0))
    assert line.events == []


def test_the_removal_of_a_replica_by_a_reassignment_is_no_event(line: Line) -> None:
    line.send(StopReplicaRequest(3, 1, 1, 1, (StopReplicaPartitionState(GO, 4, True),)))
    line.answer(StopReplicaResponse(0))
    assert line.events == []


def test_ch3_the_same_request_is_sent_again_for_ever(line: Line) -> None:
    line.send(ROLES)
    line.send(METADATA)
    for attempt in range(1, 50):
        line.fail()
        assert len(line.transmitted) == attempt
        line.wait(0.09)
        assert len(line.transmitted) == attempt
        line.wait(0.02)
        assert line.transmitted == [ROLES] * (attempt + 1)
    line.answer(LeaderAndIsrResponse(0))
    assert line.transmitted[-1] == METADATA
    assert [message.correlation_id for message in line.network_mail] == list(range(1, 52))


def test_what_belongs_to_an_earlier_try_is_ignored(line: Line) -> None:
    line.send(ROLES)
    line.fail()
    line.wait(0.2)
    line.send(Received(NAME, 1, LeaderAndIsrResponse(0)), line.network)
    line.send(TransmitFailed(NAME, 1, "late"), line.network)
    line.wait(1.0)
    assert len(line.transmitted) == 2 and line.events == []
    line.answer(LeaderAndIsrResponse(0))
    line.send(Received(NAME, 2, LeaderAndIsrResponse(0)), line.network)
    line.send(TransmitFailed(NAME, 2, "late"), line.network)
    line.wait(1.0)
    assert len(line.transmitted) == 2 and len(line.events) == 1


def test_a_late_response_ends_the_back_off(line: Line) -> None:
    line.send(ROLES)
    line.fail()
    line.answer(LeaderAndIsrResponse(0))
    line.wait(1.0)
    assert len(line.transmitted) == 1 and len(line.events) == 1


def test_a_response_of_another_type_is_dropped_and_the_next_request_is_sent(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    line.send(ROLES)
    line.send(METADATA)
    line.answer(UpdateMetadataResponse(0))
    assert line.events == [] and line.transmitted == [ROLES, METADATA]
    assert "LeaderAndIsrRequest" in caplog.text


def test_the_end_of_a_channel_closes_its_connection(line: Line) -> None:
    line.send(ROLES)
    line.send(METADATA)
    line.fail()
    line.send(ActorExitRequest())
    line.wait(5.0)
    assert line.network_mail[-1] == CloseConnection(NAME)
    assert line.transmitted == [ROLES]
    assert line.figures[-2:] == [DropMetric(name, (("broker_id", "2"),)) for name in (QUEUE_SIZE, QUEUE_TIME)]


def test_the_queue_is_measured(line: Line) -> None:
    line.send(ROLES)
    line.send(METADATA)
    line.answer(LeaderAndIsrResponse(0))
    line.answer(UpdateMetadataResponse(0))
    values = [gauge.value for figures in line.figures if isinstance(figures, Gauges) for gauge in figures.values]
    assert values == [0, 1, 2, 1, 0]


def test_the_time_in_the_queue_ends_when_a_request_is_first_sent(line: Line) -> None:
    line.send(ROLES)
    line.send(METADATA)
    line.wait(0.25)
    line.answer(LeaderAndIsrResponse(0))
    line.fail()
    line.wait(0.5)
    line.answer(UpdateMetadataResponse(0))
    times = [sample for figure in line.figures if isinstance(figure, Samples) for sample in figure.values]
    assert [(timing.name, timing.labels) for timing in times] == [(QUEUE_TIME, (("broker_id", "2"),))] * 2
    assert [timing.value for timing in times] == pytest.approx([0, 250])


def test_the_request_in_flight_is_sent_to_a_new_endpoint_at_once(line: Line) -> None:
    elsewhere = Endpoint("PLAINTEXT", "host2", 9093)
    line.send(ROLES)
    line.send(METADATA)
    line.send(MoveChannel(elsewhere))
    first, closed, second = line.network_mail
    assert (first.endpoint, closed, second.endpoint) == (ENDPOINT, CloseConnection(NAME), elsewhere)
    assert second.request == first.request == ROLES
    line.send(Received(NAME, first.correlation_id, LeaderAndIsrResponse(0, ())), line.network)
    assert line.transmitted == [ROLES, ROLES] and line.events == []
    line.answer(LeaderAndIsrResponse(0, ()))
    assert line.transmitted == [ROLES, ROLES, METADATA] and line.network_mail[-1].endpoint == elsewhere


def test_a_new_endpoint_is_tried_without_back_off(line: Line) -> None:
    line.send(ROLES)
    line.fail()
    line.send(MoveChannel(Endpoint("PLAINTEXT", "host2", 9093)))
    line.wait(10.0)
    assert line.transmitted == [ROLES, ROLES]


def test_an_idle_channel_uses_a_new_endpoint_for_the_next_request(line: Line) -> None:
    line.send(MoveChannel(Endpoint("PLAINTEXT", "host3", 9092)))
    assert line.network_mail == []
    line.send(ROLES)
    assert line.network_mail[0].endpoint.host == "host3"
