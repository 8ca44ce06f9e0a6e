"""KafkaCluster is a Kafka cluster for tests, which runs in a separate process.

Modules that only some methods need (shutil, tempfile, shlex and the faults) are imported inside these methods. Imported
at the top of this module, they would take a quarter of the time of `import kafka_actors`, which each run of a test
suite executes.
"""

from __future__ import annotations

import operator
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .cluster_process import ClusterProcess
from .console import command_line
from .operations import (
    HOST,
    ClusterError,
    ClusterOperations,
    NetworkPartition,
    PartitionOperations,
    UnknownPartition,
    check,
    check_arguments,
)

if TYPE_CHECKING:
    from .fault_injection import FaultInjection

__all__ = ["ClusterError", "KafkaCluster", "NetworkPartition", "UnknownPartition"]

ANY_ADDRESS = ("", "0.0.0.0", "::")
LOOK_SECONDS = 0.01
LOG_LINES = 20
"""Lines of the brokers' log in a diagnosis; equal lines count as one."""
ERROR_LINES = 10
"""Maximum number of earlier ERROR lines in a diagnosis."""
OFFSET_LINES = 20
"""Maximum number of partitions whose offsets a diagnosis shows."""
EXPLAINED = 3
"""Maximum number of partitions that a diagnosis explains."""
EXPLAIN_SECONDS = 20.0
"""Seconds that one explanation may take."""

__tracebackhide__ = operator.methodcaller("errisinstance", (ClusterError, TimeoutError))
"""pytest leaves this module's frames out of a traceback that ends in these errors."""

_T = TypeVar("_T")


def _temporary_directory() -> Path:
    import tempfile

    return Path(tempfile.mkdtemp(prefix="kafka-cluster-"))


