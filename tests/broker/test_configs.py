"""Describing and changing the configs of topics and brokers.

The rules are tested by calls, `ConfigsActor` on nodes of the controller tests' `World`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from actors.core.config.broker_config import DYNAMIC
from actors.core.config.config_requests import (
    alter_overrides,
    check_topic,
    describe_broker,
    describe_topic,
    replace_overrides,
)
from actors.core.config.log_settings import log_settings
from actors.core.config.topic_config import CONFIGS, check_config
from actors.core.refusal import Refused
from messages.apis.alter_configs import (
    APPEND,
    DELETE,
    SET,
    SUBTRACT,
    AlterConfigsRequest,
    ChangedResource,
    ConfigChange,
)
from messages.apis.describe_configs import (
    BROKER,
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
    TOPIC,
    ConfigSynonym,
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from messages.apis.incremental_alter_configs import IncrementalAlterConfigsRequest
from messages.apis.update_metadata import UpdateMetadataRequest
from messages.ask import Ask
from messages.broker import MergeMetadata
from messages.cluster import ConfigEntry, Endpoint
from messages.errors import INVALID_CONFIG, INVALID_REQUEST, INVALID_TOPIC, NONE, UNKNOWN_TOPIC_OR_PARTITION
from messages.network import ClientRequest, ClientResponse, Forwarded
from messages.zookeeper import GetBrokerConfigs, GetTopicConfigs, SetBrokerConfig
from tests.controller.world import Node, World, settings

# ------------------------------------------------------------------------------------------------- the rules


def test_every_override_that_a_topic_may_have_is_described_and_its_default_is_valid() -> None:
    described = describe_topic(settings(0), ())
    assert [each.name for each in described] == sorted(CONFIGS)
    for each in described:
        assert (each.config_source, each.read_only, each.is_sensitive) == (DEFAULT_CONFIG, False, False)
        check_config(ConfigEntry(each.name, each.value or ""))


def test_an_override_precedes_the_servers_setting_and_kafkas_default() -> None:
    node = settings(0, log_segment_bytes=1000, log_retention_hours=1, unclean_leader_election_enable=True)
    reported = {
        each.name: each for each in describe_topic(node, (ConfigEntry("segment.bytes", "2000"),), synonyms=True)
    }
    assert reported["segment.bytes"].synonyms == (
        ConfigSynonym("segment.bytes", "2000", DYNAMIC_TOPIC_CONFIG),
        ConfigSynonym("log.segment.bytes", "1000", STATIC_BROKER_CONFIG),
        ConfigSynonym("log.segment.bytes", "1073741824", DEFAULT_CONFIG),
    )
    assert (reported["segment.bytes"].value, reported["segment.bytes"].config_source) == ("2000", DYNAMIC_TOPIC_CONFIG)
    assert (reported["retention.ms"].value, reported["retention.ms"].config_source) == ("3600000", STATIC_BROKER_CONFIG)
    assert reported["unclean.leader.election.enable"].value == "true"
    assert reported["flush.ms"].synonyms == ()


def test_a_broker_is_described_by_the_names_of_its_server_properties() -> None:
    reported = {each.name: each for each in describe_broker(settings(3, num_partitions=7), (), ())}
    assert (reported["broker.id"].value, reported["listeners"].value) == ("3", "PLAINTEXT://127.0.0.1:9003")
    assert (reported["num.partitions"].value, reported["num.partitions"].config_source) == ("7", STATIC_BROKER_CONFIG)
    assert reported["min.insync.replicas"].config_source == DEFAULT_CONFIG
    changeable = {"advertised.listeners", "unclean.leader.election.enable", "message.max.bytes", "log.retention.ms"}
    assert changeable <= {each.name for each in reported.values() if not each.read_only} < DYNAMIC.keys()
    assert not [name for name in reported if name.startswith("trace.")]


OLD = (ConfigEntry("cleanup.policy", "compact"), ConfigEntry("retention.ms", "5"))


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (ConfigChange("retention.ms", "7", SET), {"cleanup.policy": "compact", "retention.ms": "7"}),
        (ConfigChange("retention.ms", None, DELETE), {"cleanup.policy": "compact"}),
        (ConfigChange("segment.ms", None, DELETE), {"cleanup.policy": "compact", "retention.ms": "5"}),
        (ConfigChange("cleanup.policy", "delete", APPEND), {"cleanup.policy": "compact,delete", "retention.ms": "5"}),
        (ConfigChange("cleanup.policy", "compact", APPEND), {"cleanup.policy": "compact", "retention.ms": "5"}),
        (
            ConfigChange("leader.replication.throttled.replicas", "0:1", APPEND),
            {"cleanup.policy": "compact", "leader.replication.throttled.replicas": "0:1", "retention.ms": "5"},
        ),
    ],
)
def test_changing_one_override_leaves_the_others(change: ConfigChange, after: dict[str, str]) -> None:
    assert alter_overrides(OLD, (change,)) == tuple(after.items())


def test_taking_items_out_of_a_list() -> None:
    both = (ConfigEntry("cleanup.policy", "compact,delete"),)
    assert alter_overrides(both, (ConfigChange("cleanup.policy", "compact", SUBTRACT),)) == (
        ("cleanup.policy", "delete"),
    )


REFUSED = [
    ((ConfigChange("retention.ms", None),), INVALID_REQUEST, "Null value not supported for : retention.ms"),
    ((ConfigChange("a", "1"), ConfigChange("a", "2")), INVALID_REQUEST, "Error due to duplicate config keys"),
    ((ConfigChange("no.such", "1"),), INVALID_CONFIG, "Unknown topic config name: no.such"),
    (
        (ConfigChange("retention.ms", "x"),),
        INVALID_CONFIG,
        "Invalid config value for resource ConfigResource(type=TOPIC, name='t'):"
        " Invalid value x for configuration retention.ms: Not a number of type LONG",
    ),
    (
        (ConfigChange("min.compaction.lag.ms", "100"), ConfigChange("max.compaction.lag.ms", "50")),
        INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
    ),
]


@pytest.mark.parametrize(("changes", "code", "words"), REFUSED)
def test_what_is_refused_either_way_in_kafkas_words(changes: tuple[ConfigChange, ...], code: int, words: str) -> None:
    for change in (lambda: replace_overrides(changes), lambda: alter_overrides(OLD, changes)):
        with pytest.raises(Refused) as refused:
            check_topic("t", change(), settings(0))
        assert (refused.value.code, str(refused.value)) == (code, words)


def test_a_topic_may_have_no_cleanup_policy() -> None:
    [left] = alter_overrides(
        (ConfigEntry("cleanup.policy", "compact"),), (ConfigChange("cleanup.policy", "compact", SUBTRACT),)
    )
    check_topic("t", (left,), settings(0))
    found = log_settings(settings(0), "t", (left,))
    assert (left.value, found.compacted, found.deleting) == ("", False, False)


@pytest.mark.parametrize(("operation", "word"), [(APPEND, "append"), (SUBTRACT, "subtract")])
def test_only_lists_have_items(operation: int, word: str) -> None:
    with pytest.raises(Refused, match=f"Config value {word} is not allowed for config key: retention.ms") as refused:
        alter_overrides(OLD, (ConfigChange("retention.ms", "9", operation),))
    assert refused.value.code == INVALID_CONFIG


# ------------------------------------------------------------------------------------------------- the actor


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


def ask(world: World, node: Node, request: Any) -> Any:
    """Send a request to the node's ConfigsActor and return the response.

    Before, give the node's metadata cache all UpdateMetadata requests sent to the node.
    """
    actor = world.base.instance_of(node.node)
    for reported in world.sent(node.id, UpdateMetadataRequest):
        world.base.inject(actor._actors["metadata_cache"], Ask(1, MergeMetadata(reported, begins=True)), world.client)
    world.wire.clear()
    world.run(0.1)
    world.responses.clear()
    mail = Forwarded(world.client, ClientRequest(7, 1, "client", "PLAINTEXT", request))
    world.base.inject(actor._actors["configs"], mail, world.client)
    world.run(0.1)
    (response,) = world.responses
    assert isinstance(response, ClientResponse)
    return response.response


def overrides(world: World, topic: str) -> tuple[ConfigEntry, ...]:
    (config,) = world.admin.ask(GetTopicConfigs((topic,))).topics
    return config.entries


def changed(*changes: ConfigChange, kind: int = TOPIC, name: str = "t") -> tuple[ChangedResource, ...]:
    return (ChangedResource(kind, name, changes),)


def test_each_resource_is_described_for_itself(world: World) -> None:
    node = world.node(0)
    world.topic("t", (0,), config=(("retention.ms", "5"),))
    wanted = (
        DescribeConfigsResource(TOPIC, "t", ("retention.ms",)),
        DescribeConfigsResource(TOPIC, "missing"),
        DescribeConfigsResource(TOPIC, ""),
        DescribeConfigsResource(BROKER, "0", ("num.partitions",)),
        DescribeConfigsResource(BROKER, "9"),
        DescribeConfigsResource(77, "t"),
    )
    topic, *refused = ask(world, node, DescribeConfigsRequest(3, wanted)).results
    assert [(c.name, c.value, c.config_source) for c in topic.configs] == [("retention.ms", "5", DYNAMIC_TOPIC_CONFIG)]
    assert [each.error_code for each in refused] == [
        *(UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC, NONE, INVALID_REQUEST, INVALID_REQUEST)
    ]
    assert refused[3].error_message == "Unexpected broker id, expected 0 or empty string, but received 9"


def test_overrides_are_changed_and_every_broker_is_notified(world: World) -> None:
    node = world.node(0)
    world.topic("t", (0,), config=(("retention.ms", "5"), ("segment.ms", "6")))
    asked = IncrementalAlterConfigsRequest(1, changed(ConfigChange("retention.ms", "7")))
    assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    assert overrides(world, "t") == (("retention.ms", "7"), ("segment.ms", "6"))
    asked = AlterConfigsRequest(1, changed(ConfigChange("retention.ms", "8")))
    assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    assert overrides(world, "t") == (("retention.ms", "8"),)
    notes = [data for path, data in world.zk.walk() if path.startswith("/config/changes/config_change_")]
    assert notes == [b'{"version":2,"entity_path":"topics/t"}'] * 2


ADVERTISED = "advertised.listeners"
THROTTLE, UNCLEAN = "leader.replication.throttled.rate", "unclean.leader.election.enable"


def test_a_brokers_own_override_precedes_the_cluster_wide_default(world: World) -> None:
    node = world.node(0)
    for name, changes in (
        ("", (ConfigChange(UNCLEAN, "true"), ConfigChange(THROTTLE, "5"))),
        ("0", (ConfigChange(UNCLEAN, "false"),)),
    ):
        asked = IncrementalAlterConfigsRequest(1, changed(*changes, kind=BROKER, name=name))
        assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    wanted = (DescribeConfigsResource(BROKER, "0", (UNCLEAN, THROTTLE)), DescribeConfigsResource(BROKER, ""))
    own, of_all = ask(world, node, DescribeConfigsRequest(3, wanted, include_synonyms=True)).results
    assert [(c.name, c.value, [s.source for s in c.synonyms]) for c in own.configs] == [
        (THROTTLE, "5", [DYNAMIC_DEFAULT_BROKER_CONFIG]),
        (UNCLEAN, "false", [DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, DEFAULT_CONFIG]),
    ]
    assert [(c.name, c.value) for c in of_all.configs] == [(THROTTLE, "5"), (UNCLEAN, "true")]
    notes = [data for path, data in world.zk.walk() if path.startswith("/config/changes/config_change_")]
    assert notes == [b'{"version":2,"entity_path":"brokers/<default>"}', b'{"version":2,"entity_path":"brokers/0"}']


def test_settings_of_kerberos_are_kept_for_one_broker_only_and_have_no_effect(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """librdkafka's test of AlterConfigs sets one of them."""
    node, change = world.node(0), ConfigChange("sasl.kerberos.min.time.before.relogin", "58000")
    of_one, of_all = (
        ask(world, node, IncrementalAlterConfigsRequest(1, changed(change, kind=BROKER, name=name))).responses[0]
        for name in ("0", "")
    )
    where = "at default cluster level, broker id must be specified"
    assert of_one.error_code == NONE
    assert of_all.error_code == INVALID_REQUEST
    assert of_all.error_message == f"Cannot update these configs {where}: Set({change.name})"
    wanted = DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", (change.name,)),))
    assert [(each.value, each.read_only) for each in ask(world, node, wanted).results[0].configs] == [("58000", False)]
    assert f"Ignoring overrides that have no effect in this broker: {change.name}=58000" in caplog.text


