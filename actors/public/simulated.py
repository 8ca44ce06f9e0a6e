"""SimulatedCluster runs the brokers of a Kafka cluster in virtual time and in the test's process.

    from kafka_actors.simulated import SimulatedCluster

    with SimulatedCluster() as cluster:
        cluster.create_topic("t")
        cluster.kill(0)
        cluster.wait_for(lambda: cluster.leader_of("t") != 0)    # six virtual seconds, almost no real time

Rule 1: time passes only in `run` and in methods that wait, and `seed` determines all random choices: the same calls
        give the same run.
Rule 2: Kafka's clients cannot connect, because the cluster has no sockets. Tests use `ask` to send request messages to
        a broker.
Rule 3: this module imports internal packages into this process, which `import kafka_actors` alone does not do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .operations import (
    ClusterError,
    PartitionOperations,
    SharedOperations,
    UnknownPartition,
    check,
    check_arguments,
)

if TYPE_CHECKING:
    from .fault_injection import FaultInjection

_T = TypeVar("_T")

PATIENCE = 120.0
"""Maximum virtual time in seconds of an operation."""


def message(name: str) -> type[Any]:
    """Look up the class of a request, or the class of a part of a request.

    Example: `cluster.ask(0, message("MetadataRequest")(8, None, False))`.

    Raises:
        KeyError: The name is unknown.
    """
    from messages.trace.names import vocabulary

    return vocabulary()[name]


class SimulatedCluster(SharedOperations, PartitionOperations):
    """A context manager that runs brokers 0, 1, ... with simulated time, network, disks and ZooKeeper.

    `settings` are Kafka's broker settings, for all brokers. Traces are below `directory`, by default a temporary folder
    that is removed at the end. A method that makes a change lets virtual time pass until the change is complete, and
    raises ClusterError if the change fails.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        settings: Mapping[str, object] | None = None,
        seed: int = 0,
        directory: str | Path | None = None,
    ) -> None:
        given = check_arguments(
            "SimulatedCluster",
            {
                "brokers": brokers,
                "settings": settings,
                "seed": seed,
                "directory": "." if directory is None else directory,
            },
        )
        from actors.node.settings import SettingsError, fields_of
        from actors.simulation.disk import scratch_folder

        try:
            self._settings = fields_of(given["settings"] or {})
        except SettingsError as error:
            raise ClusterError("; ".join(error.messages)) from None
        self.brokers = brokers
        self._seed = seed
        self._temporary = None
        if directory is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="kafka-simulated-", dir=scratch_folder())
        self.directory = Path(self._temporary.name if self._temporary is not None else str(directory))
        self._cut: list[tuple[str, str]] = []

    def __enter__(self) -> SimulatedCluster:
        from actors.gateway.request_faults import RequestFault, RequestFaults
        from actors.simulation.schedule import Schedule
        from actors.simulation.simulated_cluster import Cluster

        settings = {"zookeeper_session_timeout_ms": 6000, "controlled_shutdown_retry_backoff_ms": 100, **self._settings}
        self._cluster = Cluster(Schedule(self.brokers, self._seed), self.directory, True, settings)
        self._cluster.network.faults = self._request_faults = RequestFaults(lambda: self.now)
        self._injected: list[RequestFault] = []
        for id in range(self.brokers):
            self._cluster.start(id)
        self._run_until(lambda: all(self._is_ready(id) for id in range(self.brokers)), "not all brokers started")
        self._run_until(lambda: self.controller_id is not None, "no broker became controller")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._cluster.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def trace_dir(self) -> Path:
        """The folder of the brokers' traces, which are complete only after the cluster has stopped."""
        return self.directory

    @property
    def faults(self) -> FaultInjection:
        """The object that injects faults into requests; faults of brokers, such as slow disks, are refused."""
        from .fault_injection import FaultInjection

        return FaultInjection(self._ask)

    # ------------------------------------------------------------------------------------------------ time

    @property
    def now(self) -> float:
        """Seconds of virtual time since the start."""
        return float(self._cluster.now)

    def run(self, seconds: float) -> None:
        """Let this much virtual time pass, and process all events that fall into it."""
        if seconds != 0:
            check("run", seconds=seconds)
        self._cluster.run(seconds)

    def wait_for(self, condition: Callable[[], _T | None], timeout: float = PATIENCE) -> _T:
        """Let virtual time pass, event by event, until the result of `condition()` is true; return the result.

        If `condition` asks about a partition that does not exist yet, the result counts as false. The number 0 also
        counts as false, even if it is a broker's id: use `wait_for_leader` to wait for a leader.

        Raises:
            TimeoutError: After `timeout` seconds of virtual time.
        """
        check("wait_for", condition=condition, timeout=timeout)
        found: _T | None = None
        seen = ""

        def is_so() -> bool:
            nonlocal found, seen
            try:
                found = condition()
                seen = repr(found)
            except UnknownPartition as error:
                found, seen = None, str(error)
            return bool(found)

        if not self._cluster.run_until(is_so, timeout) or found is None:
            raise TimeoutError(f"the condition was not met within {timeout:g} s of virtual time; last value: {seen}")
        return found

    def wait_for_leader(
        self, topic: str, partition: int = 0, *, other_than: int | None = None, timeout: float = PATIENCE
    ) -> int:
        """Wait until a partition exists and a broker other than `other_than` leads it; return that broker's id.

        Raises:
            TimeoutError: After `timeout` seconds of virtual time.
        """
        check("wait_for_leader", other_than=other_than)

        def leaders() -> list[int]:
            leader = self.leader_of(topic, partition)
            return [] if leader is None or leader == other_than else [leader]

        return self.wait_for(leaders, timeout)[0]

    # -------------------------------------------------------------------------------------------------- operations

    def _ask(self, do: str, **arguments: object) -> Any:
        from actors.node.memory_cluster import ZooKeeperView

        sent = check_arguments(do, arguments)
        if not hasattr(self, "_cluster"):
            raise ClusterError("the cluster is not running; use it in a `with` statement")
        done = getattr(self, f"_{do}", None) or getattr(ZooKeeperView(self._cluster.zookeeper), do)
        return done(**sent) if callable(done) else done

    def _create_topic(
        self, topic: str, partitions: int, replication_factor: int | None, config: Mapping[str, str] | None
    ) -> None:
        from actors.node.memory_cluster import ZooKeeperView
        from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest

        factor = min(3, self.brokers) if replication_factor is None else replication_factor
        controller = self.controller_id
        if controller is None:
            raise ClusterError("no controller is active")
        configs = tuple(CreatableConfig(*entry) for entry in (config or {}).items())
        creatable = CreatableTopic(topic, partitions, factor, configs=configs)
        answer = self.ask(controller, CreateTopicsRequest(5, (creatable,), 30_000))
        (created,) = answer.topics
        if created.error_code:
            raise ClusterError(f"topic {topic} was not created: {created.error_message} (error {created.error_code})")
        view = ZooKeeperView(self._cluster.zookeeper)
        self._run_until(
            lambda: all(view.has_leader(topic, n) for n in range(partitions)),
            f"not all partitions of {topic} got a leader",
        )

    def _add_acls(self, acls: Sequence[Mapping[str, Any]]) -> None:
        self._change_acls(acls, removed=False)

    def _remove_acls(self, acls: Sequence[Mapping[str, Any]]) -> None:
        self._change_acls(acls, removed=True)

    def _change_acls(self, entries: Sequence[Mapping[str, Any]], removed: bool) -> None:
        from actors.node.cluster_security import change_acls

        live = [self._cluster.machines[id].node for id in self._live_brokers()]
        authorizers = [node.listener.authorizer for node in live if node is not None]
        applied = change_acls(self._cluster.admin, entries, removed, lambda: authorizers)
        self._run_until(applied, "not all brokers know the ACLs")

    def _kill(self, broker_id: int) -> None:
        self._live(broker_id)
        self._cluster.kill(broker_id)

    def _stop_broker(self, broker_id: int) -> None:
        self._live(broker_id)
        self._cluster.leave(broker_id)
        self._run_until(lambda: self._cluster.machines[broker_id].node is None, f"broker {broker_id} did not stop")

    def _start_broker(self, broker_id: int) -> None:
        self._check_exists(broker_id)
        if broker_id in self.live_brokers:
            raise ClusterError(f"broker {broker_id} is already running")
        self._run_until(
            lambda: not self._cluster.exists(f"/brokers/ids/{broker_id}"),
            f"the session of broker {broker_id} did not expire",
        )
        self._cluster.start(broker_id)
        self._run_until(lambda: self._is_ready(broker_id), f"broker {broker_id} did not start")

    def _expire_session(self, broker_id: int) -> None:
        self._live(broker_id)
        self._cluster.expire(broker_id)
        self._run_until(
            lambda: self._cluster.exists(f"/brokers/ids/{broker_id}"), f"broker {broker_id} did not register again"
        )

    def _partition_network(self, a: int, b: int) -> None:
        from actors.simulation.simulated_cluster import host_of

        self._check_exists(a)
        self._check_exists(b)
        if a == b:
            raise ClusterError(f"broker {a} cannot be partitioned from itself")
        for pair in ((host_of(a), host_of(b)), (host_of(b), host_of(a))):
            self._cluster.cut(*pair)
            self._cut.append(pair)

    def _cut_clients(self, broker_id: int) -> None:
        from actors.simulation.simulated_cluster import CLIENT, host_of

        self._check_exists(broker_id)
        for pair in ((CLIENT, host_of(broker_id)), (host_of(broker_id), CLIENT)):
            self._cluster.cut(*pair)
            self._cut.append(pair)

    def _heal_network(self) -> None:
        while self._cut:
            self._cluster.mend(*self._cut.pop())

    def _inject_fault(self, kind: str, **options: Any) -> int:
        from actors.gateway.request_faults import KINDS, FaultError, RequestFault

        if kind not in KINDS:
            raise ClusterError(f"{kind}: a simulated cluster has only faults of requests: {', '.join(KINDS)}")
        try:
            fault = RequestFault(kind, **options)
        except (FaultError, TypeError) as error:
            raise ClusterError(f"{kind}: {error}") from None
        self._request_faults.active.append(fault)
        self._injected.append(fault)
        return len(self._injected)

    def _fault(self, number: int) -> dict[str, int]:
        fault = self._injected[number - 1]
        return {"calls": fault.calls, "hits": fault.hits}

    def _remove_fault(self, number: int) -> None:
        fault = self._injected[number - 1]
        if fault in self._request_faults.active:
            self._request_faults.active.remove(fault)

    def _clear_faults(self) -> None:
        self._request_faults.active.clear()

    def _faults_never_met(self) -> list[str]:
        return [str(fault) for fault in self._injected if not fault.hits]

    def _requests(self, **which: Any) -> list[dict[str, Any]]:
        from actors.gateway.request_faults import FaultError

        try:
            return self._request_faults.requests(**which)
        except FaultError as error:
            raise ClusterError(f"requests: {error}") from None

    def _live_brokers(self) -> list[int]:
        return [id for id, machine in sorted(self._cluster.machines.items()) if machine.node is not None]

    def ask(self, broker_id: int, request: Any, timeout: float = PATIENCE, user: str | None = None) -> Any:
        """Send a request to a broker; return the response. Both are internal messages (`messages.apis`).

        With an authorizer (the setting `authorizer.class.name`), `user` is judged by the ACLs. Without a user, the
        client is a super user.

        Raises:
            ClusterError: The broker does not exist, does not respond, or does not know such a request.
        """
        from messages.apis import API_BY_REQUEST

        check("ask", timeout=timeout, **({} if user is None else {"user": user}))
        self._check_exists(broker_id)
        if type(request) not in API_BY_REQUEST:
            raise ClusterError(f"ask: request={request!r:.100} must be a request, such as MetadataRequest")
        answers: list[Any] = []
        self._cluster.ask(broker_id, request, answers.append, timeout, *(() if user is None else (user,)))
        self._run_until(lambda: answers, f"broker {broker_id} did not respond")
        if answers[0] is None:
            raise ClusterError(f"broker {broker_id} did not respond to {type(request).__name__}")
        return answers[0]

    def _is_ready(self, broker_id: int) -> bool:
        node = self._cluster.machines[broker_id].node
        return node is not None and node.ready is not None

    def _check_exists(self, broker_id: int) -> None:
        check("SimulatedCluster", broker_id=broker_id)
        if not 0 <= broker_id < self.brokers:
            raise ClusterError(
                f"broker {broker_id} does not exist; brokers: {', '.join(map(str, range(self.brokers)))}"
            )

    def _live(self, broker_id: int) -> None:
        if broker_id not in self.live_brokers:
            raise ClusterError(
                f"broker {broker_id} is not running; running brokers: "
                f"{', '.join(map(str, self.live_brokers)) or 'none'}"
            )

    def _run_until(self, good: Callable[[], object], otherwise: str) -> None:
        if not self._cluster.run_until(good, PATIENCE):
            raise ClusterError(f"{otherwise} within {PATIENCE:g} s of virtual time")
