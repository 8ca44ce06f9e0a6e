"""Encode and decode Kafka's znodes: golden bytes, every version, and invalid data (controller.md 2)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messages.ask import BadZnode
from messages.cluster import (
    Broker,
    ConfigEntry,
    Endpoint,
    LeaderIsrAndControllerEpoch,
    PartitionAssignment,
    ReplicaAssignment,
    TopicPartition,
)
from messages.zookeeper import NodeRegistration, RequestedReassignment, TopicAssignment
from zk_bridge import notifications, topics
from zk_bridge.brokers import decode_broker, encode_broker, registration_version
from zk_bridge.cluster import decode_cluster_id, decode_node, encode_cluster_id, encode_node
from zk_bridge.configs import decode_config, encode_config
from zk_bridge.controller import decode_controller, decode_controller_epoch, encode_controller, encode_controller_epoch
from zk_bridge.partition_states import decode_state, encode_state
from zk_bridge.reassignments import decode_reassignments, encode_reassignments
from zk_bridge.topics import decode_topic, decoding_topic, encode_topic, encoding_topic

INT32 = st.integers(-(2**31), 2**31 - 1)
BROKER_IDS = st.integers(0, 2**31 - 1)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)

GOLDEN: list[tuple[Callable[[], bytes], bytes]] = [
    (
        lambda: encode_state(LeaderIsrAndControllerEpoch(1, 5, (1, 2, 3), 7, 12)),
        b'{"controller_epoch":7,"leader":1,"version":1,"leader_epoch":5,"isr":[1,2,3]}',
    ),
    (
        lambda: encode_state(LeaderIsrAndControllerEpoch(-1, 0, (), 1)),
        b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}',
    ),
    (lambda: encode_controller(3, 1525), b'{"version":1,"brokerid":3,"timestamp":"1525"}'),
    (lambda: encode_controller_epoch(7), b"7"),
    (lambda: encode_cluster_id("abc"), b'{"version":"1","id":"abc"}'),
    (
        lambda: encode_topic(
            TopicAssignment(
                "t",
                (
                    PartitionAssignment(0, ReplicaAssignment((4, 1, 2), (4,), (1,))),
                    PartitionAssignment(10, ReplicaAssignment((2, 3))),
                ),
            )
        ),
        b'{"version":2,"partitions":{"0":[4,1,2],"10":[2,3]},"adding_replicas":{"0":[4]},"removing_replicas":{"0":[1]}}',
    ),
    (
        lambda: encode_topic(TopicAssignment("t", (), 'an "id"')),
        b'{"version":3,"topic_id":"an \\"id\\"","partitions":{},"adding_replicas":{},"removing_replicas":{}}',
    ),
    (lambda: encode_config((ConfigEntry("k", "v"),)), b'{"version":1,"config":{"k":"v"}}'),
    (lambda: notifications.encode_config_change("topics/T"), b'{"version":2,"entity_path":"topics/T"}'),
    (
        lambda: notifications.encode_partitions((TopicPartition("t", 0),)),
        b'{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    ),
    (
        lambda: encode_reassignments((RequestedReassignment(TopicPartition("t", 0), (1, 2)),)),
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
    ),
    (lambda: notifications.encode_log_dir_event(3), b'{"version":1,"broker":3,"event":1}'),
    (
        lambda: encode_broker(
            Broker(0, (Endpoint("PLAINTEXT", "h", 9092), Endpoint("SSL", "h", 9093, "SSL")), rack="r1"), 1525, "2.6"
        ),
        b'{"version":4,"host":"h","port":9092,"endpoints":["PLAINTEXT://h:9092","SSL://h:9093"],"jmx_port":-1,'
        b'"timestamp":"1525","rack":"r1","listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","SSL":"SSL"}}',
    ),
]


@pytest.mark.parametrize(("encode", "expected"), GOLDEN)
def test_each_znode_is_encoded_to_kafkas_bytes(encode: Callable[[], bytes], expected: bytes) -> None:
    assert encode() == expected


# ---------------------------------------------------------------------------------------------- every version

TOPIC_VERSIONS = [
    b'{"version":1,"partitions":{"1":[2,3],"0":[1,2]}}',
    b'{"version":2,"partitions":{"1":[2,3],"0":[1,2]},"adding_replicas":{},"removing_replicas":{}}',
    b'{"removing_replicas":{},"partitions":{"1":[2,3],"0":[1,2]},"topic_id":"kTl4kQ6RR2m3wKZ1zV6dPg",'
    b'"adding_replicas":{},"version":3,"new":[{}]}',
]


@pytest.mark.parametrize("data", TOPIC_VERSIONS)
def test_topics_of_every_version(data: bytes) -> None:
    decoded = decode_topic("/t", data, 7)
    assert (decoded.topic, decoded.topic_id, decoded.zk_version) == ("t", json.loads(data).get("topic_id"), 7)
    assert decoded.partitions == (
        PartitionAssignment(0, ReplicaAssignment((1, 2))),
        PartitionAssignment(1, ReplicaAssignment((2, 3))),
    )


def test_a_topic_under_reassignment() -> None:
    data = b'{"version":2,"partitions":{"0":[4,1]},"adding_replicas":{"0":[4]},"removing_replicas":{"0":[1],"7":[1]}}'
    moved = (PartitionAssignment(0, ReplicaAssignment((4, 1), (4,), (1,))),)
    assert decode_topic("/t", data) == TopicAssignment("t", moved)


BROKER_VERSIONS = [
    (b'{"version":1,"host":"h","port":9092,"jmx_port":-1}', (Endpoint("PLAINTEXT", "h", 9092),), None),
    (
        b'{"version":2,"host":"h","port":9092,"endpoints":["plaintext://h:9092","SSL://:9093"],"jmx_port":-1}',
        (Endpoint("PLAINTEXT", "h", 9092), Endpoint("SSL", "", 9093, "SSL")),
        None,
    ),
    (
        b'{"version":3,"endpoints":["PLAINTEXT://[::1]:9092"],"jmx_port":-1,"rack":"r"}',
        (Endpoint("PLAINTEXT", "::1", 9092),),
        "r",
    ),
    (
        b'{"listener_security_protocol_map":{"INTERNAL":"SASL_SSL"},"endpoints":["INTERNAL://h:1"],"jmx_port":-1,'
        b'"port":-1,"host":null,"version":4,"timestamp":"1525"}',
        (Endpoint("INTERNAL", "h", 1, "SASL_SSL"),),
        None,
    ),
    (
        b'{"features":{"f":{"min_version":1,"max_version":3}},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"'
        b'},"endpoints":["PLAINTEXT://h:1"],"jmx_port":-1,"port":1,"host":"h","version":5,"timestamp":"1","tags":1}',
        (Endpoint("PLAINTEXT", "h", 1),),
        None,
    ),
]


@pytest.mark.parametrize(
    "number", ["0", "7", "007", "123456789", "1234567890", "2147483648", "", "-1", " 1", "1e1", "\u0663", "x"]
)
@pytest.mark.parametrize("replicas", ["[1,2]", "[]", "[true]", "[1.0]", "[2147483648]", "[-2147483648]", "7", "null"])
def test_a_fast_check_of_assignments_judges_as_the_check_of_each(
    monkeypatch: pytest.MonkeyPatch, number: str, replicas: str
) -> None:
    def decoded() -> object:
        try:
            return decode_topic(
                "/t", b'{"partitions":{"1":[3],"%b":%b,"2":[4]}}' % (number.encode(), replicas.encode())
            )
        except BadZnode as error:
            return str(error)

    fast = decoded()
    monkeypatch.setattr(topics, "_are_usual", lambda *_: False)
    assert repr(fast) == repr(decoded())


@pytest.mark.parametrize(("data", "endpoints", "rack"), BROKER_VERSIONS)
def test_brokers_of_every_version(data: bytes, endpoints: tuple[Endpoint, ...], rack: str | None) -> None:
    assert decode_broker("/brokers/ids/7", data, 99) == Broker(7, endpoints, 99, rack)


@pytest.mark.parametrize(
    ("ibp", "version"),
    [
        ("0.9.0", 2),
        ("0.10.0-IV0", 2),
        ("0.10.0-IV1", 4),
        ("0.10.0", 4),
        ("1.0", 4),
        ("2.6", 4),
        ("2.6-IV0", 4),
        ("2.7-IV0", 5),
        ("2.7", 5),
        ("3.9", 5),
    ],
)
def test_the_registration_version_follows_the_protocol(ibp: str, version: int) -> None:
    assert registration_version(ibp) == version


def test_controllers_of_both_versions() -> None:
    second = b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1}'
    assert decode_controller("/c", encode_controller(3, 1)) == 3
    assert decode_controller("/c", second) == 3


def test_config_changes_of_both_versions() -> None:
    first = b'{"version":1,"entity_type":"topics","entity_name":"T"}'
    assert notifications.decode_config_change("/c", first) == "topics/T"
    assert notifications.decode_config_change("/c", notifications.encode_config_change("topics/T")) == "topics/T"


def test_no_config_data_is_no_overrides() -> None:
    assert decode_config("/c", None) == ()
    assert decode_config("/c", b'{"version":1}') == ()


def test_the_version_of_a_config_is_not_looked_at() -> None:
    assert decode_config("/c", b'{"version":2,"config":{"k":"v"}}') == (ConfigEntry("k", "v"),)


# -------------------------------------------------------------------------------------------------- round trips


@given(INT32, INT32, st.lists(BROKER_IDS).map(tuple), INT32, st.integers(0, 2**31 - 1))
def test_encoded_partition_states_are_decoded_to_the_same(
    leader: int, leader_epoch: int, isr: tuple[int, ...], epoch: int, version: int
) -> None:
    state = LeaderIsrAndControllerEpoch(leader, leader_epoch, isr, epoch, version)
    data = encode_state(state)
    assert decode_state("/s", data, version) == state
    shuffled = json.dumps(dict(reversed(list(json.loads(data).items()))), indent=1).encode()
    assert decode_state("/s", shuffled, version) == state


@given(st.dictionaries(NAMES, NAMES))
def test_encoded_configs_are_decoded_to_the_same(config: dict[str, str]) -> None:
    entries = tuple(ConfigEntry(*item) for item in sorted(config.items()))
    assert decode_config("/c", encode_config(entries)) == entries


@given(st.lists(st.tuples(NAMES, BROKER_IDS)))
def test_isr_changes_come_back(partitions: list[tuple[str, int]]) -> None:
    named = tuple(TopicPartition(*each) for each in partitions)
    assert notifications.decode_partitions("/i", notifications.encode_partitions(named)) == named


def test_nodes_of_ours_come_back() -> None:
    node = NodeRegistration(3, ("broker", "controller"), "h", 1234, 99)
    assert decode_node("/kafka-actors/nodes/3", encode_node(node)) == node


# ------------------------------------------------------------------------------------------------ invalid data

DECODERS: list[Callable[[str, bytes | None], Any]] = [
    lambda path, data: decode_broker(path, data, 1),
    lambda path, data: decode_state(path, data, 1),
    decode_topic,
    decode_controller,
    decode_controller_epoch,
    decode_cluster_id,
    decode_config,
    notifications.decode_config_change,
    notifications.decode_partitions,
    notifications.decode_log_dir_event,
    decode_reassignments,
    decode_node,
]

KEYS = st.sampled_from(
    "version brokerid host port endpoints jmx_port rack listener_security_protocol_map partitions adding_replicas "
    "removing_replicas leader leader_epoch isr controller_epoch config entity_path entity_type entity_name topic "
    "partition replicas broker event id roles metrics_host metrics_port pid 0 1 -1 x".split()
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, 3, 4, 5, -1, 2**31, 2**63, 10**400, 1.5, float("nan")])
    | st.sampled_from(["", "1", "PLAINTEXT://h:9092", "PLAINTEXT://h:99999999999", "://:", "\ud800", "é", "t"])
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=8))


def torn(decode: Callable[[str, bytes | None], Any], data: bytes | None) -> None:
    """Decode the data, and check that the result can be encoded as text or that BadZnode names the path."""
    try:
        value = decode("/torn/7", data)
    except BadZnode as error:
        assert str(error).startswith("/torn/7: ")
        assert len(str(error)) < 300
    else:
        repr(value).encode()


@given(st.dictionaries(KEYS, VALUES, max_size=12))
def test_odd_json_is_read_or_named(value: Any) -> None:
    for decode in DECODERS:
        torn(decode, json.dumps(value).encode())


@given(st.binary() | st.none() | LEAVES.map(lambda leaf: json.dumps(leaf).encode()))
def test_any_bytes_are_read_or_named(data: bytes | None) -> None:
    for decode in DECODERS:
        torn(decode, data)


@pytest.mark.parametrize("decode", DECODERS)
@pytest.mark.parametrize("data", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe", b"", b"9" * 5000, b'{"leader":1'])
def test_known_traps_are_named(decode: Callable[[str, bytes | None], Any], data: bytes) -> None:
    torn(decode, data)


@given(st.integers(0, 76), st.binary(max_size=3), st.integers(0, 4))
def test_a_state_with_a_hole_is_read_or_named(place: int, inserted: bytes, removed: int) -> None:
    data = bytearray(GOLDEN[0][1])
    data[place : place + removed] = inserted
    torn(lambda path, data: decode_state(path, data, 1), bytes(data))


def test_a_number_with_a_leading_zero_is_torn() -> None:
    with pytest.raises(BadZnode, match="no valid JSON"):
        decode_state("/s", GOLDEN[0][1].replace(b"[1,", b"[01,"), 1)


def test_a_large_topic_is_read_in_steps() -> None:
    """A topic of 10,000 partitions is one znode. Decoding it in one step took 60 ms."""
    assignments = tuple(PartitionAssignment(n, ReplicaAssignment((1, 2), (2,) if n % 2 else ())) for n in range(3500))
    topic = TopicAssignment("t", assignments, "id", 7)
    steps, count = decoding_topic("/t", encode_topic(topic), 7), 0
    with pytest.raises(StopIteration) as done:
        while True:
            next(steps)
            count += 1
    assert done.value.value == topic
    assert count == 3 + 1 + 3, "between the slices of the replicas, of those to be added, and of what is made of them"


def test_what_names_many_partitions_is_read_in_steps() -> None:
    """A request for 10,000 preferred leaders is one znode. Decoding it in one step took 14 ms."""
    named = tuple(TopicPartition("t", number) for number in range(3500))
    steps, count = notifications.decoding_partitions("/p", notifications.encode_partitions(named)), 0
    with pytest.raises(StopIteration) as done:
        while True:
            next(steps)
            count += 1
    assert (done.value.value, count) == (named, 3)
    with pytest.raises(BadZnode, match="/p: "):
        [*notifications.decoding_partitions("/p", notifications.encode_partitions((*named, TopicPartition("t", -1))))]


def test_a_large_topic_is_written_in_steps() -> None:
    assignments = tuple(PartitionAssignment(n, ReplicaAssignment((1, 2), (2,) if n % 2 else ())) for n in range(3500))
    steps = encoding_topic(TopicAssignment("t", assignments))
    assert [*itertools.islice(steps, 3)] == [None] * 3
    with pytest.raises(StopIteration) as done:
        next(steps)
    written = json.loads(done.value.value)
    assert [*written] == ["version", "partitions", "adding_replicas", "removing_replicas"]
    assert written["partitions"] == {str(n): [1, 2] for n in range(3500)}
    assert written["adding_replicas"] == {str(n): [2] for n in range(1, 3500, 2)}
    assert written["removing_replicas"] == {}
