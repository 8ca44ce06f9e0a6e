"""The cluster of the soak test, and a table of faults and topic changes from which a seed selects."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import attrs
from confluent_kafka import KafkaException
from kazoo.exceptions import KazooException, NoNodeError

from actors.core.topic.topic_name import GROUP_METADATA
from tests.cluster.processes import OurNode, free_ports
from tests.soak import load
from tests.soak.cluster_state import ClusterState, look, problems
from tests.waiting import until
from tests.zookeeper_client import PatientZooKeeperClient, topic_data
from zk_bridge.embedded import EmbeddedZooKeeper

NODES = 4
SESSION_SECONDS = 3.0
REST_SECONDS = 60.0
"""Maximum time in s until an idle cluster has no errors. Nodes start within seconds, also on a busy machine."""

NAMES = tuple(f"soak-{number}" for number in range(12))


@attrs.define
class Soak:
    """A cluster of our processes on a real ZooKeeper. Each action is printed with the seconds since the start."""

    directory: Path
    chance: random.Random
    server: EmbeddedZooKeeper
    zk: PatientZooKeeperClient
    ports: dict[int, int] = attrs.field(factory=lambda: dict(enumerate(free_ports(NODES))))
    nodes: dict[int, OurNode] = attrs.field(factory=dict)
    """Nodes that were started and not yet killed or stopped."""
    frozen: set[int] = attrs.field(factory=set)
    thawed: set[int] = attrs.field(factory=set)
    """Nodes that were suspended since their last start, perhaps for longer than their session timeout."""
    deleted: set[str] = attrs.field(factory=set)
    """Topics that were deleted and not created again."""
    load: load.Load | None = None
    """Writes records during the soak."""
    seen: ClusterState | None = None
    """Snapshot of the cluster when it last was idle and had no errors."""
    began: float = attrs.field(factory=time.monotonic)

    def say(self, what: str) -> None:
        """Print what happens, with the seconds since the start."""
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)

    # ---------------------------------------------------------------------------------------------- nodes

    def start(self, node: int) -> None:
        """Start a node when the session of its earlier process has ended; like Kafka's, it does not start before."""
        self.say(f"start {node}")
        until(lambda: not self.zk.exists(f"/brokers/ids/{node}"), what=f"{node}'s registration ends with its session")
        connect = self.server.connect_string
        self.nodes[node] = OurNode(
            self.directory / f"node-{node}",
            node,
            self.ports[node],
            connect,
            zookeeper__session__timeout__ms=int(SESSION_SECONDS * 1000),
            zookeeper__connection__timeout__ms=int(REST_SECONDS * 1000),
            controlled__shutdown__retry__backoff__ms=200,
            replica__lag__time__max__ms=5000,
            validate__state="true",
        )

    def kill(self, node: int) -> None:
        """Kill a node with SIGKILL."""
        self.say(f"kill {node}")
        self.frozen.discard(node)
        self.thawed.discard(node)
        self.nodes.pop(node).kill()

    def stop(self, node: int) -> None:
        """Stop a node with SIGTERM, and check its exit code; an unregistered node may also be ended by the signal."""
        self.say(f"stop {node}")
        clean = {0} if self.zk.exists(f"/brokers/ids/{node}") else {0, -signal.SIGTERM}
        code = self.nodes[node].stop(REST_SECONDS)
        assert code in clean, f"node {node} ended with {code}: {self.nodes[node].output[-2000:]}"
        self.thawed.discard(node)
        del self.nodes[node]

    def freeze(self, node: int) -> None:
        """Suspend a node with SIGSTOP; to the other nodes, its machine seems to pause."""
        self.say(f"freeze {node}")
        self.nodes[node].send(signal.SIGSTOP)
        self.frozen.add(node)

    def thaw(self, node: int) -> None:
        """Resume a node with SIGCONT."""
        self.say(f"thaw {node}")
        self.nodes[node].send(signal.SIGCONT)
        self.frozen.discard(node)
        self.thawed.add(node)

    def restart_zookeeper(self) -> None:
        """Stop ZooKeeper, and start it again with its data."""
        self.say("restart ZooKeeper")
        self.zk.stop()  # a client may hang if it connects to a starting server
        self.server.stop()
        self.server.start()
        self.zk.start(REST_SECONDS)

    # ---------------------------------------------------------------------------------------------- topics

    @property
    def topics(self) -> list[str]:
        """The topics that exist and are not being deleted.

        The topic of the load is left out. The topic of the groups is too, because a consumer creates it again at once.
        """
        deleting = set(self.zk.get_children("/admin/delete_topics"))
        return sorted(set(self.zk.get_children("/brokers/topics")) - deleting - {load.TOPIC, GROUP_METADATA})

    def assignment(self, count: int) -> list[list[int]]:
        """Return random replicas for `count` partitions, on any nodes of the cluster, running or not."""
        return [self.chance.sample(range(NODES), self.chance.randint(1, 3)) for _ in range(count)]

    def write_topic(
        self, topic: str, partitions: list[list[int]], new: bool, config: dict[str, str] | None = None
    ) -> None:
        """Write a topic's znodes as Kafka's admin tools do."""
        replicas = dict(enumerate(partitions))
        if new:  # if the response comes too late, the retry finds the existing topic
            self.zk.retry(self.zk.create_topic, topic, replicas, **(config or {}))
        else:
            self.zk.retry(self.zk.set, f"/brokers/topics/{topic}", topic_data(replicas))

    # ---------------------------------------------------------------------------------------------- records

    def begin_load(self) -> None:
        """Create the topic for the records, and start to write them."""
        self.write_topic(load.TOPIC, list(load.ASSIGNMENT), new=True, config=load.CONFIG)
        self.come_to_rest()
        self.load = load.Load(",".join(f"127.0.0.1:{port}" for port in self.ports.values()))
        self.load.go_on()

    def check_records(self, cluster_state: ClusterState) -> list[str]:
        """Return the errors in the records of a cluster whose state has no errors."""
        if self.load is None:
            return []
        states = [cluster_state.states[load.TOPIC, number] for number in range(len(load.ASSIGNMENT))]
        if any(state.leader < 0 or len(state.isr) < load.MIN_INSYNC for state in states):
            return self.load.failures  # the high watermark does not move, and may be below offsets that were read
        if self.load.undecided:
            return [f"{self.load.undecided} records are undecided"]
        acknowledged = {partition: dict(values) for partition, values in self.load.acknowledged.items()}
        found = load.problems(acknowledged, self.load.read_back(10)) + self.load.failures
        self.say(f"{sum(map(len, acknowledged.values()))} records acknowledged, {len(found)} problems")
        return found

    # ---------------------------------------------------------------------------------------------- checks

    def come_to_rest(self) -> None:
        """Pause the load, and wait until the cluster has no errors. Raises AssertionError with the remaining errors."""
        up = {node: (self.ports[node], self.directory / f"node-{node}" / "data") for node in sorted(self.nodes)}
        self.say(f"rest with {sorted(up)}")
        if self.load is not None:
            self.load.pause()

        def wrong() -> list[str]:
            fallen = [node for node, running in self.nodes.items() if running.process.poll() is not None]
            assert not fallen, f"nodes {fallen} have ended: {self.nodes[fallen[0]].output[-2000:]}"
            try:
                cluster_state = look(self.zk, up, self.deleted, len(up) == NODES, self.thawed)
                found = problems(cluster_state, self.seen) or self.check_records(cluster_state)
            except (KafkaException, KazooException, OSError, ValueError) as error:
                return [f"{type(error).__name__}: {error}"]
            if not found:
                self.seen = cluster_state
            return found

        until(wrong, lambda found: not found, "a cluster at rest", REST_SECONDS)
        if self.load is not None:
            self.load.go_on()


