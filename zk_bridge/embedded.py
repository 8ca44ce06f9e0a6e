"""Start a ZooKeeper server from the jars of PySpark or of Debian's package (`jar_sources`); Java must be installed.

Rule 1: the server is a separate process with its own log file. It ends when this process ends (`guardian`).
Rule 2: `start` waits until the server handles requests. If the start fails, `start` raises ZooKeeperStartFailed. The
        error's text has the reason (for example, a missing Java or a port in use) or the last lines of the server's
        log. `start` waits as long as the log grows, because a server starts slowly if it has much data or if the
        machine is busy.
Rule 3: the data directory and the port stay the same after `stop` and another `start`, so clients can reconnect.
Rule 4: the server runs in its data directory, and its configuration files contain only relative paths. An absolute
        path would need the escapes and the encoding of Java's properties files.
Rule 5: the first server that stops in this Python environment leaves an archive of its Java classes (`archive`). With
        it, the next servers start in half the time.

PySpark is only located, never imported.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from zk_bridge import guardian

_LOG4J = """\
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


class JarSource(NamedTuple):
    """A folder with ZooKeeper's jars, and how its logger is set.

    Attributes:
        name: The origin of the jars, "pyspark" or "debian".
        folder: The folder.
        jars: Patterns of the jars that the server needs.
        options: Options of Java that configure the logger.
        log4j2: Content of log4j2.properties in the server's directory; empty if the logger reads no file.
    """

    name: str
    folder: Path
    jars: tuple[str, ...]
    options: tuple[str, ...]
    log4j2: str = ""


def _pyspark(folder: Path) -> JarSource:
    jars = """zookeeper-*.jar slf4j-api-*.jar log4j-api-*.jar log4j-core-*.jar log4j-slf4j2-impl-*.jar
        metrics-core-*.jar netty-*.jar snappy-java-*.jar audience-annotations-*.jar commons-cli-*.jar"""
    return JarSource("pyspark", folder, (*jars.split(),), ("-Dlog4j2.configurationFile=log4j2.properties",), _LOG4J)


def _debian(folder: Path) -> JarSource:
    jars = "zookeeper.jar zookeeper-jute.jar slf4j-api.jar slf4j-simple.jar metrics-core.jar snappy-java.jar"
    logger = "-Dorg.slf4j.simpleLogger."
    options = (
        f"{logger}logFile=System.out",
        f"{logger}showDateTime=true",
        f"{logger}dateTimeFormat=[yyyy-MM-dd HH:mm:ss,SSS]",
    )
    return JarSource("debian", folder, (*jars.split(),), options)


OLDEST = (3, 6)
"""Oldest version of ZooKeeper that is started."""

CHECK_INTERVAL = 0.05
PORT_ATTEMPTS = 3
MAX_SESSION_TICKS = 600


class ZooKeeperStartFailed(Exception):
    """The embedded ZooKeeper server could not be started; the exception's message has the reason and the remedy."""


def jar_sources() -> list[JarSource]:
    """Return the sources of ZooKeeper's jars that are installed: PySpark, then Debian's libzookeeper-java.

    `make run` unpacks Debian's jars into the virtual environment.
    """
    spec = importlib.util.find_spec("pyspark")
    found = [_pyspark(Path(place) / "jars") for place in spec.submodule_search_locations or ()] if spec else []
    found += [_debian(Path(prefix) / "share" / "java") for prefix in dict.fromkeys((sys.prefix, "/usr"))]
    return [source for source in found if _version(source.folder) >= OLDEST]


def _version(folder: Path) -> tuple[int, ...]:
    """Return the newest version of ZooKeeper's jars in the folder; () if it contains none."""
    names = [jar.stem.partition("-")[2] for jar in folder.glob("zookeeper-[0-9]*.jar")]
    return max((tuple(map(int, re.findall(r"\d+", name))) for name in names), default=())


def jar_source() -> JarSource:
    """Return the first source of `jar_sources`. Raises ZooKeeperStartFailed if there is none."""
    for source in jar_sources():
        return source
    raise ZooKeeperStartFailed(
        "no ZooKeeper server: its jars, 3.6 or newer, are neither in pyspark nor in /usr/share/java. Install Debian's"
        " package libzookeeper-java, or pyspark."
    )


