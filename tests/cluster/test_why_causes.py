"""`kafka-actors why` explains scripted failures: it prints the right verdict, and its chain ends at the cause.

One cluster with an in-memory ZooKeeper runs all scripts of `causes`; each is explained at the time that it marks
(`--at`). Another cluster, of processes with a real ZooKeeper, runs the scripts that need processes.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from kazoo.exceptions import NoNodeError

from actors.cli import why
from actors.public import KafkaCluster
from messages.apis.metadata import MetadataRequest
from messages.facts.trace_facts import gather
from messages.trace.files.runs import find_runs
from tests.cluster import causes
from tests.cluster.causes import Stage
from tests.cluster.nodes import Nodes
from tests.cluster.processes import OurNode, free_ports
from tests.facts.test_no_contradiction import contradictions
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zk_bridge.proxy import Proxy


class Cause(NamedTuple):
    """A script, the subject that it concerns, facts of the expected verdict, and one of the last step of the chain.

    The test inserts the script's values into the facts.
    """

    script: Callable[[Any], None]
    about: str
    verdict: tuple[str, ...]
    last: str


KILLED = "broker {broker} was killed or crashed"
SKIPPED = "OUT_OF_ORDER_SEQUENCE (producer id "

CAUSES = (
    Cause(causes.refuse_a_topic, "topic wide", ("never created", "INVALID_REPLICATION_FACTOR"),
          "CreateTopics was refused: Replication factor: 9 larger"),
    Cause(causes.kill_the_only_replica, "partition alone-0", ("no leader since", KILLED, "Start broker {broker}"),
          KILLED),
    Cause(causes.kill_a_leader_for_a_while, "partition pair-0", ("no leader from", "broker {heir} was elected", KILLED),
          KILLED),
    Cause(causes.stop_a_leader, "partition stopped-0", ("broker {broker} has been out of the ISR", "asked to stop"),
          "broker {broker} was asked to stop"),
    Cause(causes.expire_a_session, "broker {broker}", ("broker {broker} was gone from", "'session_expiry'"),
          "'session_expiry' into broker {broker}"),
    Cause(causes.block_a_deletion, "topic removed",
          ("removed has been queued for deletion since", "replica {broker} of removed-0", "Start broker {broker}"),
          KILLED),
    Cause(causes.let_a_reassignment_wait, "partition moving-0",
          ("reassignment of moving-0 to [", "waited for broker {broker} since", KILLED), KILLED),
    Cause(causes.refuse_producers, "partition pay-0",
          ("NOT_ENOUGH_REPLICAS for pay-0 since", "(once)", "[{leader}] has 1 of the 2 replicas", KILLED), KILLED),
    Cause(causes.slow_a_follower, "partition slow-0",
          ("broker {broker} has been out of the ISR [{leader}]", "broker-{broker}-fetcher-0 at broker {leader}"),
          "injected the fault 'delay' into Fetch"),
    Cause(causes.pause_a_follower, "partition paused-0", ("broker {broker} was out of the ISR of paused-0",),
          "injected the fault 'pause' into broker {broker}"),
    Cause(causes.lose_records, "partition unclean-0",
          ("unclean-0 lost records at", "broker {heir}, which was not in the ISR [{broker}]", "were cut off"), KILLED),
    Cause(causes.skip_a_sequence, "producer skipper", ("has been refused", "ordered-0 since", SKIPPED), SKIPPED),
    Cause(causes.fence_a_producer, "producer fenced", ("EndTxn of client old for fenced", "INVALID_PRODUCER_EPOCH"),
          "client new began a new producer with transactional id fenced"),
    Cause(causes.let_a_transaction_time_out, "transaction late",
          ("AddPartitionsToTxn of client sleeper for late", "INVALID_PRODUCER_EPOCH", "aborted the transaction"),
          "the transaction of late (producer epoch 1): its timeout was over"),
    Cause(causes.expire_a_member, "consumer-group silent", ("silent has no members at", "session timeout of 0.4 s"),
          "client dozer sent no heartbeat"),
    Cause(causes.leave_a_group, "consumer-group left", ("left has no members at",),
          "client leaver left group left (its shift is over)"),
    Cause(causes.commit_in_an_old_generation, "consumer-group stale",
          ("stale refused offsets of client worker at", "ILLEGAL_GENERATION"), "client worker joined group stale"),
    Cause(causes.move_a_coordinator, "consumer-group moved", ("broker {heir} has coordinated group moved",), KILLED),
    Cause(causes.break_a_disk, "partition stored-0", ("broker {broker} has been out of the ISR [{heir}]",),
          "injected the fault 'broken_disk' into broker {broker}"),
    Cause(causes.inject_an_error, "producer unlucky", ("producer unlucky was not handled as usual at",),
          "injected the fault 'error' into Produce of client unlucky"),
)  # fmt: skip

Moments = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Moments]:
    """Run all scripts in one cluster, and return the folder of its traces and the values of each script."""
    folder, moments = tmp_path_factory.mktemp("causes"), dict[str, dict[str, Any]]()
    with KafkaCluster(
        3, directory=folder / "cluster", session_timeout=causes.SESSION_SECONDS, settings=causes.SETTINGS
    ) as cluster:
        stage = Stage(cluster)
        stage.create("ledger", 0, 1, 2)
        for cause in CAUSES:
            stage.values = {}
            cause.script(stage)
            stage.mark()
            moments[cause.script.__name__] = stage.values
        trace_dir = cluster.trace_dir
    return trace_dir, moments


def explained(folder: Path, about: str, at: float | None) -> dict[str, Any]:
    """Run the command, and return the explanation that it prints as JSON."""
    when = [] if at is None else ["--at", str(at)]
    result = CliRunner().invoke(why.command, [*about.split(), str(folder), *when, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    said: dict[str, Any] = json.loads(result.stdout)
    return said


def check(cause: Cause, said: dict[str, Any], values: dict[str, Any]) -> None:
    chain = [step["text"] for step in said["chain"]]
    facts = [fact.format(**values) for fact in cause.verdict]
    assert all(fact in said["verdict"] for fact in facts), (said["verdict"], chain)
    assert cause.last.format(**values) in chain[-1], chain
    times = [step["at"] for step in said["chain"]]
    assert all(step["run"] and step["delivery"] for step in said["chain"]), "each step is shown by a delivery"
    assert max(times) - min(times) < 60


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.script.__name__)
def test_a_chain_ends_at_the_scripted_act(lived: tuple[Path, Moments], cause: Cause) -> None:
    folder, moments = lived
    values = moments[cause.script.__name__]
    check(cause, explained(folder, cause.about.format(**values), values["at"]), values)


def test_readers_of_the_causes_agree(lived: tuple[Path, Moments]) -> None:
    assert [*contradictions(gather(find_runs(lived[0]).runs))] == []


# --------------------------------------------------------------------------------------- processes and a real ZooKeeper


class Processes(NamedTuple):
    """Three nodes, and a fourth one whose link to ZooKeeper the test can cut."""

    three: Nodes
    link: Proxy
    fourth: OurNode
    port: int
    """Port of the fourth node."""

    def registered(self, node: int) -> bool:
        return self.three.zk.exists(f"/brokers/ids/{node}") is not None

    def seen(self) -> list[int]:
        """Return the live brokers in the controller's metadata; none if the controller does not respond."""
        try:
            controller = self.three.zk.controller
            port = self.three.ports[controller] if controller < len(self.three.ports) else self.port
            with WireClient("127.0.0.1", port, timeout=1.0) as wire:
                return [each.id for each in wire.call(MetadataRequest(8, ())).brokers]
        except (NoNodeError, OSError):
            return []

    def leaves(self, node: int) -> None:
        """Wait until the controller's metadata no longer contains the node."""
        until(self.seen, good=lambda brokers: bool(brokers) and node not in brokers, what=f"{node} is gone")

    def returns(self, node: int) -> None:
        """Wait until the controller's metadata contains the node again."""
        until(self.seen, good=lambda brokers: node in brokers, what=f"node {node} is back")