def test_advertised_listeners_are_set_for_one_broker_only(world: World) -> None:
    node = world.node(0)
    wanted = DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", (ADVERTISED,)),), include_synonyms=True)

    def reported() -> tuple[Any, ...]:
        ((config,),) = (each.configs for each in ask(world, node, wanted).results)
        return config.value, config.config_source, config.read_only, config.config_type, config.synonyms

    assert reported() == (None, DEFAULT_CONFIG, False, 2, ())
    for name, value, code in (
        ("0", "PLAINTEXT://elsewhere:1", NONE),
        ("0", "OTHERS://elsewhere:2", INVALID_REQUEST),
        ("", "PLAINTEXT://elsewhere:3", INVALID_REQUEST),
    ):
        asked = IncrementalAlterConfigsRequest(1, changed(ConfigChange(ADVERTISED, value), kind=BROKER, name=name))
        assert [each.error_code for each in ask(world, node, asked).responses] == [code]
    said = ConfigSynonym(ADVERTISED, "PLAINTEXT://elsewhere:1", DYNAMIC_BROKER_CONFIG)
    assert reported() == (said.value, DYNAMIC_BROKER_CONFIG, False, 2, (said,))


def test_topic_defaults_are_described_with_all_their_sources(world: World) -> None:
    node = world.node(0, log_segment_bytes=1000)
    world.topic("t", (0,))
    for name, changes in (
        ("", (ConfigChange("log.segment.bytes", "3000"), ConfigChange("log.retention.ms", "4000"))),
        ("0", (ConfigChange("log.segment.bytes", "2000"),)),
    ):
        asked = IncrementalAlterConfigsRequest(1, changed(*changes, kind=BROKER, name=name))
        assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    settings = ("log.segment.bytes", "log.retention.ms")
    wanted = (
        DescribeConfigsResource(BROKER, "0", settings),
        DescribeConfigsResource(TOPIC, "t", ("segment.bytes", "retention.ms")),
    )
    for described in ask(world, node, DescribeConfigsRequest(3, wanted, include_synonyms=True)).results:
        retention, segment = described.configs
        assert segment.synonyms == (
            ConfigSynonym("log.segment.bytes", "2000", DYNAMIC_BROKER_CONFIG),
            ConfigSynonym("log.segment.bytes", "3000", DYNAMIC_DEFAULT_BROKER_CONFIG),
            ConfigSynonym("log.segment.bytes", "1000", STATIC_BROKER_CONFIG),
            ConfigSynonym("log.segment.bytes", "1073741824", DEFAULT_CONFIG),
        )
        assert (segment.value, segment.config_source, segment.read_only) == ("2000", DYNAMIC_BROKER_CONFIG, False)
        assert retention.synonyms == (
            ConfigSynonym("log.retention.ms", "4000", DYNAMIC_DEFAULT_BROKER_CONFIG),
            ConfigSynonym("log.retention.hours", "168", DEFAULT_CONFIG),
        )
        assert (retention.value, retention.config_source) == ("4000", DYNAMIC_DEFAULT_BROKER_CONFIG)


