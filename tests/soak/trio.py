"""Three nodes that hold the replicas of one topic; a test can cut the links to each node.

The nodes are ours, or one of them is Apache's. Each node has two listeners. Clients connect directly, other nodes
through a proxy, which a test can cut. A node whose link is cut still reaches ZooKeeper, and clients still reach it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import attrs
from confluent_kafka import KafkaException
from kazoo.exceptions import NoNodeError

from tests.cluster.nodes import NODES, Nodes
from tests.cluster.processes import free_ports
from tests.soak.load import TOPIC, Load, problems
from tests.waiting import until
from tests.zk_bridge.proxy import Proxy
from tests.zookeeper_client import PatientZooKeeperClient, rotated

ASSIGNMENT = rotated(NODES, 3)
CONFIG = {"min.insync.replicas": "2", "segment.bytes": "300000"}
SESSION_SECONDS = LAG_SECONDS = 3.0
REST_SECONDS = 90.0
LAST_LINES = 12
"""Maximum number of lines of each node's log in the report of a failure."""

MORE = 200
"""Number of records that must be acknowledged before the next fault."""


@attrs.define(kw_only=True)
class Trio(Nodes):
    """Three nodes whose links to each other a test can cut, and a load on their topic. Each action is printed."""

    chance: random.Random
    load: Load
    links: dict[int, Proxy] = attrs.field(factory=dict)
    began: float = attrs.field(factory=time.monotonic)

    @classmethod
    @contextlib.contextmanager
    def loaded(cls, place: Path, zookeeper: str, apache: Mapping[int, Path], chance: random.Random) -> Iterator[Trio]:
        """Run three nodes, their common topic, and a load on it while the context is open."""
        ports = free_ports(6)
        load = Load(",".join(f"127.0.0.1:{port}" for port in ports[:3]), len(ASSIGNMENT))
        with PatientZooKeeperClient.opened(zookeeper) as zk:
            made = cls(
                place=place, connect=zookeeper, ports=ports, zk=zk, apache=apache, settings={}, chance=chance, load=load
            )
            try:
                made.begin()
                yield made
            except BaseException as error:
                made.tell(error)
                raise
            finally:
                made.end()

    def begin(self) -> None:
        """Start the nodes, create the topic, and start the load."""
        for node in NODES:
            self.links[node] = Proxy(self.ports[3 + node])
            self.start(node)
        self.create(TOPIC, ASSIGNMENT, **CONFIG)
        self.load.go_on()
        self.more_records()  # a replica cut off before it receives the topic leads only in ZooKeeper

    def end(self) -> None:
        """End the load, kill the nodes, and close the links."""
        self.load.end()
        for node in self.nodes.values():
            node.kill()
        for link in self.links.values():
            link.close()

    def kind(self, node: int) -> str:
        """Return whose node it is."""
        return "apache" if node in self.apache else "ours"

    def say(self, what: str) -> None:
        """Print what happens, with the seconds since the start."""
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)

    def tell(self, error: object) -> None:
        """Print the error and the state of the cluster, which no longer exists after the test."""
        self.say(f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):  # the error is printed; state that ZooKeeper cannot return is left out
            for partition, state in self.zk.states(TOPIC).items():
                self.say(f"{partition}: {state}, logs {len(self.logs(TOPIC, partition))}")
            self.say(f"controller {self.zk.controller}, brokers {self.zk.get_children('/brokers/ids')}")
        for number, node in self.nodes.items():
            self.say(f"node {number} ({self.kind(number)}), exit code {node.process.poll()}, said last:")
            print("\n".join(node.output.splitlines()[-LAST_LINES:]), flush=True)

    def start(self, node: int) -> None:
        """Start a node with a listener for clients and one behind its link, and wait until it is registered."""
        port, behind, link = self.ports[node], self.ports[3 + node], self.links[node].port
        self.settings = {
            "listeners": f"CLIENTS://127.0.0.1:{port},NODES://127.0.0.1:{behind}",
            "advertised__listeners": f"CLIENTS://127.0.0.1:{port},NODES://127.0.0.1:{link}",
            "listener__security__protocol__map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT",
            "inter__broker__listener__name": "NODES",
            "replica__lag__time__max__ms": round(1000 * LAG_SECONDS),
            "zookeeper__session__timeout__ms": round(1000 * SESSION_SECONDS),
        }
        super().start(node)

    # ------------------------------------------------------------------------------------------------ checks

    def come_together(self) -> None:
        """Wait until all replicas of all partitions are in sync and each partition has a leader."""
        until(lambda: self.in_sync(TOPIC), what="all replicas are in sync", timeout=REST_SECONDS, ignore=(NoNodeError,))

    def more_records(self) -> None:
        """Wait until `MORE` further records are acknowledged."""
        wanted = self.load.count + MORE
        until(lambda: self.load.count, lambda count: count >= wanted, "more records acknowledged", REST_SECONDS)

    def check(self) -> None:
        """Check that each acknowledged record exists once, in order, and that the logs of all nodes are equal."""
        self.load.pause()
        until(lambda: self.load.undecided, lambda left: left == 0, "nothing is undecided", REST_SECONDS)
        self.come_together()
        for partition in ASSIGNMENT:
            until(lambda p=partition: len(self.logs(TOPIC, p)), lambda kinds: kinds == 1, "equal logs", 30)  # type: ignore[misc]
        # a new controller soon elects preferred leaders; librdkafka then fails instead of asking them
        read = until(lambda: self.load.read_back(30), what="read back", timeout=REST_SECONDS, ignore=(KafkaException,))
        found = self.load.failures + problems(self.load.acknowledged, read)
        assert not found, found
        self.say(f"{self.load.count} records acknowledged, and there")


