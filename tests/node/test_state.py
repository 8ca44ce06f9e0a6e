"""Test that the state of every actor is one value, which the trace codec encodes and which restores an equal actor."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.broker.auto_topic_creation import AutoTopicCreationActor
from actors.broker.config_requests import ConfigsActor
from actors.broker.dynamic_config import DynamicConfigActor
from actors.broker.fetcher_manager import ReplicaFetcherManagerActor
from actors.broker.isr_keeper import IsrKeeperActor
from actors.broker.log_cleaner import LogCleanerManagerActor
from actors.broker.metadata_cache import MetadataCacheActor
from actors.broker.partition import PartitionActor
from actors.broker.partition_requests import PartitionRequestsActor
from actors.broker.producer_ids import ProducerIdsActor
from actors.broker.replica_fetcher import ReplicaFetcherActor
from actors.broker.replica_manager import ReplicaManagerActor
from actors.broker.request_handler import RequestHandlerActor
from actors.controller.channel import BrokerChannelActor
from actors.controller.controller import ControllerActor
from actors.controller.topic_deletion import TopicDeletionActor
from actors.coordinator.coordinator_finder import CoordinatorFinderActor
from actors.coordinator.group_coordinator import GroupCoordinatorActor
from actors.coordinator.transaction_coordinator import TransactionCoordinatorActor
from actors.coordinator.transaction_markers import TransactionMarkersActor
from actors.coordinator.transaction_verifier import TransactionVerifierActor
from actors.node.assembly import Node
from actors.node.node import NodeActor
from actors.runtime import Delivery, Dispatcher, LocalBase, NotAtRest, UnstorableValue, local_system, restore, state_of
from messages.state import ActorState, StateName, StatePart
from messages.trace.codec import MessageDecoder, encode
from messages.zookeeper import RequestTopicDeletion
from tests.node.test_assembly import World, assert_each_replays, controller, create_topic, leaders
from zk_bridge.client import Client
from zk_bridge.core import ZkBridgeActor
from zk_bridge.memory_store import MemoryStore

RECEIVER = Delivery._fields.index("receiver")
ACTORS = {
    *(BrokerChannelActor, ControllerActor, MetadataCacheActor, NodeActor, PartitionActor, ReplicaManagerActor),
    *(RequestHandlerActor, TopicDeletionActor, ZkBridgeActor),
    AutoTopicCreationActor,
    ConfigsActor,
    DynamicConfigActor,
    CoordinatorFinderActor,
    GroupCoordinatorActor,
    IsrKeeperActor,
    LogCleanerManagerActor,
    PartitionRequestsActor,
    ProducerIdsActor,
    ReplicaFetcherActor,
    ReplicaFetcherManagerActor,
    TransactionCoordinatorActor,
    TransactionMarkersActor,
    TransactionVerifierActor,
}


def actors(node: Node) -> Iterator[Any]:
    """Yield all actors of a node, parents first."""
    return (ref.actor for ref in list(node.base.register))


def travelled(node: Node, actor: Any) -> ActorState:
    """Return the actor's state after encoding and decoding it, and check that it is unchanged."""
    state = state_of(actor)
    name, payload = encode(state)
    back: ActorState = MessageDecoder(node.base.address_of).decode(name, payload)
    assert back == state
    assert encode(back) == (name, payload)
    return back


def replace_all(world: World) -> None:
    """Replace every actor by a new one with its state."""
    for node in world.nodes:
        for actor in actors(node):
            fresh = type(actor)()
            fresh._myRef = actor._myRef
            restore(fresh, travelled(node, actor))
            assert state_of(fresh) == state_of(actor)
            actor._myRef.actor = fresh


