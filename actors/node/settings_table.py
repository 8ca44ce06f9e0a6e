"""The table of all settings: those that a node supports, with types and defaults, and the unsupported Kafka settings.

Kinds, defaults and ranges are those of Kafka 3.9's KafkaConfig in ZooKeeper mode. Exceptions:

- The only security protocol is PLAINTEXT.
- The newest inter-broker protocol, which is also the default, is 2.6.
- host.name, port and their advertised forms, which Kafka 3.0 removed, mean the same as in Kafka 2.6.
- These exist only here: trace.dir and the other trace settings, metrics.host, metrics.port, validate.state (whether the
  consistency of an actor's state is checked after each event), and the use of process.roles without a KRaft quorum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from actors.core.config.server_defaults import default_of, field_of
from messages.protocol_version import release_of
from messages.records import COMPRESSION_TYPES

SHORT_MAX = 2**15 - 1
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class SettingType(NamedTuple):
    """The type of a setting: `allowed` describes valid values, and `parse` raises ValueError for others."""

    allowed: str
    parse: Callable[[str], Any]


class Setting(NamedTuple):
    """A setting that a node supports, with its type and its default.

    Attributes:
        name: The name in server.properties.
        kind: The type.
        default: The default as text; None if there is no default.
        field: Field in NodeSettings; "" if the field is derived from several settings.
        doc: The meaning, if Kafka does not have the setting.
    """

    name: str
    kind: SettingType
    default: str | None
    field: str = ""
    doc: str = ""


def _of_field(name: str, kind: SettingType, field: str = "", doc: str = "") -> Setting:
    """Return a setting that has its own field in NodeSettings. The field's default is also the setting's default."""
    field = field or field_of(name)
    return Setting(name, kind, default_of(field), field, doc)


def _integer(low: int, high: int = INT_MAX) -> SettingType:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]+", text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return SettingType(
        f"a whole number from {low} to {high}" if high < INT_MAX else f"a whole number of at least {low}", parse
    )


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _choices(*choices: str) -> SettingType:
    def parse(text: str) -> tuple[str, ...]:
        chosen = items(text)
        if not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(choices):
            raise ValueError(text)
        return tuple(choice for choice in choices if choice in chosen)

    return SettingType(f"{' or '.join(choices)}, or both", parse)


def _one_of(*choices: str) -> SettingType:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return SettingType(f"one of {', '.join(choices)}", parse)


def _protocol_version(text: str) -> str:
    if not OLDEST_PROTOCOL <= release_of(text) <= NEWEST_PROTOCOL:
        raise ValueError(text)
    return text


def _connections_of(text: str) -> tuple[tuple[str, int], ...]:
    pairs = [re.fullmatch(r"(\S+?)\s*:\s*([0-9]+)", item) for item in items(text)]
    if not all(pair and int(pair[2]) <= INT_MAX for pair in pairs):
        raise ValueError(text)
    return tuple((pair[1].strip("[]"), int(pair[2])) for pair in pairs if pair)


def _text(text: str) -> str:
    if re.search(r"[\x00-\x1f\x7f-\x9f]", text):
        raise ValueError(text)
    return text


def items(text: str) -> list[str]:
    """Return the items of a comma-separated list, trimmed and without empty items."""
    return [item.strip() for item in text.split(",") if item.strip()]


def folders(text: str) -> list[str]:
    """Return the folders in log.dirs: like `items`, but a comma after a backslash is part of a folder's name.

    Kafka does not support folder names that contain commas. Callers such as `kafka-actors up --dir` need such names.
    """
    return [item.strip().replace("\\,", ",") for item in re.split(r"(?<!\\),", text) if item.strip()]


def folder_text(folder: str) -> str:
    """Return a folder's name in the form that `folders` reads: with a backslash before each comma."""
    return folder.replace(",", "\\,")


OLDEST_PROTOCOL, NEWEST_PROTOCOL = (0, 8, 0), (2, 6)

LEADER_SELECTOR = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"

