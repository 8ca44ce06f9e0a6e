"""HostedTopics holds the log settings and the replication throttles of the topics that a broker hosts.

Topics without overrides share one `PartitionContext`. The entry of a topic is removed with its last partition: a topic
that is created again may have other settings.

Kafka: `LogManager.fetchLogConfig`, `TopicConfigHandler`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from actors.core.broker.partition_effects import Address, Send
from actors.core.broker.replication_quota import FOLLOWER, LEADER, SIDES, throttled_topic
from actors.core.config.log_settings import log_config, log_settings
from messages.ask import AskFailed
from messages.broker import PartitionContext
from messages.cluster import ConfigEntry, TopicPartition
from messages.flow.conversation import Flow, ask, for_each
from messages.node import NodeSettings, StartReplicaManager
from messages.partition import Configure, LogSettings, ThrottleReplicas
from messages.zookeeper import GetTopicConfigs
from messages.zookeeper.configs import TopicConfig

_log = logging.getLogger("kafka.server.ReplicaManager")

TOPICS_AT_ONCE = 200
"""Maximum number of topics whose settings are computed before other actors get their turn."""

Overrides = Sequence[tuple[str, tuple[ConfigEntry, ...]]]
"""Topics with their overrides."""


class HostedTopics:
    """The settings of the topics that have a replica on this broker."""

    def __init__(
        self, start: StartReplicaManager, manager: Address, actors: Mapping[TopicPartition, Address | None]
    ) -> None:
        self.settings: NodeSettings = start.settings
        self._start = start
        self._manager = manager
        self._actors = actors
        self._hosts: dict[str, PartitionContext] = {}
        self._overrides: dict[str, tuple[ConfigEntry, ...]] = {}
        """The overrides of topics that have any."""
        self._throttled: dict[str, dict[str, tuple[int, ...] | None]] = {side: {} for side in SIDES}
        """The throttled partitions of each topic that ever had any; None: all."""

    def __getitem__(self, topic: str) -> PartitionContext:
        """Return the context that a new partition actor of this topic needs."""
        return self._hosts[topic]

    def drop(self, topic: str) -> None:
        """Remove the settings of a deleted topic."""
        self._hosts.pop(topic, None)
        self._overrides.pop(topic, None)

    def read(self, roles: Iterable[Iterable[TopicPartition]]) -> Flow[None]:
        """Read the settings of new topics; use the defaults if the settings cannot be read.

        Args:
            roles: The partitions to lead, and the partitions to follow.
        """
        new: dict[str, tuple[ConfigEntry, ...]] = {}
        for role in roles:
            yield from for_each(
                role, lambda part: new.update((topic, ()) for topic, _ in part if topic not in self._hosts)
            )
        if not new:
            return
        try:
            read = yield from ask(GetTopicConfigs(tuple(new)))
            new.update((topic, entries) for topic, entries, _ in read.topics)
        except AskFailed as error:
            _log.error(
                "[Broker id=%d] Failed to read topic configs: %s. The logs being opened use the default configs.",
                *(self._start.settings.node_id, error),
            )
        yield from for_each(new.items(), self._add, TOPICS_AT_ONCE)

    def apply_overrides(self, topics: Sequence[TopicConfig]) -> Flow[None]:
        """Apply changed overrides of topics."""
        hosted = [topic for topic in topics if topic.topic in self._hosts]
        yield from self._store([(topic, overrides) for topic, overrides, _ in hosted])
        yield from self._reconfigure(tuple(topic.topic for topic in hosted))

    def broker_configured(self, settings: NodeSettings) -> Flow[None]:
        """Apply changed settings of the broker."""
        self.settings = settings
        return self._reconfigure(tuple(self._hosts))

    def _add(self, topics: Overrides) -> Flow[None]:
        default = self._host_of("", ())
        for topic, overrides in topics:
            self._hosts[topic] = self._host_of(topic, overrides) if overrides else default
        yield from self._store(topics)

    def _store(self, topics: Overrides) -> Flow[None]:
        for topic, overrides in topics:
            if overrides:
                self._overrides[topic] = overrides
            else:
                self._overrides.pop(topic, None)
        yield from self._throttle(topics)

    def _throttle(self, topics: Overrides) -> Flow[None]:
        """Send changed throttles to leaders and fetchers."""
        start = self._start
        for side, receiver in ((LEADER, start.partition_requests), (FOLLOWER, start.fetcher_manager)):
            known, changed = self._throttled[side], []
            for topic, overrides in topics:
                throttled = throttled_topic(topic, overrides, side, self._start.settings.node_id)
                if throttled.partitions != known.get(topic, ()):
                    known[topic] = throttled.partitions
                    changed.append(throttled)
            if changed:
                yield Send(receiver, ThrottleReplicas(tuple(changed)))

    def _reconfigure(self, topics: Sequence[str]) -> Flow[None]:
        """Send changed settings to the hosted partitions of these topics."""
        changed: dict[str, LogSettings] = {}
        default = self._host_of("", ())

        def find_changes(part: Sequence[str]) -> None:
            for topic in part:
                old, overrides = self._hosts.get(topic), self._overrides.get(topic)
                new = self._host_of(topic, overrides) if overrides else default
                if old is not None and new.settings != old.settings:
                    self._hosts[topic], changed[topic] = new, new.settings

        yield from for_each(topics, find_changes, TOPICS_AT_ONCE)

        def send(partitions: Sequence[TopicPartition]) -> Flow[None]:
            for partition in partitions:
                actor = self._actors.get(partition) if partition.topic in changed else None
                if actor is not None:
                    yield Send(actor, Configure(changed[partition.topic]))

        if changed:
            yield from for_each(tuple(self._actors), send)

    def _host_of(self, topic: str, overrides: tuple[ConfigEntry, ...]) -> PartitionContext:
        settings, start = log_settings(self.settings, topic, overrides), self._start
        actors = self._manager, start.isr_keeper, start.verifier
        return PartitionContext(start.settings.node_id, settings, log_config(settings), *actors)
