"""The settings of a node, with their types, and the types of topic configs.

Rule 1: A setting is declared once: its field in NodeSettings has the type, range, default, the topic config whose
        default it is, and the meaning if Kafka does not have it. server.properties, dynamic configs, DescribeConfigs
        and the reference page follow from the field.
Rule 2: Types (`ConfigDef`), defaults and ranges are those of `KafkaConfig` and `LogConfig` of Kafka 3.9 in ZooKeeper
        mode. Exceptions: the newest inter-broker protocol is 2.8, and the default 2.6; host.name, port and their
        advertised forms, which Kafka 3.0 removed, mean the same as in Kafka 2.6; settings with a `doc` exist only here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import NamedTuple, TypeVar

import attrs

from messages.cluster import Endpoint
from messages.protocol_version import at_least, release_of
from messages.records import COMPRESSION_TYPES, PRODUCER
from messages.releases import NEWEST, RELEASES
from messages.sensitive_configs import MASK
from messages.vocabulary import Message, message

SHORT_MAX, INT_MAX, LONG_MAX = 2**15 - 1, 2**31 - 1, 2**63 - 1
OLDEST_PROTOCOL, NEWEST_PROTOCOL = (0, 8, 0), (2, 8)
TOPIC_IDS_SINCE = "2.8-IV0"
"""The first protocol version at which topics have ids (KIP-516)."""
LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
AUTHORIZERS = ("", ACL_AUTHORIZER, "kafka.security.auth.SimpleAclAuthorizer")

T = TypeVar("T")


class SettingType(NamedTuple):
    """The type of a setting.

    Attributes:
        name: Kafka's name of the type.
        allowed: The valid values in words.
        parse: Function that returns the value in a text. It raises ValueError with Kafka's reason.
    """

    name: str
    allowed: str
    parse: Callable[[str], object]

    def problem(self, text: str) -> str | None:
        """Return Kafka's reason why a text is invalid; None if it is valid."""
        try:
            self.parse(text)
        except ValueError as error:
            return str(error)
        return None


class Setting(NamedTuple):
    """A setting of server.properties that a node supports.

    Attributes:
        name: The name in server.properties.
        type: The type.
        default: The default as text; None if there is no default.
        field: Field in NodeSettings; "" if the field is derived from several settings.
        topic: The topic config with the same type, whose default it is; "" if there is none.
        dynamic: Whether it can change while the broker runs, because it has a topic config or acts without a restart.
        doc: The meaning, if Kafka does not have the setting.
    """

    name: str
    type: SettingType
    default: str | None = None
    field: str = ""
    topic: str = ""
    dynamic: bool = False
    doc: str = ""


def setting(
    type: SettingType, default: T, topic: str = "", dynamic: bool | None = None, doc: str = "", name: str = ""
) -> T:
    """Return the field of a setting; by default its name is that of the field, with dots for underscores."""
    is_dynamic = bool(topic) if dynamic is None else dynamic
    declared = Setting(name, type, text_of(default), topic=topic, dynamic=is_dynamic, doc=doc)
    return attrs.field(default=default, metadata={Setting: declared})


def text_of(value: object) -> str | None:
    """Return a setting's value in the form used in server.properties; None if the setting has no value."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case float():
            return _double_text(value)
        case tuple():
            return ",".join(filter(None, map(text_of, value)))
        case Endpoint(listener, host, port):
            return f"{listener}://{host}:{port}"
    return str(value)


def _double_text(value: float) -> str:
    """Return a number as Java's `Double.toString` does."""
    if not value or 1e-3 <= abs(value) < 1e7 or not math.isfinite(value):
        return str(value)
    sign, digits, _ = Decimal(str(value)).normalize().as_tuple()
    exponent = Decimal(str(value)).adjusted()
    return f"{'-' * sign}{digits[0]}.{''.join(map(str, digits[1:])) or '0'}E{exponent}"


def items(text: str) -> list[str]:
    """Return the items of a comma-separated list, trimmed and without empty items."""
    return [item.strip() for item in text.split(",") if item.strip()]