class FakeStores:
    """The adapter `tls` of a node: `problem` is what is wrong with the stores."""

    def __init__(self) -> None:
        self.wrong, self.used = "", []

    def problem(self, overrides: Any) -> str:
        return self.wrong

    def reload(self, overrides: Any) -> str:
        self.used.append([tuple(each) for each in overrides])
        return self.wrong


def test_the_stores_of_a_listener_are_read_anew_when_one_of_their_settings_is_altered(world: World) -> None:
    world.base.ports["tls"] = stores = FakeStores()
    where = (Endpoint("PLAINTEXT", "h0", 1), Endpoint("TLS", "h0", 2, "SSL"))
    node = world.node(0, listeners=where, advertised_listeners=where)
    location = "listener.name.tls.ssl.keystore.location"
    for name, setting, wrong, code in (
        ("0", location, "", NONE),
        ("0", location, "", NONE),
        ("0", location, "the new file is wrong", INVALID_CONFIG),
        ("0", "listener.name.tls.ssl.truststore.location", "it is wrong", INVALID_REQUEST),
        ("", location, "", INVALID_REQUEST),
        ("0", "ssl.keystore.location", "", INVALID_REQUEST),
        ("0", "listener.name.tls.ssl.keystore.password", "", INVALID_REQUEST),
        ("0", "listener.name.plaintext.ssl.keystore.location", "", INVALID_REQUEST),
        ("0", "listener.name.tls.ssl.client.auth", "", INVALID_REQUEST),
    ):
        stores.wrong = wrong
        asked = IncrementalAlterConfigsRequest(1, changed(ConfigChange(setting, "/k"), kind=BROKER, name=name))
        assert [each.error_code for each in ask(world, node, asked).responses] == [code], setting
    assert stores.used == [[], [(location, "/k")], [(location, "/k")]]
    wanted = DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", (location,)),))
    ((config,),) = (each.configs for each in ask(world, node, wanted).results)
    assert (config.value, config.config_source, config.read_only) == ("/k", DYNAMIC_BROKER_CONFIG, False)


