"""The operations of a cluster for tests, declared once.

`KafkaCluster`, `AsyncKafkaCluster`, `SimulatedCluster` and the JSON lines of `kafka-actors fixture` follow from this
module.

Rule 1: an operation's name and arguments are those of its JSON line; its docstring says what the operation waits for.
Rule 2: CHECKS has the check of each argument, by the argument's name. `check_arguments` applies the checks before an
        operation is sent, and again in the process of the cluster, because other languages also send operations.
"""

from __future__ import annotations

import base64
import operator
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cache, wraps
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, overload

P = ParamSpec("P")
T = TypeVar("T")

HOST = "127.0.0.1"
MAX_INT = 2**31 - 1
MAX_SECONDS = MAX_INT // 1000
"""Largest number of seconds whose milliseconds are an int32, as those of Kafka's settings and requests."""


class ClusterError(Exception):
    """An operation on the cluster failed; the exception's message is the reason."""


class UnknownPartition(ClusterError):
    """The partition does not exist, or never had a leader."""


__tracebackhide__ = operator.methodcaller("errisinstance", (ClusterError, TimeoutError))
"""pytest leaves this module's frames out of a traceback that ends in these errors."""


# ---------------------------------------------------------------------------------------------------------- arguments


class Check(NamedTuple):
    """The check of an argument: a description of valid values, and a function that returns whether a value is valid.

    `convert` returns the value as it is sent.
    """

    text: str
    accepts: Callable[[Any], bool]
    convert: Callable[[Any], Any] = lambda value: value


def _optional(check: Check) -> Check:
    return Check(f"{check.text}, or None", lambda value: value is None or check.accepts(value), check.convert)


def _integer(low: int, high: int = MAX_INT) -> Check:
    text = f"an integer of at least {low}" if high == MAX_INT else f"an integer from {low} to {high}"
    return Check(text, lambda value: _is_number(value, int) and low <= value <= high)


def _number(low: float, high: float, text: str) -> Check:
    return Check(text, lambda value: _is_number(value, int | float) and low <= value <= high)


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _text(shortest: int = 1, longest: int = 32_767) -> Check:
    def accepts(value: object) -> bool:
        try:
            return isinstance(value, str) and shortest <= len(value.encode()) <= longest and "\0" not in value
        except UnicodeEncodeError:
            return False

    return Check(f"a text of {shortest} to {longest} bytes", accepts)


def _one_of(values: tuple[str, ...]) -> Check:
    return Check(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


def _setting(value: object) -> str | None:
    """Return the text of a setting's value, as in server.properties; None if it has none."""
    if value is None or isinstance(value, bytes | Mapping | list | tuple | set):
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


_BROKER = _integer(0)
_SETTINGS = Check(
    "settings by name, such as {'retention.ms': 1000}",
    lambda value: (
        isinstance(value, Mapping)
        and all(_text().accepts(name) and _text(0).accepts(_setting(setting)) for name, setting in value.items())
    ),
    lambda value: {name: _setting(setting) for name, setting in value.items()},
)

_USERS = Check(
    "passwords by user, such as {'alice': 'secret'}",
    lambda value: (
        isinstance(value, Mapping)
        and all(_text().accepts(name) and _text().accepts(password) for name, password in value.items())
    ),
    dict,
)
_ACLS = Check(
    "a list of ACLs, such as [{'allow': 'alice', 'operation': 'Read', 'topic': 'orders'}]",
    lambda value: isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value),
    lambda value: [dict(each) for each in value],
)
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL", "SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
"""The security protocols and the SASL mechanisms of secured clusters."""
CLIENTS = ("librdkafka", "kafka-python", "aiokafka", "java")
"""The client libraries whose settings a secured cluster can return."""

FAULTS: dict[str, str] = {
    "error": "code",
    "respond": "fields",
    "delay": "seconds",
    "throttle": "milliseconds",
    "slow_disk": "seconds",
    "clock_jump": "jump",
    **dict.fromkeys(("disconnect", "lose_response", "blackhole"), ""),
    **dict.fromkeys(("pause", "mute", "full_disk", "broken_disk", "session_expiry"), ""),
}
"""Kind of fault -> name of the check of its `value`; "" if it has none."""