# ---------------------------------------------------------------------------------------------------- types


def number(kind: str, low: float | None = None, high: float | None = None) -> SettingType:
    """Return the type of a number between `low` and `high`; a limit of None means no limit."""
    limit = INT_MAX if kind == "INT" else LONG_MAX

    def parse(text: str) -> float:
        try:
            value = float(text) if kind == "DOUBLE" else int(text) if re.fullmatch("[+-]?[0-9]+", text) else None
        except ValueError:
            value = None
        if value is None or (kind != "DOUBLE" and not -limit - 1 <= value <= limit):
            raise ValueError(f"Not a number of type {kind}")
        if low is not None and value < low:
            raise ValueError(f"Value must be at least {low}")
        if high is not None and value > high:
            raise ValueError(f"Value must be no more than {high}")
        return value

    lowest, highest = "" if low is None else f" from {low}", "" if high is None else f" to {high}"
    words = f" of at least {low}" if low is not None and high is None else lowest + highest
    return SettingType(kind, f"{'a number' if kind == 'DOUBLE' else 'a whole number'}{words}", parse)


def integer(low: int | None = None, high: int | None = None) -> SettingType:
    """Return the type of an INT between `low` and `high`."""
    return number("INT", low, high)


def long(low: int | None = None) -> SettingType:
    """Return the type of a LONG of at least `low`."""
    return number("LONG", low)