# -------------------------------------------------------------------------------------------------- actions


def kill_and_start(soak: Soak) -> None:
    """Kill a node; with probability 0.5, start a node that does not run, perhaps the same."""
    if soak.nodes:
        soak.kill(soak.chance.choice(sorted(soak.nodes)))
    if soak.chance.random() < 0.5:
        soak.start(soak.chance.choice(sorted(set(range(NODES)) - set(soak.nodes))))


def stop_and_start(soak: Soak) -> None:
    """Stop a node cleanly, and start it again."""
    running = sorted(set(soak.nodes) - soak.frozen)
    if running:
        node = soak.chance.choice(running)
        soak.stop(node)
        soak.start(node)


def pause(soak: Soak) -> None:
    """Suspend a node; `inject_faults` resumes it before or after its session expires."""
    running = sorted(set(soak.nodes) - soak.frozen)
    if running:
        soak.freeze(soak.chance.choice(running))


def restart_zookeeper(soak: Soak) -> None:
    """Stop ZooKeeper, and start it again before any session expires."""
    soak.restart_zookeeper()


def create(soak: Soak) -> None:
    """Create a topic of one to eight partitions; some of their replicas may be down."""
    names = [name for name in NAMES if not soak.zk.exists(f"/brokers/topics/{name}")]
    free = [name for name in names if not soak.zk.exists(f"/admin/delete_topics/{name}")]
    if free:
        topic = soak.chance.choice(free)
        partitions = soak.assignment(soak.chance.randint(1, 8))
        soak.say(f"create {topic} {partitions}")
        soak.deleted.discard(topic)
        soak.write_topic(topic, partitions, new=True)


