"""`kafka-actors why` explains scripted failures: it prints the right verdict, and its chain ends at the cause.

One cluster with an in-memory ZooKeeper runs all scripts of `causes`; each is explained at the time that it marks
(`--at`). Another cluster, of processes with a real ZooKeeper, runs the scripts that need processes.
"""

from __future__ import annotations

import json
import re
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
from tests.cli.test_why import lines_of
from tests.cluster import causes
from tests.cluster.causes import Stage
from tests.cluster.processes import OurNode, free_ports
from tests.cluster.three import Three
from tests.waiting import until
from tests.wire_client import WireClient
from tests.zk_bridge.proxy import Proxy

TIME = r"[\d-]+ [\d:.]+Z"


class Cause(NamedTuple):
    """A script, the subject that it concerns, the expected verdict, and the expected last step of the chain.

    The verdict and the step are patterns, into which the test inserts the script's values.
    """

    script: Callable[[Any], None]
    about: str
    verdict: str
    last: str


KILLED = r"broker {broker} was killed or crashed \(its trace ends without a stop\)"
PRODUCER = r"\(producer id \d+, epoch 0, sequence 5, expected 1\)"

CAUSES = (
    Cause(
        causes.refuse_a_topic,
        "topic wide",
        r"topic wide was never created: at TIME CreateTopics was refused: Replication factor: 9 larger than available"
        r" brokers: 3\. \(INVALID_REPLICATION_FACTOR\)\.",
        r"CreateTopics was refused: Replication factor: 9 larger",
    ),
    Cause(
        causes.kill_the_only_replica,
        "partition alone-0",
        r"alone-0 has had no leader since TIME: no replica in its ISR \[{broker}\] is alive, because "
        + KILLED
        + r"\. Start broker {broker} again\.",
        KILLED,
    ),
    Cause(
        causes.kill_a_leader_for_a_while,
        "partition pair-0",
        r"pair-0 had no leader from TIME to TIME \(\d+\.\d s\), when broker {heir} was elected, because " + KILLED,
        KILLED,
    ),
    Cause(
        causes.stop_a_leader,
        "partition stopped-0",
        r"broker {broker} has been out of the ISR \[\d\] of stopped-0 since TIME, because broker {broker} was asked"
        r" to stop",
        r"broker {broker} was asked to stop",
    ),
    Cause(
        causes.expire_a_session,
        "broker {broker}",
        r"broker {broker} was gone from TIME to TIME \(\d+\.\d s\), because a test injected the fault"
        r" 'session_expiry'",
        r"a test injected the fault 'session_expiry' into broker {broker}",
    ),
    Cause(
        causes.block_a_deletion,
        "topic removed",
        r"topic removed has been queued for deletion since TIME and is not deleted: replica {broker} of"
        r" removed-0 cannot be"
        r" deleted, because " + KILLED + r"\. Start broker {broker} again\.",
        KILLED,
    ),
    Cause(
        causes.let_a_reassignment_wait,
        "partition moving-0",
        r"the reassignment of moving-0 to \[\d, {broker}\] has waited for broker {broker} since TIME, because "
        + KILLED,
        KILLED,
    ),
    Cause(
        causes.refuse_producers,
        "partition pay-0",
        r"producers with acks=all have been refused with NOT_ENOUGH_REPLICAS for pay-0 since TIME \(once\): the ISR"
        r" \[{leader}\] has 1 of the 2 replicas that min\.insync\.replicas requires, because " + KILLED,
        KILLED,
    ),
    Cause(
        causes.slow_a_follower,
        "partition slow-0",
        r"broker {broker} has been out of the ISR \[{leader}\] of slow-0 since TIME, because a test injected the"
        r" fault 'delay' into"
        r" Fetch of client broker-{broker}-fetcher-0 at broker {leader}\. Remove the injected fault",
        r"a test injected the fault 'delay' into Fetch",
    ),
    Cause(
        causes.pause_a_follower,
        "partition paused-0",
        r"broker {broker} was out of the ISR of paused-0 from TIME to TIME, because a test injected the fault"
        r" 'pause' into"
        r" broker {broker}\.",
        r"a test injected the fault 'pause' into broker {broker}",
    ),
    Cause(
        causes.lose_records,
        "partition unclean-0",
        r"unclean-0 lost records at TIME: broker {heir}, which was not in the ISR \[{broker}\], was elected"
        r" \(unclean\), and"
        r" offsets \d+ to \d+ were cut off, because " + KILLED,
        KILLED,
    ),
    Cause(
        causes.skip_a_sequence,
        "producer skipper",
        r"producer skipper has been refused with OUT_OF_ORDER_SEQUENCE for ordered-0 since TIME \(once\): broker \d"
        r" refused Produce"
        r" of client skipper for ordered-0: OUT_OF_ORDER_SEQUENCE " + PRODUCER,
        r"broker \d refused Produce of client skipper for ordered-0: OUT_OF_ORDER_SEQUENCE " + PRODUCER,
    ),
    Cause(
        causes.fence_a_producer,
        "producer fenced",
        r"producer fenced had trouble at TIME: EndTxn of client old for fenced \(producer epoch 0\) was refused:"
        r" INVALID_PRODUCER_EPOCH, because client new began a new producer with transactional id fenced",
        r"client new began a new producer with transactional id fenced \(InitProducerId\)",
    ),
    Cause(
        causes.let_a_transaction_time_out,
        "transaction late",
        r"transactional id late had trouble at TIME: AddPartitionsToTxn of client sleeper for late \(producer epoch 0\)"
        r" was refused: INVALID_PRODUCER_EPOCH, because the coordinator aborted the transaction of late",
        r"the coordinator aborted the transaction of late \(producer epoch 1\): its timeout was over",
    ),
    Cause(
        causes.expire_a_member,
        "consumer-group silent",
        r"group silent has no members at TIME \(rebalances: 1; state now: Empty\), because client dozer sent"
        r" no heartbeat to"
        r" group silent for its session timeout of 0\.4 s",
        r"client dozer sent no heartbeat",
    ),
    Cause(
        causes.leave_a_group,
        "consumer-group left",
        r"group left has no members at TIME .*, because client leaver left group left\.",
        r"client leaver left group left",
    ),
    Cause(
        causes.commit_in_an_old_generation,
        "consumer-group stale",
        r"group stale refused offsets of client worker at TIME \(ILLEGAL_GENERATION\), because client worker joined",
        r"client worker joined group stale",
    ),
    Cause(
        causes.move_a_coordinator,
        "consumer-group moved",
        r"broker {heir} has coordinated group moved since TIME, because " + KILLED,
        KILLED,
    ),
    Cause(
        causes.break_a_disk,
        "partition stored-0",
        r"broker {broker} has been out of the ISR \[{heir}\] of stored-0 since TIME, because a test injected the"
        r" fault 'broken_disk'",
        r"a test injected the fault 'broken_disk' into broker {broker}",
    ),
    Cause(
        causes.inject_an_error,
        "producer unlucky",
        r"a request of producer unlucky was not handled as usual at TIME: a test injected the fault 'error'"
        r" into Produce",
        r"a test injected the fault 'error' into Produce of client unlucky",
    ),
)

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
    def matches(pattern: str, text: str) -> bool:
        for name, value in values.items():
            pattern = pattern.replace(f"{{{name}}}", str(value))
        return re.match(pattern.replace("TIME", TIME), text) is not None

    chain = [step["text"] for step in said["chain"]]
    assert matches(cause.verdict, said["verdict"]), (said["verdict"], chain)
    assert matches(cause.last, chain[-1]), chain
    times = [step["at"] for step in said["chain"]]
    assert all(step["run"] and step["delivery"] for step in said["chain"]), "each step is shown by a delivery"
    assert max(times) - min(times) < 60


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.script.__name__)
def test_a_chain_ends_at_the_scripted_act(lived: tuple[Path, Moments], cause: Cause) -> None:
    folder, moments = lived
    values = moments[cause.script.__name__]
    check(cause, explained(folder, cause.about.format(**values), values["at"]), values)


