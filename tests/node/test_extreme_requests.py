"""Send well-formed requests with extreme values, of every API and version, to a whole node in virtual time.

No handler raises. Each request gets a response that its version can carry, or its connection is closed with a reason.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from messages.apis import APIS
from messages.apis.create_topics import CreateTopicsRequest
from messages.apis.declaration import Api, Target
from messages.apis.fetch import IDS_SINCE, FetchRequest
from messages.apis.find_coordinator import GROUP_KEY, TRANSACTION_KEY, FindCoordinatorRequest
from messages.apis.join_group import JoinGroupRequest
from messages.apis.offset_commit import CommittedPartition, OffsetCommitRequest
from messages.apis.produce import ProduceRequest
from messages.apis.sync_group import SyncGroupRequest
from messages.cluster import PartitionAssignment, ReplicaAssignment, TopicPartition
from messages.errors import NONE
from messages.network import Received, Transmit, TransmitFailed
from messages.parts import cut
from messages.vocabulary import Message
from messages.wire import RequestHeader, WireError, decode_request, encode_response
from messages.wire.layout import Schema
from messages.wire.record_batch import read_records
from messages.zookeeper import CreateTopic, TopicAssignment
from tests.hostile.frames import BATCHES, DESTRUCTIVE, Frames
from tests.node.test_assembly import World, controller
from tests.wire.samples import with_extremes
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore

AT_ONCE = 40
"""Number of requests in one example."""
PATIENCE = 700.0
"""Seconds that the test lets pass: longer than the default waits of groups, topics and records."""


@attrs.define(repr=False)
class Asked:
    """A node in virtual time, and the outcomes of the requests that were sent to it."""

    world: World = attrs.field(repr=False)
    outcomes: dict[int, Message | None] = attrs.field(factory=dict, repr=False)
    """Outcome by correlation id; None if the request has no outcome yet."""
    number: int = 0

    def send(self, request: Message, client: str = "client") -> int:
        """Send a request on its own connection, and return its correlation id."""
        self.number += 1
        number, place = self.number, self.world.nodes[0].settings.listeners[0]
        self.outcomes[number] = None
        parts, request = cut(request)

        def ended(outcome: Message) -> None:
            self.outcomes[number] = outcome

        self.world.network.begin("client", Transmit(f"c{number}", place, number, client, request, 1e9), ended, parts)
        return number

    def ask(self, request: Message) -> Message:
        """Send a request, wait for its response, and return it."""
        number = self.send(request)
        self.world.until(lambda: self.outcomes[number] is not None)
        outcome = self.outcomes[number]
        assert isinstance(outcome, Received), outcome
        return outcome.response

    @property
    def failures(self) -> int:
        """Return the number of handlers that raised."""
        return self.world.nodes[0].base.failures


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """Return a node that is controller and coordinator, with the topics t and u."""
    options = {"offsets_topic_replication_factor": 1, "offsets_topic_num_partitions": 2}
    of_transactions = {"replication_factor": 1, "num_partitions": 2, "min_isr": 1}
    options |= {f"transaction_state_log_{name}": value for name, value in of_transactions.items()}
    world = World.of(Path(tmp_path_factory.mktemp("extreme")), 1, **options)
    world.until(lambda: world.nodes[0].ready and controller(world.zookeeper) >= 0)
    with Client(MemoryStore(world.zookeeper)) as admin:
        for topic in ("t", "u"):
            partitions = tuple(PartitionAssignment(n, ReplicaAssignment((0,))) for n in range(3))
            admin.ask(CreateTopic(TopicAssignment(topic, partitions)))
    asked = Asked(world)
    world.scheduler.run(5.0)
    for key_type in (GROUP_KEY, TRANSACTION_KEY):
        asked.ask(FindCoordinatorRequest(3, "g", key_type))
    world.scheduler.run(10.0)
    for key_type in (GROUP_KEY, TRANSACTION_KEY):
        assert asked.ask(FindCoordinatorRequest(3, "g", key_type)).error_code == NONE  # type: ignore[attr-defined]
    yield asked
    world.nodes[0].leave()


def may_wait(request: Message) -> bool:
    """Return whether a request may wait longer than PATIENCE, or has no response."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        return True
    if isinstance(request, FetchRequest):
        return request.max_wait_ms > 1000 * PATIENCE
    waits = getattr(request, "timeout_ms", 0), getattr(request, "rebalance_timeout_ms", 0)
    return isinstance(request, JoinGroupRequest | SyncGroupRequest) or max(waits) > 1000 * PATIENCE


