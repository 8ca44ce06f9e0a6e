"""Node settings: Kafka's defaults and derived values, warnings, and errors with setting, value and allowed values."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.node.process import NoBrokerId, with_broker_id
from actors.node.settings import SettingsError, load_settings, settings_of
from actors.node.settings_table import SECURITY, SECURITY_NOT_ASKED, folder_text, folders
from messages.cluster import Endpoint
from messages.node_settings import SETTINGS, NodeSettings
from zk_bridge.client import Client
from zk_bridge.memory_store import MemoryStore, MemoryZooKeeper

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
        *("inter_broker_listener_name", "control_plane_listener_name", "zookeeper_connection_timeout_ms", "trace_dir"),
    }
    assert fields | assembled == {field.name for field in attrs.fields(NodeSettings)}


def test_the_table_is_consistent() -> None:
    names = [setting.name for setting in SETTINGS]
    assert len(set(names)) == len(names)
    for setting in SETTINGS:
        if setting.default is not None:
            setting.type.parse(setting.default)


def test_settings_that_are_not_set_follow_from_others() -> None:
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
    assert named.control_plane_listener_name is None
    both = {"listeners": "PLAINTEXT://h:1,CONTROL://h:2", "listener__security__protocol__map": "CONTROL:PLAINTEXT,"
            "PLAINTEXT:PLAINTEXT"}  # fmt: skip
    assert loaded(**both, control__plane__listener__name="control").control_plane_listener_name == "CONTROL"
    assert loaded(listeners="PLAINTEXT://:9092").advertised_listeners[0].host


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"broker__id": "x"}, ["broker.id=x", "whole number"]),
        ({"broker__id": "1001"}, ["broker.id=1001", "reserved.broker.max.id=1000"]),
        ({"broker__id": "-1", "broker__id__generation__enable": "false"}, ["broker.id is missing"]),
        ({"node__id": "2"}, ["node.id=2", "broker.id=1"]),
        ({"num__partitions": "0"}, ["num.partitions=0", "at least 1"]),
        ({"delete__topic__enable": "maybe"}, ["delete.topic.enable=maybe", "true or false"]),
        ({"process__roles": "boss"}, ["process.roles=boss", "broker or controller"]),
        ({"process__roles": ""}, ["process.roles=", "broker or controller"]),
        ({"inter__broker__protocol__version": "3.9"}, ["inter.broker.protocol.version=3.9", "0.8.0 to 2.8"]),
        ({"metrics__port": "70000"}, ["metrics.port=70000", "65535"]),
        ({"listeners": ""}, ["listeners=", "at least one"]),
        ({"listeners": "PLAINTEXT:9092"}, ["'PLAINTEXT:9092'", "LISTENER://host:port"]),
        ({"listeners": "PLAINTEXT://h:99999"}, ["'PLAINTEXT://h:99999'", "65535"]),
        ({"listeners": "SSL://h:1"}, ["TLS of listener SSL", "ssl.keystore.location is missing"]),
        ({"listeners": "CLIENT://h:1"}, ["no security protocol", "CLIENT"]),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, ["different name"]),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, ["wildcard address", "advertised.listeners"]),
        ({"listeners": "PLAINTEXT://h:1", "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
          "advertised__listeners": "PLAINTEXT://h:1,B://h:2"}, ["advertised.listeners=", "only what listeners binds"]),
        ({"inter__broker__listener__name": "OTHER"}, ["inter.broker.listener.name=OTHER", "PLAINTEXT"]),
        ({"control__plane__listener__name": "C"}, ["control.plane.listener.name=C", "listeners has no listener C"]),
        ({"control__plane__listener__name": "PLAINTEXT"}, ["control.plane.listener.name", "listener of brokers"]),
        ({"log__dirs": " , "}, ["log.dirs", "at least one"]),
        ({"log__dirs": "/a,/b/../a"}, ["log.dirs", "twice"]),
        ({"log__dirs": "/a", "trace__dir": "/a/trace"}, ["trace.dir=/a/trace", "/a"]),
        ({"zookeeper__connect": ""}, ["zookeeper.connect=", "host:port"]),
        ({"zookeeper__connect": "h:x"}, ["zookeeper.connect=h:x", "host:port"]),
        ({"queued__max__request__bytes": "1000"}, ["queued.max.request.bytes=1000", "socket.request.max.bytes"]),
        ({"zookeeper__session__timeout__ms": "0"}, ["zookeeper.session.timeout.ms=0", "at least 1"]),
    ],
)  # fmt: skip
def test_wrong_values_are_named(overrides: dict[str, str], words: list[str]) -> None:
    messages = errors(**overrides)
    assert any(all(word in message for word in words) for message in messages), messages


KRAFT = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "log.dirs": "/tmp/kraft-combined-logs",
}
"""The content of Kafka's config/kraft/server.properties."""