def delete_the_controller_znode(here: Processes) -> None:
    epoch = here.three.zk.get("/controller_epoch")[0]
    controller = here.three.zk.controller
    here.three.zk.delete("/controller")
    until(lambda: here.three.zk.get("/controller_epoch")[0] != epoch, what="another term")
    running = here.three.nodes.get(controller, here.fourth)
    until(lambda: "] Resigned" in running.output, what="the end of the term before")
    port = here.three.ports[controller] if controller < len(here.three.ports) else here.port
    with WireClient("127.0.0.1", port) as wire:
        wire.call(MetadataRequest(8, ()))  # the bridge has received StopWatching, by which the trace shows the end


def start_a_second_process(here: Processes) -> None:
    place = here.three.place / "second"
    second = OurNode(place, 0, free_ports(1)[0], here.three.connect, zookeeper__session__timeout__ms=SESSION_MS)
    assert second.process.wait(60) == 1


def stop_a_process(here: Processes) -> None:
    here.three.nodes[1].send(signal.SIGSTOP)
    here.leaves(1)
    here.three.nodes[1].send(signal.SIGCONT)
    here.returns(1)


def cut_a_link_to_zookeeper(here: Processes) -> None:
    here.link.cut()
    here.leaves(3)
    here.link.heal()
    here.returns(3)


SESSION_MS = 3000

WITH_ZOOKEEPER = (
    Cause(delete_the_controller_znode, "controller", ("has been controller (epoch 2) since", "session of controller"),
          "/controller was deleted in ZooKeeper by another client"),
    Cause(start_a_second_process, "broker 0", ("a process of broker 0 was refused at", "owns /brokers/ids/0"),
          "a process with the id of broker 0 could not register"),
    Cause(stop_a_process, "broker 1", ("broker 1 was gone from", "did not run"), "its process was suspended"),
    Cause(cut_a_link_to_zookeeper, "broker 3", ("broker 3 was gone from",), "broker 3 lost its connection"),
)  # fmt: skip


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Moments]:
    """Run the scripts on processes, and return the folder of their traces and the end time of each script."""
    folder, moments = tmp_path_factory.mktemp("processes"), dict[str, dict[str, Any]]()
    with Nodes.running(folder, zookeeper__session__timeout__ms=SESSION_MS) as three:
        link = Proxy(int(three.connect.rpartition(":")[2]))
        settings = {"zookeeper__session__timeout__ms": SESSION_MS}
        [port] = free_ports(1)
        here = Processes(three, link, OurNode(folder / "3", 3, port, link.hosts, **settings), port)
        try:
            until(lambda: here.registered(3), what="the fourth node is registered", timeout=60)
            for cause in WITH_ZOOKEEPER:
                cause.script(here)
                moments[cause.script.__name__] = {"at": time.time()}
            for running in (here.fourth, *three.nodes.values()):
                running.stop()  # a killed node does not write its last deliveries to its trace
        finally:
            here.fourth.kill()
            link.close()
    return folder, moments


@pytest.mark.parametrize("cause", WITH_ZOOKEEPER, ids=lambda cause: cause.script.__name__)
def test_a_chain_ends_at_the_action_on_a_process(processes: tuple[Path, Moments], cause: Cause) -> None:
    folder, moments = processes
    values = moments[cause.script.__name__]
    check(cause, explained(folder, cause.about, values["at"]), values)