TEXT = SettingType("text without control characters", _text)
BOOLEAN = SettingType("true or false", _boolean)
CLEANUP = SettingType("delete, compact, or both", lambda text: ",".join(_choices("delete", "compact").parse(text)))
COMPRESSION_TYPE = _one_of(*COMPRESSION_TYPES)
TIMESTAMP_TYPE = SettingType(
    "CreateTime or LogAppendTime", {"CreateTime": "CreateTime", "LogAppendTime": "LogAppendTime"}.__getitem__
)
SELECTOR = SettingType(
    f"nothing, {LEADER_SELECTOR} or {RACK_AWARE_SELECTOR}",
    {"": "", LEADER_SELECTOR: "", RACK_AWARE_SELECTOR: RACK_AWARE_SELECTOR}.__getitem__,
)
PORT = _integer(0, 65535)
CONNECTIONS_OF = SettingType("HOST:NUMBER pairs, separated by commas", _connections_of)

SETTINGS: tuple[Setting, ...] = (
    Setting("broker.id", _integer(-1), None),
    Setting("node.id", _integer(-1), None),
    Setting("broker.id.generation.enable", BOOLEAN, "true"),
    Setting("reserved.broker.max.id", _integer(0), "1000"),
    _of_field("broker.rack", TEXT),
    _of_field(
        "process.roles",
        _choices("broker", "controller"),
        field="roles",
        doc="The roles of the node. One node may have both; no KRaft quorum is involved.",
    ),
    Setting("listeners", TEXT, None),
    Setting("host.name", TEXT, ""),
    Setting("port", PORT, "9092"),
    Setting("advertised.listeners", TEXT, None),
    Setting("advertised.host.name", TEXT, None),
    Setting("advertised.port", PORT, None),
    _of_field("listener.security.protocol.map", TEXT),
    Setting("inter.broker.listener.name", TEXT, None),
    Setting("control.plane.listener.name", TEXT, None),
    Setting("security.inter.broker.protocol", TEXT, "PLAINTEXT"),
    _of_field(
        "inter.broker.protocol.version",
        SettingType("a version from 0.8.0 to 2.6, such as 2.4 or 2.4-IV1", _protocol_version),
    ),
    Setting("log.dir", TEXT, "/tmp/kafka-logs"),
    Setting("log.dirs", TEXT, None),
    _of_field("log.segment.delete.delay.ms", _integer(0, LONG_MAX)),
    Setting("zookeeper.connect", TEXT, None),
    _of_field("zookeeper.session.timeout.ms", _integer(1)),
    Setting("zookeeper.connection.timeout.ms", _integer(1), None),
    _of_field("controller.socket.timeout.ms", _integer(1)),
    _of_field("request.timeout.ms", _integer(1)),
    _of_field(
        "validate.state",
        BOOLEAN,
        doc="Check after each controller event that the controller's state is consistent. Slow.",
    ),
    _of_field("delete.topic.enable", BOOLEAN),
    _of_field("unclean.leader.election.enable", BOOLEAN),
    _of_field("auto.leader.rebalance.enable", BOOLEAN),
    _of_field("leader.imbalance.check.interval.seconds", _integer(1, LONG_MAX)),
    _of_field("leader.imbalance.per.broker.percentage", _integer(0)),
    _of_field("controlled.shutdown.enable", BOOLEAN),
    _of_field("controlled.shutdown.max.retries", _integer(0)),
    _of_field("controlled.shutdown.retry.backoff.ms", _integer(0, LONG_MAX)),
    _of_field("num.partitions", _integer(1)),
    _of_field("default.replication.factor", _integer(1)),
    _of_field("auto.create.topics.enable", BOOLEAN),
    _of_field("offsets.topic.num.partitions", _integer(1)),
    _of_field("offsets.topic.replication.factor", _integer(1, SHORT_MAX)),
    _of_field("offsets.topic.segment.bytes", _integer(1)),
    _of_field("offsets.commit.timeout.ms", _integer(1)),
    _of_field("offsets.retention.minutes", _integer(1)),
    _of_field("offsets.retention.check.interval.ms", _integer(1, LONG_MAX)),
    _of_field("offset.metadata.max.bytes", _integer(0)),
    _of_field("group.min.session.timeout.ms", _integer(0)),
    _of_field("group.max.session.timeout.ms", _integer(0)),
    _of_field("group.initial.rebalance.delay.ms", _integer(0)),
    _of_field("producer.id.expiration.ms", _integer(1)),
    _of_field("group.max.size", _integer(1)),
    _of_field("transaction.state.log.num.partitions", _integer(1)),
    _of_field("transaction.state.log.replication.factor", _integer(1, SHORT_MAX)),
    _of_field("transaction.state.log.min.isr", _integer(1)),
    _of_field("transaction.state.log.segment.bytes", _integer(1)),
    _of_field("transaction.state.log.load.buffer.size", _integer(1)),
    _of_field("transaction.partition.verification.enable", BOOLEAN),
    _of_field("transaction.max.timeout.ms", _integer(1)),
    _of_field("transactional.id.expiration.ms", _integer(1)),
    _of_field("transaction.abort.timed.out.transaction.cleanup.interval.ms", _integer(1)),
    _of_field("transaction.remove.expired.transaction.cleanup.interval.ms", _integer(1)),
    _of_field("socket.request.max.bytes", _integer(1)),
    _of_field("max.connections", _integer(0)),
    _of_field("max.incremental.fetch.session.cache.slots", _integer(0)),
    _of_field("fetch.max.bytes", _integer(1024)),
    _of_field("max.connections.per.ip", _integer(0)),
    _of_field("max.connections.per.ip.overrides", CONNECTIONS_OF),
    _of_field("connections.max.idle.ms", _integer(-1, LONG_MAX)),
    _of_field("queued.max.request.bytes", _integer(-1, LONG_MAX)),
    _of_field("log.segment.bytes", _integer(14)),
    _of_field("log.roll.ms", _integer(1, LONG_MAX)),
    _of_field("log.roll.hours", _integer(1)),
    _of_field("log.index.size.max.bytes", _integer(4)),
    _of_field("log.index.interval.bytes", _integer(0)),
    _of_field("log.retention.ms", _integer(-1, LONG_MAX)),
    _of_field("log.retention.minutes", _integer(-1)),
    _of_field("log.retention.hours", _integer(-1)),
    _of_field("log.retention.bytes", _integer(-1, LONG_MAX)),
    _of_field("log.retention.check.interval.ms", _integer(1, LONG_MAX)),
    _of_field("log.initial.task.delay.ms", _integer(0, LONG_MAX)),
    _of_field("log.flush.offset.checkpoint.interval.ms", _integer(0)),
    _of_field("log.cleanup.policy", CLEANUP),
    _of_field("log.message.timestamp.type", TIMESTAMP_TYPE),
    _of_field("log.message.timestamp.difference.max.ms", _integer(0, LONG_MAX)),
    _of_field("compression.type", COMPRESSION_TYPE),
    _of_field("message.max.bytes", _integer(0)),
    _of_field("min.insync.replicas", _integer(1)),
    _of_field("replica.selector.class", SELECTOR),
    _of_field("num.replica.fetchers", _integer(1)),
    _of_field("replica.lag.time.max.ms", _integer(1, LONG_MAX)),
    _of_field("replica.fetch.wait.max.ms", _integer(0)),
    _of_field("replica.fetch.min.bytes", _integer(0)),
    _of_field("replica.fetch.max.bytes", _integer(0)),
    _of_field("replica.fetch.response.max.bytes", _integer(0)),
    _of_field("replica.fetch.backoff.ms", _integer(0)),
    _of_field("replica.socket.timeout.ms", _integer(1)),
    _of_field("replica.high.watermark.checkpoint.interval.ms", _integer(1, LONG_MAX)),
    Setting(
        "trace.dir", TEXT, None, doc="Folder of the trace; by default the first log directory with `.trace` at its end."
    ),
    _of_field(
        "trace.client.request.max.bytes",
        _integer(1),
        doc="Largest request of a client in bytes, except for Produce requests.",
    ),
    _of_field(
        "trace.client.bytes.per.second",
        _integer(1, LONG_MAX),
        doc="Bytes of requests that a connection may add to the trace before it is throttled.",
    ),
    _of_field(
        "trace.max.bytes",
        _integer(-1, LONG_MAX),
        doc="Maximum size of all runs below `trace.dir`; older runs are removed. -1: unlimited.",
    ),
    _of_field(
        "trace.free.bytes",
        _integer(-1, LONG_MAX),
        doc="Free space that is left on the disk; recording ends before it is used. -1: ignored.",
    ),
    _of_field(
        "trace.snapshot.segments",
        _integer(0),
        doc="Number of segments from one snapshot of all actors to the next. 0: no snapshots.",
    ),
    _of_field(
        "trace.detail",
        _one_of("full", "inputs", "ring"),
        doc="`full` records all messages, `inputs` omits payloads of messages between actors, `ring` keeps the last"
        " deliveries in memory and writes them after a failure or on request.",
    ),
    _of_field(
        "trace.ring.deliveries",
        _integer(1),
        doc="Number of deliveries after which the ring takes a new snapshot. It keeps those since the second-last one.",
    ),
    _of_field(
        "trace.ring.slow.ms",
        _integer(1),
        doc="A message handler that takes longer makes the ring write its deliveries.",
    ),
    _of_field("metrics.host", TEXT, doc="Address of the metrics over HTTP."),
    _of_field("metrics.port", PORT, doc="Port of the metrics over HTTP; 0 is a free one."),
)
"""The supported settings, in the order of the documentation. A None default is computed, or the setting is required."""