@pytest.mark.parametrize(
    ("without", "more"),
    [
        ((), {}),
        ((), {"zookeeper.connect": "h:1"}),
        (("process.roles",), {}),
        (("controller.quorum.voters",), {"controller.quorum.bootstrap.servers": "localhost:9093"}),
    ],
)
def test_a_file_of_kraft_mode_is_refused_as_such(without: tuple[str, ...], more: dict[str, str]) -> None:
    properties = {name: value for name, value in KRAFT.items() if name not in without} | more
    with pytest.raises(SettingsError) as caught:
        settings_of(properties)
    (error,) = caught.value.messages
    assert "KRaft mode" in error and "controller.listener.names=CONTROLLER" in error and "zookeeper.connect" in error


def test_roles_without_a_quorum_and_a_broker_to_be_migrated_are_none_of_kraft_mode() -> None:
    assert loaded(process__roles="controller").roles == ("controller",)
    migrating = {"controller.quorum.voters": "3000@h:1", "controller.listener.names": "CONTROLLER"}
    assert settings_of({**MINIMAL, **migrating}).ignored == tuple(migrating)
    with pytest.raises(SettingsError, match=r"zookeeper\.connect is missing"):
        settings_of({name: value for name, value in MINIMAL.items() if name != "zookeeper.connect"})


def test_connections_of_single_hosts() -> None:
    said = loaded(max__connections__per__ip__overrides=" h.example:3,127.0.0.1:0, ::1:2 ,[::2]:1")
    expected = (("h.example", 3), ("127.0.0.1", 0), ("::1", 2), ("::2", 1))
    assert said.max_connections_per_ip_overrides == expected
    for wrong in ("h", "h:x", ":3", "h:-1", "h:2147483648", "h:1,i"):
        [message] = errors(max__connections__per__ip__overrides=wrong)
        assert wrong in message and "HOST:NUMBER" in message


def test_a_broker_without_an_id_gets_one_above_the_reserved_ids(tmp_path: Path) -> None:
    zookeeper = MemoryZooKeeper()
    settings = loaded(broker__id="-1", reserved__broker__max__id="5", log__dirs=f"{tmp_path}/a,{tmp_path}/b")
    assert settings.node_id == -1
    new = partial(with_broker_id, settings, lambda: Client(MemoryStore(zookeeper)))
    assert [new().node_id, new().node_id] == [6, 7]
    for name, expected in (("a", 9), ("b", None)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").write_text(f"version=0\nbroker.id={expected or 3}\n")
        if expected is None:
            with pytest.raises(NoBrokerId, match="different brokers"):
                new()
        else:
            assert new().node_id == expected


def test_two_listeners_need_two_ports() -> None:
    found = errors(
        listeners="A://h:1,B://i:1",
        listener__security__protocol__map="A:PLAINTEXT,B:PLAINTEXT",
        inter__broker__listener__name="A",
    )
    assert any("different port" in message for message in found)


def test_all_errors_are_reported_at_once() -> None:
    wrong = {"broker__id__generation__enable": "false", "num__partitions": "x"}
    assert len(errors(without=("zookeeper.connect", "broker.id"), **wrong)) == 3


def test_what_is_not_acted_on_is_one_line_and_every_unknown_name_one_of_its_own() -> None:
    idle = {"num.io.threads": "8", "log.preallocate": "true", "listener.name.internal.max.connections": "7"}
    found = settings_of({**MINIMAL, **idle, "zookeper.connect": "h", "my.own.setting": "1"})
    assert found.ignored == tuple(idle)
    assert found.warnings == (
        "3 of Kafka's settings are not acted on here (kafka-actors broker --check names them)",
        "zookeper.connect is no known setting; did you mean zookeeper.connect?",
        "my.own.setting is no known setting",
    )
    assert not settings_of(MINIMAL).warnings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("brokerid", "broker.id"),
        ("num.partition", "num.partitions"),
        ("inter.broker.protocol", None),
        ("log.parts", None),
        ("broker.role", None),
    ],
)
def test_only_similar_names_are_suggested(name: str, meant: str | None) -> None:
    (warning,) = settings_of({**MINIMAL, name: "1"}).unknown
    assert warning == f"{name} is no known setting" + (f"; did you mean {meant}?" if meant else "")


SECURE = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256",
    "ssl.client.auth": "required",
    "ssl.keystore.location": "/keys",
    "listener.name.internal.ssl.keystore.location": "/keys",
    "listener.name.internal.scram-sha-256.sasl.jaas.config": "x",
    "delegation.token.master.key": "x",
}