# ------------------------------------------------------------------------------------------------ faults


def kill(trio: Trio, node: int) -> None:
    """Kill a node, wait for more records, and start it when its session has ended."""
    trio.nodes[node].kill()
    trio.more_records()
    trio.start(node)


def freeze(trio: Trio, node: int) -> None:
    """Suspend a node until more records are acknowledged, or until its session has ended."""
    trio.nodes[node].send(signal.SIGSTOP)
    if trio.chance.random() < 0.5:
        trio.more_records()
    else:
        until(lambda: not trio.zk.exists(f"/brokers/ids/{node}"), what="its session is over", timeout=30)
    trio.nodes[node].send(signal.SIGCONT)


def cut(trio: Trio, node: int) -> None:
    """Cut the link to a node until it is the only in-sync replica of each partition that it still leads.

    Partitions that it is elected for after the cut do not count: the request may not reach it.
    """
    led = {n: state["leader_epoch"] for n, state in trio.zk.states(TOPIC).items() if state["leader"] == node}
    trio.links[node].cut()
    until(
        lambda: [state["isr"] for n, state in trio.zk.states(TOPIC).items() if state["leader_epoch"] == led.get(n, -1)],
        lambda isrs: all(isr == [node] for isr in isrs),
        what="it is alone",
        timeout=REST_SECONDS,
    )
    trio.links[node].heal()


def restart(trio: Trio, node: int) -> None:
    """Stop a node cleanly, wait for more records, and start it again."""
    trio.nodes[node].stop()
    trio.more_records()
    trio.start(node)


ACTIONS: tuple[Callable[[Trio, int], None], ...] = (kill, cut, freeze, restart)


def inject_faults(trio: Trio, rounds: int) -> None:
    """Run rounds of faults on random nodes, each kind once before any is repeated, and wait for recovery each time."""
    for number in range(rounds):
        if number % len(ACTIONS) == 0:
            actions = trio.chance.sample(ACTIONS, len(ACTIONS))
        action, node = actions[number % len(ACTIONS)], trio.chance.choice(NODES)
        trio.say(f"{action.__name__} {node} ({trio.kind(node)})")
        action(trio, node)
        trio.come_together()
        trio.more_records()