def grow(soak: Soak) -> None:
    """Add one to three partitions to a topic."""
    for topic in soak.chance.sample(soak.topics, min(1, len(soak.topics))):
        read = soak.zk.value(f"/brokers/topics/{topic}")["partitions"]
        partitions = [read[str(number)] for number in range(len(read))] + soak.assignment(soak.chance.randint(1, 3))
        soak.say(f"grow {topic} to {len(partitions)}")
        soak.write_topic(topic, partitions, new=False)


def delete(soak: Soak) -> None:
    """Request the deletion of a topic."""
    for topic in soak.chance.sample(soak.topics, min(1, len(soak.topics))):
        soak.say(f"delete {topic}")
        soak.deleted.add(topic)
        soak.zk.create(f"/admin/delete_topics/{topic}")


ACTIONS: dict[Callable[[Soak], None], int] = {
    create: 6,
    grow: 3,
    delete: 3,
    kill_and_start: 4,
    stop_and_start: 1,
    pause: 2,
    restart_zookeeper: 1,
}
"""Action -> its relative frequency."""


def inject_faults(soak: Soak) -> None:
    """Run three to six actions, resume or start most other nodes, and wait until the cluster has no errors."""
    for _ in range(soak.chance.randint(3, 6)):
        (action,) = soak.chance.choices(list(ACTIONS), list(ACTIONS.values()))
        try:
            action(soak)
        except NoNodeError as error:
            soak.say(f"{action.__name__}: its topic went meanwhile ({error})")
        time.sleep(soak.chance.uniform(0, 0.7))
    if soak.frozen:
        time.sleep(soak.chance.choice((0, SESSION_SECONDS + 1.5)))
    for node in sorted(soak.frozen):
        soak.thaw(node)
    away = sorted(set(range(NODES)) - set(soak.nodes))
    for node in away:
        if not soak.nodes or soak.chance.random() < 0.7:
            soak.start(node)
    soak.come_to_rest()


def end(soak: Soak) -> None:
    """Start all nodes, wait until the cluster has no errors, and stop all nodes cleanly."""
    for node in sorted(set(range(NODES)) - set(soak.nodes)):
        soak.start(node)
    soak.come_to_rest()
    if soak.load is not None:
        soak.load.pause()
    for node in sorted(soak.nodes):
        soak.stop(node)
