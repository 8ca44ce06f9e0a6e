"""The controller's reaction to a failed event handler (actors.core.controller.failures): drop the event, or resign."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors.core.controller import events, topic_changes
from actors.core.controller.batch import announce
from actors.core.controller.failures import CONSEQUENCES, Consequence, consequence, name_of
from actors.core.controller.gauges import FAILED_EVENTS
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import FAILURES, AskFailed
from messages.events import BrokerModifications, LeaderAndIsrResponseReceived, PartitionModifications, TopicChange
from messages.flow.conversation import Flow
from messages.store import DELETE, WriteOp
from tests.controller.world import World
from zk_bridge import paths


@pytest.fixture
def poison(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that sets the name of a poisoned topic; "" removes it.

    If the topic exists, TopicChange raises at its end, with a half-changed context.
    """
    poisoned = [""]

    def changed(context: topic_changes.ControllerContext, event: TopicChange) -> Flow[None]:
        yield from topic_changes.handle_topic_change(context, event)
        if poisoned[0] in context.topics:
            context.offline_count = 7
            raise KeyError(poisoned[0])

    monkeypatch.setitem(events.HANDLERS, TopicChange, changed)

    def choose(name: str) -> None:
        poisoned[0] = name

    return choose


def failing(world: World, node_id: int) -> dict[str, float]:
    """Return the node's failed events by name, as its gauges have them."""
    gauges = world.nodes[node_id].gauges
    return {labels[0][1]: value for (name, labels), value in gauges.items() if name == FAILED_EVENTS}


def test_every_failure_of_an_answer_has_its_consequence() -> None:
    unforeseen = [cls for cls in FAILURES.values() if cls not in CONSEQUENCES]
    assert unforeseen == [AskFailed], "who answers so has met a bug of its own"
    assert consequence(KeyError("x")) is Consequence.RELOADED


def test_the_same_event_is_known_by_its_subject() -> None:
    assert name_of(TopicChange(3)) == "TopicChange"
    assert name_of(PartitionModifications("t", 1)) == name_of(PartitionModifications("t", 2))
    assert name_of(PartitionModifications("t")) != name_of(PartitionModifications("u"))
    assert name_of(BrokerModifications(1)) == "BrokerModifications 1"
    assert name_of(LeaderAndIsrResponseReceived(3, LeaderAndIsrResponse(0))) == "LeaderAndIsrResponseReceived 3"
    assert name_of(ControlledShutdownRequest(3, 1)) == "ControlledShutdownRequest"


def test_an_unexpected_error_ends_the_term_and_reloads_all_state(world: World, poison: Callable[[str], None]) -> None:
    node, other = world.node(0), world.node(1)
    poison("poison")
    world.expected_failures = 1
    (partition,) = world.topic("poison", (0, 1))
    assert world.controller() == (0, 2) and node.context.active and not other.context.active
    assert world.led(partition) == (0, 0, (0, 1))
    assert failing(world, 0) == {"TopicChange": 1}


def test_the_same_event_again_is_dropped_and_named(
    world: World, poison: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """A poisoned znode does not make each node resign in turn; inconsistencies of the context are logged."""
    nodes = [world.node(n, validate_state=False) for n in range(2)]
    poison("poison")
    world.expected_failures = 5
    world.topic("poison", (1, 0))
    world.topic("second", (1, 0))
    world.topic("third", (1, 0))
    assert world.controller() == (0, 2), "only the first made it resign"
    assert [node.context.active for node in nodes] == [True, False]
    assert failing(world, 0) == {"TopicChange": 3} and failing(world, 1) == {}
    assert "Error processing event TopicChange (attempt 3), dropping it: KeyError('poison')" in caplog.text
    assert [error for error in world.errors if "0 partitions are offline, 7 are counted" in error] == world.errors[2::2]
    poison("")
    nodes[0].context.offline_count = 0
    (partition,) = world.topic("fourth", (1, 0))
    assert world.led(partition) == (1, 0, (1, 0))
    assert failing(world, 0) == {}


def test_a_context_that_contradicts_itself_after_an_event_ends_the_term(world: World) -> None:
    """The check needs validate.state, which the world enables by default."""
    node = world.node(0)
    node.context.offline_count = 7
    world.expected_failures = 1
    world.topic("t", (0,))
    assert world.controller() == (0, 2) and node.context.offline_count == 0
    assert "0 partitions are offline, 7 are counted" in world.errors[0]


def test_a_client_is_answered_once_when_its_request_raises(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node = world.node(0)
    world.broker(1)
    served = events.REQUESTS[ControlledShutdownRequest]

    def raising(context: topic_changes.ControllerContext, request: ControlledShutdownRequest) -> Flow[None]:
        yield from announce(context)
        raise RuntimeError("bug")

    monkeypatch.setitem(events.REQUESTS, ControlledShutdownRequest, events.ClientRequestHandler(served.state, raising))
    world.expected_failures = 1
    response = world.shut_down(node, 1)
    assert response.error_code == -1 and len(world.responses) == 1
    assert world.controller() == (0, 2)


def test_a_dead_broker_is_announced_although_none_of_its_replicas_moves(world: World) -> None:
    """The state znode is missing, so the controller cannot remove the follower from the ISR."""
    world.node(0)
    world.broker(1)
    (partition,) = world.topic("t", (0, 1))
    world.zk.write((WriteOp(DELETE, paths.partition_state(partition)),), 0)
    world.wire.clear()
    world.lose(1)
    assert [[b.id for b in r.live_brokers] for r in world.sent(0, UpdateMetadataRequest)] == [[0]]
