"""Answer the ZooKeeper requests of `topics`, `configs` and `status` through the brokers, for --bootstrap-server.

With it, the commands also work where ZooKeeper is in memory or cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actors.cli.admin_client import AdminClient, RetriableError, brokers, places_of
from actors.cli.app import CommandFailed
from actors.cli.cluster_file import IN_MEMORY, read_cluster
from actors.cli.usage_errors import wrong_use
from actors.cli.zookeeper import address_of, zookeeper
from messages import admin_requests, errors
from messages import config_requests as configs
from messages.cluster import (
    Broker,
    ConfigEntry,
    Endpoint,
    LeaderIsrAndControllerEpoch,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.error_names import name_of
from messages.requests import MetadataTopic
from messages.vocabulary import AnyMessage
from messages.zookeeper import (
    ALL_BROKERS,
    Assignments,
    BrokerConfig,
    BrokerConfigs,
    Brokers,
    ControllerRead,
    CreateTopic,
    GetAssignments,
    GetBrokerConfigs,
    GetBrokers,
    GetController,
    GetNodes,
    GetPartitionStates,
    GetTopicConfigs,
    GetTopicDeletions,
    GetTopics,
    Nodes,
    PartitionStateRead,
    PartitionStates,
    RequestTopicDeletion,
    SetAssignments,
    SetBrokerConfig,
    SetTopicConfig,
    TopicAssignment,
    TopicConfig,
    TopicConfigs,
    TopicExists,
    TopicNames,
)

TIMEOUT_MS = 30_000
PLAINTEXT = "PLAINTEXT"
UNKNOWN_EPOCH = -1
"""The controller epoch, which no broker returns to a client."""
OVERRIDES = {configs.TOPIC: configs.DYNAMIC_TOPIC_CONFIG, configs.BROKER: configs.DYNAMIC_BROKER_CONFIG}
"""Type of a resource -> the source of its own overrides in DescribeConfigs."""


@contextmanager
def cluster_questions(options: dict[str, Any]) -> Iterator[Callable[[Any], Any]]:
    """Yield the function `ask(question)` for the cluster of the options: through its brokers, or in its ZooKeeper."""
    directory: Path | None = options["directory"]
    bootstrap: str | None = options["bootstrap-server"]
    if bootstrap is None and directory is not None and options["address"] is None:
        cluster = read_cluster(directory)
        if cluster["zookeeper"] == IN_MEMORY:
            bootstrap = ",".join(f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"])
    elif bootstrap is not None and (directory is not None or options["address"] is not None):
        raise wrong_use("--bootstrap-server, --zookeeper and --dir exclude each other")
    if bootstrap is None:
        with zookeeper(address_of(options["address"], directory, None)) as ask:
            yield ask
        return
    try:
        places = places_of(bootstrap)
    except ValueError as error:
        raise wrong_use(str(error)) from error
    with brokers(places, TIMEOUT_MS / 1000) as client:
        yield BrokerAnswers(client).ask


class BrokerAnswers:
    """A cluster's answers to the questions of `topics`, `configs` and `status`, from its brokers."""

    def __init__(self, client: AdminClient) -> None:
        self._client = client

    def ask(self, question: Any) -> Any:
        """Return the reply to a question, or raise CommandFailed with Kafka's reason."""
        match question:
            case GetTopics():
                return TopicNames(tuple(sorted(topic.name for topic in self._topics())))
            case GetBrokers():
                found = self._client.metadata().brokers
                endpoints = [(Endpoint(PLAINTEXT, each.host, each.port),) for each in found]
                return Brokers(
                    tuple(Broker(each.id, at, rack=each.rack) for each, at in zip(found, endpoints, strict=True))
                )
            case GetController():
                return ControllerRead(self._client.metadata().controller_id, UNKNOWN_EPOCH)
            case GetNodes():
                return Nodes(())  # only ZooKeeper has the addresses of the nodes' metrics
            case GetAssignments(topics):
                return Assignments(tuple(self._assignments(set(topics))))
            case GetPartitionStates(partitions):
                return PartitionStates(self._states(partitions))
            case GetTopicDeletions():
                return TopicNames(())  # a topic that is being deleted is not in the brokers' metadata
            case CreateTopic(topic, entries):
                return self._create(topic, entries)
            case SetAssignments((topic,)):
                return self._grow(topic)
            case RequestTopicDeletion(name):
                return self._at_controller(admin_requests.DeleteTopicsRequest(3, (name,), TIMEOUT_MS))
            case GetTopicConfigs(names):
                return TopicConfigs(tuple(TopicConfig(name, self._overrides(configs.TOPIC, name)) for name in names))
            case GetBrokerConfigs(ids):
                return BrokerConfigs(tuple(BrokerConfig(id, self._overrides(configs.BROKER, id)) for id in ids))
            case SetTopicConfig(name, entries):
                return self._set_overrides(configs.TOPIC, name, entries)
            case SetBrokerConfig(name, entries):
                return self._set_overrides(configs.BROKER, name, entries)
        raise TypeError(f"{type(question).__name__} is not answered by brokers")

    # ---------------------------------------------------------------------------------------------------- topics

    def _topics(self) -> tuple[MetadataTopic, ...]:
        return self._client.metadata(None).topics

    def _assignments(self, names: set[str]) -> Iterator[TopicAssignment]:
        moving = {
            (topic.name, each.partition_index): each
            for topic in self._client.ask_controller(
                admin_requests.ListPartitionReassignmentsRequest(0, TIMEOUT_MS)
            ).topics
            for each in topic.partitions
        }
        for topic in self._topics():
            if topic.name in names:
                partitions = []
                for each in sorted(topic.partitions, key=lambda each: each.partition):
                    move = moving.get((topic.name, each.partition))
                    changes = (move.adding_replicas, move.removing_replicas) if move is not None else ()
                    partitions.append(PartitionAssignment(each.partition, ReplicaAssignment(each.replicas, *changes)))
                yield TopicAssignment(topic.name, tuple(partitions))

    def _states(self, partitions: tuple[TopicPartition, ...]) -> tuple[PartitionStateRead, ...]:
        states = {
            TopicPartition(topic.name, each.partition): LeaderIsrAndControllerEpoch(
                each.leader, each.leader_epoch, each.isr, controller_epoch=-1
            )
            for topic in self._topics()
            for each in topic.partitions
        }
        return tuple(PartitionStateRead(partition, states.get(partition)) for partition in partitions)

    def _create(self, topic: TopicAssignment, entries: tuple[ConfigEntry, ...]) -> Any:
        assignments = tuple(
            admin_requests.CreatableAssignment(each.partition, each.assignment.replicas) for each in topic.partitions
        )
        overrides = tuple(admin_requests.CreatableConfig(entry.name, entry.value) for entry in entries)
        wanted = admin_requests.CreatableTopic(topic.topic, assignments=assignments, configs=overrides)
        return self._at_controller(admin_requests.CreateTopicsRequest(5, (wanted,), TIMEOUT_MS))

    def _grow(self, topic: TopicAssignment) -> Any:
        (before,) = self._assignments({topic.topic})
        added = tuple(
            admin_requests.WantedReplicas(each.assignment.replicas)
            for each in topic.partitions[len(before.partitions) :]
        )
        wanted = admin_requests.GrowingTopic(topic.topic, len(topic.partitions), added)
        return self._at_controller(admin_requests.CreatePartitionsRequest(1, (wanted,), TIMEOUT_MS))

    def _at_controller(self, request: AnyMessage) -> Any:
        """Send a request about one topic to the controller; return TopicExists if the topic exists already."""

        def send() -> Any:
            (result,) = self._client.ask(self._client.metadata().controller_id, request).topics
            if result.error_code == errors.NOT_CONTROLLER:
                raise RetriableError("the controller is changing")
            if result.error_code == errors.TOPIC_ALREADY_EXISTS:
                return TopicExists(result.name)
            self._check(result)
            return result

        return self._client.in_time(send)

    # --------------------------------------------------------------------------------------------------- configs

    def _overrides(self, kind: int, name: str) -> tuple[ConfigEntry, ...]:
        """Return the overrides of a resource; a sensitive one has the value ""."""
        resource = configs.DescribeConfigsResource(kind, "" if name == ALL_BROKERS else name)
        (result,) = self._client.ask(self._place(kind, name), configs.DescribeConfigsRequest(2, (resource,))).results
        self._check(result)
        source = configs.DYNAMIC_DEFAULT_BROKER_CONFIG if name == ALL_BROKERS else OVERRIDES[kind]
        return tuple(
            ConfigEntry(each.name, each.value or "") for each in result.configs if each.config_source == source
        )

    def _set_overrides(self, kind: int, name: str, entries: tuple[ConfigEntry, ...]) -> Any:
        old = self._overrides(kind, name)
        kept = {entry.name for entry in entries}
        changes = [configs.ConfigChange(entry.name, entry.value) for entry in entries if entry not in old]
        changes += [configs.ConfigChange(each.name, None, configs.DELETE) for each in old if each.name not in kept]
        resource = configs.ChangedResource(kind, "" if name == ALL_BROKERS else name, tuple(changes))
        request = configs.IncrementalAlterConfigsRequest(1, (resource,))
        (result,) = self._client.ask(self._place(kind, name), request).responses
        self._check(result)
        return result

    def _place(self, kind: int, name: str) -> int:
        """Return the broker that answers requests about a resource: a broker's own configs are only known to it."""
        if kind == configs.BROKER and name != ALL_BROKERS:
            return int(name)
        return self._client.metadata().controller_id

    @staticmethod
    def _check(result: Any) -> None:
        if result.error_code != errors.NONE:
            raise CommandFailed(getattr(result, "error_message", None) or name_of(result.error_code))