def assert_each_ends(asked: Asked, sent: dict[int, tuple[int, int, Message]]) -> None:
    """Wait for the outcomes of the requests, and check that no handler raised.

    `sent` contains (API key, version, request) by correlation id.
    """
    failures = asked.failures
    asked.world.scheduler.run(PATIENCE)
    for number, (key, version, request) in sent.items():
        outcome = asked.outcomes.pop(number)
        if isinstance(outcome, Received) and outcome.response is None:
            assert isinstance(request, ProduceRequest) and request.acks == 0
        elif isinstance(outcome, Received):
            encode_response(RequestHeader(key, version, number, ""), outcome.response)
        else:
            assert isinstance(outcome, TransmitFailed) or may_wait(request), request
    assert asked.failures == failures, "a handler raised"


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32))
def test_extreme_values_are_answered(asked: Asked, seed: int) -> None:
    """Send several random requests at a time."""
    frames, sent = Frames(Random(seed)), {}
    for _ in range(AT_ONCE):
        key, version, _, frame = frames.next(share_mutated=0)
        with contextlib.suppress(WireError):
            header, request = decode_request(frame[4:])
            sent[asked.send(request, header.client_id)] = key, version, request
    assert_each_ends(asked, sent)


@pytest.mark.parametrize("version", (2, 3, 4))
def test_a_commit_may_be_kept_for_ever(asked: Asked, version: int, caplog: pytest.LogCaptureFixture) -> None:
    """The expiry time did not fit into its record. GroupActor raised, and the client received no response."""
    commit = (CommittedPartition(TopicPartition("t", 0), 7),)
    request = OffsetCommitRequest(version, f"kept-{version}", -1, "", commit, retention_time_ms=2**63 - 1)
    response = asked.ask(request)
    assert response.partitions[0].error_code == NONE  # type: ignore[attr-defined]
    assert asked.failures == 0 and not [record for record in caplog.records if record.levelno >= logging.ERROR]


ORDERS = [api for api in APIS if api.key in DESTRUCTIVE]
ONE_BY_ONE = [*([api] for api in APIS if api not in ORDERS), ORDERS]


def samples(api: Api) -> Iterator[Any]:
    """Yield samples about a topic of the node, or about none if the API changes topics."""
    topic, records = "x" if api.key in DESTRUCTIVE else "t", read_records(BATCHES[0])
    request = api.sample(Target(TopicPartition(topic, 0), broker_epoch=-1, records=records))
    match request:
        case JoinGroupRequest():
            yield attrs.evolve(request, member_id="")
        case CreateTopicsRequest(topics=(assigned,)):
            counted = attrs.evolve(assigned, num_partitions=1, replication_factor=1, assignments=())
            yield from (attrs.evolve(request, topics=(each,), validate_only=False) for each in (assigned, counted))
        case _:
            yield request


def by_id(request: Any) -> Any:
    """Return a request with an id in place of the topic's name, if its version has ids."""
    if not isinstance(request, FetchRequest) or request.version < IDS_SINCE:
        return request
    partitions = (attrs.evolve(each, partition=TopicPartition("A" * 21 + "Q", 0)) for each in request.partitions)
    return attrs.evolve(request, partitions=tuple(partitions))


def own(request: Any, number: int) -> Any:
    """Return a request about a group or new topic of its own: others with the same one would be rejected."""
    if isinstance(request, CreateTopicsRequest):
        return attrs.evolve(request, topics=tuple(attrs.evolve(each, name=f"new-{number}") for each in request.topics))
    return attrs.evolve(request, group_id=f"g-{number}") if hasattr(request, "group_id") else request


@pytest.mark.parametrize("apis", ONE_BY_ONE, ids=lambda apis: apis[0].name)
def test_each_number_may_be_extreme(asked: Asked, apis: list[Api]) -> None:
    """One number at a time is extreme, in every version.

    Extreme controller epochs are sent last, because they make later controller requests stale.
    """
    named: list[tuple[str, int, Any]] = []
    for api in apis:
        for version in range(api.min_version, api.max_version + 1):
            fields = Schema(f"{api.name}Request").layout(version).fields
            for usual in (attrs.evolve(each, version=version) for each in samples(api)):
                usual = by_id(usual)
                named += [("", api.key, usual), *((name, api.key, each) for name, each in with_extremes(usual, fields))]
    sent = {}
    for _, key, request in sorted(named, key=lambda each: each[0] == "controller_epoch"):
        sent[asked.send(own(request, asked.number))] = key, request.version, request
    assert_each_ends(asked, sent)
