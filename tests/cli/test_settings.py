"""Settings: Kafka's defaults and consequences, warnings, and errors that name setting, value and what is allowed."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.node.settings import SettingsError, load_settings, settings_of
from actors.node.settings_table import KNOWN, SETTINGS
from messages.cluster import Endpoint
from messages.node import NodeSettings

MINIMAL = {"broker.id": "1", "zookeeper.connect": "localhost:2181", "listeners": "PLAINTEXT://127.0.0.1:9092"}


def loaded(**overrides: str) -> NodeSettings:
    return settings_of({**MINIMAL, **{name.replace("__", "."): value for name, value in overrides.items()}}).settings


def errors(without: tuple[str, ...] = (), **overrides: str) -> list[str]:
    properties = {**MINIMAL, **{name.replace("__", "."): value for name, value in overrides.items()}}
    with pytest.raises(SettingsError) as caught:
        settings_of({name: value for name, value in properties.items() if name not in without})
    return caught.value.messages


def test_defaults_are_those_of_node_settings() -> None:
    settings = loaded()
    computed = {"zookeeper_connection_timeout_ms", "trace_dir"}
    for field in attrs.fields(NodeSettings):
        if field.default is not attrs.NOTHING and field.name not in computed:
            assert getattr(settings, field.name) == field.default, field.name


def test_every_field_has_its_setting() -> None:
    fields = {setting.field for setting in SETTINGS if setting.field}
    assembled = {
        *("node_id", "listeners", "advertised_listeners", "log_dirs", "zookeeper_connect"),
        *("inter_broker_listener_name", "zookeeper_connection_timeout_ms", "trace_dir"),
    }
    assert fields | assembled == {field.name for field in attrs.fields(NodeSettings)}


def test_the_table_is_consistent() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    assert not KNOWN & set(names)
    for setting in SETTINGS:
        if setting.default is not None:
            setting.kind.parse(setting.default)


def test_what_follows_from_what_is_said() -> None:
    settings = loaded(log__dir="/a", zookeeper__session__timeout__ms="6000")
    assert settings.log_dirs == ("/a",)
    assert settings.trace_dir == "/a.trace"
    assert settings.advertised_listeners == settings.listeners == (Endpoint("PLAINTEXT", "127.0.0.1", 9092),)
    assert settings.zookeeper_connection_timeout_ms == 6000
    assert loaded(log__dir="/a", log__dirs="/b,, /c ").log_dirs == ("/b", "/c")
    assert loaded(zookeeper__connect="h:1,i:2/kafka/").zookeeper_connect == "h:1,i:2/kafka"
    assert loaded(process__roles=" controller ").roles == ("controller",)
    assert loaded(process__roles="controller,broker").roles == ("broker", "controller")
    assert loaded(delete__topic__enable=" FALSE ").delete_topic_enable is False


def test_listeners_as_kafka_reads_them() -> None:
    named = loaded(
        listeners="internal://:9092,client://0.0.0.0:9093",
        advertised__listeners="internal://[::1]:1,client://my_host:2",
        listener__security__protocol__map="internal:plaintext,CLIENT:PLAINTEXT",
        inter__broker__listener__name="internal",
    )
    assert named.listeners == (Endpoint("INTERNAL", "", 9092), Endpoint("CLIENT", "0.0.0.0", 9093))
    assert named.advertised_listeners == (Endpoint("INTERNAL", "::1", 1), Endpoint("CLIENT", "my_host", 2))
    assert named.inter_broker_listener_name == "INTERNAL"
    assert loaded(listeners="PLAINTEXT://:9092").advertised_listeners[0].host


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"broker__id": "x"}, ["broker.id=x", "whole number"]),
        ({"broker__id": "1001"}, ["broker.id=1001", "reserved.broker.max.id=1000"]),
        ({"broker__id": "-1"}, ["broker.id", "not generated"]),
        ({"node__id": "2"}, ["node.id=2", "broker.id=1"]),
        ({"num__partitions": "0"}, ["num.partitions=0", "at least 1"]),
        ({"delete__topic__enable": "maybe"}, ["delete.topic.enable=maybe", "true or false"]),
        ({"process__roles": "boss"}, ["process.roles=boss", "broker or controller"]),
        ({"process__roles": ""}, ["process.roles=", "broker or controller"]),
        ({"inter__broker__protocol__version": "3.9"}, ["inter.broker.protocol.version=3.9", "0.8.0 to 2.6"]),
        ({"metrics__port": "70000"}, ["metrics.port=70000", "65535"]),
        ({"listeners": ""}, ["listeners=", "at least one"]),
        ({"listeners": "PLAINTEXT:9092"}, ["'PLAINTEXT:9092'", "LISTENER://host:port"]),
        ({"listeners": "PLAINTEXT://h:99999"}, ["'PLAINTEXT://h:99999'", "65535"]),
        ({"listeners": "SSL://h:1"}, ["listener SSL", "only PLAINTEXT"]),
        ({"listeners": "CLIENT://h:1"}, ["no security protocol", "CLIENT"]),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, ["different name"]),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, ["all interfaces", "advertised.listeners"]),
        ({"listeners": "PLAINTEXT://h:1", "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
          "advertised__listeners": "PLAINTEXT://h:1,B://h:2"}, ["advertised.listeners=", "only what listeners binds"]),
        ({"inter__broker__listener__name": "OTHER"}, ["inter.broker.listener.name=OTHER", "PLAINTEXT"]),
        ({"log__dirs": " , "}, ["log.dirs", "at least one"]),
        ({"log__dirs": "/a,/b/../a"}, ["log.dirs", "twice"]),
        ({"log__dirs": "/a", "trace__dir": "/a/trace"}, ["trace.dir=/a/trace", "/a"]),
        ({"zookeeper__connect": ""}, ["zookeeper.connect=", "host:port"]),
        ({"zookeeper__connect": "h:x"}, ["zookeeper.connect=h:x", "host:port"]),
        ({"zookeeper__session__timeout__ms": "0"}, ["zookeeper.session.timeout.ms=0", "at least 1"]),
    ],
)  # fmt: skip
def test_wrong_values_are_named(overrides: dict[str, str], words: list[str]) -> None:
    messages = errors(**overrides)
    assert any(all(word in message for word in words) for message in messages), messages


def test_two_listeners_need_two_ports() -> None:
    found = errors(
        listeners="A://h:1,B://i:1",
        listener__security__protocol__map="A:PLAINTEXT,B:PLAINTEXT",
        inter__broker__listener__name="A",
    )
    assert any("different port" in message for message in found)


def test_all_errors_are_told_at_once() -> None:
    assert len(errors(without=("zookeeper.connect", "broker.id"), num__partitions="x")) == 3


def test_warnings_one_line_each() -> None:
    warnings = settings_of({**MINIMAL, "num.io.threads": "8", "zookeper.connect": "h", "xyzzy": "1"}).warnings
    assert warnings == (
        "num.io.threads is a setting of Kafka's that is not acted on here",
        "zookeper.connect is no known setting; did you mean zookeeper.connect?",
        "xyzzy is no known setting",
    )
    assert not settings_of(MINIMAL).warnings
    assert settings_of({**MINIMAL, "listener.name.internal.ssl.keystore.location": "x"}).warnings[0].endswith("on here")


def test_a_file_and_what_overrides_it(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# mine\nbroker.id=1\nzookeeper.connect = h:2181\nnum.partitions:3\n")
    assert load_settings(file).settings.num_partitions == 3
    assert load_settings(file, {"num.partitions": "5"}).settings.num_partitions == 5
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / "missing")
    file.write_text("broker.id=\\u1")
    with pytest.raises(SettingsError, match="line 1"):
        load_settings(file)


@given(st.dictionaries(st.sampled_from([setting.name for setting in SETTINGS]), st.text(max_size=20)))
def test_any_values_are_taken_or_refused_by_name(values: dict[str, str]) -> None:
    try:
        settings_of({**MINIMAL, **values})
    except SettingsError as error:
        assert error.messages
        assert all(any(setting.name in message for setting in SETTINGS) for message in error.messages)
