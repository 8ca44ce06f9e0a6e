"""DynamicConfigActor, like Kafka's DynamicConfigManager, reads config changes and sends them to subscribers.

Rule 1: each configuration change creates a notification in /config/changes. Notifications are read once, in order.
        Subscribers receive the configuration as it is at the time of reading.
Rule 2: a change is processed when its configuration has been read. A read interrupted by a lost session is repeated in
        the next session.
Rule 3: four kinds of broker overrides apply: replication throttles (`actors.core.broker.replication_quota`), the
        settings in `actors.core.config.broker_config`, such as defaults of topics, advertised listeners, and the stores
        of listeners. This broker's overrides take precedence over the cluster-wide default; the last two kinds have no
        such default.
        Broker overrides and client quotas are also read at the start. With password.encoder.old.secret, this broker's
        passwords are then written again, encrypted with the new secret.
Rule 4: a read also deletes the notifications that were first seen more than 15 minutes ago: every broker has read them
        by then.

Kafka: `DynamicConfigManager`, `ZkNodeChangeNotificationListener`.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import ClassVar

from thespian.actors import ActorAddress, WakeupMessage

from actors.core.broker.replication_quota import FOLLOWER, LEADER, SIDES, rate_of
from actors.core.config.advertised_listeners import ADVERTISED_LISTENERS
from actors.core.config.broker_config import WITHOUT_EFFECT, apply_overrides, invalid, listeners_with_tls, of_stores
from actors.runtime import FlowActor
from messages import zookeeper
from messages.broker import BrokerConfigured, TopicsConfigured
from messages.client_quotas import ClientQuotasConfigured, QuotaEntity, entity_at
from messages.events import ConfigChangeNotification, SessionExpired
from messages.flow.conversation import Flow, ask
from messages.node import Advertise, NodeSettings, StartDynamicConfig
from messages.partition import ThrottleReplication
from messages.sensitive_configs import is_secret
from messages.vocabulary import Message

log = logging.getLogger("kafka.server.DynamicConfigManager")

KEPT_SECONDS = 15 * 60.0
AGAIN_SECONDS = 1.0
TOPIC, BROKER = "topics/", "brokers/"


class DynamicConfigActor(FlowActor):
    """Each broker has one such actor; it reads config change notifications and sends new configs to subscribers."""

    answer_deadline: ClassVar[float] = 3600.0
    """Seconds. The bridge keeps questions while ZooKeeper is unavailable, and waiting for it loses nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: NodeSettings
        """The settings of server.properties."""
        self._configured: NodeSettings
        """The settings with the overrides that were sent (rule 3)."""
        self._entries: tuple[dict[str, str], dict[str, str]] = ({}, {})
        """The overrides of this broker, and those of all brokers, as read last."""
        self._node: ActorAddress
        self._listener: ActorAddress
        self._replica_manager: ActorAddress
        self._log_cleaner: ActorAddress
        self._sides: dict[str, ActorAddress] = {}
        """The actors that throttle: the leader's side and the follower's side."""
        self._rates: dict[str, int | None] = dict.fromkeys(SIDES)
        self._advertised: str | None = None
        """The last published advertised listeners (rule 3)."""
        self._heard = -1
        """The number of the newest notification that was read."""
        self._began = False
        """Whether the brokers' configurations were read."""
        self._seen: dict[int, float] = {}
        """The time at which each notification was first seen (rule 4)."""

    def flow(self, message: Message) -> Flow[None] | None:
        """Read changes at the start, in a new session, and on each notification of the watch."""
        match message:
            case StartDynamicConfig(settings, bridge, node, listener, manager, requests, fetchers, log_cleaner):
                self._settings = self._configured = settings
                self._node, self._listener = node, listener
                self._replica_manager, self._log_cleaner = manager, log_cleaner
                self._sides = {LEADER: requests, FOLLOWER: fetchers}
                self.peers = {"bridge": bridge}
                return self._listen()
            case ConfigChangeNotification() | SessionExpired() | WakeupMessage():
                return self._listen()
        return super().flow(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Retry a failed read after a short delay (rule 2)."""
        self.wakeupAfter(timedelta(seconds=AGAIN_SECONDS))

    def preempts(self, message: Message) -> bool:
        """Return whether the message ends the current read; only a lost session does (rule 2)."""
        return isinstance(message, SessionExpired)

    def _listen(self) -> Flow[None]:
        changes = (yield from ask(zookeeper.GetConfigChanges(self._heard))).changes
        if not self._began or any(change.entity_path.startswith(BROKER) for change in changes):
            yield from self._read_brokers()
        entities = dict.fromkeys(filter(None, (entity_at(change.entity_path) for change in changes)))
        if not self._began or entities:
            # The gateway to ZooKeeper keeps the credentials of the users that are read (`actors.gateway.vault`).
            yield from self._read_client_quotas(tuple(entities) if self._began else None)
        self._began = True
        if not changes:
            return
        topics = {
            change.entity_path.removeprefix(TOPIC): None for change in changes if change.entity_path.startswith(TOPIC)
        }
        if topics:
            found = (yield from ask(zookeeper.GetTopicConfigs(tuple(topics)))).topics
            for topic, entries, _ in found:
                log.info(
                    "[Broker id=%d] Processing override for entityPath: topics/%s with config: %s",
                    *(self._settings.node_id, topic, dict(entries)),
                )
            self.send(self._replica_manager, TopicsConfigured(tuple(each for each in found if each.readable)))
        self._heard = changes[-1].number
        old = tuple(number for number, seen in self._seen.items() if self.now - seen > KEPT_SECONDS)
        self._seen.update((change.number, self.now) for change in changes)
        if old:
            yield from ask(zookeeper.DeleteConfigChanges(old))
            for number in old:
                del self._seen[number]

    def _read_brokers(self) -> Flow[None]:
        """Read this broker's overrides and the cluster-wide default, and publish the changes (rule 3)."""
        found = yield from ask(zookeeper.GetBrokerConfigs((str(self._settings.node_id), zookeeper.ALL_BROKERS)))
        own, of_all = (dict(broker.entries) for broker in found.brokers)
        if not self._began and self._settings.password_encoder_old_secret and any(map(is_secret, own)):
            # What is written again is encrypted with the new secret (`actors.gateway.vault`).
            yield from ask(zookeeper.SetBrokerConfig(str(self._settings.node_id), found.brokers[0].entries))
        self._log_overrides(own, of_all)
        settings = apply_overrides(self._settings, own, of_all)
        if settings != self._configured:
            self._configured = settings
            for receiver in (self._replica_manager, self._log_cleaner):
                self.send(receiver, BrokerConfigured(settings))
        for side, whom in self._sides.items():
            rate = rate_of(side, own, of_all)
            if rate != self._rates[side]:
                self._rates[side] = rate
                self.send(whom, ThrottleReplication(rate))
        if listeners_with_tls(self._settings):
            problem = self.port("tls").reload(of_stores(found.brokers[0].entries))
            if problem:
                log.error("[Broker id=%d] Keeping the stores of listeners: %s", self._settings.node_id, problem)
        if own.get(ADVERTISED_LISTENERS) != self._advertised:
            self._advertised = own.get(ADVERTISED_LISTENERS)
            self.send(self._node, Advertise(self._advertised))

    def _read_client_quotas(self, entities: tuple[QuotaEntity, ...] | None) -> Flow[None]:
        """Read the quotas of entities, or of all entities if None, and send them to the listener."""
        quotas = (yield from ask(zookeeper.GetClientQuotas(entities))).quotas
        for entity, entries in quotas:
            log.info(
                "[Broker id=%d] Processing override for entityPath: %s with config: %s",
                *(self._settings.node_id, entity, dict(entries)),
            )
        if quotas:
            self.send(self._listener, ClientQuotasConfigured(quotas))

    def _log_overrides(self, *read: dict[str, str]) -> None:
        """Log the changed overrides (of this broker and cluster-wide), and which of them have no effect."""
        for name, entries, before in zip(
            (self._settings.node_id, zookeeper.ALL_BROKERS), read, self._entries, strict=True
        ):
            if entries == before:
                continue
            log.info(
                "[Broker id=%d] Processing override for entityPath: brokers/%s with config: %s",
                *(self._settings.node_id, name, entries),
            )
            idle = [f"{each}={entries[each]}" for each in entries if each in WITHOUT_EFFECT]
            if idle:
                log.warning(
                    "[Broker id=%d] Ignoring overrides that have no effect in this broker: %s",
                    *(self._settings.node_id, ", ".join(idle)),
                )
            if wrong := invalid(entries):
                log.error(
                    "[Broker id=%d] Ignoring invalid overrides for entityPath: brokers/%s: %s",
                    *(self._settings.node_id, name, ", ".join(wrong)),
                )
        self._entries = (read[0], read[1])