def java_executable() -> str:
    """Return the path of Java, from JAVA_HOME or PATH. Raises ZooKeeperStartFailed if Java is not found."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin") if home else None
    found = found or shutil.which("java")
    if found is None:
        raise ZooKeeperStartFailed(
            "no Java: the embedded ZooKeeper needs Java 17 or newer on PATH or in JAVA_HOME."
            " Without Java: kafka-actors up --zookeeper memory"
        )
    return found


def archive(java: str, class_path: str) -> Path:
    """Return the path of the archive of ZooKeeper's classes for this Java and these jars (rule 5)."""
    program = Path(java).resolve()
    of = f"{program}\n{program.stat().st_mtime_ns}\n{class_path}"
    return Path(sys.prefix) / "share" / "kafka-actors" / f"zookeeper-{hashlib.sha256(of.encode()).hexdigest()[:16]}.jsa"


def four_letter(host: str, port: int, word: str, timeout: float = 1.0) -> str:
    """Send a four-letter command and return the whole response. Raises OSError if the server does not respond."""
    with socket.create_connection((host, port), timeout) as link:
        link.sendall(word.encode())
        answer = b""
        while part := link.recv(65536):
            answer += part
    return answer.decode(errors="replace")


def serves(host: str, port: int) -> bool:
    """Return whether the server at this address is healthy (ruok) and handles requests (srvr reports a mode)."""
    try:
        return four_letter(host, port, "ruok") == "imok" and "Mode:" in four_letter(host, port, "srvr")
    except OSError:
        return False


