"""The shell's rules: serial events, figures, failures, sameness of every run."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from actors.core.controller.events import HANDLERS
from actors.runtime import Delivery
from messages.cluster import TopicPartition
from messages.events import (
    EVENTS,
    ControllerChange,
    ControllerShutdown,
    ControllerState,
    IsrChangeNotification,
    LeaderAndIsrResponseReceived,
    Reelect,
    SessionExpired,
    Startup,
    UpdateMetadataResponseReceived,
)
from messages.requests import LeaderAndIsrResponse, PartitionError, UpdateMetadataResponse
from messages.store import CREATE_SEQUENTIAL, DELETE, WriteOp
from messages.zookeeper import EnsurePaths
from tests.controller.world import World, good_answer
from zk_bridge import paths

ROOT = Path(__file__).resolve().parents[2]


def test_every_event_is_handled() -> None:
    about_the_term = {Startup, ControllerChange, Reelect, SessionExpired, ControllerShutdown}
    assert set(EVENTS) == set(HANDLERS) | about_the_term
    assert [event for event in EVENTS if not isinstance(event.state, ControllerState)] == []


def test_events_find_a_candidate_that_is_not_active_deaf(world: World) -> None:
    world.node(0)
    other = world.node(1)
    world.wire.clear()
    for event_class in HANDLERS:
        if event_class.watch is None:
            continue
        fields = {"broker_id": 0, "topic": "t", "partition": 0}
        names = [a.name for a in event_class.__attrs_attrs__]
        other.send(event_class(**{name: value for name, value in fields.items() if name in names}))
    assert world.wire == [] and not other.context.topics


def test_answers_of_a_channel_that_is_closed_are_dropped(world: World) -> None:
    """They tell of a broker's earlier life."""
    node = world.node(0)
    world.broker(1)
    (partition,) = world.topic("t", (1, 0))
    lost = LeaderAndIsrResponse(0, (PartitionError(partition, 56),))
    node.send(LeaderAndIsrResponseReceived(1, lost), world.network)
    node.send(UpdateMetadataResponseReceived(9, UpdateMetadataResponse(11)), world.network)
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


def test_figures_are_zero_where_nobody_is_active(world: World) -> None:
    node = world.node(0)
    world.topic("t", (0,))
    assert node.gauge("globaltopiccount") == node.gauge("globalpartitioncount") == 1
    world.stop(node)
    zero = [value for (name, _), value in node.gauges.items() if "kafkacontroller" in name]
    assert zero and not any(zero)
    assert not any("channelmanager" in name for name, _ in node.gauges)


def test_the_state_is_told_while_an_event_runs(world: World) -> None:
    node = world.node(0)
    node.store.disconnect()
    node.send(IsrChangeNotification())
    assert node.gauge("controllerstate") == 9
    node.store.reconnect()
    world.run()
    assert node.gauge("controllerstate") == 0


def story() -> str:
    """A digest of all that is sent in an eventful life."""
    digest = hashlib.sha256()

    class Listener:
        def delivered(self, delivery: Delivery) -> None:
            digest.update(f"{delivery.receiver}{delivery.message}\n".encode())

    world = World()
    world.admin.ask(EnsurePaths())
    world.base.observer = Listener()
    first = world.node(0)
    second = world.node(1)
    for broker_id in (11, 12, 13):
        world.broker(broker_id)
    for number in range(8):
        world.topic(f"topic-{number}", (11, 12, 0), (12, 13, 1), (13, 0, 11), run=number % 2 == 0)
    world.lose(12)
    for number in range(4):
        world.delete(f"topic-{number}")
    world.broker(12)
    world.bounce(13)
    world.shut_down(first, 11)
    world.zk.write((WriteOp(DELETE, paths.CONTROLLER),), 0)
    world.run()
    first.store.expire()
    world.run()
    assert first.context.active or second.context.active
    assert world.state(TopicPartition("topic-7", 0)) is not None
    return digest.hexdigest()


def test_the_same_mail_makes_the_same_sends_whatever_the_hash_seed() -> None:
    command = [sys.executable, "-c", "from tests.controller.test_shell import story; print(story())"]
    told = [
        subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2", "77")
    ]
    assert told[0] and told[0] == told[1] == told[2]


def test_mail_that_nobody_knows_is_an_error(world: World) -> None:
    node = world.node(0)
    node.send(UpdateMetadataResponse(0))
    assert len(world.errors) == 1 and "UpdateMetadataResponse" in world.errors[0]
    world.expected_failures = 1
    assert node.context.active
