"""Real processes for tests of whole clusters: our command and Apache's brokers.

The kernel kills these processes when the test process ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from actors.cli.app import run
from actors.cli.local_cluster import COMMAND
from actors.node.free_ports import free_ports
from tests.cluster.apache_java import apache_java, make_archive
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

OURS = COMMAND
ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """A child process in its own process group, with its output in a file."""

    def __init__(
        self, command: list[str], log: Path, environment: dict[str, str] | None = None, cwd: Path = ROOT
    ) -> None:
        self.log = log
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 (one libc call, nothing of Python's)
                cwd=cwd,
                env={**os.environ, **(environment or {})},
            )

    @property
    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process group, if it still exists."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Send SIGKILL to the process group, and wait until the process has ended."""
        self.send(signal.SIGKILL)
        self.process.wait(20)

    def stop(self, timeout: float = 60) -> int:
        """Send SIGTERM to the process alone, and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(timeout)


def run_ours(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run one of our commands until it ends: in this process, unless it starts others or a folder is given."""
    if cwd is None and arguments[0] not in ("up", "start", "down"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
        return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())
    return subprocess.run(
        [*OURS, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        cwd=cwd or ROOT,
        stdin=subprocess.DEVNULL,
    )


def create_topic(connect: str, topic: str, *options: str) -> None:
    """Create a topic with our command, as soon as the registered brokers listen and the controller knows them."""
    line = ("topics", "--zookeeper", connect, "--create", "--if-not-exists", "--topic", topic, *options)
    until(lambda: run_ours(*line), lambda done: done.returncode == 0, f"topic {topic} is created", timeout=90)


def start_up(directory: Path, log: Path, *arguments: str) -> tuple[Running, dict[str, Any]]:
    """Start `kafka-actors up --json`, wait for its line of JSON, and return the process and the parsed line."""
    running = Running([*OURS, "up", "--json", "--dir", str(directory), *arguments], log)

    def line() -> dict[str, Any] | None:
        assert running.process.poll() is None, f"up ended with {running.process.returncode}: {running.output}"
        found = [text for text in running.output.splitlines() if text.startswith('{"zookeeper"')]
        return json.loads(found[-1]) if found else None

    try:
        return running, until(line, what="the cluster is up", timeout=60)  # type: ignore[return-value]
    except BaseException:
        running.kill()
        raise


def properties(path: Path, **settings: object) -> Path:
    """Write a properties file, and return its path. Two underscores in a setting's name represent a dot."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{name.replace('__', '.')}={value}\n" for name, value in settings.items()))
    return path


class OurNode(Running):
    """One of our nodes. Its output is `directory`/out.log. By default its trace is `directory`/data.trace."""

    def __init__(self, directory: Path, broker_id: int, port: int, zookeeper: str, **settings: object) -> None:
        defaults: dict[str, object] = {
            "broker__id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log__dirs": directory / "data",
            "zookeeper__connect": zookeeper,
            "zookeeper__session__timeout__ms": 3000,
        }
        file = properties(directory / "server.properties", **{**defaults, **settings})
        super().__init__([*OURS, "broker", str(file)], directory / "out.log")


ON_THE_CONSOLE = """
log4j.rootLogger=INFO, A
log4j.appender.A=org.apache.log4j.ConsoleAppender
log4j.appender.A.layout=org.apache.log4j.PatternLayout
log4j.appender.A.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
"""Default log4j.properties of Apache's broker: it logs to standard output."""


class ApacheBroker(Running):
    """A broker of Apache Kafka 3.9.1 with inter.broker.protocol.version 2.6.

    `java` is the JVM's command with its options, by default that of `apache_java`; `more_java` are additional options.
    """

    def __init__(
        self,
        jars: Path,
        directory: Path,
        broker_id: int,
        port: int,
        zookeeper: str,
        java: tuple[str, ...] = (),
        more_java: tuple[str, ...] = (),
        logging: str = ON_THE_CONSOLE,
        **settings: object,
    ) -> None:
        defaults: dict[str, object] = {
            "broker__id": broker_id,
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log__dirs": directory / "data",
            "zookeeper__connect": zookeeper,
            "inter__broker__protocol__version": "2.6",
            "zookeeper__session__timeout__ms": 3000,
            "offsets__topic__replication__factor": 1,
            "offsets__topic__num__partitions": 3,
            "num__network__threads": 2,
            "num__io__threads": 3,
            "auto__create__topics__enable": "false",
            # by default 128 MB, which each change of message.max.bytes allocates again: too much for the heap of 384 MB
            "log__cleaner__dedupe__buffer__size": 2 << 20,
        }
        file = properties(directory / "server.properties", **{**defaults, **settings})
        log4j = directory / "log4j.properties"
        log4j.write_text(logging)
        jvm = [*java, "-cp", f"{jars}/*"] if java else apache_java(jars, "384m")
        options = [*more_java, f"-Dlog4j.configuration=file:{log4j}"]
        super().__init__([*jvm, *options, "kafka.Kafka", str(file)], directory / "out.log")


def archive_classes(jars: Path) -> None:
    """Store the classes that a broker of Apache's loads, unless the archive exists: it starts one broker for that."""

    def run(place: Path, options: tuple[str, ...]) -> None:
        [port] = free_ports(1)
        with EmbeddedZooKeeper(place / "zookeeper", force_sync=False) as zookeeper:
            broker = ApacheBroker(jars, place, 0, port, zookeeper.connect_string, more_java=options)
            try:
                until(lambda: "started (kafka.server.KafkaServer)" in broker.output, what="a broker", timeout=120)
                broker.stop(120)
            finally:
                broker.kill()

    make_archive(jars, run)
