"""The actions of `kafka-actors topics`, which query and change ZooKeeper; the output equals that of kafka-topics 3.9.1.

Rule 1: All output and errors were compared with Apache's TopicCommand on a cluster at protocol version 2.6.
        TopicCommand's mistakes are kept ("Topic 'Optional[x]' does not exist as expected"), because scripts match these
        texts.
Rule 2: Where Kafka prints topics in the order of a hash map, they are sorted by name here.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from actors.core.config.topic_config import check_config
from actors.core.topic.topic_admin import check_new_name, further_replicas, new_replicas, numbered
from actors.core.topic.topic_name import INTERNAL_TOPICS, can_collide
from messages import cluster, zookeeper
from messages.vocabulary import AnyMessage

MAX_REPLICATION_FACTOR = 32767
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could collide."
    " To avoid issues it is best to use either, but not both."
)


class TopicCommandFailed(Exception):
    """A topics command failed; the exception's message is the text that kafka-topics prints."""


class PartitionView(NamedTuple):
    """A partition as `topics --describe` prints it."""

    partition: cluster.TopicPartition
    assignment: cluster.ReplicaAssignment
    state: cluster.LeaderIsrAndControllerEpoch | None
    leader: int
    min_isr: int

    @property
    def isr(self) -> tuple[int, ...]:
        """In-sync replicas; empty if ZooKeeper has no state of the partition."""
        return self.state.isr if self.state is not None else ()

    @property
    def under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than assigned, not counting replicas that a reassignment is adding."""
        return len(self.isr) < len(self.assignment.replicas) - len(self.assignment.adding)

    @property
    def unavailable(self) -> bool:
        """Whether the partition has no live leader."""
        return self.leader == cluster.NO_LEADER

    @property
    def under_min_isr(self) -> bool:
        """Whether fewer replicas are in sync than min.insync.replicas."""
        return len(self.isr) < self.min_isr

    @property
    def at_min_isr(self) -> bool:
        """Whether exactly min.insync.replicas replicas are in sync."""
        return len(self.isr) == self.min_isr


class TopicView(NamedTuple):
    """A topic as `topics --describe` prints it."""

    topic: str
    configs: tuple[cluster.ConfigEntry, ...]
    partitions: tuple[PartitionView, ...]
    deleted: bool


class TopicAdmin:
    """The actions of `kafka-actors topics`.

    The actions raise TopicCommandFailed, and Refused if a rule in `actors.core` is violated, both with Kafka's text.
    """

    def __init__(self, ask: Callable[[AnyMessage], Any], print_line: Callable[[str], None]) -> None:
        self._ask = ask
        self._print_line = print_line

    def create_topic(
        self,
        topic: str,
        partitions: int | None,
        replication_factor: int | None,
        replica_assignment: str | None,
        configs: Sequence[str],
        if_not_exists: bool,
    ) -> None:
        """Create a topic: write its config, then its assignment, from which the controller creates the partitions."""
        entries = parse_configs(configs)
        assignment = parse_assignment(replica_assignment) if replica_assignment is not None else ()
        if can_collide(topic):
            self._print_line(COLLISION_WARNING)
        if replication_factor is not None and not 1 <= replication_factor <= MAX_REPLICATION_FACTOR:
            raise TopicCommandFailed(f"The replication factor must be between 1 and {MAX_REPLICATION_FACTOR} inclusive")
        if partitions is not None and partitions < 1:
            raise TopicCommandFailed("The partitions must be greater than 0")
        if not topic:
            raise TopicCommandFailed("The given topic name '' cannot be represented in a request.")

        existing = self._topics()
        if topic in existing:
            return self._exists(topic, if_not_exists)
        if not assignment:
            brokers = self._brokers()
            start, shift = random.randrange(max(1, len(brokers))), random.randrange(max(1, len(brokers)))
            assignment = new_replicas(brokers, partitions or 1, replication_factor or 1, start, shift)
        check_new_name(topic, existing)
        answer = self._ask(zookeeper.CreateTopic(zookeeper.TopicAssignment(topic, numbered(assignment)), entries))
        if isinstance(answer, zookeeper.TopicExists):
            return self._exists(topic, if_not_exists)
        self._print_line(f"Created topic {topic}.")
        return None

    def list_topics(self, pattern: str | None, exclude_internal: bool) -> None:
        """Print the names, one per line."""
        for topic in self._matching(pattern, exclude_internal):
            self._print_line(topic)

    def describe_topics(
        self,
        pattern: str | None,
        if_exists: bool,
        exclude_internal: bool,
        only: Iterable[Callable[[PartitionView], bool]],
        with_overrides: bool,
    ) -> None:
        """Print topics with their partitions.

        If `only` is not empty, print only the partitions for which at least one of its functions returns true.
        """
        topics = self._matching(pattern, exclude_internal)
        self._expect(topics, pattern, if_exists)
        reports = tuple(only)
        for view in self._views(topics):
            if with_overrides:
                if view.configs:
                    self._print_line(topic_line(view))
                continue
            if not reports:
                self._print_line(topic_line(view))
            for partition in view.partitions:
                if not reports or any(report(partition) for report in reports):
                    self._print_line(partition_line(partition, view.deleted))

    def alter_topics(self, pattern: str, partitions: int, replica_assignment: str | None, if_exists: bool) -> None:
        """Add partitions to topics until each has `partitions` partitions."""
        topics = self._matching(pattern, exclude_internal=False)
        self._expect(topics, pattern, if_exists)
        proposed = parse_assignment(replica_assignment) if replica_assignment is not None else None
        for described in self._assignments(topics):
            wanted = proposed[len(described.partitions) :] if proposed is not None else None
            added = further_replicas(described, partitions, self._brokers(), wanted)
            whole = described.partitions + numbered(added, first=len(described.partitions))
            self._ask(zookeeper.SetAssignments((described._replace(partitions=whole),), epoch_zk_version=None))

    def delete_topics(self, pattern: str, if_exists: bool) -> None:
        """Mark topics for deletion; a second mark is not an error. Internal topics are refused, as in Kafka 2.6."""
        topics = self._matching(pattern, exclude_internal=False)
        self._expect(topics, pattern, if_exists)
        for topic in topics:
            if topic in INTERNAL_TOPICS:
                raise TopicCommandFailed(
                    f"Topic {topic} is a kafka internal topic and is not allowed to be marked for deletion."
                )
            self._ask(zookeeper.RequestTopicDeletion(topic))

    # ------------------------------------------------------------------------------------------------- details

    def _exists(self, topic: str, if_not_exists: bool) -> None:
        if not if_not_exists:
            raise TopicCommandFailed(f"Topic '{topic}' already exists.")

    def _topics(self) -> tuple[str, ...]:
        topics: tuple[str, ...] = self._ask(zookeeper.GetTopics(watch=False)).topics
        return topics

    def _brokers(self) -> dict[int, str | None]:
        """Return the brokers by id, with their racks if all brokers have a rack."""
        found = self._ask(zookeeper.GetBrokers(watch=False)).brokers
        racks = {broker.id: broker.rack for broker in sorted(found, key=lambda broker: broker.id)}
        return dict.fromkeys(racks) if None in racks.values() else racks

    def _assignments(self, topics: Sequence[str]) -> tuple[zookeeper.TopicAssignment, ...]:
        if not topics:
            return ()
        assignments: tuple[zookeeper.TopicAssignment, ...] = self._ask(
            zookeeper.GetAssignments(tuple(topics), watch=False)
        ).topics
        return tuple(sorted(assignments))

    def _matching(self, pattern: str | None, exclude_internal: bool) -> list[str]:
        """Return the topics that fully match the pattern (a regular expression, or several separated by commas)."""
        try:
            wanted = re.compile(pattern.strip().strip("\"'").replace(",", "|").replace(" ", "")) if pattern else None
        except re.error as error:
            raise TopicCommandFailed(f"{pattern} is an invalid regex: {error}") from None
        return sorted(
            topic
            for topic in self._topics()
            if (wanted is None or wanted.fullmatch(topic)) and not (exclude_internal and topic in INTERNAL_TOPICS)
        )

    @staticmethod
    def _expect(topics: Sequence[str], pattern: str | None, if_exists: bool) -> None:
        if pattern is not None and not topics and not if_exists:
            raise TopicCommandFailed(f"Topic 'Optional[{pattern}]' does not exist as expected")

    def _views(self, topics: Sequence[str]) -> list[TopicView]:
        """Return all data for --describe, with a constant number of requests to ZooKeeper."""
        assignments = self._assignments(topics)
        if not assignments:
            return []
        names = tuple(described.topic for described in assignments)
        configs = {config.topic: config.entries for config in self._ask(zookeeper.GetTopicConfigs(names)).topics}
        partitions = tuple(
            cluster.TopicPartition(described.topic, partition.partition)
            for described in assignments
            for partition in described.partitions
        )
        states = {read.partition: read.state for read in self._ask(zookeeper.GetPartitionStates(partitions)).states}
        alive = set(self._brokers())
        deleted = set(self._ask(zookeeper.GetTopicDeletions(watch=False)).topics)

        def partition_view(
            topic: str, number: int, assignment: cluster.ReplicaAssignment, min_isr: int
        ) -> PartitionView:
            partition = cluster.TopicPartition(topic, number)
            state = states[partition]
            leader = state.leader if state is not None and state.leader in alive else cluster.NO_LEADER
            return PartitionView(partition, assignment, state, leader, min_isr)

        views = []
        for topic, assigned, *_ in assignments:
            entries = tuple(sorted(configs[topic]))
            min_isr = int(dict(entries).get("min.insync.replicas", 1))
            shown = tuple(
                partition_view(topic, number, replicas, min_isr) for number, replicas in sorted(assigned, key=_number)
            )
            views.append(TopicView(topic, entries, shown, topic in deleted))
        return views


def topic_line(view: TopicView) -> str:
    """Return the line that --describe prints for a topic."""
    first = view.partitions[0].assignment if view.partitions else cluster.ReplicaAssignment(())
    factor = len(first.replicas) - len(first.adding)
    configs = ",".join(f"{entry.name}={entry.value}" for entry in view.configs)
    line = (
        f"Topic: {view.topic}\tPartitionCount: {len(view.partitions)}\tReplicationFactor: {factor}\tConfigs: {configs}"
    )
    return line + ("\tMarkedForDeletion: true" if view.deleted else "")


def partition_line(view: PartitionView, deleted: bool) -> str:
    """Return the line that --describe prints for a partition."""
    line = f"\tTopic: {view.partition.topic}\tPartition: {view.partition.partition}"
    line += f"\tLeader: {'none' if view.unavailable else view.leader}"
    line += f"\tReplicas: {_ids(view.assignment.replicas)}\tIsr: {_ids(view.isr)}"
    if view.assignment.adding or view.assignment.removing:
        line += (
            f"\tAdding Replicas: {_ids(view.assignment.adding)}\tRemoving Replicas: {_ids(view.assignment.removing)}"
        )
    line += "\tElr: N/A\tLastKnownElr: N/A"
    return line + ("\tMarkedForDeletion: true" if deleted else "")


def parse_configs(configs: Sequence[str]) -> tuple[cluster.ConfigEntry, ...]:
    """Return the checked --config name=value entries, sorted by name; the last value of a name applies."""
    entries = {}
    for config in configs:
        parts = [part.strip() for part in config.split("=")]
        if len(parts) != 2 or not parts[1]:
            raise TopicCommandFailed(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        entries[parts[0]] = cluster.ConfigEntry(parts[0], parts[1])
    for entry in entries.values():
        check_config(entry)
    return tuple(entries[name] for name in sorted(entries))


def parse_assignment(text: str) -> tuple[tuple[int, ...], ...]:
    """Parse --replica-assignment: in 0:1,1:2, partition 0 is on brokers 0 and 1, partition 1 on brokers 1 and 2."""
    assignment: list[tuple[int, ...]] = []
    for number, replicas_text in enumerate(text.split(",")):
        try:
            replicas = tuple(int(replica) for replica in replicas_text.strip().split(":"))
        except ValueError:
            wrong = next(part for part in replicas_text.strip().split(":") if not re.fullmatch("[+-]?[0-9]+", part))
            raise TopicCommandFailed(f'For input string: "{wrong}"') from None
        twice = sorted({replica for replica in replicas if replicas.count(replica) > 1})
        if twice:
            raise TopicCommandFailed(
                f"Partition replica lists may not contain duplicate entries: {', '.join(map(str, twice))}"
            )
        if assignment and len(replicas) != len(assignment[0]):
            raise TopicCommandFailed(f"Partition {number} has different replication factor: [{_ids(replicas)}]")
        assignment.append(replicas)
    return tuple(assignment)


def _number(partition: cluster.PartitionAssignment) -> int:
    return partition.partition


def _ids(replicas: Iterable[int]) -> str:
    return ",".join(map(str, replicas))
