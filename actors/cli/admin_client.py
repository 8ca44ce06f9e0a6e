"""AdminClient sends the requests of a command to the brokers of a cluster, one request at a time.

Rule 1: A command finds brokers through --bootstrap-server, in the folder of a cluster (--dir), or through their
        registrations in ZooKeeper (--zookeeper).
Rule 2: A request that fails temporarily (a controller or coordinator is being elected, groups are being loaded) is
        retried until the timeout.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

import attrs
import click

from actors.cli.app import FILE, CommandFailed
from actors.cli.cluster_file import CLIENT_PROPERTIES, read_cluster
from actors.cli.usage_errors import wrong_use
from actors.cli.zookeeper import cluster_options, places_in, zookeeper
from actors.core.security.jaas import parse_jaas
from actors.core.security.sasl_exchange import AuthenticationFailed
from actors.node.free_ports import HOST
from actors.node.properties import read_properties
from actors.node.security_settings import MODULES, SPOKEN_PROTOCOLS, Messages, client_messages
from actors.node.tls_settings import context_of, read_stores
from messages import errors
from messages.apis import describe_configs
from messages.apis.alter_configs import ChangedResource, ConfigChange
from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.list_partition_reassignments import ListPartitionReassignmentsRequest, OngoingPartitionReassignment
from messages.apis.metadata import MetadataBroker, MetadataRequest, MetadataResponse, MetadataTopic
from messages.apis.sasl_authenticate import SaslAuthenticateRequest
from messages.apis.sasl_handshake import SaslHandshakeRequest
from messages.cluster import NO_CONTROLLER, TopicPartition
from messages.error_names import name_of
from messages.security import Secret
from messages.vocabulary import AnyMessage, Message
from messages.wire import FrameReader, WireError, decode_response, encode_request

METADATA_VERSION, FIND_VERSION, DESCRIBE_VERSION, ALTER_VERSION = 8, 2, 2, 1
CLIENT_ID = "kafka-actors"
RETRY_SECONDS = 0.1
TO_BE_ASKED_AGAIN = frozenset(
    {
        errors.COORDINATOR_LOAD_IN_PROGRESS,
        errors.COORDINATOR_NOT_AVAILABLE,
        errors.NOT_COORDINATOR,
        errors.NOT_CONTROLLER,
    }
)

MAY_BE_MOVING = frozenset(
    {
        errors.LEADER_NOT_AVAILABLE,
        errors.NOT_LEADER_OR_FOLLOWER,
        errors.REPLICA_NOT_AVAILABLE,
        errors.KAFKA_STORAGE_ERROR,
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Error codes of a partition that a later request to its new leader may not return."""

R = TypeVar("R")
Command = Callable[..., int]


class RetriableError(Exception):
    """A broker returned a retriable error code."""


@attrs.frozen(repr=False)
class ClientSecurity:
    """How a client connects.

    Attributes:
        protocol: The security protocol of the listener.
        tls: The context of TLS; None without TLS.
        mechanism: The SASL mechanism; "" without SASL.
        messages: Starts an exchange of the mechanism; None without SASL.
    """

    protocol: str = "PLAINTEXT"
    tls: ssl.SSLContext | None = None
    mechanism: str = ""
    messages: Messages | None = None


def read_client_security(path: Path) -> ClientSecurity:
    """Return the security in a file of client properties.

    Raises:
        ValueError: A setting is invalid; the text does not contain a secret.
        OSError: The file cannot be read.
    """
    properties = {name: value.strip() for name, value in read_properties(path).items()}

    def value_of(name: str, default: str = "") -> str:
        return properties.get(name, default)

    protocol = properties.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in SPOKEN_PROTOCOLS:
        raise ValueError(f"security.protocol={protocol} is not one of {', '.join(SPOKEN_PROTOCOLS)}")
    tls = None
    if protocol.endswith("SSL"):
        tls = context_of(value_of, ssl.PROTOCOL_TLS_CLIENT, read_stores(value_of))
    if not protocol.startswith("SASL"):
        return ClientSecurity(protocol, tls)
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in MODULES:
        raise ValueError(f"sasl.mechanism={mechanism} is not one of {', '.join(MODULES)}")
    entry = parse_jaas(properties.get("sasl.jaas.config", ""))
    messages = client_messages(mechanism, entry)
    if entry.module != MODULES[mechanism] or messages is None:
        raise ValueError(f"sasl.jaas.config needs {MODULES[mechanism]} with a credential of {mechanism}")
    return ClientSecurity(protocol, tls, mechanism, messages)


