"""How a command finds its cluster, and its errors if there is none."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from actors.cli import zookeeper as door
from actors.cli.app import CommandFailed, run
from actors.cli.cluster_file import read_cluster, write_cluster
from actors.cli.zookeeper import zookeeper
from messages.ask import BadZnode
from messages.zookeeper import GetClusterId, GetTopics
from tests.cluster.processes import free_ports
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper


def test_a_closed_port_is_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    (port,) = free_ports(1)
    assert run(["status", "--zookeeper", f"127.0.0.1:{port}/kafka"]) == 1
    address = f"127.0.0.1:{port}"
    words = f"Error: ZooKeeper at {address}/kafka cannot be reached: nothing listens at {address}\n"
    assert capsys.readouterr().err == words


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "unknown host a; unknown host b"),
        (ConnectionRefusedError(111, "refused"), "nothing listens at a:1; nothing listens at b:2181"),
        (TimeoutError("timed out"), "a:1 does not answer within 3 s; b:2181 does not answer within 3 s"),
        (OSError(101, "Network is unreachable"), "a:1: Network is unreachable; b:2181: Network is unreachable"),
    ],
)
def test_connection_errors_are_distinguished(error: OSError, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> socket.socket:
        raise error

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(CommandFailed) as caught, zookeeper("a:1,b/chroot"):
        pass
    assert caught.value.message == f"ZooKeeper at a:1,b/chroot cannot be reached: {words}"


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> MemoryZooKeeper:
    """Return an in-memory ZooKeeper that commands find at any address."""
    tree = MemoryZooKeeper()
    monkeypatch.setattr(door, "_reach", lambda address: None)
    monkeypatch.setattr(door, "connect", lambda address, security: Client(MemoryStore(tree)))
    return tree


def test_a_chroot_without_a_cluster_is_an_error(tree: MemoryZooKeeper) -> None:
    for address, hint in (("h:1/kafka", "is the chroot right?"), ("h:1", "host:port/chroot")):
        with (
            pytest.raises(CommandFailed, match=f"no cluster in ZooKeeper at {address}: .*") as caught,
            zookeeper(address),
        ):
            pass
        assert hint in caught.value.message
    with zookeeper("h:1", empty=True) as ask:
        assert ask(GetTopics(watch=False)).topics == ()
        ask(GetClusterId(proposed="x"))
    with zookeeper("h:1") as ask:
        assert ask(GetTopics(watch=False)).topics == ()


def test_what_the_bridge_warns_of_reaches_the_user_without_escapes(
    tree: MemoryZooKeeper, capsys: pytest.CaptureFixture[str]
) -> None:
    with zookeeper("h:1", empty=True):
        logging.getLogger("zk_bridge.cluster").error("torn: %s", BadZnode("/a\x1b[2J: no JSON"))
    assert capsys.readouterr().err == "Warning: torn: /a\\x1b[2J: no JSON\n"


def test_a_folder_names_its_cluster(tmp_path: Path) -> None:
    write_cluster(tmp_path, {"zookeeper": "h:7/c", "brokers": []})
    assert read_cluster(tmp_path) == {"zookeeper": "h:7/c", "brokers": []}
    assert [each.name for each in tmp_path.iterdir()] == ["cluster.json"]
    with pytest.raises(CommandFailed, match="is not a cluster folder"):
        read_cluster(tmp_path / "other")
    for torn in ("{", "[]", '{"zookeeper": 3}'):
        (tmp_path / "cluster.json").write_text(torn)
        with pytest.raises(CommandFailed, match=r"cluster\.json"):
            read_cluster(tmp_path)