class KafkaCluster(ClusterOperations, PartitionOperations):
    """A context manager that runs a Kafka cluster with brokers 0, 1, ... and an in-memory ZooKeeper.

    Brokers speak Kafka's protocol on sockets, keep records in files, and replicate and elect as Kafka does.
    Methods return when their effect is complete, and raise ClusterError if they fail. Any thread may call them.

    Args:
        brokers: Number of brokers; their ids are 0, 1, ...
        settings: Kafka's broker settings, the same for all brokers, such as {"min.insync.replicas": 2}.
        session_timeout: Seconds after which ZooKeeper expires the session of a killed broker, so that the other brokers
            notice. An unreachable follower leaves the ISR after `replica.lag.time.max.ms`, which is by default twice
            the session timeout, and at least one second.
        directory: Folder for data, traces and log, which `stop` does not remove. Without this argument, they are in a
            temporary folder, which `stop` removes. With the pytest plugin, the temporary folder is below pytest's base
            temporary directory.
        host: Address on which brokers listen for clients; "0.0.0.0" for containers and other machines.
        advertised_host: Name or address by which clients reach this machine; by default `host`.
        speaks: Kafka release up to whose API versions clients are served: "2.1", "2.4", "2.6", "2.8", "3.3", "3.6" or
            "3.9", the default. All else stays as it is. `restart` can change it for a broker.
        protocol: The `inter.broker.protocol.version` of all brokers: "2.6", "2.7" or "2.8" (the default), at which
            topics have ids.
        log_dirs: Number of log directories of each broker, between which `move_replica` moves replicas.
        security: "SASL_SSL", "SASL_PLAINTEXT" or "SSL" for all listeners, with throw-away certificates; None: PLAINTEXT
        mechanism: "SCRAM-SHA-512" (the default with SASL), "SCRAM-SHA-256", "PLAIN" or "OAUTHBEARER".
        users: Passwords by user. With SSL each user has a client certificate, and the password has no meaning.
        acls: The ACLs that apply, such as {"allow": "alice", "operation": "Read", "topic": "orders"}; instead of
            `allow` and `topic` also `deny`, `group`, `transactional_id` and `"cluster": True`; `"prefixed": True` makes
            the name a prefix. With an empty list only the administrator may do anything. None: there is no authorizer.
        ui: Whether to serve a page at `ui_url` that shows the cluster, with buttons for faults. It survives kills.

    Raises:
        ClusterError: An argument has an invalid value, or `host` is "0.0.0.0" without an `advertised_host`.
    """

    new_directory: ClassVar[Callable[[], Path]] = staticmethod(_temporary_directory)
    """Create the directory of a cluster without a `directory` argument; the pytest plugin replaces this function."""
    shown: ClassVar[bool] = False
    """Whether clusters without the argument `ui` have a page; the pytest plugin sets it for --kafka-ui."""

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        session_timeout: float = 1.0,
        directory: str | Path | None = None,
        host: str = HOST,
        advertised_host: str | None = None,
        speaks: str | None = None,
        protocol: str | None = None,
        log_dirs: int = 1,
        security: str | None = None,
        mechanism: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[Mapping[str, object]] | None = None,
        ui: bool | None = None,
    ) -> None:
        check("KafkaCluster", speaks=speaks, protocol=protocol)
        named = {"api.versions.max": speaks, "inter.broker.protocol.version": protocol}
        if given := {name: value for name, value in named.items() if value is not None}:
            settings = {**(settings or {}), **given}
        self._start = check_arguments(
            "KafkaCluster",
            {
                "directory": "." if directory is None else directory,
                "brokers": brokers,
                "settings": settings,
                "session_timeout": session_timeout,
                "host": host,
                "advertised_host": advertised_host,
                "log_dirs": log_dirs,
                "security": security,
                "mechanism": mechanism,
                "users": users,
                "acls": acls,
                "ui": KafkaCluster.shown if ui is None else ui,
            },
        )
        if security is None and (mechanism, users, acls) != (None, None, None):
            raise ClusterError("mechanism, users and acls need security, such as security='SASL_SSL'")
        if host in ANY_ADDRESS and advertised_host is None:
            raise ClusterError(
                f"clients cannot connect to host={host!r}. Set advertised_host to a name or address of this machine."
            )
        self.brokers = brokers
        self.keep = False
        """Whether `stop` keeps traces and log. `with` sets it if its block raises."""
        self._named = None if directory is None else Path(directory)
        self._directory = Path()
        self._trace_dir = Path()
        self._addresses: list[str] = []
        """"host:port" of each broker, for clients."""
        self._ui: str | None = None
        self._process: ClusterProcess | None = None

    # ------------------------------------------------------------------------------------------------ start and stop

    def start(self) -> KafkaCluster:
        """Start all brokers, and wait until each knows all others and one is the controller.

        Returns:
            This cluster.

        Raises:
            ClusterError: The cluster is already running, a setting is invalid, or a broker did not start.
        """
        if self._process is not None:
            raise ClusterError("the cluster is already running")
        self._directory = KafkaCluster.new_directory() if self._named is None else self._named
        try:
            process, started = self._start_brokers()
        except BaseException:
            self._remove()
            raise
        self._process = process
        self._note_addresses(started)
        self._trace_dir = Path(started["trace_dir"])
        self._ui = started["ui"]
        return self

    def _note_addresses(self, where: Any) -> None:
        host = f"[{where['host']}]" if ":" in where["host"] else where["host"]
        self._addresses = [f"{host}:{port}" for port in where["ports"]]

    def _start_brokers(self) -> tuple[ClusterProcess, Any]:
        """Start the brokers in a process. Return the process and its response, which describes the brokers."""
        process = ClusterProcess.take()
        try:
            started = process.ask("start", **{**self._start, "directory": str(self._directory.absolute())})
        except ClusterError:
            process.give_back()
            raise
        except BaseException:
            process.end()
            raise
        return process, started

    def stop(self) -> None:
        """Stop all brokers at once, without a controlled shutdown. A second call does nothing.

        Warns about injected faults that affected no request or operation.
        """
        process, self._process = self._process, None
        if process is None:
            return
        try:
            never = process.ask("faults_never_met")
            if never:
                warnings.warn(f"these injected faults were never met: {', '.join(never)}", stacklevel=2)
            process.ask("stop")
        except BaseException:
            process.end()
            raise
        else:
            process.give_back()
        finally:
            self._remove()

    def _remove(self) -> None:
        """Remove the temporary directory, but keep its traces and log if `self.keep` is set."""
        if self._named is None:
            import shutil

            for path in self._directory.glob("node-*") if self.keep else [self._directory]:
                shutil.rmtree(path, ignore_errors=True)

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self.keep = True
            error.add_note(self.diagnosis())
        self.stop()

    # ---------------------------------------------------------------------------------------------- addresses and files

    @property
    def bootstrap_servers(self) -> str:
        """The value of `bootstrap.servers` for clients: "host:port,..." of all brokers, including stopped ones."""
        return ",".join(self._addresses)

    @property
    def trace_dir(self) -> Path:
        """The folder of the brokers' traces, for `kafka-actors replay` and `summary`."""
        return self._trace_dir

    @property
    def ui_url(self) -> str:
        """The address of the page. Raises ClusterError if the cluster has none (`ui=True`) or was not started."""
        if self._ui is None:
            raise ClusterError("this cluster has no page: start it with KafkaCluster(ui=True)")
        return self._ui

    @property
    def log_file(self) -> Path:
        """The file with the log messages of all brokers."""
        return self._directory / "cluster.log"

    @property
    def whereabouts(self) -> str:
        """A text that names the trace and the log, with the commands that read them."""
        import shlex

        trace = shlex.quote(str(self.trace_dir))
        return (
            f"every message of the cluster's brokers is recorded in {self.trace_dir}\n"
            f"  kafka-actors replay {trace}    (runs them again, and compares)\n"
            f"  kafka-actors trace show {trace} --ui    (shows any moment on a page)\n"
            f"  kafka-actors summary {trace}    (what happened; needs Java)\n"
            f"their log is {self.log_file}"
        )

    def diagnosis(self) -> str:
        """Describe what happened in the cluster, for a test's report.

        Returns:
            While the cluster runs, what is broken: injected faults, cut connections, and brokers that do not run; the
            violations that `kafka-actors check` finds; the output of `kafka-actors why cluster`, such as elections and
            rejected requests; while the cluster runs, the output of `kafka-actors why partition` for partitions without
            a running leader, and the end offsets and committed offsets; the last lines of the brokers' log and the last
            errors before them; and the paths of trace and log.
        """
        parts, running = [], self._process is not None
        try:
            if running:
                sight = self._ask("sight")
                parts += [f"in effect: {fault}" for fault in sight["in_effect"]]
                self._ask("flush_traces")
            parts += [*self._violations(), *self._explanation("cluster")]
            if running:
                parts += [*self._offline(sight["offline_partitions"]), *self._offsets()]
        except ClusterError as error:  # the process has ended, so the traces are complete
            parts += [
                f"the cluster's state cannot be read: {error}",
                *self._violations(),
                *self._explanation("cluster"),
            ]
        return "\n".join([*parts, *self._log_lines(), self.whereabouts])

    def _log_lines(self) -> list[str]:
        """The last lines of the brokers' log, and the last errors before them. Equal lines are printed once."""
        try:
            text = self.log_file.read_text(errors="replace")
        except OSError:
            text = ""
        counts: dict[str, tuple[str, int]] = {}
        for line in text.splitlines():
            words = line.partition("] ")[2] if line.startswith("[") else line
            _, count = counts.pop(words, ("", 0))
            counts[words] = line, count + 1
        lines = [f"{line} (x {count})" if count > 1 else line for line, count in counts.values()]
        errors = [line for line in lines[:-LOG_LINES] if " ERROR " in line]
        earlier = [f"earlier errors in {self.log_file} ({len(errors)} different):", *errors[-ERROR_LINES:]]
        last = [f"the last lines of {self.log_file}:", *(lines[-LOG_LINES:] or ["(it is empty)"])]
        return [*(earlier if errors else []), *last]

    def _offsets(self) -> list[str]:
        """The end offsets of partitions, and the offsets that groups committed."""
        lines = []
        for partition, found in self._ask("offsets").items():
            committed = [f"group {group} committed {offset}" for group, offset in found["committed"].items()]
            end = "the end offset is unknown" if found["end"] is None else f"end offset {found['end']}"
            lines.append(f"  {partition}: {', '.join([end, *committed])}")
        more = [f"  and {len(lines) - OFFSET_LINES} more"] if len(lines) > OFFSET_LINES else []
        return ["offsets:", *lines[:OFFSET_LINES], *more] if lines else []

    def _offline(self, offline: Sequence[str]) -> list[str]:
        """The output of `kafka-actors why partition` for partitions that no running broker leads."""
        lines: list[str] = []
        for partition in offline[:EXPLAINED]:
            lines += [f"no running broker leads {partition}:", *self._explanation("partition", partition)]
        if len(offline) > EXPLAINED:
            lines.append(f"no running broker leads {len(offline) - EXPLAINED} more: {', '.join(offline[EXPLAINED:])}")
        return lines

    def _violations(self) -> list[str]:
        """The invariants of Kafka's replication that the cluster violated, as `kafka-actors check` finds them."""
        return [line for line in self._output("check") if line.startswith("  violated: ")]

    def _explanation(self, *subject: str) -> list[str]:
        """The output of `kafka-actors why` for a subject, such as a partition."""
        return self._output("why", *subject)

    def _output(self, *command: str) -> list[str]:
        """The output of a command about the traces."""
        try:
            done = subprocess.run(
                command_line(*command, str(self.trace_dir)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=EXPLAIN_SECONDS,
                check=False,
            )
            text = done.stdout + done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            text = str(error)
        return [f"  {line}" for line in text.splitlines()]

    @property
    def faults(self) -> FaultInjection:
        """The object that injects request faults (such as errors) and broker faults (such as slow disks)."""
        from .fault_injection import FaultInjection

        return FaultInjection(self._ask)

    # ------------------------------------------------------------------------------------------------ waiting

    def wait_for(self, condition: Callable[[], _T | None], timeout: float = 30.0) -> _T:
        """Call `condition` every 10 ms until its result is true.

        Args:
            condition: A function without arguments. If it asks about a partition that does not exist yet, the result
                counts as false. The number 0 also counts as false, even if it is a broker's id: use `wait_for_leader`
                to wait for a leader.
            timeout: Maximum time in seconds.

        Returns:
            The result of `condition`.

        Raises:
            TimeoutError: `condition` had no true result within `timeout` seconds; the message has its last result.
        """
        check("wait_for", condition=condition, timeout=timeout)
        deadline = time.monotonic() + timeout
        while True:
            try:
                found = condition()
                seen = repr(found)
            except UnknownPartition as error:
                found, seen = None, str(error)
            if found:
                return found
            if time.monotonic() > deadline:
                raise not_so(timeout, seen)
            time.sleep(LOOK_SECONDS)

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, timeout: float = 30.0
    ) -> int:
        """Wait until a partition exists and has a leader.

        Args:
            topic: Name of the topic.
            partition: Partition number.
            other_than: Id of a broker that does not count as leader, such as one that was killed.
            timeout: Maximum time in seconds.

        Returns:
            The id of the leader.

        Raises:
            TimeoutError: The partition had no such leader within `timeout` seconds.
        """
        check("wait_for_leader", other_than=other_than)

        def leaders() -> list[int]:
            leader = self.leader_of(topic, partition)
            return [] if leader is None or leader == other_than else [leader]

        try:
            return self.wait_for(leaders, timeout)[0]
        except TimeoutError:
            raise without_leader(topic, partition, other_than, timeout) from None

    def _ask(self, do: str, **arguments: object) -> Any:
        sent = check_arguments(do, arguments)
        if self._process is None:
            raise ClusterError("the cluster is not running; call start() or use it in a `with` statement")
        result = self._process.ask(do, **sent)
        if do in ("add_broker", "remove_broker"):
            self._note_addresses(result)
            self.brokers = len(self._addresses)
        return result


def not_so(timeout: float, seen: str) -> TimeoutError:
    """The error for a condition that did not become true in time."""
    return TimeoutError(f"the condition was not met within {timeout:g} s; last value: {seen}")


def without_leader(topic: str, partition: int, other_than: int | None, timeout: float) -> TimeoutError:
    """The error for a partition that got no leader in time."""
    wanted = "no leader" if other_than is None else f"no leader other than {other_than}"
    return TimeoutError(f"{wanted} was elected for partition {topic}-{partition} within {timeout:g} s")