SECURITY = re.compile(
    r"(.+\.)?(ssl|sasl)\..+|(listener\.name\..+\.)?(principal\.builder\.class|connections\.max\.reauth\.ms)"
    r"|authorizer\..+|super\.users|allow\.everyone\.if\.no\.acl\.found|delegation\.token\.(master|secret)\.key"
    r"|security\.providers|zookeeper\.set\.acl"
)
"""Names of security settings. A node does not start with an unsupported one of them."""

SECURITY_NOT_ASKED = {
    "connections.max.reauth.ms": "0",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.kerberos.service.name": "",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "ssl.client.auth": "none",
    "zookeeper.set.acl": "false",
    "zookeeper.ssl.client.enable": "false",
}
"""Values of security settings that request no security: Kafka's defaults. An empty value requests none either."""

NOT_DONE = (
    (re.compile(r"log\.cleaner\..+"), "Logs are not compacted"),
    (
        re.compile(r"quota\.(producer|consumer)\.default|quota\.window\..+|client\.quota\.callback\.class"),
        "Client quotas are not enforced",
    ),
)
"""Names of unsupported settings with a warning of their own, and what the node does not do."""

KNOWN_PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
"""Prefixes of further Kafka settings: those of single listeners and of plug-ins."""

KNOWN = frozenset(
    """
    alter.config.policy.class.name alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds authorizer.class.name
    auto.include.jmx.reporter background.threads broker.heartbeat.interval.ms
    broker.session.timeout.ms client.quota.callback.class compression.gzip.level compression.lz4.level
    compression.zstd.level connection.failed.authentication.delay.ms connections.max.reauth.ms
    controller.listener.names controller.quorum.append.linger.ms
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
    controller.quota.window.size.seconds create.topic.policy.class.name delegation.token.expiry.check.interval.ms
    delegation.token.expiry.time.ms delegation.token.master.key delegation.token.max.lifetime.ms
    delegation.token.secret.key delete.records.purgatory.purge.interval.requests early.start.listeners
    eligible.leader.replicas.enable fetch.purgatory.purge.interval.requests group.consumer.assignors
    group.consumer.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
    group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.migration.policy
    group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms
    group.coordinator.append.linger.ms group.coordinator.new.enable group.coordinator.rebalance.protocols
    group.coordinator.threads
    group.share.delivery.count.limit group.share.enable group.share.heartbeat.interval.ms
    group.share.max.groups group.share.max.heartbeat.interval.ms group.share.max.record.lock.duration.ms
    group.share.max.session.timeout.ms group.share.max.size group.share.min.heartbeat.interval.ms
    group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms group.share.partition.max.record.locks
    group.share.record.lock.duration.ms group.share.session.timeout.ms initial.broker.registration.timeout.ms
    kafka.metrics.polling.interval.secs kafka.metrics.reporters log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size
    log.cleaner.delete.retention.ms log.cleaner.enable log.cleaner.io.buffer.load.factor log.cleaner.io.buffer.size
    log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio
    log.cleaner.min.compaction.lag.ms log.cleaner.threads log.dir.failure.timeout.ms log.flush.interval.messages
    log.flush.interval.ms log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable log.message.format.version
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.preallocate log.roll.jitter.hours
    log.roll.jitter.ms max.connection.creation.rate max.request.partition.size.limit metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
    metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
    metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
    offsets.commit.required.acks offsets.load.buffer.size
    offsets.topic.compression.codec
    password.encoder.cipher.algorithm password.encoder.iterations password.encoder.key.length
    password.encoder.keyfactory.algorithm password.encoder.old.secret password.encoder.secret principal.builder.class
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests quota.window.num quota.window.size.seconds remote.fetch.max.wait.ms
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.copy.quota.window.num
    remote.log.manager.copy.quota.window.size.seconds remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.fetch.quota.window.num
    remote.log.manager.fetch.quota.window.size.seconds remote.log.manager.task.interval.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.jitter remote.log.manager.thread.pool.size
    remote.log.metadata.custom.metadata.max.bytes remote.log.metadata.manager.class.name
    remote.log.metadata.manager.class.path remote.log.metadata.manager.impl.prefix
    remote.log.metadata.manager.listener.name remote.log.reader.max.pending.tasks remote.log.reader.threads
    remote.log.storage.manager.class.name remote.log.storage.manager.class.path remote.log.storage.manager.impl.prefix
    remote.log.storage.system.enable replica.socket.receive.buffer.bytes
    replication.quota.window.num replication.quota.window.size.seconds sasl.client.callback.handler.class
    sasl.enabled.mechanisms sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.mechanism.inter.broker.protocol sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class sasl.server.max.receive.size
    security.providers server.max.startup.time.ms socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms socket.listen.backlog.size socket.receive.buffer.bytes socket.send.buffer.bytes
    ssl.allow.dn.changes ssl.allow.san.changes ssl.cipher.suites ssl.client.auth ssl.enabled.protocols
    ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password ssl.keymanager.algorithm
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password ssl.keystore.type
    ssl.principal.mapping.rules ssl.protocol ssl.provider ssl.secure.random.implementation ssl.trustmanager.algorithm
    ssl.truststore.certificates ssl.truststore.location ssl.truststore.password ssl.truststore.type
    telemetry.max.bytes
    unclean.leader.election.interval.ms unstable.api.versions.enable unstable.feature.versions.enable
    zookeeper.clientCnxnSocket zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable
    zookeeper.metadata.migration.min.batch.size zookeeper.set.acl zookeeper.ssl.cipher.suites
    zookeeper.ssl.client.enable zookeeper.ssl.crl.enable zookeeper.ssl.enabled.protocols
    zookeeper.ssl.endpoint.identification.algorithm zookeeper.ssl.keystore.location zookeeper.ssl.keystore.password
    zookeeper.ssl.keystore.type zookeeper.ssl.ocsp.enable zookeeper.ssl.protocol zookeeper.ssl.truststore.location
    zookeeper.ssl.truststore.password zookeeper.ssl.truststore.type quota.consumer.default quota.producer.default
    super.users allow.everyone.if.no.acl.found zookeeper.sync.time.ms
    """.split()
)
"""Settings of Kafka 3.9, of 2.6 or of its authorizer that a node does not support."""
