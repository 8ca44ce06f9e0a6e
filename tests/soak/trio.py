"""Three nodes that hold the replicas of one topic; a test can cut the links to each node.

The nodes are ours, or one of them is Apache's. Each node has two listeners. Clients connect directly, other nodes
through a proxy, which a test can cut. A node whose link is cut still reaches ZooKeeper, and clients still reach it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
from confluent_kafka import KafkaException
from kazoo.exceptions import NoNodeError

from tests.cluster.processes import ApacheBroker, OurNode, Running, free_ports
from tests.soak.load import TOPIC, Load, problems
from tests.waiting import until
from tests.zk_bridge.proxy import Proxy
from tests.zookeeper_client import PatientZooKeeperClient

OURS, APACHE = "ours", "apache"
NODES = (0, 1, 2)
ASSIGNMENT = {str(partition): [(partition + place) % 3 for place in NODES] for partition in NODES}
CONFIG = {"min.insync.replicas": "2", "segment.bytes": "300000"}
SESSION_SECONDS = LAG_SECONDS = 3.0
REST_SECONDS = 90.0
LAST_LINES = 12
"""Maximum number of lines of each node's log in the report of a failure."""

MORE = 200
"""Number of records that must be acknowledged before the next fault."""


@attrs.define
class Trio:
    """Three nodes by number, each of the kind `OURS` or `APACHE`. Each action is printed."""

    place: Path
    zookeeper: str
    kinds: Sequence[str]
    jars: Path | None
    chance: random.Random
    ports: list[int]
    zk: PatientZooKeeperClient
    load: Load
    nodes: dict[int, Running] = attrs.field(factory=dict)
    links: dict[int, Proxy] = attrs.field(factory=dict)
    began: float = attrs.field(factory=time.monotonic)

    @classmethod
    @contextlib.contextmanager
    def running(
        cls, place: Path, zookeeper: str, kinds: Sequence[str], jars: Path | None, chance: random.Random
    ) -> Iterator[Trio]:
        """Run three nodes, their common topic, and a load on it while the context is open."""
        ports = free_ports(6)
        load = Load(",".join(f"127.0.0.1:{port}" for port in ports[:3]), len(ASSIGNMENT))
        made = cls(place, zookeeper, kinds, jars, chance, ports, PatientZooKeeperClient(zookeeper), load)
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
        self.zk.start(20)
        for node in NODES:
            self.links[node] = Proxy(self.ports[3 + node])
            self.start(node)
        until(lambda: self.zk.exists("/controller"), what="a controller")
        data = {"version": 2, "partitions": ASSIGNMENT, "adding_replicas": {}, "removing_replicas": {}}
        self.zk.create(f"/config/topics/{TOPIC}", json.dumps({"version": 1, "config": CONFIG}).encode())
        self.zk.create(f"/brokers/topics/{TOPIC}", json.dumps(data).encode())
        self.come_together()
        self.load.go_on()
        self.more_records()  # a replica cut off before it receives the topic leads only in ZooKeeper

    def end(self) -> None:
        """End the load, kill the nodes, and close the links and the ZooKeeper client."""
        self.load.end()
        for node in self.nodes.values():
            node.kill()
        for link in self.links.values():
            link.close()
        self.zk.stop()
        self.zk.close()

    def say(self, what: str) -> None:
        """Print what happens, with the seconds since the start."""
        print(f"{time.monotonic() - self.began:6.1f} s  {what}", flush=True)

    def tell(self, error: object) -> None:
        """Print the error and the state of the cluster, which no longer exists after the test."""
        self.say(f"{type(error).__name__}: {error}")
        with contextlib.suppress(Exception):  # the error is printed; state that ZooKeeper cannot return is left out
            for partition, state in enumerate(self.states()):
                self.say(f"{partition}: {state}, logs {len(self.logs(str(partition)))}")
            self.say(
                f"controller {self.zk.get('/controller')[0].decode()}, brokers {self.zk.get_children('/brokers/ids')}"
            )
        for number, node in self.nodes.items():
            self.say(f"node {number} ({self.kinds[number]}), exit code {node.process.poll()}, said last:")
            print("\n".join(node.output.splitlines()[-LAST_LINES:]), flush=True)

    def start(self, node: int) -> None:
        """Start a node when the session of its earlier process has ended, and wait until it is registered."""
        registration = f"/brokers/ids/{node}"
        until(lambda: not self.zk.exists(registration), what="its earlier life is over", timeout=30)
        port, behind, link = self.ports[node], self.ports[3 + node], self.links[node].port
        settings = {
            "listeners": f"CLIENTS://127.0.0.1:{port},NODES://127.0.0.1:{behind}",
            "advertised__listeners": f"CLIENTS://127.0.0.1:{port},NODES://127.0.0.1:{link}",
            "listener__security__protocol__map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT",
            "inter__broker__listener__name": "NODES",
            "replica__lag__time__max__ms": round(1000 * LAG_SECONDS),
            "zookeeper__session__timeout__ms": round(1000 * SESSION_SECONDS),
        }
        folder = self.place / f"{node}"
        if self.kinds[node] == OURS:
            self.nodes[node] = OurNode(folder, node, port, self.zookeeper, **settings)
        else:
            assert self.jars is not None
            self.nodes[node] = ApacheBroker(self.jars, folder, node, port, self.zookeeper, **settings)
        until(lambda: self.zk.exists(registration), what=f"{node} is registered", timeout=60)

    # ------------------------------------------------------------------------------------------------ checks

    def states(self) -> list[dict[str, object]]:
        """Return each partition's state in ZooKeeper. Raises NoNodeError if a partition has no state yet."""
        path = f"/brokers/topics/{TOPIC}/partitions"
        return [json.loads(self.zk.get(f"{path}/{partition}/state")[0]) for partition in ASSIGNMENT]

    def come_together(self) -> None:
        """Wait until all replicas of all partitions are in sync and each partition has a leader."""
        until(
            lambda: all(len(state["isr"]) == 3 and state["leader"] in NODES for state in self.states()),  # type: ignore[arg-type]
            *(bool, "all replicas are in sync", REST_SECONDS, (NoNodeError,)),
        )

    def more_records(self) -> None:
        """Wait until `MORE` further records are acknowledged."""
        wanted = self.load.count + MORE
        until(lambda: self.load.count, lambda count: count >= wanted, "more records acknowledged", REST_SECONDS)

    def logs(self, partition: str) -> set[str]:
        """Return the set of checksums of the partition's logs: one if the logs of all nodes are equal."""
        found = set()
        for node in NODES:
            files = sorted((self.place / f"{node}" / "data" / f"{TOPIC}-{partition}").glob("*.log"))
            found.add(hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest())
        return found

    def check(self) -> None:
        """Check that each acknowledged record exists once, in order, and that the logs of all nodes are equal."""
        self.load.pause()
        until(lambda: self.load.undecided, lambda left: left == 0, "nothing is undecided", REST_SECONDS)
        self.come_together()
        for partition in ASSIGNMENT:
            until(lambda p=partition: len(self.logs(p)), lambda kinds: kinds == 1, "equal logs", 30)  # type: ignore[misc]
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
    led = [state["leader_epoch"] if state["leader"] == node else None for state in trio.states()]
    trio.links[node].cut()
    until(
        lambda: [
            state["isr"] for state, epoch in zip(trio.states(), led, strict=True) if state["leader_epoch"] == epoch
        ],
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
        trio.say(f"{action.__name__} {node} ({trio.kinds[node]})")
        action(trio, node)
        trio.come_together()
        trio.more_records()
