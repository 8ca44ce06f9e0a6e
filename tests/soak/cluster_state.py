"""A snapshot of a cluster's state as external clients see it, and the checks of this snapshot.

Rule 1: reading and checking are separate. `look` reads ZooKeeper, sends requests to every running node, and lists its
        log directory. `problems` is a function of the snapshot; its tests use snapshots with one error each.
Rule 2: the snapshot does not depend on internals of the product. Znodes are read as by Kafka's tools, and nodes receive
        the requests of clients.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from kazoo.exceptions import NoNodeError

from messages.apis.metadata import MetadataRequest, MetadataResponse
from tests.wire_client import WireClient
from tests.zookeeper_client import PatientZooKeeperClient

NOTIFICATIONS = ("/isr_change_notification", "/log_dir_event_notification")
NO_LEADER = -1

Name = tuple[str, int]
"""A partition: (topic, number)."""


@attrs.frozen
class State:
    """A partition's state znode, with its version (number of writes) and its czxid (time of the creation)."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int
    created: int = 0


@attrs.frozen
class Metadata:
    """The Metadata response of a node: the controller, and the leader, replicas and ISR of each partition."""

    controller: int
    leaders: Mapping[Name, int]
    replicas: Mapping[Name, tuple[int, ...]]
    isr: Mapping[Name, tuple[int, ...]]


@attrs.frozen
class ClusterState:
    """A snapshot of a cluster. `up` are the nodes that should be registered."""

    up: frozenset[int]
    registered: frozenset[int]
    controller: int
    epoch: int
    epoch_version: int
    """Version of the znode /controller_epoch, which counts its writes."""
    assigned: Mapping[Name, tuple[int, ...]]
    states: Mapping[Name, State]
    metadata: Mapping[int, Metadata]
    directories: Mapping[int, frozenset[Name]]
    """Node -> partitions with a directory on it, without those that are being deleted."""
    logs: Mapping[Name, Mapping[int, str]]
    """Partition -> node -> checksum of the log, for each running node in the ISR."""
    leftovers: tuple[str, ...] = ()
    """Remaining znodes of deleted topics, and unprocessed notifications."""


def problems(now: ClusterState, before: ClusterState | None = None) -> list[str]:
    """Return the errors in the state of an idle cluster; with `before`, also forbidden changes since that snapshot."""
    return [*_of_the_controller(now), *_of_the_partitions(now), *_of_the_nodes(now), *_between(now, before or now)]


def _of_the_controller(now: ClusterState) -> Iterator[str]:
    if now.registered != now.up:
        yield f"registered are {sorted(now.registered)}, up are {sorted(now.up)}"
    if now.controller not in now.up:
        yield f"/controller names {now.controller}, up are {sorted(now.up)}"
    for path in now.leftovers:
        yield f"{path} is still there"


def _of_the_partitions(now: ClusterState) -> Iterator[str]:
    for name, replicas in now.assigned.items():
        if name not in now.states and set(replicas) & now.up:
            yield f"{name}: no state, though of {replicas} some are up"
    for name, state in now.states.items():
        isr, live = set(state.isr), set(state.isr) & now.up
        if not isr or not isr <= set(now.assigned.get(name, ())):
            yield f"{name}: ISR {state.isr} of replicas {now.assigned.get(name)}"
        if state.leader == NO_LEADER and live:
            yield f"{name}: no leader, though {sorted(live)} of the ISR live"
        if state.leader != NO_LEADER and (state.leader not in live or live != isr):
            yield f"{name}: leader {state.leader}, ISR {state.isr}, up are {sorted(now.up)}"
        if state.leader != NO_LEADER and isr != set(now.assigned.get(name, ())) & now.up:
            yield f"{name}: ISR {state.isr} of replicas {now.assigned.get(name)}, up are {sorted(now.up)}"
        if state.leader_epoch > state.version:  # a controller's write increments both, a leader's only the version
            yield f"{name}: leader epoch {state.leader_epoch} after {state.version} writes"
        if len(set(now.logs.get(name, {}).values())) > 1:
            yield f"{name}: the logs of its ISR differ: {now.logs[name]}"
        if state.controller_epoch > now.epoch:
            yield f"{name}: written by controller epoch {state.controller_epoch}, which is {now.epoch}"


def _of_the_nodes(now: ClusterState) -> Iterator[str]:
    leaders = {name: state.leader for name, state in now.states.items()}
    isr = {name: state.isr for name, state in now.states.items()}
    assigned = {name: replicas for name, replicas in now.assigned.items() if name in now.states}
    for node in sorted(now.up):
        reported = now.metadata.get(node)
        if reported is None:
            yield f"node {node} does not answer"
            continue
        if reported.controller != now.controller:
            yield f"node {node} says that {reported.controller} is controller; it is {now.controller}"
        for what, said, true in (
            ("leaders", reported.leaders, leaders),
            ("replicas", reported.replicas, assigned),
            ("ISR", reported.isr, isr),
        ):
            if said != true:
                yield f"node {node} has other {what} than ZooKeeper: {_difference(said, true)}"
        hosted = {name for name, replicas in assigned.items() if node in replicas}
        if now.directories[node] != hosted:
            yield f"node {node}: directories and replicas differ in {sorted(now.directories[node] ^ hosted)}"