def test_security_that_is_not_given_stops_the_start_in_one_error_that_names_it_all() -> None:
    asked = [name for name in SECURE if name not in {setting.name for setting in SETTINGS}]
    with pytest.raises(SettingsError) as caught:
        settings_of({**MINIMAL, **SECURE, "num.partitions": "0"})
    wrong_number, error = caught.value.messages
    assert wrong_number.startswith("num.partitions=0")
    assert f"Unsupported security settings: {', '.join(asked)}." in error
    assert "--insecure" not in error, "a caller of KafkaCluster or `up` has no such option"
    with pytest.raises(SettingsError, match="--insecure"):
        settings_of({**MINIMAL, **SECURE}, insecure=False)
    for name in asked:
        with pytest.raises(SettingsError, match=name):
            settings_of({**MINIMAL, name: SECURE[name]})
    found = settings_of({**MINIMAL, **{name: SECURE[name] for name in asked}}, insecure=True)
    assert found.insecure == tuple(asked)
    assert found.warnings == (f"without effect, so every client has full access: {', '.join(asked)}",)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"set__acl": "true"}, "zookeeper.set.acl=true needs zookeeper.sasl.username"),
        ({"set__acl": "true", "ssl__client__enable": "true"}, "zookeeper.set.acl=true needs"),
        ({"set__acl": "yes"}, "zookeeper.set.acl=yes"),
        ({"sasl__username": "kafka"}, "must be set together"),
        ({"ssl__client__enable": "true", "ssl__truststore__location": "/no.pem"}, "type PEM: .*/no.pem: No such file"),
        ({"ssl__client__enable": "true", "ssl__crl__enable": "true"}, "zookeeper.ssl.crl.enable=true"),
        ({"ssl__client__enable": "true", "ssl__protocol": "TLSv1.1"}, "ssl.protocol"),
        ({"ssl__keystore__location": "/keys"}, ""),
        ({"set__acl": "true", "sasl__username": "kafka", "sasl__password": "pw"}, ""),
    ],
)
def test_the_security_of_zookeeper(changes: dict[str, str], problem: str) -> None:
    words = {**MINIMAL, **{f"zookeeper.{name.replace('__', '.')}": value for name, value in changes.items()}}
    if problem:
        with pytest.raises(SettingsError, match=problem):
            settings_of(words)
        return
    found = settings_of(words)
    assert found.zookeeper.sets_acls == ("set__acl" in changes)
    assert not (found.unknown or found.insecure or "pw" in repr(found.zookeeper))


def test_settings_of_quotas_are_warned_of_by_name() -> None:
    names = [("quota.producer.default", "client.quota.callback.class")]
    found = settings_of({**MINIMAL, **{name: "1" for group in names for name in group}, "background.threads": "7"})
    assert len(found.warnings) == 2
    for group, warning, subject in zip(names, found.warnings, ("quotas",), strict=False):
        assert subject in warning and all(name in warning for name in group)
    assert found.warnings[1].startswith("1 of Kafka's settings")


def test_security_settings_that_ask_for_nothing_are_like_any_other() -> None:
    found = settings_of({**MINIMAL, **SECURITY_NOT_ASKED, "zookeeper.ssl.keystore.location": " "})
    assert not found.insecure
    assert all(SECURITY.fullmatch(name) for name in (*SECURE, *SECURITY_NOT_ASKED))


def test_each_error_is_reported_once() -> None:
    found = errors(listener__security__protocol__map="PLAINTEXT", advertised__listeners="PLAINTEXT://h:1")
    assert len(found) == len(set(found))
    assert sum(message.startswith("listener.security.protocol.map=PLAINTEXT") for message in found) == 1


def test_host_and_port_as_before_listeners() -> None:
    """In KafkaConfig of 2.6, `listeners` overrides host.name and port; advertised.* works in the same way."""
    plain = {name: value for name, value in MINIMAL.items() if name != "listeners"}

    def places(**said: str) -> tuple[Endpoint, Endpoint]:
        found = settings_of({**plain, **{name.replace("__", "."): value for name, value in said.items()}})
        assert not found.warnings
        return found.settings.listeners[0], found.settings.advertised_listeners[0]

    assert places(host__name="h", port="1") == (Endpoint("PLAINTEXT", "h", 1),) * 2
    assert places(port="1", advertised__host__name="a") == (Endpoint("PLAINTEXT", "", 1), Endpoint("PLAINTEXT", "a", 1))
    assert places(host__name="h", advertised__port="2")[1] == Endpoint("PLAINTEXT", "h", 2)
    assert places(port="1", listeners="PLAINTEXT://h:3") == (Endpoint("PLAINTEXT", "h", 3),) * 2
    wrong = errors(("listeners",), port="0x1")
    assert wrong == ["port=0x1 is wrong: it takes a whole number from 0 to 65535"]


def test_a_folder_may_have_a_comma_in_its_name() -> None:
    assert loaded(log__dirs=r"/a\,b/data, /c").log_dirs == ("/a,b/data", "/c")


@given(st.text(st.characters(exclude_categories=("Cc", "Cs")), min_size=1).map(str.strip).filter(bool))
def test_any_folder_can_be_written_into_log_dirs(name: str) -> None:
    assert folders(f"{folder_text(f'/{name}/data')},/other") == [f"/{name}/data", "/other"]


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
