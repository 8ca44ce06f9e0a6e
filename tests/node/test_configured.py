"""Test that nodes apply changed configurations, also after an expired session, in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.dynamic_config import KEPT_SECONDS, DynamicConfigActor
from actors.broker.replica_manager import ReplicaManagerActor
from messages.cluster import ConfigEntry
from messages.store import CREATE_SEQUENTIAL, WriteOp
from messages.zookeeper import ALL_BROKERS, EnsurePaths, GetBrokerConfigs, SetBrokerConfig, SetTopicConfig
from tests.node.test_assembly import World, controller, create_topic, leaders
from tests.node.test_state import actors
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore


def started(tmp_path: Path) -> World:
    """Return a cluster of three nodes with the topic t."""
    world = World.of(tmp_path)
    world.until(lambda: all(node.ready for node in world.nodes) and controller(world.zookeeper) >= 0)
    create_topic(world.zookeeper)
    world.until(lambda: len(leaders(world.zookeeper)) == 3)
    world.scheduler.run(1.0)
    return world


def change(world: World, **overrides: int) -> None:
    """Set the configuration of topic t, as kafka-configs does."""
    entries = tuple(ConfigEntry(name.replace("_", "."), str(value)) for name, value in overrides.items())
    with Client(MemoryStore(world.zookeeper)) as admin:
        admin.ask(SetTopicConfig("t", entries))


def max_message_bytes(world: World) -> list[int]:
    """Return max.message.bytes of topic t on each node."""
    managers = [each for node in world.nodes for each in actors(node) if isinstance(each, ReplicaManagerActor)]
    return [manager.replicas.topics["t"].settings.max_message_bytes for manager in managers]


def hearing(world: World) -> list[Any]:
    return [each for node in world.nodes for each in actors(node) if isinstance(each, DynamicConfigActor)]


def notes(world: World) -> list[str]:
    return [path for path, _ in world.zookeeper.walk() if path.startswith("/config/changes/")]


def test_every_node_applies_a_changed_configuration_also_after_its_session(tmp_path: Path) -> None:
    world = started(tmp_path)
    for size in (1000, 2000):
        change(world, max_message_bytes=size)
        world.scheduler.run(1.0)
        assert max_message_bytes(world) == [size] * 3
    for store in world.stores:
        store.expire()
    change(world, max_message_bytes=3000)
    world.scheduler.run(10.0)
    assert max_message_bytes(world) == [3000] * 3
    change(world, max_message_bytes=4000)
    world.scheduler.run(1.0)
    assert max_message_bytes(world) == [4000] * 3
    world.stop(0, 1, 2)


def test_defaults_of_topics_change_for_one_broker_or_for_all_and_back(tmp_path: Path, caplog: Any) -> None:
    world = started(tmp_path)

    def say(broker: str, *entries: tuple[str, str]) -> list[int]:
        with Client(MemoryStore(world.zookeeper)) as admin:
            admin.ask(SetBrokerConfig(broker, tuple(ConfigEntry(*entry) for entry in entries)))
        world.scheduler.run(1.0)
        return max_message_bytes(world)

    default = max_message_bytes(world)[0]
    idle = (("num.io.threads", "3"),)
    assert say(ALL_BROKERS, ("message.max.bytes", "1000"), *idle) == [1000] * 3
    assert "that have no effect in this broker: num.io.threads=3" in caplog.text
    assert say("1", ("message.max.bytes", "2000")) == [1000, 2000, 1000]
    change(world, max_message_bytes=3000)
    world.scheduler.run(1.0)
    assert max_message_bytes(world) == [3000] * 3
    change(world)
    world.scheduler.run(1.0)
    assert max_message_bytes(world) == [1000, 2000, 1000]
    assert say("1", ("message.max.bytes", "many")) == [1000] * 3
    assert "Ignoring invalid overrides for entityPath: brokers/1: message.max.bytes=many" in caplog.text
    assert say(ALL_BROKERS) == [default] * 3
    world.stop(0, 1, 2)


def test_a_broker_starts_with_its_dynamic_settings(tmp_path: Path) -> None:
    world = World.of(tmp_path)
    with Client(MemoryStore(world.zookeeper)) as admin:
        admin.ask(EnsurePaths())
        admin.ask(SetBrokerConfig("0", (ConfigEntry("message.max.bytes", "1000"),)))
    world.until(lambda: all(node.ready for node in world.nodes) and controller(world.zookeeper) >= 0)
    create_topic(world.zookeeper)
    world.until(lambda: len(leaders(world.zookeeper)) == 3)
    world.scheduler.run(1.0)
    assert max_message_bytes(world)[0] == 1000 < max_message_bytes(world)[1]
    world.stop(0, 1, 2)


def test_notifications_are_deleted_after_their_lifetime(tmp_path: Path) -> None:
    world = started(tmp_path)
    change(world, max_message_bytes=1000)
    change(world, max_message_bytes=2000)
    world.scheduler.run(KEPT_SECONDS + 1)
    assert len(notes(world)) == 2
    change(world, max_message_bytes=3000)
    world.scheduler.run(1.0)
    assert notes(world) == ["/config/changes/config_change_0000000002"]
    assert [list(each._seen) for each in hearing(world)] == [[2]] * 3
    world.stop(0, 1, 2)


def test_a_torn_notification_names_no_entity(tmp_path: Path) -> None:
    world = started(tmp_path)
    world.zookeeper.write((WriteOp(CREATE_SEQUENTIAL, "/config/changes/config_change_", b"{torn"),), 0)
    change(world, max_message_bytes=1000)
    world.scheduler.run(1.0)
    assert max_message_bytes(world) == [1000] * 3
    world.stop(0, 1, 2)


@pytest.mark.parametrize("old", ["", "***"])
def test_a_node_writes_its_passwords_again_after_their_secret_has_changed(tmp_path: Path, old: str) -> None:
    stored = SetBrokerConfig("0", (ConfigEntry("listener.name.tls.ssl.key.password", "sealed=1,iterations=0"),))
    world = World.of(tmp_path, 1, (stored,), password_encoder_secret="***", password_encoder_old_secret=old)
    world.until(lambda: world.nodes[0].ready)
    world.scheduler.run(1.0)
    assert len(notes(world)) == (2 if old else 1)
    with Client(MemoryStore(world.zookeeper)) as admin:
        assert admin.ask(GetBrokerConfigs(("0",))).brokers[0].entries == stored.config
    world.stop(0)