def _between(now: ClusterState, before: ClusterState) -> Iterator[str]:
    if now.epoch - before.epoch != now.epoch_version - before.epoch_version:
        writes = now.epoch_version - before.epoch_version
        yield f"/controller_epoch grew from {before.epoch} to {now.epoch} by {writes} writes"
    for name in sorted(set(now.states) & set(before.states)):
        was, is_now = before.states[name], now.states[name]
        if is_now.created != was.created:
            continue
        if is_now.controller_epoch < was.controller_epoch:
            yield f"{name}: the controller epoch went back"
        elections, writes = is_now.leader_epoch - was.leader_epoch, is_now.version - was.version
        if not (is_now.leader != was.leader) <= elections <= writes:
            yield f"{name}: {elections} elections in {writes} writes between leaders {was.leader} and {is_now.leader}"


def _difference(said: Mapping[Name, Any], true: Mapping[Name, Any]) -> dict[Name, tuple[Any, Any]]:
    both = sorted(set(said) | set(true))
    return {name: (said.get(name), true.get(name)) for name in both if said.get(name) != true.get(name)}


def look(
    zk: PatientZooKeeperClient,
    up: Mapping[int, tuple[int, Path]],
    gone: Collection[str],
    whole: bool,
    forgetful: Collection[int],
) -> ClusterState:
    """Return a snapshot of the cluster.

    Args:
        zk: Client of the cluster's ZooKeeper.
        up: Node -> (port, log directory) of each running node.
        gone: Deleted topics.
        whole: Whether all nodes run. A deletion waits for every replica, so topics that are still being deleted are
            otherwise left out.
        forgetful: Nodes whose session may have expired. They received no deletions meanwhile, so their deleted topics
            are left out of the metadata (broker.md 3.9).

    Raises:
        KazooException, OSError: The cluster is still changing; for example, a znode was removed while it was read.
    """
    epoch, stat = zk.get("/controller_epoch")
    deleting = _children(zk, "/admin/delete_topics")
    waiting = frozenset() if whole else frozenset(deleting)
    assigned: dict[Name, tuple[int, ...]] = {}
    states: dict[Name, State] = {}
    for topic in sorted(set(zk.get_children("/brokers/topics")) - waiting):
        for number, replicas in json.loads(zk.get(f"/brokers/topics/{topic}")[0])["partitions"].items():
            assigned[topic, int(number)] = tuple(replicas)
        for number in _children(zk, f"/brokers/topics/{topic}/partitions"):
            states[topic, int(number)] = _state(zk, f"/brokers/topics/{topic}/partitions/{number}/state")
    left = [
        f"{place}/{topic}" for topic in sorted(set(gone) - waiting) for place in ("/brokers/topics", "/config/topics")
    ]
    left += [f"/admin/delete_topics/{topic}" for topic in deleting if topic not in waiting]
    left += [f"{folder}/{child}" for folder in NOTIFICATIONS for child in _children(zk, folder)]
    return ClusterState(
        frozenset(up),
        frozenset(int(child) for child in zk.get_children("/brokers/ids")),
        int(json.loads(zk.get("/controller")[0])["brokerid"]),
        int(epoch),
        stat.version,
        assigned,
        states,
        {
            node: _metadata(port, waiting | (set(gone) if node in forgetful else set()))
            for node, (port, _) in up.items()
        },
        {node: _directories(place, waiting) for node, (_, place) in up.items()},
        {name: _logs(name, state, up) for name, state in states.items()},
        tuple(path for path in left if zk.exists(path)),
    )


def _children(zk: PatientZooKeeperClient, path: str) -> list[str]:
    try:
        return sorted(zk.get_children(path))
    except NoNodeError:
        return []


def _state(zk: PatientZooKeeperClient, path: str) -> State:
    data, stat = zk.get(path)
    read = json.loads(data)
    return State(
        read["leader"], read["leader_epoch"], tuple(read["isr"]), read["controller_epoch"], stat.version, stat.czxid
    )


def _metadata(port: int, without: Collection[str]) -> Metadata:
    with WireClient("127.0.0.1", port, timeout=10) as client:
        answer = client.call(MetadataRequest(8, None, False))
    assert isinstance(answer, MetadataResponse)
    topics = [topic for topic in answer.topics if topic.name not in without]
    partitions = {(topic.name, each.partition): each for topic in topics for each in topic.partitions}
    return Metadata(
        answer.controller_id,
        {name: each.leader for name, each in partitions.items()},
        {name: each.replicas for name, each in partitions.items()},
        {name: each.isr for name, each in partitions.items()},
    )


def _logs(name: Name, state: State, up: Mapping[int, tuple[int, Path]]) -> dict[int, str]:
    found = {}
    for node in sorted(set(state.isr) & set(up)):
        files = sorted((up[node][1] / f"{name[0]}-{name[1]}").glob("*.log"))
        found[node] = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    return found


def _directories(place: Path, without: Collection[str]) -> frozenset[Name]:
    names = (path.name for path in place.iterdir() if path.is_dir() and not path.name.endswith("-delete"))
    found = ((topic, int(number)) for topic, _, number in (name.rpartition("-") for name in names))
    return frozenset(name for name in found if name[0] not in without)
