"""AdminClient sends the requests of a command to the brokers of a cluster, one request at a time.

Rule: what cannot be asked for now (a controller or coordinator that is being elected, groups that are being loaded) is
asked again until the time is up.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from actors.cli.app import CommandFailed
from messages.cluster import NO_CONTROLLER, TopicPartition
from messages.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_CONTROLLER,
    NOT_COORDINATOR,
    NOT_LEADER_OR_FOLLOWER,
    REPLICA_NOT_AVAILABLE,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.error_names import name_of
from messages.group_requests import FindCoordinatorRequest
from messages.requests import MetadataBroker, MetadataRequest, MetadataResponse, MetadataTopic
from messages.vocabulary import Message
from messages.wire import FrameReader, WireError, decode_response, encode_request

METADATA_VERSION, FIND_VERSION = 8, 2
CLIENT_ID = "kafka-actors"
RETRY_SECONDS = 0.1
TO_BE_ASKED_AGAIN = frozenset(
    {COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, NOT_CONTROLLER}
)

MAY_BE_MOVING = frozenset(
    {
        *(LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR),
        UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Codes of a partition that another leader may not return."""

R = TypeVar("R", bound=Message)
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
        """Brokers, and these topics (None: all), from the first bootstrap server that responds.

        Raises CommandFailed if none does.
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
        """The topics of these names. CommandFailed where one does not exist."""
        found = {topic.name: topic for topic in self.metadata(names).topics}
        for name in names:
            if found[name].error_code != NONE:
                raise CommandFailed(f"topic '{name}': {name_of(found[name].error_code)}")
        return found

    def by_leader(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, int]]:
        """Group partitions by their leaders; the others with the code that says why they have none."""
        led: dict[int, list[TopicPartition]] = {}
        missing = dict.fromkeys(partitions, UNKNOWN_TOPIC_OR_PARTITION)
        for topic in self.metadata(sorted({partition.topic for partition in partitions})).topics:
            for each in topic.partitions:
                partition = TopicPartition(topic.name, each.partition)
                if partition not in missing:
                    continue
                if each.leader >= 0:
                    del missing[partition]
                    led.setdefault(each.leader, []).append(partition)
                else:
                    missing[partition] = each.error_code or LEADER_NOT_AVAILABLE
        return led, missing

    def ask_leaders(
        self, partitions: Collection[TopicPartition], request: Callable[[list[TopicPartition]], Message]
    ) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, int]]:
        """Send each leader a request for its partitions, again while a leader may be moving and time is left.

        Args:
            partitions: The partitions.
            request: Makes the request for partitions of one leader. Its response has `partitions`, each with its
                `partition` and `error_code`.

        Returns:
            (The results without an error by partition, the codes of the other partitions).
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
                    if result.error_code == NONE:
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
        """The live brokers."""
        if not self._brokers:
            self.metadata()
        return list(self._brokers)

    def ask(self, broker: int, request: Message) -> Message:
        """What a broker answers. CommandFailed where it does not."""
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

    def ask_controller(self, request: Message) -> Message:
        """What the controller answers. CommandFailed where there is none in time, or it refuses the whole."""

        def ask() -> Message:
            controller = self.metadata().controller_id
            if controller == NO_CONTROLLER:
                raise RetriableError("there is no controller")
            answer = self.ask(controller, request)
            self.check(answer.error_code, "the controller")
            return answer

        return self.in_time(ask)

    def coordinator(self, group: str) -> MetadataBroker:
        """The coordinator of a group. Raises CommandFailed if there is none in time."""

        def find() -> MetadataBroker:
            found = self.ask(self.ids()[0], FindCoordinatorRequest(FIND_VERSION, group))
            self.check(found.error_code, f"the coordinator of group '{group}'")
            return MetadataBroker(found.node_id, found.host, found.port)

        return self.in_time(find)

    def ask_coordinator(self, group: str, request: Message, code: Callable[[Message], int]) -> Message:
        """What a group's coordinator answers; `code` is where the answer says how it went."""

        def ask() -> Message:
            answer = self.ask(self.coordinator(group).id, request)
            if code(answer) in TO_BE_ASKED_AGAIN:
                raise RetriableError(f"group '{group}': {name_of(code(answer))}")
            return answer

        return self.in_time(ask)

    def check(self, code: int, what: str) -> None:
        """RetriableError or CommandFailed unless the code is NONE."""
        if code in TO_BE_ASKED_AGAIN:
            raise RetriableError(f"{what}: {name_of(code)}")
        if code != NONE:
            raise CommandFailed(f"{what}: {name_of(code)}")

    def in_time(self, work: Callable[[], R]) -> R:
        """What `work` returns when it can. CommandFailed where it cannot in time."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                return work()
            except RetriableError as reason:
                if time.monotonic() > until:
                    raise CommandFailed(f"gave up after {self._timeout:g} s: {reason}") from reason
            time.sleep(RETRY_SECONDS)

    def _exchange(self, link: socket.socket, reader: FrameReader, request: Message) -> Message:
        self._correlation_id += 1
        link.sendall(encode_request(request, self._correlation_id, CLIENT_ID))
        while received := link.recv(65536):
            for frame in reader.feed(received):
                return decode_response(type(request), request.version, frame)[1]
        raise ConnectionError("the broker closed the connection without a response")


def places_of(text: str) -> list[tuple[str, int]]:
    """The places of "host:port,host:port". ValueError where it is none."""
    places = []
    for each in text.split(","):
        host, colon, port = each.strip().rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) <= 65535):
            raise ValueError(f"'{each.strip()}' is not a bootstrap server: expected host:port")
        places.append((host.strip("[]"), int(port)))
    return places


@contextmanager
def brokers(bootstrap: Sequence[tuple[str, int]], timeout: float) -> Iterator[AdminClient]:
    """The cluster of these bootstrap servers, as long as the context."""
    cluster = AdminClient(bootstrap, timeout)
    try:
        yield cluster
    finally:
        cluster.close()


def bootstrap_options(command: Command) -> Command:
    """The options of a command that connects to brokers: `bootstrap_server`, a list of places, and `timeout` in ms."""
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