def test_the_password_of_a_store_is_altered_if_passwords_can_be_encrypted(world: World) -> None:
    world.base.ports["tls"] = stores = FakeStores()
    where = (Endpoint("TLS", "h0", 2, "SSL"),)
    node = world.node(0, listeners=where, advertised_listeners=where, password_encoder_secret="***")
    password = ConfigChange("listener.name.tls.ssl.keystore.password", "sealed=1,iterations=0")
    asked = IncrementalAlterConfigsRequest(1, changed(password, kind=BROKER, name="0"))
    assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    assert stores.used[-1] == [(password.name, password.value)]


@pytest.mark.parametrize("name", ["num.partitions", "listeners", "metric.reporters"])
def test_settings_without_effect_are_refused_by_name(world: World, name: str) -> None:
    node = world.node(0)
    asked = IncrementalAlterConfigsRequest(1, changed(ConfigChange(name, "1"), kind=BROKER, name="0"))
    (refused,) = ask(world, node, asked).responses
    assert (refused.error_code, name in refused.error_message) == (INVALID_REQUEST, True)


def test_settings_of_another_server_are_kept_and_not_described(world: World) -> None:
    """An Apache broker may have set them. Clearing a throttle, as kafka-reassign-partitions does, keeps them."""
    node = world.node(0)
    world.admin.ask(SetBrokerConfig("0", (ConfigEntry("remote.log.reader.threads", "4"), ConfigEntry(THROTTLE, "5"))))
    asked = IncrementalAlterConfigsRequest(1, changed(ConfigChange(THROTTLE, None, DELETE), kind=BROKER, name="0"))
    assert [each.error_code for each in ask(world, node, asked).responses] == [NONE]
    (config,) = world.admin.ask(GetBrokerConfigs(("0",))).brokers
    assert config.entries == (("remote.log.reader.threads", "4"),)
    wanted = DescribeConfigsRequest(3, (DescribeConfigsResource(BROKER, "0", ("remote.log.reader.threads",)),))
    assert [each.configs for each in ask(world, node, wanted).results] == [()]


@pytest.mark.parametrize("kind", [AlterConfigsRequest, IncrementalAlterConfigsRequest])
def test_what_is_refused_or_only_tried_changes_nothing(world: World, kind: type[Any]) -> None:
    node = world.node(0)
    world.topic("t", (0,))
    before = dict(world.zk.walk())
    good = ConfigChange("retention.ms", "5")
    cases = [
        (kind(1, changed(good), validate_only=True), NONE),
        (kind(1, changed(good, name="missing")), UNKNOWN_TOPIC_OR_PARTITION),
        (kind(1, changed(good, name="")), INVALID_REQUEST),
        (kind(1, changed(ConfigChange("no.such", "5"))), INVALID_CONFIG),
        (kind(1, changed(good, kind=BROKER, name="0")), INVALID_REQUEST),
        (kind(1, changed(good, kind=BROKER, name="9")), INVALID_REQUEST),
        (kind(1, changed(good, kind=77)), INVALID_REQUEST),
    ]
    for request, code in cases:
        assert [each.error_code for each in ask(world, node, request).responses] == [code], request
    assert dict(world.zk.walk()) == before