class AdminClient:
    """A client of a cluster; each operation takes at most `timeout` seconds.

    Args:
        find_brokers: Function that returns the addresses of some brokers; it is called before the first request.
        timeout: Seconds.
        security: How to connect.
    """

    def __init__(
        self,
        find_brokers: Callable[[], Sequence[tuple[str, int]]],
        timeout: float,
        security: ClientSecurity = ClientSecurity(),
    ) -> None:
        self._security = security
        self._find_brokers = find_brokers
        self._bootstrap: Sequence[tuple[str, int]] = ()
        self._timeout = timeout
        self._links: dict[int, tuple[socket.socket, FrameReader]] = {}
        self._brokers: dict[int, MetadataBroker] = {}
        self._correlation_id = 0

    @property
    def timeout_ms(self) -> int:
        """The timeout in ms, for requests that have it as a field."""
        return int(self._timeout * 1000)

    def close(self) -> None:
        """Close all connections."""
        for link, _ in self._links.values():
            link.close()

    def metadata(self, topics: Sequence[str] | None = ()) -> MetadataResponse:
        """Return the brokers and topics from the first bootstrap server that responds.

        Args:
            topics: Topics to return; None for all.

        Raises:
            CommandFailed: No bootstrap server responds.
        """
        request = MetadataRequest(METADATA_VERSION, None if topics is None else tuple(topics), False)
        reasons = []
        self._bootstrap = self._bootstrap or self._find_brokers()
        for host, port in self._bootstrap:
            try:
                with self._connect(host, port) as link:
                    found: MetadataResponse = self._exchange(link, FrameReader(), request)
                self._brokers = {broker.id: broker for broker in found.brokers}
                return found
            except (OSError, WireError) as error:
                reasons.append(f"{host}:{port}: {error}")
        raise CommandFailed(f"no bootstrap server responds: {'; '.join(reasons)}")

    def topics(self, names: Sequence[str]) -> dict[str, MetadataTopic]:
        """Return the topics with these names.

        Raises:
            CommandFailed: A topic does not exist.
        """
        found = {topic.name: topic for topic in self.metadata(names).topics}
        for name in names:
            if found[name].error_code != errors.NONE:
                raise CommandFailed(f"topic '{name}': {name_of(found[name].error_code)}")
        return found

    def by_leader(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, int]]:
        """Return the partitions by leader, and the error codes of the partitions without a leader."""
        led: dict[int, list[TopicPartition]] = {}
        missing = dict.fromkeys(partitions, errors.UNKNOWN_TOPIC_OR_PARTITION)
        for topic in self.metadata(sorted({partition.topic for partition in partitions})).topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition)
                if partition not in missing:
                    continue
                if each.leader >= 0:
                    del missing[partition]
                    led.setdefault(each.leader, []).append(partition)
                else:
                    missing[partition] = each.error_code or errors.LEADER_NOT_AVAILABLE
        return led, missing

    def ask_leaders(
        self, partitions: Collection[TopicPartition], request: Callable[[list[TopicPartition]], AnyMessage]
    ) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, int]]:
        """Send each leader a request for its partitions. If a leader may be moving, retry until the timeout.

        Args:
            partitions: The partitions.
            request: Function that returns the request for the partitions of one leader. The response has `partitions`,
                each with its `partition` and `error_code`.

        Returns:
            (The successful results by partition, the error codes of the other partitions).
        """
        results: dict[TopicPartition, Any] = {}
        refused: dict[TopicPartition, int] = {}
        until = time.monotonic() + self._timeout
        left = list(partitions)
        while left:
            led, missing = self.by_leader(left)
            refused |= missing
            for leader, own in led.items():
                for result in self.ask(leader, request(own)).partitions:
                    if result.error_code == errors.NONE:
                        results[result.partition] = result
                        refused.pop(result.partition, None)
                    else:
                        refused[result.partition] = result.error_code
            left = [partition for partition, code in refused.items() if code in MAY_BE_MOVING]
            if left and time.monotonic() > until:
                break
            if left:
                time.sleep(RETRY_SECONDS)
        return results, refused

    def ids(self) -> list[int]:
        """Return the ids of the live brokers."""
        if not self._brokers:
            self.metadata()
        return list(self._brokers)

    def ask(self, broker: int, request: Message) -> AnyMessage:
        """Return a broker's response.

        Raises:
            CommandFailed: The broker is not alive or does not respond.
        """
        place = self._brokers.get(broker)
        if place is None:
            self.metadata()
            place = self._brokers.get(broker)
        if place is None:
            raise CommandFailed(f"broker {broker} is not alive")
        try:
            if broker not in self._links:
                self._links[broker] = self._connect(place.host, place.port), FrameReader()
            return self._exchange(*self._links[broker], request)
        except (OSError, WireError) as error:
            raise CommandFailed(f"broker {broker} at {place.host}:{place.port}: {error}") from error

    def ask_controller(self, request: Message) -> AnyMessage:
        """Return the controller's response, which may have errors about single topics.

        Raises:
            CommandFailed: No controller responds before the timeout, or it refuses the whole request.
        """

        def ask() -> AnyMessage:
            controller = self.metadata().controller_id
            if controller == NO_CONTROLLER:
                raise RetriableError("there is no controller")
            answer = self.ask(controller, request)
            whole = getattr(answer, "error_code", None)
            codes = {each.error_code for each in answer.topics} & TO_BE_ASKED_AGAIN if whole is None else {whole}
            for code in codes:
                self.check(code, "request to the controller")
            return answer

        return self.in_time(ask)

    def reassignments(self) -> dict[TopicPartition, OngoingPartitionReassignment]:
        """Return the ongoing reassignments by partition."""
        request = ListPartitionReassignmentsRequest(0, self.timeout_ms)
        return {
            TopicPartition(topic.name, each.partition_index): each
            for topic in self.ask_controller(request).topics
            for each in topic.partitions
        }

    def overrides(self, kind: int, name: str) -> list[describe_configs.DescribedConfig]:
        """Return the overrides of a topic or broker, with their synonyms.

        Args:
            kind: describe_configs.TOPIC or BROKER.
            name: Topic or broker id; "" for the defaults of all brokers.
        """
        own = describe_configs.DYNAMIC_TOPIC_CONFIG
        if kind == describe_configs.BROKER:
            own = describe_configs.DYNAMIC_BROKER_CONFIG if name else describe_configs.DYNAMIC_DEFAULT_BROKER_CONFIG
        return [each for each in self.configs(kind, name) if each.config_source == own]

    def configs(self, kind: int, name: str) -> list[describe_configs.DescribedConfig]:
        """Return all configs of a topic or broker (see `overrides`)."""
        resource = describe_configs.DescribeConfigsResource(kind, name)
        request = describe_configs.DescribeConfigsRequest(DESCRIBE_VERSION, (resource,), include_synonyms=True)
        (result,) = self.ask(self._describer(kind, name), request).results
        check_result(result)
        return sorted(result.configs, key=attrgetter("name"))

    def alter_configs(self, kind: int, name: str, changes: Iterable[ConfigChange]) -> None:
        """Set and delete overrides of a topic or broker (see `overrides`).

        Raises:
            CommandFailed: The broker refuses a change.
        """
        resource = ChangedResource(kind, name, tuple(changes))
        request = IncrementalAlterConfigsRequest(ALTER_VERSION, (resource,))
        (result,) = self.ask(self._describer(kind, name), request).responses
        check_result(result)

    def _describer(self, kind: int, name: str) -> int:
        """Return the broker that receives requests about a resource: only a broker itself knows its own configs."""
        return int(name) if kind == describe_configs.BROKER and name else self.ids()[0]

    def coordinator(self, group: str) -> MetadataBroker:
        """Return the coordinator of a group.

        Raises:
            CommandFailed: No coordinator is found before the timeout.
        """

        def find() -> MetadataBroker:
            found = self.ask(self.ids()[0], FindCoordinatorRequest(FIND_VERSION, group))
            self.check(found.error_code, f"search for the coordinator of group '{group}'")
            return MetadataBroker(found.node_id, found.host, found.port)

        return self.in_time(find)

    def ask_coordinator(self, group: str, request: Message, code: Callable[[AnyMessage], int]) -> AnyMessage:
        """Return the response of a group's coordinator.

        Args:
            code: Function that returns the error code in a response.
        """

        def ask() -> AnyMessage:
            answer = self.ask(self.coordinator(group).id, request)
            if code(answer) in TO_BE_ASKED_AGAIN:
                raise RetriableError(f"group '{group}': {name_of(code(answer))}")
            return answer

        return self.in_time(ask)

    def check(self, code: int, what: str) -> None:
        """Check an error code; `what` is the start of the error text.

        Raises:
            RetriableError: The request can be retried.
            CommandFailed: The code is another error.
        """
        if code in TO_BE_ASKED_AGAIN:
            raise RetriableError(f"{what} failed: {name_of(code)}")
        if code != errors.NONE:
            raise CommandFailed(f"{what} failed: {name_of(code)}")

    def in_time(self, work: Callable[[], R]) -> R:
        """Call `work` until it raises no RetriableError, and return its result.

        Raises:
            CommandFailed: The timeout is over.
        """
        until = time.monotonic() + self._timeout
        while True:
            try:
                return work()
            except RetriableError as reason:
                if time.monotonic() > until:
                    raise CommandFailed(f"gave up after {self._timeout:g} s; the last error was: {reason}") from reason
            time.sleep(RETRY_SECONDS)

    def _connect(self, host: str, port: int) -> socket.socket:
        """Return a connection on which the client has authenticated.

        Raises:
            OSError: The broker does not respond, or TLS fails.
            CommandFailed: The authentication fails.
        """
        security, link = self._security, socket.create_connection((host, port), self._timeout)
        try:
            if security.tls is not None:
                link = security.tls.wrap_socket(link, server_hostname=host)
            if security.messages is not None:
                self._authenticate(link, security.mechanism, security.messages())
        except BaseException:
            link.close()
            raise
        return link

    def _authenticate(self, link: socket.socket, mechanism: str, messages: Generator[bytes, bytes, None]) -> None:
        reader = FrameReader()
        answer = self._exchange(link, reader, SaslHandshakeRequest(1, mechanism))
        try:
            if answer.error_code != errors.NONE:
                raise AuthenticationFailed(f"the broker has the SASL mechanisms {', '.join(answer.mechanisms)}")
            token: bytes | None = next(messages)
            while token is not None:
                answer = self._exchange(link, reader, SaslAuthenticateRequest(1, Secret(token)))
                if answer.error_code != errors.NONE:
                    raise AuthenticationFailed(answer.error_message or name_of(answer.error_code))
                try:
                    token = messages.send(answer.auth_bytes)
                except StopIteration:
                    token = None
        except AuthenticationFailed as reason:
            raise CommandFailed(f"authentication failed: {reason}") from reason

    def _exchange(self, link: socket.socket, reader: FrameReader, request: AnyMessage) -> AnyMessage:
        self._correlation_id += 1
        link.sendall(encode_request(request, self._correlation_id, CLIENT_ID))
        while received := link.recv(65536):
            for frame in reader.feed(received):
                return decode_response(type(request), request.version, frame)[1]
        raise ConnectionError("the broker closed the connection without a response")