def test_every_actor_at_every_moment_has_a_state_that_travels(tmp_path: Path) -> None:
    """After each delivery of a start, an election and a topic creation, the state of its receiver is checked.

    Every 50th time those of all actors are. Actors with suspended conversations have a state, too, but cannot be
    restored from it.
    """
    world = World.of(tmp_path, 2)
    seen: set[type] = set()
    suspended = moments = 0
    created = False
    resting: dict[Any, bool] = {}
    receivers: list[str] = []
    for node in world.nodes:
        node.base.watch_deliveries(lambda fields: receivers.append(str(fields[RECEIVER].addressDetails)))
    while not (created and leaders(world.zookeeper)) or world.nodes[0].base.queued or world.nodes[1].base.queued:
        for node in world.nodes:
            receivers.clear()
            node.base.run(1)
            moments += 1
            for actor in actors(node):
                if actor in resting and moments % 50 and str(actor.myAddress.addressDetails) not in receivers:
                    continue
                seen.add(type(actor))
                state = travelled(node, actor)
                resting[actor] = "StateSuspended" not in repr(state)
                if not resting[actor]:
                    suspended += 1
                    with pytest.raises(NotAtRest):
                        restore(type(actor)(), state)
            assert node.base.resting == all(resting[actor] for actor in actors(node))
        if not created and all(node.ready and not node.base.queued for node in world.nodes):
            create_topic(world.zookeeper)
            created = True
    assert seen == ACTORS
    assert suspended > 20
    world.stop(0, 1)


def lived(place: Path, replaced: bool) -> list[Any]:
    """Run an election, a topic creation, a failover and a topic deletion.

    Return the znodes, the leaders and the number of deliveries after each step.
    """
    world = World.of(place)
    chapters = []

    def next_chapter() -> None:
        world.scheduler.run(5.0)
        tree = [path for path, _ in world.zookeeper.walk()]
        chapters.append((tree, leaders(world.zookeeper), [node.base.n for node in world.nodes]))
        if replaced:
            replace_all(world)

    next_chapter()
    create_topic(world.zookeeper)
    next_chapter()
    world.stores[controller(world.zookeeper)].expire()
    next_chapter()
    with Client(MemoryStore(world.zookeeper)) as admin:
        admin.ask(RequestTopicDeletion("t"))
    next_chapter()
    create_topic(world.zookeeper)
    next_chapter()
    world.stop(0, 1, 2)
    assert_each_replays(place, 3)
    return chapters


def test_actors_restored_from_their_states_live_on_the_same(tmp_path: Path) -> None:
    assert lived(tmp_path / "replaced", replaced=True) == lived(tmp_path / "undisturbed", replaced=False)


class Holder(Dispatcher):
    """An actor whose attributes the tests set."""


def test_what_is_shared_stays_shared() -> None:
    holder, restored = Holder(), Holder()
    holder.one = [1, {2}, (3, {"four": b"five"})]
    holder.two = {"one": holder.one}
    holder.circle = [holder.two]
    holder.two["circle"] = holder.circle
    restore(restored, state_of(holder))
    assert restored.two["one"] is restored.one
    assert restored.circle[0] is restored.two
    assert restored.two["circle"] is restored.circle
    assert restored.one == holder.one


def test_a_deque_that_forgets_goes_on_to_forget() -> None:
    holder, restored = Holder(), Holder()
    holder.last = deque([1, 2, 3], maxlen=3)
    restore(restored, state_of(holder))
    restored.last.append(4)
    assert restored.last == deque([2, 3, 4], maxlen=3)
    assert state_of(restored) != state_of(holder)


@pytest.mark.parametrize(
    ("thing", "reason"),
    [
        (lambda: None, r"cannot be stored: tests\.node\.test_state:<lambda> is not a class, function or enum member"),
        (threading.Lock(), r"has a type that cannot be stored \(_thread\.lock\)"),
        (object(), r"has a type that cannot be stored \(builtins\.object\)"),
        (Path(), r"has a type that cannot be stored \(pathlib\.\w+\)"),
        (iter([]), r"has a type that cannot be stored \(builtins\.list_iterator\)"),
    ],
)
def test_what_has_no_form_is_named(thing: Any, reason: str) -> None:
    base = LocalBase()
    holder = base.instance_of(local_system(base).createActor(Holder))
    holder.table = {"key": [0, thing]}
    with pytest.raises(UnstorableValue, match=r"Holder\.table\['key'\]\[1\] " + reason):
        state_of(holder)


@pytest.mark.parametrize(
    "name", ["os:abort", "builtins:exit", "builtins:eval", "actors.runtime.trace.state:importlib.reload"]
)
def test_a_state_names_nothing_but_what_is_ours(name: str) -> None:
    with pytest.raises(LookupError, match="is not part of this project"):
        restore(Holder(), ActorState("x", (StatePart("thing", StateName(name)),)))