class EmbeddedZooKeeper:
    """A ZooKeeper server in a Java process of its own, on 127.0.0.1 and without replication.

    Args:
        data_dir: Directory of the server's data; it is created if missing.
        port: 0 means a free port, chosen at the first start.
        tick_time_ms: ZooKeeper's tickTime. The server limits session timeouts to the range from 2 to 600 ticks.
        force_sync: False disables fsync (for tests). The server is then faster, but a power failure may lose data.
        heap: Java's -Xmx.
        guard: How the server's process is tied to this process, "signal" or "pipe" (`guardian`).
        jars: The source of the jars; None means the first that is installed.
    """

    def __init__(
        self,
        data_dir: str | Path,
        port: int = 0,
        tick_time_ms: int = 500,
        force_sync: bool = True,
        heap: str = "512m",
        guard: str = "signal" if sys.platform == "linux" else "pipe",
        jars: JarSource | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.port = port
        self.tick_time_ms = tick_time_ms
        self.force_sync = force_sync
        self.heap = heap
        self.guard = guard
        self.jars = jars
        self.log_file = self.data_dir / "zookeeper.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._reaper: threading.Thread | None = None
        self._archive: tuple[Path, Path] | None = None
        """The archive that the running server makes, and the path at which it writes it when it stops."""

    @property
    def connect_string(self) -> str:
        """Address for clients, "127.0.0.1:port"."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int | None:
        """Process id of the server (in pipe mode, of its guardian process); None if the server does not run."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def __enter__(self) -> EmbeddedZooKeeper:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def start(self, silence: float = 60.0) -> None:
        """Start the server and wait until it handles requests (rule 2).

        Args:
            silence: Maximum time in seconds without a new line in the server's log.

        Raises:
            ZooKeeperStartFailed: The server ended, or wrote nothing into its log for `silence` seconds.
        """
        if self.pid is not None:
            return
        jars = self.jars or jar_source()
        attempts = PORT_ATTEMPTS if self.port == 0 else 1
        for attempt in range(1, attempts + 1):
            port = self.port or _free_port()
            _refuse_busy(port)
            self._configure(port, jars.log4j2)
            self._launch(self._command_line(jars))
            try:
                self._await_serving(port, silence)
            except ZooKeeperStartFailed as failure:
                self.stop()
                if attempt < attempts and "in use" in str(failure):  # another process took the free port
                    continue
                raise
            self.port = port
            return

    def stop(self, timeout: float = 10.0) -> None:
        """Terminate the server if it runs, and kill it if it still runs after `timeout` seconds."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._keep_archive(complete=process.returncode == 128 + signal.SIGTERM)
        if self._reaper is not None:
            self._reaper.join()
            self._reaper = None
        if process.stdin is not None:
            process.stdin.close()

    def kill(self) -> None:
        """Kill the server (SIGKILL). `start` starts it again."""
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()  # the guardian process then kills the server
            process.wait()
        elif process is not None:
            process.kill()
        self.stop()

    # ------------------------------------------------------------------------------------------------- details

    def _command_line(self, jars: JarSource) -> list[str]:
        class_path = os.pathsep.join(str(jar) for pattern in jars.jars for jar in sorted(jars.folder.glob(pattern)))
        java = java_executable()
        return [
            *(sys.executable, "-I", "-S", guardian.__file__, self.guard, str(os.getpid()), java),
            *self._archive_options(archive(java, class_path)),
            *("-cp", class_path, f"-Xmx{self.heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=4"),
            "-Djava.awt.headless=true",
            *jars.options,
            "-Dzookeeper.admin.enableServer=false",
            "-Dzookeeper.4lw.commands.whitelist=ruok,srvr,stat,mntr,envi,conf,cons,wchs",
            f"-Dzookeeper.forceSync={'yes' if self.force_sync else 'no'}",
            *("org.apache.zookeeper.server.ZooKeeperServerMain", "zoo.cfg"),
        ]

    def _archive_options(self, kept: Path) -> list[str]:
        quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
        if kept.exists():
            return [f"-XX:SharedArchiveFile={kept}", *quiet]
        with contextlib.suppress(OSError):  # a folder that cannot be written: without an archive
            kept.parent.mkdir(parents=True, exist_ok=True)
            self._archive = kept, kept.with_suffix(f".{os.getpid()}-{id(self)}")
            return [f"-XX:ArchiveClassesAtExit={self._archive[1]}", *quiet]
        return []

    def _keep_archive(self, complete: bool) -> None:
        if self._archive is not None:
            (kept, part), self._archive = self._archive, None
            with contextlib.suppress(OSError):
                part.replace(kept) if complete else part.unlink()

    def _configure(self, port: int, log4j2: str) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        if log4j2:
            (self.data_dir / "log4j2.properties").write_text(log4j2)
        settings = {
            "tickTime": self.tick_time_ms,
            "dataDir": "./data",
            "clientPort": port,
            "clientPortAddress": "127.0.0.1",
            "maxClientCnxns": 0,
            "minSessionTimeout": 2 * self.tick_time_ms,
            "maxSessionTimeout": MAX_SESSION_TICKS * self.tick_time_ms,
            "autopurge.purgeInterval": 1,
        }
        (self.data_dir / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def _launch(self, command: list[str]) -> None:
        """Start the process in a thread that waits for the process. Linux kills the process if the thread ends."""
        started = threading.Event()
        failed: list[OSError] = []

        def live() -> None:
            try:
                with self.log_file.open("ab") as log:
                    self._process = process = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE if self.guard == "pipe" else subprocess.DEVNULL,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        cwd=self.data_dir,
                        env={**os.environ, "LC_ALL": "C.UTF-8"},  # Java derives its arguments' encoding from LC_ALL
                        start_new_session=True,  # Ctrl-C at the terminal reaches only this Python process
                    )
            except OSError as error:
                failed.append(error)
                return
            finally:
                started.set()
            process.wait()

        self._reaper = threading.Thread(target=live, name=f"zookeeper-{self.port}", daemon=True)
        self._reaper.start()
        started.wait()
        if failed:
            raise ZooKeeperStartFailed(f"ZooKeeper cannot be started: {failed[0]}")

    def _await_serving(self, port: int, silence: float) -> None:
        process = self._process
        assert process is not None
        logged, deadline = 0, time.monotonic() + silence
        while not serves("127.0.0.1", port):
            if (size := self.log_file.stat().st_size) > logged:
                logged, deadline = size, time.monotonic() + silence
            if process.poll() is not None:
                reason = f"ended with code {process.returncode}"
            elif time.monotonic() >= deadline:
                reason = f"does not serve, and has logged nothing for {silence:g} s"
            else:
                time.sleep(CHECK_INTERVAL)
                continue
            tail = self._log_tail()
            taken = f"port {port} is in use; " if "BindException" in tail else ""
            raise ZooKeeperStartFailed(f"{taken}ZooKeeper {reason}; the end of {self.log_file}:\n{tail}")

    def _log_tail(self, lines: int = 12) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])
        return "(no log)"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _refuse_busy(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ZooKeeperStartFailed(f"port {port} is in use: {error.strerror}") from None