def places_of(text: str) -> list[tuple[str, int]]:
    """Return the addresses in "host:port,host:port".

    Raises:
        ValueError: An address is invalid.
    """
    places = []
    for each in text.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) <= 65535):
            raise ValueError(f"'{each.strip()}' is not the address of a bootstrap server: expected host:port")
        places.append((host.strip("[]"), int(port)))
    return places


def check_result(result: AnyMessage) -> None:
    """Check the result of a request about one topic, partition or config resource.

    Raises:
        CommandFailed: The result has an error code.
    """
    if result.error_code != errors.NONE:
        raise CommandFailed(getattr(result, "error_message", None) or name_of(result.error_code))


def client_of(
    bootstrap_server: str | None,
    directory: Path | None,
    address: str | None,
    timeout: float,
    command_config: Path | None = None,
) -> AdminClient:
    """Return a client of the cluster that the options of `cluster_options` name.

    Raises:
        click.UsageError: Not exactly one of the options is given, or an address is invalid.
        CommandFailed: The file with the client's properties is invalid.
    """
    if [bootstrap_server, directory, address].count(None) != 2:
        raise wrong_use("Exactly one of --bootstrap-server, --dir and --zookeeper must be specified")
    try:
        places = places_of(bootstrap_server) if bootstrap_server is not None else []
    except ValueError as error:
        raise wrong_use(str(error)) from error

    own = None if directory is None else directory / CLIENT_PROPERTIES
    file = command_config or (own if own is not None and own.exists() else None)
    try:
        security = ClientSecurity() if file is None else read_client_security(file)
    except (ValueError, OSError) as error:
        raise CommandFailed(f"{file}: {error}") from error

    def find_brokers() -> list[tuple[str, int]]:
        if directory is not None:
            return [(HOST, broker["internal"]) for broker in read_cluster(directory)["brokers"]]
        if address is not None:
            with zookeeper(address) as ask:
                return places_in(ask, security.protocol)
        return places

    return AdminClient(find_brokers, timeout, security)


command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    type=FILE,
    help="Kafka's client properties, with which to connect to a secured cluster.",
)


def with_client(timeout_ms: int = 30_000) -> Callable[[Command], Command]:
    """Return a decorator for a command that takes an AdminClient first; it adds the options that name the cluster."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(
            bootstrap_server: str | None,
            directory: Path | None,
            address: str | None,
            timeout: int,
            command_config: Path | None,
            **options: object,
        ) -> int:
            with closing(client_of(bootstrap_server, directory, address, timeout / 1000, command_config)) as client:
                return command(client, **options)

        timeout_option = click.option(
            "--timeout",
            type=click.IntRange(1, 2**31 - 1),
            default=timeout_ms,
            show_default=True,
            metavar="MS",
            help="Maximum time to wait for a response, in milliseconds.",
        )
        return cluster_options(command_config_option(timeout_option(call)))

    return decorate