def one_of(*choices: str) -> SettingType:
    """Return the type of a text that is one of `choices`."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"String must be one of: {', '.join(choices)}")
        return text

    return SettingType("STRING", f"one of {', '.join(choices)}", parse)


def list_of(*choices: str) -> SettingType:
    """Return the type of a list of `choices`, which may be empty."""

    def parse(text: str) -> str:
        wrong = [item for item in text.split(",") if item.strip() not in choices] if text else []
        if wrong:
            raise ValueError(f"String must be one of: {', '.join(choices)}")
        return text.replace(" ", "")

    return SettingType("LIST", f"{' or '.join(choices)}, or both", parse)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"


def _text(text: str) -> str:
    if re.search(r"[\x00-\x1f\x7f-\x9f]", text):
        raise ValueError("it contains control characters")
    return text


def _roles(text: str) -> tuple[str, ...]:
    chosen = items(text)
    if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= {"broker", "controller"}:
        raise ValueError("String must be one of: broker, controller")
    return tuple(sorted(chosen))


def _protocol_version(text: str) -> str:
    if not OLDEST_PROTOCOL <= release_of(text) <= NEWEST_PROTOCOL:
        raise ValueError(f"Version {text} is not supported")
    return text


def _format_version(text: str) -> str:
    if not re.fullmatch(r"(0\.(8|9|10|11)\.[0-9]+|[1-4]\.[0-9]+)(\.[0-9]+)*(-IV[0-9])?", text):
        raise ValueError(f"Version {text} is not a valid version")
    return text


def _connections_of(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [re.fullmatch(r"(\S+?)\s*:\s*([0-9]+)", item) for item in items(text)]
    if not all(pair and int(pair[2]) <= INT_MAX for pair in pairs):
        raise ValueError("expected HOST:NUMBER pairs")
    return tuple((pair[1].strip("[]"), int(pair[2])) for pair in pairs if pair)


def _selector(text: str) -> str:
    if text not in ("", LEADER_SELECTOR, RACK_AWARE_SELECTOR):
        raise ValueError(f"Class {text} could not be found")
    return "" if text == LEADER_SELECTOR else text


DOUBLE = number("DOUBLE")


def _authorizer(text: str) -> str:
    if text not in AUTHORIZERS:
        raise ValueError(f"Class {text} could not be found")
    return text


def _principals(text: str) -> tuple[str, ...]:
    found = tuple(item.strip() for item in text.split(";") if item.strip())
    if not all(":" in item for item in found):
        raise ValueError("expected a string in format principalType:principalName")
    return found


AUTHORIZER = SettingType("CLASS", f"nothing or {ACL_AUTHORIZER}", _authorizer)
PRINCIPALS = SettingType("STRING", "TYPE:NAME, several separated by semicolons", _principals)
TEXT = SettingType("STRING", "text without control characters", _text)
PASSWORD = SettingType("PASSWORD", "text", lambda text: MASK if text else "")
"""A secret: a field has MASK in its place."""
BOOLEAN = SettingType("BOOLEAN", "true or false", _boolean)
PORT = integer(0, 65535)
ROLES = SettingType("LIST", "broker or controller, or both", _roles)
FORMAT_VERSION = SettingType("STRING", "a version", _format_version)
PROTOCOL_VERSION = SettingType("STRING", "a version from 0.8.0 to 2.8, such as 2.4 or 2.4-IV1", _protocol_version)
CONNECTIONS_OF = SettingType("LIST", "HOST:NUMBER pairs, separated by commas", _connections_of)
SELECTOR = SettingType("STRING", f"nothing, {LEADER_SELECTOR} or {RACK_AWARE_SELECTOR}", _selector)
CLEANUP = list_of("compact", "delete")
COMPRESSION_TYPE = one_of(*COMPRESSION_TYPES)
TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")


# ---------------------------------------------------------------------------------------------------- settings


@message
class NodeSettings(Message):
    """The typed settings of a node; Kafka's settings have Kafka's names (with underscores) and Kafka's defaults.

    `node_id` is broker.id; if it is -1, the process finds the id at its start. `roles` is process.roles: "broker",
    "controller" or both. The node binds `listeners` and registers `advertised_listeners`. The name of each time setting
    ends with its unit.
    """

    node_id: int
    listeners: tuple[Endpoint, ...]
    advertised_listeners: tuple[Endpoint, ...]
    log_dirs: tuple[str, ...]
    zookeeper_connect: str
    roles: tuple[str, ...] = setting(
        ROLES,
        ("broker", "controller"),
        name="process.roles",
        doc="The roles of the node. One node may have both; no KRaft quorum is involved.",
    )
    listener_security_protocol_map: str = setting(
        TEXT, "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    )
    inter_broker_listener_name: str = "PLAINTEXT"
    inter_broker_protocol_version: str = setting(PROTOCOL_VERSION, "2.6")
    control_plane_listener_name: str | None = None
    api_versions_max: str = setting(
        one_of(*RELEASES),
        NEWEST,
        doc="Kafka release up to whose API versions clients are served; requests between brokers are not affected.",
    )
    broker_rack: str | None = setting(TEXT, None)
    reserved_broker_max_id: int = setting(integer(0), 1000)
    zookeeper_session_timeout_ms: int = setting(integer(1), 18000)
    zookeeper_connection_timeout_ms: int = 18000
    controller_socket_timeout_ms: int = setting(integer(1), 30000)
    request_timeout_ms: int = setting(integer(1), 30000)
    delete_topic_enable: bool = setting(BOOLEAN, True)
    validate_state: bool = setting(
        BOOLEAN, False, doc="Check after each controller event that the controller's state is consistent. Slow."
    )
    unclean_leader_election_enable: bool = setting(BOOLEAN, False, topic="unclean.leader.election.enable")
    auto_leader_rebalance_enable: bool = setting(BOOLEAN, True)
    leader_imbalance_check_interval_seconds: int = setting(long(1), 300)
    leader_imbalance_per_broker_percentage: int = setting(integer(0), 10)
    controlled_shutdown_enable: bool = setting(BOOLEAN, True)
    controlled_shutdown_max_retries: int = setting(integer(0), 3)
    controlled_shutdown_retry_backoff_ms: int = setting(long(0), 5000)
    log_segment_delete_delay_ms: int = setting(long(0), 60000, topic="file.delete.delay.ms")
    num_partitions: int = setting(integer(1), 1)
    default_replication_factor: int = setting(integer(1), 1)
    auto_create_topics_enable: bool = setting(BOOLEAN, True)
    offsets_topic_num_partitions: int = setting(integer(1), 50)
    offsets_topic_replication_factor: int = setting(integer(1, SHORT_MAX), 3)
    offsets_topic_segment_bytes: int = setting(integer(1), 104857600)
    offsets_commit_timeout_ms: int = setting(integer(1), 5000)
    offsets_retention_minutes: int = setting(integer(1), 10080)
    offsets_retention_check_interval_ms: int = setting(long(1), 600000)
    offset_metadata_max_bytes: int = setting(integer(0), 4096)
    group_min_session_timeout_ms: int = setting(integer(0), 6000)
    group_max_session_timeout_ms: int = setting(integer(0), 1800000)
    group_initial_rebalance_delay_ms: int = setting(integer(0), 3000)
    group_max_size: int = setting(integer(1), 2147483647)
    transaction_state_log_num_partitions: int = setting(integer(1), 50)
    transaction_state_log_replication_factor: int = setting(integer(1, SHORT_MAX), 3)
    transaction_state_log_min_isr: int = setting(integer(1), 2)
    transaction_state_log_segment_bytes: int = setting(integer(1), 104857600)
    producer_id_expiration_ms: int = setting(integer(1), 86400000)
    transaction_state_log_load_buffer_size: int = setting(integer(1), 5242880)
    transaction_max_timeout_ms: int = setting(integer(1), 900000)
    transactional_id_expiration_ms: int = setting(integer(1), 604800000)
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(integer(1), 10000)
    transaction_partition_verification_enable: bool = setting(BOOLEAN, True)
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(integer(1), 3600000)
    socket_request_max_bytes: int = setting(integer(1), 104857600)
    max_connections: int = setting(integer(0), 2147483647)
    max_incremental_fetch_session_cache_slots: int = setting(integer(0), 1000)
    fetch_max_bytes: int = setting(integer(1024), 57671680)
    max_connections_per_ip: int = setting(integer(0), 2147483647)
    max_connections_per_ip_overrides: tuple[tuple[str, int], ...] = setting(CONNECTIONS_OF, ())
    connections_max_idle_ms: int = setting(long(-1), 600000)
    connections_max_reauth_ms: int = setting(long(), 0)
    connection_failed_authentication_delay_ms: int = setting(integer(0), 100)
    authorizer_class_name: str = setting(AUTHORIZER, "")
    super_users: tuple[str, ...] = setting(PRINCIPALS, ())
    allow_everyone_if_no_acl_found: bool = setting(BOOLEAN, False)
    password_encoder_secret: str = setting(PASSWORD, "")
    password_encoder_old_secret: str = setting(PASSWORD, "")
    password_encoder_keyfactory_algorithm: str = setting(TEXT, "")
    password_encoder_cipher_algorithm: str = setting(TEXT, "AES/CBC/PKCS5Padding")
    password_encoder_key_length: int = setting(integer(8), 128)
    password_encoder_iterations: int = setting(integer(1024), 4096)
    delegation_token_secret_key: str = setting(PASSWORD, "")
    delegation_token_master_key: str = setting(PASSWORD, "")
    delegation_token_max_lifetime_ms: int = setting(long(1), 604800000)
    delegation_token_expiry_time_ms: int = setting(long(1), 86400000)
    delegation_token_expiry_check_interval_ms: int = setting(long(1), 3600000)
    sasl_enabled_mechanisms: str = setting(TEXT, "GSSAPI")
    sasl_mechanism_inter_broker_protocol: str = setting(TEXT, "GSSAPI")
    sasl_server_max_receive_size: int = setting(integer(), 524288)
    queued_max_request_bytes: int = setting(long(-1), -1)
    quota_window_num: int = setting(integer(1), 11)
    quota_window_size_seconds: int = setting(integer(1), 1)
    replication_quota_window_num: int = setting(integer(1), 11)
    replication_quota_window_size_seconds: int = setting(integer(1), 1)
    alter_log_dirs_replication_quota_window_num: int = setting(integer(1), 11)
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(integer(1), 1)
    trace_client_request_max_bytes: int = setting(
        integer(1), 4194304, doc="Largest request of a client in bytes, except for Produce requests."
    )
    trace_client_bytes_per_second: int = setting(
        long(1), 4194304, doc="Bytes of requests that a connection may add to the trace before it is throttled."
    )
    log_segment_bytes: int = setting(integer(14), 1073741824, topic="segment.bytes")
    log_roll_ms: int | None = setting(long(1), None, dynamic=True)
    log_roll_hours: int = setting(integer(1), 168)
    log_roll_jitter_ms: int | None = setting(long(0), None, dynamic=True)
    log_roll_jitter_hours: int = setting(integer(0), 0)
    log_index_size_max_bytes: int = setting(integer(4), 10485760, topic="segment.index.bytes")
    log_index_interval_bytes: int = setting(integer(0), 4096, topic="index.interval.bytes")
    log_retention_ms: int | None = setting(long(), None, dynamic=True)
    log_retention_minutes: int | None = setting(integer(-1), None)
    log_retention_hours: int = setting(integer(-1), 168)
    log_retention_bytes: int = setting(long(), -1, topic="retention.bytes")
    log_retention_check_interval_ms: int = setting(long(1), 300000)
    log_initial_task_delay_ms: int = setting(long(0), 30000)
    log_flush_interval_messages: int = setting(long(1), LONG_MAX, topic="flush.messages")
    log_flush_interval_ms: int | None = setting(long(), None, dynamic=True)
    log_flush_scheduler_interval_ms: int = setting(long(), LONG_MAX)
    log_flush_offset_checkpoint_interval_ms: int = setting(integer(0), 60000)
    log_cleaner_enable: bool = setting(BOOLEAN, True)
    log_cleaner_threads: int = setting(integer(0), 1, dynamic=True)
    log_cleaner_backoff_ms: int = setting(long(0), 15000, dynamic=True)
    log_cleaner_dedupe_buffer_size: int = setting(long(), 134217728, dynamic=True)
    log_cleaner_io_buffer_size: int = setting(integer(0), 524288, dynamic=True)
    log_cleaner_io_buffer_load_factor: float = setting(DOUBLE, 0.9, dynamic=True)
    log_cleaner_io_max_bytes_per_second: float = setting(DOUBLE, 1.7976931348623157e308, dynamic=True)
    log_cleaner_min_cleanable_ratio: float = setting(number("DOUBLE", 0, 1), 0.5, topic="min.cleanable.dirty.ratio")
    log_cleaner_min_compaction_lag_ms: int = setting(long(0), 0, topic="min.compaction.lag.ms")
    log_cleaner_max_compaction_lag_ms: int = setting(long(1), LONG_MAX, topic="max.compaction.lag.ms")
    log_cleaner_delete_retention_ms: int = setting(long(0), 86400000, topic="delete.retention.ms")
    log_cleanup_policy: str = setting(CLEANUP, "delete", topic="cleanup.policy")
    log_message_format_version: str = setting(FORMAT_VERSION, "3.0-IV1", topic="message.format.version", dynamic=False)
    log_message_downconversion_enable: bool = setting(BOOLEAN, True, topic="message.downconversion.enable")
    log_message_timestamp_type: str = setting(TIMESTAMP_TYPE, "CreateTime", topic="message.timestamp.type")
    compression_type: str = setting(COMPRESSION_TYPE, PRODUCER, topic="compression.type")
    log_message_timestamp_difference_max_ms: int = setting(
        long(0), 2**63 - 1, topic="message.timestamp.difference.max.ms"
    )
    log_message_timestamp_before_max_ms: int = setting(long(0), LONG_MAX, topic="message.timestamp.before.max.ms")
    log_message_timestamp_after_max_ms: int = setting(long(0), LONG_MAX, topic="message.timestamp.after.max.ms")
    message_max_bytes: int = setting(integer(0), 1048588, topic="max.message.bytes")
    min_insync_replicas: int = setting(integer(1), 1, topic="min.insync.replicas")
    replica_selector_class: str = setting(SELECTOR, "")
    num_replica_fetchers: int = setting(integer(1), 1)
    replica_lag_time_max_ms: int = setting(long(1), 30000)
    replica_fetch_wait_max_ms: int = setting(integer(0), 500)
    replica_fetch_min_bytes: int = setting(integer(0), 1)
    replica_alter_log_dirs_io_max_bytes_per_second: int = setting(long(0), LONG_MAX, dynamic=True)
    replica_fetch_max_bytes: int = setting(integer(0), 1048576)
    replica_fetch_response_max_bytes: int = setting(integer(0), 10485760)
    replica_fetch_backoff_ms: int = setting(integer(0), 1000)
    replica_socket_timeout_ms: int = setting(integer(1), 30000)
    replica_high_watermark_checkpoint_interval_ms: int = setting(long(1), 5000)
    trace_dir: str = ""
    trace_max_bytes: int = setting(
        long(-1), 1 << 30, doc="Maximum size of all runs below `trace.dir`; older runs are removed. -1: unlimited."
    )
    trace_free_bytes: int = setting(
        long(-1), 64 << 20, doc="Free space that is left on the disk; recording ends before it is used. -1: ignored."
    )
    trace_snapshot_segments: int = setting(
        integer(0), 1, doc="Number of segments from one snapshot of all actors to the next. 0: no snapshots."
    )
    trace_detail: str = setting(
        one_of("full", "inputs", "ring"),
        "full",
        doc="`full` records all messages, `inputs` omits payloads of messages between actors, `ring` keeps the last"
        " deliveries in memory and writes them after a failure or on request.",
    )
    trace_ring_deliveries: int = setting(
        integer(1),
        100000,
        doc="Number of deliveries after which the ring takes a new snapshot. It keeps those since the second-last one.",
    )
    trace_ring_slow_ms: int = setting(
        integer(1), 1000, doc="A message handler that takes longer makes the ring write its deliveries."
    )
    metrics_host: str = setting(TEXT, "127.0.0.1", doc="Address of the metrics over HTTP.")
    metrics_port: int = setting(PORT, 0, doc="Port of the metrics over HTTP; 0 is a free one.")


def keeps_topic_ids(settings: NodeSettings) -> bool:
    """Return whether topics get ids, which their logs keep in `partition.metadata`."""
    return at_least(settings.inter_broker_protocol_version, TOPIC_IDS_SINCE)


def authenticates_users(settings: NodeSettings) -> bool:
    """Return whether a listener needs the credentials of users that ZooKeeper has."""
    return any(each.security_protocol.startswith("SASL") for each in settings.listeners)


def has_delegation_tokens(settings: NodeSettings) -> bool:
    """Return whether the node has the key of delegation tokens."""
    return bool(settings.delegation_token_secret_key or settings.delegation_token_master_key)


FIELDS = attrs.fields_dict(NodeSettings)
"""The fields of NodeSettings by name."""

SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", integer(-1)),
    Setting("node.id", integer(-1)),
    Setting("broker.id.generation.enable", BOOLEAN, "true"),
    Setting("listeners", TEXT),
    Setting("host.name", TEXT, ""),
    Setting("port", PORT, "9092"),
    Setting("advertised.listeners", TEXT),
    Setting("advertised.host.name", TEXT),
    Setting("advertised.port", PORT),
    Setting("inter.broker.listener.name", TEXT),
    Setting("control.plane.listener.name", TEXT),
    Setting("security.inter.broker.protocol", TEXT, "PLAINTEXT"),
    Setting("log.dir", TEXT, "/tmp/kafka-logs"),
    Setting("log.dirs", TEXT),
    Setting("zookeeper.connect", TEXT),
    Setting("zookeeper.connection.timeout.ms", integer(1)),
    Setting("trace.dir", TEXT, doc="Folder of the trace; by default the first log directory with `.trace` at its end."),
    *(
        each._replace(name=each.name or name.replace("_", "."), field=name)
        for name, each in ((name, field.metadata.get(Setting)) for name, field in FIELDS.items())
        if each is not None
    ),
)
"""The supported settings. The first ones have no field of their own: several of them determine a field."""


def field_of(setting: str) -> str:
    """Return the field of NodeSettings for a broker setting."""
    return setting.replace(".", "_")