CHECKS: dict[str, Check] = {
    "directory": Check(
        "the path of a folder", lambda value: isinstance(value, str | os.PathLike) and _text().accepts(str(value)), str
    ),
    "brokers": _integer(1, 100),
    "log_dirs": _integer(1, 10),
    "settings": _optional(_SETTINGS),
    "session_timeout": _number(0.05, MAX_SECONDS, f"a number of seconds from 0.05 to {MAX_SECONDS}"),
    **dict.fromkeys(("speaks", "protocol"), _optional(_text())),
    "security": _optional(_one_of(PROTOCOLS)),
    "mechanism": _optional(_one_of(MECHANISMS)),
    "users": _optional(_USERS),
    "acls": _optional(_ACLS),
    "ui": Check("True or False", lambda value: isinstance(value, bool)),
    **dict.fromkeys(("user", "password"), _text()),
    "client": _one_of(CLIENTS),
    "host": _text(0),
    "advertised_host": _optional(_text()),
    **dict.fromkeys(("topic", "group"), _text()),
    "partitions": _integer(1, 10_000),
    "replication_factor": _optional(_integer(1, 32_767)),
    "config": _optional(_SETTINGS),
    "partition": _integer(0),
    **dict.fromkeys(("broker_id", "a", "b", "broker", "to"), _BROKER),
    "read_committed": Check("True or False", lambda value: isinstance(value, bool)),
    "other_than": _optional(_BROKER),
    "kind": Check(f"one of {', '.join(FAULTS)}", lambda value: isinstance(value, str) and value in FAULTS),
    "api": _optional(_text()),
    "client_id": _optional(_text(0)),
    "fields": Check(
        "fields of the response by name, such as {'error_code': 6}",
        lambda value: isinstance(value, Mapping) and all(isinstance(name, str) for name in value),
    ),
    "since": _number(0, float("inf"), "a time in seconds of at least 0"),
    "code": Check(
        "an error code of Kafka, as a number or a name such as NOT_LEADER_OR_FOLLOWER",
        lambda value: _text().accepts(value) or (_integer(-1, 32_767).accepts(value) and value != 0),
    ),
    "seconds": _number(1e-6, MAX_SECONDS, f"a number of seconds above 0, at most {MAX_SECONDS}"),
    "milliseconds": _integer(1),
    "jump": Check(
        "a number of seconds other than 0, from -1000000000 to 1000000000",
        lambda value: _number(-1e9, 1e9, "").accepts(value) and value != 0,
    ),
    **dict.fromkeys(("n", "first", "last", "number"), _integer(1)),
    "times": _optional(_integer(1)),
    "probability": _number(0, 1, "a number from 0 to 1"),
    "seed": _integer(-(2**63), 2**63 - 1),
    "timeout": _number(0, float("inf"), "a number of seconds of at least 0"),
    "condition": Check("a function without arguments", callable),
}
"""Argument -> its check."""


def check(operation: str, **arguments: object) -> None:
    """Raise ClusterError for the first argument that its check rejects."""
    for name, value in arguments.items():
        if name in CHECKS and not CHECKS[name].accepts(value):
            raise ClusterError(f"{operation}: {name}={value!r:.100} must be {CHECKS[name].text}")


