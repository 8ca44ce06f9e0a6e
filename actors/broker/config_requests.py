"""ConfigsActor describes and alters configs of topics and this broker, client quotas and users for admin clients.

Rule 1: any broker can respond; it reads the configs from ZooKeeper. A topic exists if this broker's metadata cache
        contains it (broker.md 6.4).
Rule 2: overrides are written together with the notification in /config/changes, which informs every broker. A broker
        writes two kinds of broker overrides only: its own and the cluster-wide default.
Rule 3: resources are independent: a refused resource does not affect the others. If ZooKeeper is unavailable, the
        client receives an error.

Kafka: the config methods of `AdminManager` (`ZkAdminManager`), and `ConfigHelper`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping

from thespian.actors import ActorAddress

from actors.core import client_quotas
from actors.core.config import config_requests
from actors.core.config.broker_config import is_of_store, of_stores
from actors.core.refusal import Refused
from actors.core.security import scram_requests
from actors.core.topic.topic_name import check_name
from actors.runtime import FlowActor
from messages import errors, zookeeper
from messages.apis import API_BY_REQUEST, describe_configs
from messages.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlteredQuota,
    QuotaAlteration,
)
from messages.apis.alter_configs import AlterConfigsRequest, AlterConfigsResponse, AlteredResource, ChangedResource
from messages.apis.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.user_scram_credentials import (
    MECHANISMS,
    AlteredScramUser,
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from messages.ask import UnknownTopic
from messages.broker import GetKnownTopics
from messages.client_quotas import QuotaEntity, desanitize, sanitize
from messages.cluster import ConfigEntry
from messages.flow.conversation import Flow, ask
from messages.network import Forwarded
from messages.node import StartConfigs
from messages.vocabulary import Message, value_class

log = logging.getLogger("kafka.server.AdminManager")

Overrides = Mapping[str, tuple[ConfigEntry, ...]]
"""The overrides of the topics that exist, by name."""


@value_class
class StoredOverrides:
    """The config overrides that a request needs, as read from ZooKeeper.

    `topics` has the overrides of topics, `brokers` has the overrides of this broker and the cluster-wide default.
    """

    topics: Overrides
    brokers: Overrides


class ConfigsActor(FlowActor):
    """This actor handles requests about configs and client quotas; each broker has one."""

    def receiveMsg_StartConfigs(self, message: StartConfigs, sender: ActorAddress) -> None:
        """Set the broker's settings, and the actors that this actor sends requests to."""
        self._settings = message.settings
        self.peers = {"bridge": message.bridge, "metadata_cache": message.metadata_cache}

    def flow(self, message: Message) -> Flow[None] | None:
        """Handle a client's request."""
        if not isinstance(message, Forwarded):
            return super().flow(message)
        match message.request.request:
            case DescribeClientQuotasRequest() as request:
                return self._describe_quotas(message, request)
            case AlterClientQuotasRequest() as request:
                return self._alter_quotas(message, request)
            case DescribeUserScramCredentialsRequest() as request:
                return self._describe_credentials(message, request)
            case AlterUserScramCredentialsRequest() as request:
                return self._alter_credentials(message, request)
        return self._serve(message)

    def event_failed(self, event: Message, error: Exception) -> None:
        """Respond with UNKNOWN_SERVER_ERROR to a request whose flow failed."""
        if isinstance(event, Forwarded):
            request = event.request.request
            self.send(*event.reply(API_BY_REQUEST[type(request)].refusal(request, errors.UNKNOWN_SERVER_ERROR)))

    def _describe_quotas(self, forwarded: Forwarded, request: DescribeClientQuotasRequest) -> Flow[None]:
        known = (yield from ask(zookeeper.GetClientQuotas())).quotas
        try:
            found = client_quotas.describe_quotas(known, request.components, request.strict)
        except Refused as refused:
            self.send(*forwarded.reply(DescribeClientQuotasResponse(refused.code, str(refused))))
        else:
            self.send(*forwarded.reply(DescribeClientQuotasResponse(errors.NONE, "", found)))

    def _alter_quotas(self, forwarded: Forwarded, request: AlterClientQuotasRequest) -> Flow[None]:
        results = {}
        for entry in request.entries:
            code, text = yield from self._alter_quotas_of(entry, request.validate_only)
            entity = tuple({part.entity_type: part for part in entry.entity}.values())
            results[entity] = AlteredQuota(code, text, entity)
        self.send(*forwarded.reply(AlterClientQuotasResponse(tuple(results.values()))))

    def _alter_quotas_of(self, entry: QuotaAlteration, validate_only: bool) -> Flow[tuple[int, str | None]]:
        """Change the quotas of one entity; return the error code and the error message."""
        try:
            entity, changes = client_quotas.alteration(entry)
        except Refused as refused:
            return refused.code, str(refused)
        if not validate_only:
            yield from ask(
                zookeeper.SetClientQuotas(entity, tuple(zookeeper.QuotaSetting(*each) for each in changes.items()))
            )
        return errors.NONE, None

    def _credentials(self, users: Iterable[str] | None) -> Flow[dict[str, dict[str, str]]]:
        """Return the seals of the credentials of users, or of all users."""
        names = None if users is None else tuple(map(sanitize, users))
        found = (yield from ask(zookeeper.GetUserConfigs(names))).users
        known = {
            desanitize(user): {name: value for name, value in entries if name in MECHANISMS.values()}
            for user, entries, _ in found
        }
        return {user: credentials for user, credentials in known.items() if credentials}

    def _describe_credentials(self, forwarded: Forwarded, request: DescribeUserScramCredentialsRequest) -> Flow[None]:
        users = [user.name for user in request.users or ()] or None
        known = yield from self._credentials(users and filter(None, users))
        results = tuple(scram_requests.describe_users(users, known))
        self.send(*forwarded.reply(DescribeUserScramCredentialsResponse(errors.NONE, None, results)))

    def _alter_credentials(self, forwarded: Forwarded, request: AlterUserScramCredentialsRequest) -> Flow[None]:
        changes: dict[str, dict[str, str | None]] = {}
        for deletion in request.deletions:
            changes.setdefault(deletion.name, {})[MECHANISMS.get(deletion.mechanism, "")] = None
        for upsertion in request.upsertions:
            changes.setdefault(upsertion.name, {})[MECHANISMS.get(upsertion.mechanism, "")] = upsertion.sealed
        known = yield from self._credentials(filter(None, changes))
        results = {each.user: each for each in scram_requests.refusals(request, known)}
        for user in changes:
            if user not in results:
                settings = tuple(zookeeper.QuotaSetting(*each) for each in changes[user].items())
                yield from ask(zookeeper.SetClientQuotas(QuotaEntity(sanitize(user)), settings))
                results[user] = AlteredScramUser(user, errors.NONE)
        self.send(*forwarded.reply(AlterUserScramCredentialsResponse(tuple(results.values()))))

    def _serve(self, forwarded: Forwarded) -> Flow[None]:
        request = forwarded.request.request
        names = tuple(each.resource_name for each in request.resources if each.resource_type == describe_configs.TOPIC)
        existing = (yield from ask(GetKnownTopics(names))).topics
        found = (yield from ask(zookeeper.GetTopicConfigs(existing))).topics if existing else ()
        brokers: Overrides = {}
        if isinstance(request, describe_configs.DescribeConfigsRequest) or any(
            each.resource_type == describe_configs.BROKER for each in request.resources
        ):
            both = yield from ask(zookeeper.GetBrokerConfigs((str(self._settings.node_id), zookeeper.ALL_BROKERS)))
            brokers = {config.broker: config.entries for config in both.brokers}
        known = StoredOverrides({config.topic: config.entries for config in found}, brokers)
        if isinstance(request, describe_configs.DescribeConfigsRequest):
            described = (self._describe(each, known, request.include_synonyms) for each in request.resources)
            self.send(*forwarded.reply(describe_configs.DescribeConfigsResponse(tuple(described))))
            return
        responses = []
        for resource in request.resources:
            result = yield from self._alter(resource, known, request)
            responses.append(AlteredResource(*result, resource.resource_type, resource.resource_name))
        self.send(*forwarded.reply(AlterConfigsResponse(tuple(responses))))

    def _describe(
        self, resource: describe_configs.DescribeConfigsResource, known: StoredOverrides, synonyms: bool
    ) -> describe_configs.DescribedResource:
        kind, name = resource.resource_type, resource.resource_name
        try:
            configs = self._configs_of(kind, name, known, synonyms)
        except Refused as refused:
            return describe_configs.DescribedResource(refused.code, str(refused), kind, name)
        wanted = resource.configuration_keys
        return describe_configs.DescribedResource(
            errors.NONE, "", kind, name, tuple(each for each in configs if wanted is None or each.name in wanted)
        )

    def _configs_of(
        self, kind: int, name: str, known: StoredOverrides, synonyms: bool
    ) -> tuple[describe_configs.DescribedConfig, ...]:
        """Return the settings of a topic or of this broker, or the cluster-wide default if the name is empty."""
        own, of_all = known.brokers[str(self._settings.node_id)], known.brokers[zookeeper.ALL_BROKERS]
        if kind == describe_configs.BROKER:
            if not name:
                return config_requests.describe_all_brokers(of_all, synonyms)
            self._check_broker(name, f"{self._settings.node_id} or empty string")
            return config_requests.describe_broker(self._settings, own, of_all, synonyms)
        if kind != describe_configs.TOPIC:
            raise Refused(f"Unsupported resource type: {kind}")
        check_name(name)
        if name not in known.topics:
            raise Refused("", errors.UNKNOWN_TOPIC_OR_PARTITION)
        return config_requests.describe_topic(self._settings, known.topics[name], synonyms, own, of_all)

    def _alter(
        self, resource: ChangedResource, known: StoredOverrides, request: AlterConfigsRequest
    ) -> Flow[tuple[int, str | None]]:
        """Change one resource's overrides; return the error code and the error message."""
        try:
            write = self._plan_change(resource, known, isinstance(request, IncrementalAlterConfigsRequest))
        except Refused as refused:
            log.info(
                "[Broker id=%d] Invalid config value for resource %s: %s",
                self._settings.node_id,
                resource.resource_name,
                refused,
            )
            return refused.code, str(refused)
        if not request.validate_only:
            try:
                yield from ask(write)
            except UnknownTopic:  # it was deleted since this broker's metadata cache had it
                unknown = _unknown_topic(resource.resource_name)
                return unknown.code, str(unknown)
        return errors.NONE, None

    def _plan_change(
        self, resource: ChangedResource, known: StoredOverrides, incremental: bool
    ) -> zookeeper.SetTopicConfig | zookeeper.SetBrokerConfig:
        """Return the ZooKeeper request that changes one resource; raise Refused if the change is invalid."""
        kind, name = resource.resource_type, resource.resource_name
        if kind == describe_configs.BROKER and name:
            self._check_broker(name, f"{self._settings.node_id}")
        broker = str(self._settings.node_id) if name else zookeeper.ALL_BROKERS
        old = known.brokers[broker] if kind == describe_configs.BROKER else _of_topic(kind, name, known.topics)
        new = (
            config_requests.alter_overrides(old, resource.configs)
            if incremental
            else config_requests.replace_overrides(resource.configs)
        )
        if kind == describe_configs.BROKER:
            config_requests.check_broker(broker, old, new, self._settings)
            if any(is_of_store(change.name) for change in resource.configs):
                self._check_stores(new, changed=set(new) != set(old))
            return zookeeper.SetBrokerConfig(broker, new)
        config_requests.check_topic(name, new, self._settings)
        return zookeeper.SetTopicConfig(name, new)

    def _check_stores(self, entries: tuple[ConfigEntry, ...], changed: bool) -> None:
        """Refuse key stores and trust stores that cannot be used.

        Args:
            entries: The overrides of this broker.
            changed: Whether an override has changed; otherwise only the files have.
        """
        problem = self.port("tls").problem(of_stores(entries))
        if problem and changed:
            raise Refused(f"Invalid dynamic configuration: {problem}")
        if problem:
            resource = f"ConfigResource(type=BROKER, name='{self._settings.node_id}')"
            text = f"Validation of dynamic config update of SSLFactory failed: {problem}"
            raise Refused(f"Invalid config value for resource {resource}: {text}", errors.INVALID_CONFIG)

    def _check_broker(self, name: str, expected: str) -> None:
        """Refuse another broker's name: a broker has only its own settings."""
        if not re.fullmatch("[+-]?[0-9]+", name):
            raise Refused(f"Broker id must be an integer, but it is: {name}")
        if int(name) != self._settings.node_id:
            raise Refused(f"Unexpected broker id, expected {expected}, but received {name}")


def _of_topic(kind: int, name: str, overrides: Overrides) -> tuple[ConfigEntry, ...]:
    """Return a topic's current overrides; raise Refused for an unknown topic or another resource type."""
    if kind != describe_configs.TOPIC:
        raise Refused(f"Unknown resource type {kind}")
    if not name:
        raise Refused("Default topic resources are not allowed.")
    if name not in overrides:
        raise _unknown_topic(name)
    return overrides[name]


def _unknown_topic(name: str) -> Refused:
    return Refused(f"The topic '{name}' does not exist.", errors.UNKNOWN_TOPIC_OR_PARTITION)
