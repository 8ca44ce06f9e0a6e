"""AdminClient sends the requests of a command to the brokers of a cluster, one request at a time.

Rule: A request that fails temporarily (a controller or coordinator is being elected, groups are being loaded) is
      retried until the timeout.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from actors.cli.app import CommandFailed
from messages import errors
from messages.cluster import NO_CONTROLLER, TopicPartition
from messages.error_names import name_of
from messages.group_requests import FindCoordinatorRequest
from messages.requests import MetadataBroker, MetadataRequest, MetadataResponse, MetadataTopic
from messages.vocabulary import AnyMessage
from messages.wire import FrameReader, WireError, decode_response, encode_request

METADATA_VERSION, FIND_VERSION = 8, 2
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
        *(
            errors.LEADER_NOT_AVAILABLE,
            errors.NOT_LEADER_OR_FOLLOWER,
            errors.REPLICA_NOT_AVAILABLE,
            errors.KAFKA_STORAGE_ERROR,
        ),
        errors.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Error codes of a partition that a later request to its new leader may not return."""

R = TypeVar("R")
Command = TypeVar("Command", bound=Callable[..., Any])


class RetriableError(Exception):
    """A broker returned a retriable error code."""


class AdminClient:
    """A client of the cluster with the given bootstrap servers; each operation takes at most `timeout` seconds."""

    def __init__(self, bootstrap: Sequence[tuple[str, int]], timeout: float) -> None:
        self._bootstrap = bootstrap
        self._timeout = timeout
        self._links: dict[int, tuple[socket.socket, FrameReader]] = {}
        self._brokers: dict[int, MetadataBroker] = {}
        self._correlation_id = 0

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
        for host, port in self._bootstrap:
            try:
                with socket.create_connection((host, port), self._timeout) as link:
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

    def ask(self, broker: int, request: AnyMessage) -> AnyMessage:
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
                self._links[broker] = socket.create_connection((place.host, place.port), self._timeout), FrameReader()
            return self._exchange(*self._links[broker], request)
        except (OSError, WireError) as error:
            raise CommandFailed(f"broker {broker} at {place.host}:{place.port}: {error}") from error

    def ask_controller(self, request: AnyMessage) -> AnyMessage:
        """Return the controller's response.

        Raises:
            CommandFailed: No controller responds before the timeout, or it refuses the whole request.
        """

        def ask() -> AnyMessage:
            controller = self.metadata().controller_id
            if controller == NO_CONTROLLER:
                raise RetriableError("there is no controller")
            answer = self.ask(controller, request)
            self.check(answer.error_code, "request to the controller")
            return answer

        return self.in_time(ask)

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

    def ask_coordinator(self, group: str, request: AnyMessage, code: Callable[[AnyMessage], int]) -> AnyMessage:
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


@contextmanager
def brokers(bootstrap: Sequence[tuple[str, int]], timeout: float) -> Iterator[AdminClient]:
    """Yield a client of the cluster with these bootstrap servers, and close it afterwards."""
    cluster = AdminClient(bootstrap, timeout)
    try:
        yield cluster
    finally:
        cluster.close()


def bootstrap_options(command: Command) -> Command:
    """Add the options of a command that connects to brokers.

    They are `bootstrap_server` (a list of addresses) and `timeout` (in ms).
    """
    for option in (
        click.option(
            "--timeout",
            type=click.IntRange(1),
            default=5000,
            show_default=True,
            metavar="MS",
            help="Maximum time to wait for a response, in milliseconds.",
        ),
        click.option(
            "--bootstrap-server", metavar="HOST:PORT,..", required=True, callback=_places, help="Brokers to connect to."
        ),
    ):
        command = option(command)
    return command


def _places(context: click.Context, parameter: click.Parameter, value: str) -> list[tuple[str, int]]:
    try:
        return places_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