@pytest.mark.parametrize("cause", [CAUSES[0], CAUSES[7], CAUSES[13], CAUSES[14]], ids=lambda cause: cause.about)
def test_json_and_text_have_the_same_content(lived: tuple[Path, Moments], cause: Cause) -> None:
    folder, moments = lived
    asked = [*cause.about.split(), str(folder), "--at", str(moments[cause.script.__name__]["at"])]
    text = CliRunner().invoke(why.command, asked).stdout
    said = json.loads(CliRunner().invoke(why.command, [*asked, "--json"]).stdout)
    assert lines_of(said, pointers=False) == text.splitlines()


# --------------------------------------------------------------------------------------- processes and a real ZooKeeper


class Processes(NamedTuple):
    """Three nodes, and a fourth one whose link to ZooKeeper the test can cut."""

    three: Three
    link: Proxy
    fourth: OurNode
    port: int
    """Port of the fourth node."""

    def registered(self, node: int) -> bool:
        return self.three.zk.exists(f"/brokers/ids/{node}") is not None

    def seen(self) -> list[int]:
        """Return the live brokers in the controller's metadata; none if the controller does not respond."""
        try:
            controller = json.loads(self.three.zk.get("/controller")[0])["brokerid"]
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
    controller = json.loads(here.three.zk.get("/controller")[0])["brokerid"]
    here.three.zk.delete("/controller")
    until(lambda: here.three.zk.get("/controller_epoch")[0] != epoch, what="another term")
    running = here.three.nodes.get(controller, here.fourth)
    until(lambda: "] Resigned" in running.output, what="the end of the term before")


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
    Cause(
        delete_the_controller_znode,
        "controller",
        r"broker \d has been controller \(epoch 2\) since TIME, after broker \d, because /controller was deleted in"
        r" ZooKeeper by"
        r" another client, although the session of controller \d lived\.",
        r"/controller was deleted in ZooKeeper by another client",
    ),
    Cause(
        start_a_second_process,
        "broker 0",
        r"a process of broker 0 was refused at TIME, because a process with the id of broker 0 could not"
        r" register: another"
        r" live session \(0x[0-9a-f]+\) owns /brokers/ids/0\. Stop the other process with broker\.id=0,",
        r"a process with the id of broker 0 could not register",
    ),
    Cause(
        stop_a_process,
        "broker 1",
        r"broker 1 was gone from TIME to TIME \(\d+\.\d s\), because broker 1 did not run while its ZooKeeper",
        r"broker 1 did not run while its ZooKeeper session ended \(its process was suspended or held up",
    ),
    Cause(
        cut_a_link_to_zookeeper,
        "broker 3",
        r"broker 3 was gone from TIME to TIME \(\d+\.\d s\), because broker 3 lost its connection to ZooKeeper\.",
        r"broker 3 lost its connection to ZooKeeper",
    ),
)


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Moments]:
    """Run the scripts on processes, and return the folder of their traces and the end time of each script."""
    folder, moments = tmp_path_factory.mktemp("processes"), dict[str, dict[str, Any]]()
    with Three.running(folder, zookeeper__session__timeout__ms=SESSION_MS) as three:
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
