"""Apache's controller controls our brokers, and ours controls Apache's, on a real ZooKeeper (apache.md)."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster.nodes import Nodes
from tests.cluster.processes import run_ours
from tests.waiting import until

BROKERS, CONTROLLER = (0, 1, 2), 3
ASSIGNMENT = {0: [0, 1, 2], 1: [1, 2, 0], 2: [2, 0, 1], 3: [0]}


def leaders_sent_by(nodes: Nodes, node: int) -> dict[int, int]:
    """Return each partition's leader in the metadata that a broker sends to clients."""
    listing = ["kcat", "-L", "-J", "-b", f"127.0.0.1:{nodes.ports[node]}"]
    said = json.loads(subprocess.run(listing, capture_output=True, text=True, timeout=20, check=True).stdout)
    assert said["controllerid"] == CONTROLLER
    return {each["partition"]: each["leader"] for topic in said["topics"] for each in topic["partitions"]}


def logs(nodes: Nodes, node: int) -> set[str]:
    """Return the names of the partition directories of a broker."""
    return {path.name for path in (nodes.place / f"{node}" / "data").iterdir() if path.is_dir()}


@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("apaches", [(CONTROLLER,), BROKERS], ids=["apaches-controller", "our-controller"])
def test_brokers_obey_the_controller_of_the_other_kind(
    apaches: tuple[int, ...], tmp_path: Path, apache_jars: Path, kcat: str
) -> None:
    """Brokers follow the controller through creation, a kill, a controlled shutdown and deletion."""
    ids = (CONTROLLER, *BROKERS)
    with Nodes.running(tmp_path, dict.fromkeys(apaches, apache_jars), ids, file__delete__delay__ms=600_000) as nodes:
        zk = nodes.zk
        nodes.create("led", ASSIGNMENT)
        preferred = {number: replicas[0] for number, replicas in ASSIGNMENT.items()}
        assert zk.leaders("led") == preferred
        for node in BROKERS:
            held = {f"led-{number}" for number, replicas in ASSIGNMENT.items() if node in replicas}
            until(lambda node=node: logs(nodes, node), lambda seen, held=held: seen == held, f"the logs of {node}")
            until(lambda node=node: leaders_sent_by(nodes, node), lambda seen: seen == preferred, f"{node} knows")

        nodes.nodes[0].send(signal.SIGKILL)
        moved = {0: 1, 1: 1, 2: 2, 3: -1}
        until(lambda: zk.leaders("led"), lambda seen: seen == moved, "led by the brokers that are left")
        until(lambda: leaders_sent_by(nodes, 1), lambda seen: seen == moved, "the others receive it")
        assert [state["leader_epoch"] for state in zk.states("led").values()] == [1, 1, 1, 1]
        nodes.start(0)
        until(lambda: zk.leaders("led")[3], lambda leader: leader == 0, "who came back leads what only it holds")
        until(lambda: {n: {*s["isr"]} for n, s in zk.states("led").items()} == {n: {*r} for n, r in ASSIGNMENT.items()})

        nodes.nodes[1].stop()
        assert zk.leaders("led") == {0: 0, 1: 2, 2: 2, 3: 0}, "handed over before it went"
        nodes.start(1)

        zk.create("/admin/delete_topics/led")
        until(lambda: not zk.exists("/brokers/topics/led"), what="deleted", timeout=60)
        for node in BROKERS:
            names = logs(nodes, node)
            assert names and all(name.endswith("-delete") for name in names), names
        assert zk.controller == CONTROLLER
        assert zk.get("/controller_epoch")[0] == b"1"
    replayed = run_ours("replay", str(tmp_path))
    assert replayed.returncode == 0, replayed.stdout
    assert ", 0 divergences" in replayed.stdout
