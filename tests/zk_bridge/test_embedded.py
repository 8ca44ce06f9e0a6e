"""Test the embedded server: it starts, serves, ends with its parent process, and reports why it cannot start."""

from __future__ import annotations

import importlib.machinery
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from messages.zookeeper import ClusterId, GetClusterId
from tests.waiting import until
from zk_bridge import embedded
from zk_bridge.client import connect
from zk_bridge.embedded import EmbeddedZooKeeper, ZooKeeperStartFailed, four_letter, serves

ROOT = Path(__file__).resolve().parents[2]
java = pytest.mark.java

PARENT = """
import sys, time
from zk_bridge.embedded import EmbeddedZooKeeper
server = EmbeddedZooKeeper(sys.argv[1], guard=sys.argv[2], force_sync=False)
server.start()
print(server.pid, server.port, flush=True)
time.sleep(600)
"""


@java
@pytest.mark.parametrize("guard", ["signal", "pipe"])
def test_it_keeps_port_and_data_over_stop_and_kill(tmp_path: Path, guard: str) -> None:
    server = EmbeddedZooKeeper(tmp_path / "zk", guard=guard)
    server.start()
    port = server.port
    with connect(server.connect_string) as zk:
        zk.ask(GetClusterId("kept"))
    for end in (server.stop, server.kill):
        end()
        assert server.pid is None
        assert not serves("127.0.0.1", port)
        server.start()
        assert server.port == port
        with connect(server.connect_string) as zk:
            assert zk.ask(GetClusterId("other")) == ClusterId("kept")
    assert "tickTime 500" in server.log_file.read_text() or "tickTime=500" in four_letter("127.0.0.1", port, "conf")
    server.stop()


@java
@pytest.mark.parametrize("jars", embedded.jar_sources(), ids=lambda jars: jars.name)
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_its_directory_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str, jars: embedded.JarSource
) -> None:
    """The directory's name may have spaces, commas, backslashes (Java's escape) and non-Latin letters."""
    monkeypatch.setenv("LC_ALL", locale)
    place = tmp_path / "a b,c" / r"back\slash\u0041\n" / "größe 日本 #=:!"
    with EmbeddedZooKeeper(place, force_sync=False, jars=jars) as server:
        assert serves("127.0.0.1", server.port)
    assert {each.name for each in place.iterdir()} - {"log4j2.properties"} == {"data", "zoo.cfg", "zookeeper.log"}
    assert list((place / "data" / "version-2").iterdir())
    assert "INFO" in server.log_file.read_text(errors="replace"), "the logger is configured"


@java
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's signal is Linux's")
@pytest.mark.parametrize("guard", ["signal", "pipe"])
def test_it_ends_when_we_are_killed(tmp_path: Path, guard: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "zk"), guard], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert parent.stdout is not None
    pid, port = map(int, parent.stdout.readline().split())
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    assert serves("127.0.0.1", port)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: [each for each in family if _lives(each)], lambda left: not left, "all have ended")


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_busy_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ZooKeeperStartFailed, match=f"port {port} is in use"):
            EmbeddedZooKeeper(tmp_path, port=port).start()


def test_missing_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(ZooKeeperStartFailed, match="Java 17"):
        EmbeddedZooKeeper(tmp_path).start()


def test_jars_are_of_pyspark_then_of_debian_and_3_6_or_newer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark = importlib.machinery.ModuleSpec("pyspark", None, is_package=True)
    spark.submodule_search_locations = [str(tmp_path / "pyspark")]
    for folder, version in (("pyspark/jars", "3.9.3"), ("share/java", "3.6.0")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"zookeeper-{version}.jar").touch()
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: spark)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert [source.name for source in embedded.jar_sources()][:2] == ["pyspark", "debian"]
    (tmp_path / "pyspark" / "jars" / "zookeeper-3.9.3.jar").unlink()
    assert embedded.jar_source().folder == tmp_path / "share" / "java"
    (tmp_path / "share" / "java" / "zookeeper-3.6.0.jar").rename(tmp_path / "share" / "java" / "zookeeper-3.4.13.jar")
    assert tmp_path not in {parent for source in embedded.jar_sources() for parent in source.folder.parents}


def test_missing_jars_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "jar_sources", list)
    with pytest.raises(ZooKeeperStartFailed, match="libzookeeper-java"):
        EmbeddedZooKeeper(tmp_path).start()


SLOW_JAVA = """\
#!{python}
import re, socket, time
port = int(re.search(r"clientPort=(\\d+)", open("zoo.cfg").read())[1])
for step in range({steps}):
    print("reading", step, flush=True)
    time.sleep(0.4)
with socket.create_server(("127.0.0.1", port)) as server:
    while {serves}:
        link, _ = server.accept()
        link.sendall(b"imok" if link.recv(4) == b"ruok" else b"Mode: standalone")
        link.close()
    time.sleep(600)
"""


def slow_java(place: Path, monkeypatch: pytest.MonkeyPatch, **how: object) -> EmbeddedZooKeeper:
    """Return a server whose `java` prints `steps` lines, one each 0.4 s, before it serves if `serves`."""
    java_home = place / "java"
    (java_home / "bin").mkdir(parents=True)
    (java_home / "bin" / "java").write_text(SLOW_JAVA.format(python=sys.executable, **how))
    (java_home / "bin" / "java").chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(java_home))
    return EmbeddedZooKeeper(place / "zk")


def test_a_server_that_goes_on_reading_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = slow_java(tmp_path, monkeypatch, steps=10, serves=True)
    began = time.monotonic()
    server.start(silence=3.0)
    assert time.monotonic() - began > 3.0
    server.stop()


def test_a_server_that_stops_logging_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ZooKeeperStartFailed, match=r"(?s)has logged nothing for 1 s; the end of"):
        slow_java(tmp_path, monkeypatch, steps=1, serves=False).start(silence=1.0)


@java
def test_a_server_that_ends_at_once_shows_its_log(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where a directory should be")
    with pytest.raises(ZooKeeperStartFailed, match=r"(?s)ended with code \d+; the end of .*zookeeper.log:\n.+"):
        EmbeddedZooKeeper(tmp_path).start()


@java
@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows which files a process has mapped")
def test_a_stop_leaves_an_archive_of_classes_that_the_next_start_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    server = EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False)
    server.start()
    server.kill()
    assert not list((tmp_path / "prefix" / "share").rglob("zookeeper*"))
    with server:
        pass
    [kept] = (tmp_path / "prefix" / "share").rglob("zookeeper*")
    with server:
        assert str(kept) in Path(f"/proc/{server.pid}/maps").read_text()
        assert "cds" not in server.log_file.read_text()
