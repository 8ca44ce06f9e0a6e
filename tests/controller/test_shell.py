"""The controller's shell: events one at a time, metrics and failures."""

from __future__ import annotations

import attrs
import pytest

from actors.core.controller.events import HANDLERS, REQUESTS
from messages import events
from messages.apis import API_BY_REQUEST
from messages.apis.alter_partition import AlterPartitionRequest, IsrOfPartition
from messages.apis.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from messages.apis.controlled_shutdown import ControlledShutdownRequest
from messages.apis.create_partitions import CreatePartitionsRequest, GrowingTopic
from messages.apis.create_topics import CreatableTopic, CreateTopicsRequest
from messages.apis.declaration import PartitionError
from messages.apis.delete_topics import DeleteTopicsRequest
from messages.apis.elect_leaders import ElectLeadersRequest
from messages.apis.leader_and_isr import LeaderAndIsrResponse
from messages.apis.list_partition_reassignments import ListPartitionReassignmentsRequest
from messages.apis.update_features import UpdateFeaturesRequest
from messages.apis.update_metadata import UpdateMetadataResponse
from messages.cluster import TopicPartition
from messages.network import ClientRequest, Forwarded
from messages.store import CREATE_SEQUENTIAL, WriteOp
from tests.controller.world import World, good_answer
from zk_bridge import paths


def test_every_event_is_handled() -> None:
    assert set(events.EVENTS) == set(HANDLERS) | set(ABOUT_THE_TERM) and set(REFUSED) == set(REQUESTS)
    assert [event for event in events.EVENTS if not isinstance(event.state, events.ControllerState)] == []


ABOUT_THE_TERM = (
    events.Startup,
    events.ControllerChange,
    events.Reelect,
    events.SessionExpired,
    events.ControllerShutdown,
)
"""Events that each candidate handles, active or not; only the active controller handles the others."""

FIELDS = {
    "broker_id": 0,
    "broker_epoch": 0,
    "topic": "t",
    "partition": 0,
    "error_code": 0,
    "deleted": (TopicPartition("t", 0),),
    "response": LeaderAndIsrResponse(0, (PartitionError(TopicPartition("t", 0), 56),)),
}


@pytest.mark.parametrize("kind", [*events.EVENTS, *REQUESTS], ids=lambda kind: kind.__name__)
def test_an_inactive_controller_ignores_events_outside_the_term(world: World, kind: type) -> None:
    """Each event of controller.md 1.4 and 1.5 is ignored, or runs ("I: runs"); a request gets its refusal."""
    world.node(0)
    other = world.node(1)
    partitions = world.topic("t", (0, 1))
    world.wire.clear()
    asked: list[object] = []
    submit = other.store.submit
    other.store.submit = lambda request: (asked.append(request), submit(request))  # type: ignore[method-assign, func-returns-value]
    if kind in REQUESTS:
        request = REFUSED[kind]
        other.send(Forwarded(world.client, ClientRequest(7, 1, "test", "PLAINTEXT", request)), world.client)
        assert world.responses[-1].response == API_BY_REQUEST[kind].refusal(request, API_BY_REQUEST[kind].elsewhere)
    else:
        names = [field.name for field in attrs.fields(kind)]  # type: ignore[arg-type]
        other.send(kind(**{name: value for name, value in FIELDS.items() if name in names}))
    looks = kind in (events.Startup, events.ControllerChange, events.Reelect)
    assert bool(asked) is looks, "it looks at /controller, and at nothing else"
    assert world.wire == [] and not other.context.active and not other.context.topics
    assert world.controller() == (0, 1) and world.led(partitions[0]) == (0, 0, (0, 1))


REFUSED = {
    ControlledShutdownRequest: ControlledShutdownRequest(3, 0),
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsRequest(
        0, 1000, (ReassignableTopic("t", (ReassignablePartition(0, (1, 0)),)),)
    ),
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsRequest(0, 1000, None),
    ElectLeadersRequest: ElectLeadersRequest(2, 0, None, 1000),
    CreateTopicsRequest: CreateTopicsRequest(5, (CreatableTopic("u", 1, 1),), 1000),
    DeleteTopicsRequest: DeleteTopicsRequest(4, ("t",), 1000),
    CreatePartitionsRequest: CreatePartitionsRequest(2, (GrowingTopic("t", 2),), 1000),
    UpdateFeaturesRequest: UpdateFeaturesRequest(1, ()),
    AlterPartitionRequest: AlterPartitionRequest(1, 0, 0, (IsrOfPartition(TopicPartition("t", 0), 0, (0,), 0),)),
}
"""One request of each kind that clients send to the controller."""


def test_answers_of_a_channel_that_is_closed_are_dropped(world: World) -> None:
    """They belong to an earlier registration of the broker."""
    node = world.node(0)
    world.broker(1)
    (partition,) = world.topic("t", (1, 0))
    lost = LeaderAndIsrResponse(0, (PartitionError(partition, 56),))
    node.send(events.LeaderAndIsrResponseReceived(1, lost), world.network)
    node.send(events.UpdateMetadataResponseReceived(9, UpdateMetadataResponse(11)), world.network)
    assert world.led(partition) == (1, 0, (1, 0)) and node.context.offline_dirs == {}


def test_a_stale_epoch_in_an_answer_does_not_resign(world: World) -> None:
    node = world.node(0)
    world.answers[1] = lambda request: type(good_answer(request))(11)
    world.broker(1)
    world.topic("t", (0, 1))
    assert node.context.active


def test_a_torn_notification_stops_its_event_only(world: World) -> None:
    node = world.node(0)
    world.zk.write((WriteOp(CREATE_SEQUENTIAL, paths.ISR_CHANGE_PREFIX, b"{not json"),), 0)
    world.run()
    assert node.context.active
    (partition,) = world.topic("t", (0,))
    assert world.led(partition) == (0, 0, (0,))


def test_gauges_are_zero_on_an_inactive_controller(world: World) -> None:
    node = world.node(0)
    world.topic("t", (0,))
    assert node.gauge("globaltopiccount") == node.gauge("globalpartitioncount") == 1
    world.stop(node)
    zero = [value for (name, _), value in node.gauges.items() if "kafkacontroller" in name]
    assert zero and not any(zero)
    assert not any("controllerchannelmanager" in name for name, _ in node.gauges)


def test_the_state_is_published_while_an_event_runs(world: World) -> None:
    node = world.node(0)
    node.store.disconnect()
    node.send(events.IsrChangeNotification())
    assert node.gauge("controllerstate") == 9
    node.store.reconnect()
    world.run()
    assert node.gauge("controllerstate") == 0


def test_an_unknown_message_is_an_error(world: World) -> None:
    node = world.node(0)
    node.send(UpdateMetadataResponse(0))
    assert len(world.errors) == 1 and "UpdateMetadataResponse" in world.errors[0]
    world.expected_failures = 1
    assert node.context.active
