"""A broker that has started answers about the cluster when it has the controller's first UpdateMetadata."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.broker.request_handler import MOST_HELD
from messages.apis.api_versions import ApiVersionsRequest
from messages.apis.create_topics import CreateTopicsRequest
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.heartbeat import HeartbeatRequest
from messages.apis.metadata import MetadataRequest
from messages.errors import UNKNOWN_TOPIC_OR_PARTITION
from messages.network import Forwarded
from messages.node import StartRequestHandler
from messages.vocabulary import Message
from tests.broker.harness import Broker, alive, known

METADATA = MetadataRequest(8, ("t",), False)
HELD = [METADATA, FindCoordinatorRequest(3, "g"), CreateTopicsRequest(5, (), 1000)]
AT_ONCE = [ApiVersionsRequest(3, "a", "1"), HeartbeatRequest(4, "g", 1, "m"), DeleteTopicsRequest(4, (), 1000)]
TEXT = "has no metadata"


class Starting(Broker):
    """A broker without metadata. The requests to finder, controller and group coordinator end in `reached`."""

    def __init__(self, place: Path) -> None:
        super().__init__(place)
        self.reached: list[Message] = []
        others = self.base.external_endpoint("others", self._reached)
        self.base.inject(
            self.handler,
            StartRequestHandler(
                *(self.settings, self.cache, self.manager, others, self.partition_requests),
                group_coordinator=others,
                coordinator_finder=others,
            ),
        )
        self.run()

    def _reached(self, message: Forwarded, sender: object) -> None:
        self.reached.append(message.request.request)

    def served(self, request: Message) -> bool:
        """Send a request; return whether it was answered, or reached its handler, at once."""
        id = self.post(request)
        self.run()
        return request in self.reached or any(answer.correlation_id == id for answer in self.answers)

    def first_update(self) -> None:
        self.update(known("t"), live=(alive(0),), controller=0)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Starting]:
    made = Starting(tmp_path / "data")
    yield made
    made.end()


@pytest.mark.parametrize("request_", HELD, ids=lambda each: type(each).__name__)
def test_a_request_about_the_cluster_waits_for_the_first_update(broker: Starting, request_: Any) -> None:
    assert not broker.served(request_)
    broker.first_update()
    assert broker.reached == ([] if request_ is METADATA else [request_])
    if request_ is METADATA:
        [response] = [each.response for each in broker.answers if each.correlation_id == 1]
        assert (response.controller_id, len(response.brokers), response.topics[0].error_code) == (0, 1, 0)
    broker.reached.clear()
    assert broker.served(request_), "afterwards nothing waits"


@pytest.mark.parametrize("request_", AT_ONCE, ids=lambda each: type(each).__name__)
def test_every_other_request_is_served_at_once(broker: Starting, request_: Any) -> None:
    assert broker.served(request_)


def test_without_an_update_the_answer_comes_after_five_seconds_with_one_warning(
    broker: Starting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        ids = [broker.post(METADATA), broker.post(METADATA)]
        broker.base.simulate(broker.clock.now() + 4.9)
        assert not broker.answers
        broker.base.simulate(broker.clock.now() + 0.2)
    assert [answer.correlation_id for answer in broker.answers] == ids
    for answer in broker.answers:
        assert (answer.response.brokers, answer.response.controller_id) == ((), -1)
        assert answer.response.topics[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert [record.levelname for record in caplog.records if TEXT in record.message] == ["WARNING"]


def test_the_number_of_waiting_requests_is_bounded(broker: Starting) -> None:
    for _ in range(MOST_HELD):
        broker.post(METADATA)
    broker.run()
    assert not broker.answers
    assert broker.served(METADATA)
    broker.first_update()
    assert len(broker.answers) == MOST_HELD + 2, "each request and the update have one answer"
    broker.base.simulate(broker.clock.now() + 6)
    assert len(broker.answers) == MOST_HELD + 2


def test_a_refused_update_is_no_metadata(broker: Starting) -> None:
    broker.register(7)
    broker.update(known("t"), live=(alive(0),), broker_epoch=6)
    assert not broker.served(METADATA)
    broker.update(known("t"), live=(alive(0),), broker_epoch=7)
    assert broker.served(METADATA)


def test_while_no_controller_is_elected_the_cached_metadata_is_served(broker: Starting) -> None:
    broker.first_update()
    broker.elected = None
    assert broker.metadata("t").controller_id == 0
    assert broker.served(METADATA)


def test_a_node_without_a_broker_gets_no_update_and_does_not_wait(broker: Starting) -> None:
    handler = StartRequestHandler(broker.settings, broker.cache, None, None)
    broker.base.inject(broker.handler, handler)
    assert broker.served(METADATA)