def check_arguments(operation: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operation as they are sent.

    Raises:
        ClusterError: A check rejects an argument.
    """
    if operation == "inject_fault":  # a field that is None has its default; the check of `value` depends on `kind`
        arguments = {name: value for name, value in arguments.items() if value is not None}
        kind, value = arguments.get("kind"), arguments.get("value")
        check(operation, kind=kind)
        name = FAULTS[str(kind)]
        if name:
            check(str(kind), **{name: value})
        elif value is not None:
            raise ClusterError(f"{kind}: value={value!r:.100} is not needed")
    check(operation, **arguments)
    return {
        name: CHECKS[name].convert(value) if name in CHECKS and value is not None else value
        for name, value in arguments.items()
    }


# ------------------------------------------------------------------------------------------------------- declarations


class ReceivedRequest(NamedTuple):
    """A request that a broker has received from a client.

    Attributes:
        api: Kafka's name of the API.
        version: The version of the request.
        broker: The id of the broker.
        client_id: The client id.
        received_at: Seconds since 1970; in virtual time, since the start.
        fields: The fields of the request by name. Messages inside it are mappings, too; lists have their entries.
            Produce has the headers of record batches, without the records. Bytes are a text in base64.
    """

    api: str
    version: int
    broker: int
    client_id: str
    received_at: float
    fields: Mapping[str, Any]


class StoredRecord(NamedTuple):
    """A record of a topic; `timestamp` is in ms, `headers` are pairs of name and value."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def _stored_record(record: Mapping[str, Any]) -> StoredRecord:
    """Return a record whose bytes are in base64."""
    data = {name: _bytes(record[name]) for name in ("key", "value")}
    return StoredRecord(**{**record, **data, "headers": [(name, _bytes(value)) for name, value in record["headers"]]})


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class Blocking:
    """An object whose operations return when they are complete."""

    def _ask(self, do: str, **arguments: object) -> Any:
        """Check the arguments of an operation, execute the operation, and return its result."""
        raise NotImplementedError


class Asynchronous:
    """An object for asyncio: its operations are coroutines, which execute those of `_blocking` in a thread."""

    _blocking: Blocking


class operation(Generic[P, T]):
    """Declares a method of blocking objects, which is a coroutine method of objects for asyncio."""

    def __init__(self, function: Callable[Concatenate[Any, P], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, target: None, owner: type) -> Callable[Concatenate[Any, P], T]: ...
    @overload
    def __get__(self, target: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, target: Asynchronous, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, target: object, owner: type) -> Any:
        function: Any = _in_thread(self.function) if issubclass(owner, Asynchronous) else self.function
        return function if target is None else function.__get__(target, owner)


class state(Generic[T]):
    """Declares a property of blocking objects, which is a coroutine method of objects for asyncio."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, target: None, owner: type) -> Any: ...
    @overload
    def __get__(self, target: Blocking, owner: type) -> T: ...
    @overload
    def __get__(self, target: Asynchronous, owner: type) -> Callable[[], Coroutine[Any, Any, T]]: ...
    def __get__(self, target: object, owner: type) -> Any:
        member: Any = _in_thread(self.function) if issubclass(owner, Asynchronous) else property(self.function)
        return member if target is None else member.__get__(target, owner)


@cache
def _in_thread(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(function)
    async def coroutine(target: Asynchronous, *args: object, **kwargs: object) -> Any:
        import asyncio  # imported here, to keep `import kafka_actors` fast

        return await asyncio.to_thread(function, target._blocking, *args, **kwargs)

    return coroutine


def takes_arguments_of(
    kind: Callable[P, Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, P], None]]:
    """Give an `__init__` the arguments of another class."""
    function: Any = kind
    return wraps(function.__init__)


class SharedOperations:
    """The operations of all clusters, in real and in virtual time.

    Each raises ClusterError if an argument is invalid, if a broker or a topic does not exist or is not in the required
    state, or if the effect is not complete in time.
    """

    @operation
    def create_topic(
        self: Blocking,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, and wait until all brokers know the leaders of its partitions.

        Args:
            topic: Name of the topic.
            partitions: Number of partitions.
            replication_factor: Number of replicas of each partition; by default three, or all brokers if there are
                fewer.
            config: Topic configs by name, such as {"retention.ms": 1000}.

        Raises:
            ClusterError: The topic exists already, or the arguments are invalid; the message has Kafka's reason.
        """
        self._ask(
            "create_topic", topic=topic, partitions=partitions, replication_factor=replication_factor, config=config
        )

    @operation
    def stop_broker(self: Blocking, broker_id: int) -> None:
        """Stop a broker by a controlled shutdown, which moves its leaderships to other brokers."""
        self._ask("stop_broker", broker_id=broker_id)

    @operation
    def kill(self: Blocking, broker_id: int) -> None:
        """Stop a broker without a shutdown, as `kill -9` does.

        The ZooKeeper session of the broker expires after its timeout. Then the other brokers detect the failure.
        """
        self._ask("kill", broker_id=broker_id)

    @operation
    def start_broker(self: Blocking, broker_id: int) -> None:
        """Start a stopped or killed broker again, with its data and port, after its last session has expired."""
        self._ask("start_broker", broker_id=broker_id)

    @operation
    def expire_session(self: Blocking, broker_id: int) -> None:
        """Expire a broker's ZooKeeper session, and wait until it has registered with a new session and broker epoch."""
        self._ask("expire_session", broker_id=broker_id)

    @state
    def controller_id(self: Blocking) -> int | None:
        """The controller's id, read from ZooKeeper; None if there is no controller."""
        found: int | None = self._ask("controller_id")
        return found

    @state
    def live_brokers(self: Blocking) -> list[int]:
        """The ids of the running brokers."""
        return [int(id) for id in self._ask("live_brokers")]

    @operation
    def leader_of(self: Blocking, topic: str, partition: int = 0) -> int | None:
        """Read the leader of a partition from ZooKeeper.

        Returns:
            The id of the leader; None if there is none.

        Raises:
            UnknownPartition: The partition does not exist, or never had a leader.
        """
        leader: int | None = self._ask("leader_of", topic=topic, partition=partition)
        return leader

    @operation
    def isr_of(self: Blocking, topic: str, partition: int = 0) -> list[int]:
        """Read the in-sync replicas of a partition from ZooKeeper.

        Returns:
            The ids of the brokers in the ISR.

        Raises:
            UnknownPartition: The partition does not exist, or never had a leader.
        """
        return [int(id) for id in self._ask("isr_of", topic=topic, partition=partition)]

    @operation
    def requests(
        self: Blocking, api: str | None = None, client_id: str | None = None, since: float = 0.0
    ) -> list[ReceivedRequest]:
        """Return the requests that brokers have received from clients, in this order, without waiting for more.

        A broker keeps a request also if a fault affects it. Only the last 10,000 requests of the cluster are kept.

        Args:
            api: Kafka's name of the API, such as "Produce"; by default requests of all APIs.
            client_id: Only the requests from this client id.
            since: Only requests that were received at or after this time: `time.time()`, in virtual time `now`.

        Raises:
            ClusterError: The API is unknown.
        """
        return [ReceivedRequest(**each) for each in self._ask("requests", api=api, client_id=client_id, since=since)]

    @operation
    def add_acls(self: Blocking, acls: Sequence[Mapping[str, object]]) -> None:
        """Add ACLs in the form of the argument `acls` of the cluster, and wait until all brokers apply them.

        Raises:
            ClusterError: An ACL is invalid, or the cluster has no authorizer.
        """
        self._ask("add_acls", acls=acls)

    @operation
    def remove_acls(self: Blocking, acls: Sequence[Mapping[str, object]]) -> None:
        """Remove ACLs, and wait until no broker applies them. ACLs that do not exist are ignored.

        Raises:
            ClusterError: An ACL is invalid, or the cluster has no authorizer.
        """
        self._ask("remove_acls", acls=acls)


class ClusterOperations(SharedOperations):
    """The operations of clusters in real time."""

    @operation
    def client_config(self: Blocking, user: str, client: str = "librdkafka") -> dict[str, Any]:
        """Return the settings with which a client connects to this secured cluster as `user`.

        Args:
            user: One of the cluster's users.
            client: "librdkafka" (also for confluent-kafka), "kafka-python", "aiokafka" (the settings are keyword
                arguments) or "java" (properties, also for a file for Kafka's `--command-config`).

        Raises:
            ClusterError: The cluster is not secured, or there is no such user.
        """
        settings: dict[str, Any] = self._ask("client_config", user=user, client=client)
        if client == "aiokafka" and "ssl_cafile" in settings:
            import ssl  # imported here, to keep `import kafka_actors` fast

            settings["ssl_context"] = context = ssl.create_default_context(cafile=settings.pop("ssl_cafile"))
            if "ssl_certfile" in settings:
                context.load_cert_chain(settings.pop("ssl_certfile"))
        return settings

    @operation
    def add_user(self: Blocking, user: str, password: str) -> None:
        """Add a user to this secured cluster, or change its password, and wait until all brokers accept it.

        Connections that have authenticated before stay open. With SSL the user gets a new client certificate.

        Raises:
            ClusterError: The cluster is not secured, or its mechanism is PLAIN, whose users are settings.
        """
        self._ask("add_user", user=user, password=password)

    @operation
    def delete_topic(self: Blocking, topic: str) -> None:
        """Delete a topic, and wait until it is removed from ZooKeeper.

        All brokers with replicas of the topic must be running.
        """
        self._ask("delete_topic", topic=topic)

    @operation
    def compact(self: Blocking, topic: str) -> None:
        """Clean all replicas of a compacted topic now, and wait until everything written so far is cleaned.

        The active segment ends first, so that its records are cleaned, too. A tombstone is removed by the first
        cleaning that comes `delete.retention.ms` after the first one that met it.

        Raises:
            ClusterError: The topic is not compacted, a partition has no live leader, or a part of a log may not be
                cleaned: because of an open transaction, of `min.compaction.lag.ms`, or of damage.
        """
        self._ask("compact", topic=topic)

    @operation
    def apply_retention(self: Blocking, topic: str) -> None:
        """Delete the segments of a topic that exceed `retention.ms` or `retention.bytes`, on all running brokers.

        A segment is deleted only as a whole, and only below the high watermark; see `segment.bytes` and `segment.ms`.
        """
        self._ask("apply_retention", topic=topic)

    @operation
    def log_dirs_of(self: Blocking, broker_id: int) -> list[str]:
        """Return the paths of a broker's log directories; see `log_dirs`."""
        return [str(path) for path in self._ask("log_dirs_of", broker_id=broker_id)]

    @operation
    def move_replica(self: Blocking, topic: str, partition: int, directory: str | os.PathLike[str]) -> None:
        """Move a replica to another log directory of its broker, and wait until it is there.

        Args:
            topic: Name of the topic.
            partition: Number of the partition.
            directory: Path of the log directory, one of `log_dirs_of` its broker.

        Raises:
            ClusterError: No running broker has this directory, or the broker has no replica of the partition.
        """
        self._ask("move_replica", topic=topic, partition=partition, directory=directory)

    @operation
    def add_broker(self: Blocking) -> int:
        """Start one more broker, and wait until all other brokers know it.

        Returns:
            The id of the new broker: the next unused number.
        """
        return int(self._ask("add_broker")["broker_id"])

    @operation
    def remove_broker(self: Blocking, broker_id: int) -> None:
        """Move a broker's replicas to the other running brokers, and stop it for good.

        A partition for which no other broker is left has fewer replicas afterwards. The id is not used again.
        """
        self._ask("remove_broker", broker_id=broker_id)

    @operation
    def restart(self: Blocking, broker_id: int, speaks: str | None = None) -> None:
        """Stop a broker by a controlled shutdown, and start it again with its data and port.

        If `speaks` is set, clients find the API versions of this Kafka release from now on: one broker after another,
        a rolling upgrade.
        """
        self._ask("restart", broker_id=broker_id, speaks=speaks)

    @operation
    def pause(self: Blocking, broker_id: int) -> None:
        """Suspend a broker until `resume`, as SIGSTOP does: its connections stay open, but it handles no requests.

        Its ZooKeeper session expires after `session_timeout` seconds; the controller then elects new leaders.
        """
        self._ask("pause", broker_id=broker_id)

    @operation
    def resume(self: Blocking, broker_id: int) -> None:
        """Resume a paused broker, which then handles the requests that it received meanwhile."""
        self._ask("resume", broker_id=broker_id)

    @operation
    def move_controller(self: Blocking) -> int:
        """Make another running broker the controller.

        Returns:
            The id of the new controller.
        """
        return int(self._ask("move_controller"))

    @operation
    def move_leader(self: Blocking, topic: str, to: int, partition: int = 0) -> None:
        """Make an in-sync replica the leader of a partition, and its preferred leader.

        Raises:
            ClusterError: Broker `to` has no in-sync replica of the partition.
        """
        self._ask("move_leader", topic=topic, to=to, partition=partition)

    @operation
    def elect_preferred(self: Blocking) -> None:
        """Elect the preferred leader of each partition whose preferred leader is in sync."""
        self._ask("elect_preferred")

    @operation
    def coordinator_of(self: Blocking, group: str) -> int:
        """Return the id of the broker that coordinates a consumer group."""
        return int(self._ask("coordinator_of", group=group))

    @operation
    def move_coordinator(self: Blocking, group: str, to: int) -> None:
        """Make a broker the coordinator of a consumer group, and of the other groups in its partition.

        Raises:
            ClusterError: Broker `to` has no in-sync replica of the group's partition of `__consumer_offsets`.
        """
        self._ask("move_coordinator", group=group, to=to)

    @operation
    def records(self: Blocking, topic: str, read_committed: bool = False) -> list[StoredRecord]:
        """Return the records of a topic that consumers can read now, by partition and offset.

        Args:
            topic: Name of the topic.
            read_committed: Whether to leave out the records of open and aborted transactions.
        """
        return [_stored_record(each) for each in self._ask("records", topic=topic, read_committed=read_committed)]

    @operation
    def end_offsets(self: Blocking, topic: str) -> list[int]:
        """Return the high watermark of each partition of a topic, by partition."""
        return [int(offset) for offset in self._ask("end_offsets", topic=topic)]

    @state
    def topics(self: Blocking) -> list[str]:
        """The topics, without Kafka's internal ones."""
        return [str(name) for name in self._ask("topics")]


OPERATIONS = (
    *("start", "stop", "sight", "offsets", "state_of", "partition_network", "cut_clients", "heal_network"),
    "flush_traces",
    *("inject_fault", "fault", "remove_fault", "clear_faults", "faults_never_met"),
    *(name for kind in (SharedOperations, ClusterOperations) for name in vars(kind) if not name.startswith("_")),
)
"""The operations that a JSON line can name. Those before the last line are not methods of all clusters."""


class NetworkPartition:
    """A cut in the network. If it is used as a context manager, it ends when the `with` block ends."""

    def __init__(self, cluster: PartitionOperations) -> None:
        self._cluster = cluster

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc_info: object) -> None:
        self._cluster.heal_network()


class PartitionOperations(Blocking):
    """The operations of clusters for blocking code that cut connections."""

    def partition_network(self, a: int, b: int) -> NetworkPartition:
        """Cut the connection between two brokers; clients and ZooKeeper still reach both.

        A follower leaves the ISR only if its leader has records that it lacks: without new records, it stays.

        Args:
            a: Id of a broker.
            b: Id of another broker.

        Returns:
            A context manager. At the end of its `with` block, it restores the connections between all brokers, as
            `heal_network` does.
        """
        self._ask("partition_network", a=a, b=b)
        return NetworkPartition(self)

    def cut_clients(self, broker_id: int) -> NetworkPartition:
        """Cut a broker from its clients, as if its machine were dead to them; other brokers and ZooKeeper reach it.

        Connections of clients stay open and silent, and new ones time out. Existing ones are closed at the end.

        Returns:
            A context manager, as for `partition_network`.
        """
        self._ask("cut_clients", broker_id=broker_id)
        return NetworkPartition(self)

    def heal_network(self) -> None:
        """Restore the connections between all brokers, and between clients and brokers."""
        self._ask("heal_network")
