"""The names of Kafka's settings, and those among them that request security; `NodeSettings` has those that act."""

from __future__ import annotations

import re


def folders(text: str) -> list[str]:
    """Return the folders in log.dirs: like `items`, but a comma after a backslash is part of a folder's name.

    Kafka does not support folder names that contain commas. Callers such as `kafka-actors up --dir` need such names.
    """
    return [item.strip().replace("\\,", ",") for item in re.split(r"(?<!\\),", text) if item.strip()]


def folder_text(folder: str) -> str:
    """Return a folder's name in the form that `folders` reads: with a backslash before each comma."""
    return folder.replace(",", "\\,")


SECURITY = re.compile(
    r"(.+\.)?(ssl|sasl)\..+|(listener\.name\..+\.)?(principal\.builder\.class|connections\.max\.reauth\.ms)"
    r"|authorizer\..+|super\.users|allow\.everyone\.if\.no\.acl\.found|delegation\.token\.(master|secret)\.key"
    r"|security\.providers|zookeeper\.set\.acl"
)
"""Names of security settings. A node does not start with an unsupported one of them."""

SECURITY_NOT_ASKED = {
    "principal.builder.class": "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    "sasl.kerberos.service.name": "",
    "ssl.client.auth": "none",
    "ssl.engine.factory.class": "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory",
    "zookeeper.set.acl": "false",
    "zookeeper.ssl.client.enable": "false",
}
"""Values of security settings that request no security: Kafka's defaults. An empty value requests none either."""

NOT_DONE = (
    (
        re.compile(r"quota\.(producer|consumer)\.default|client\.quota\.callback\.class"),
        "Client quotas are those in ZooKeeper",
    ),
)
"""Names of unsupported settings with a warning of their own, and what the node does not do."""

KNOWN_PREFIXES = ("listener.name.", "rlmm.config.", "rsm.config.")
"""Prefixes of further Kafka settings: those of single listeners and of plug-ins."""

KNOWN = frozenset(
    """
    alter.config.policy.class.name
    auto.include.jmx.reporter background.threads broker.heartbeat.interval.ms
    broker.session.timeout.ms client.quota.callback.class compression.gzip.level compression.lz4.level
    compression.zstd.level
    controller.listener.names controller.quorum.append.linger.ms
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms
    controller.quorum.retry.backoff.ms controller.quorum.voters controller.quota.window.num
    controller.quota.window.size.seconds create.topic.policy.class.name
    delete.records.purgatory.purge.interval.requests early.start.listeners
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
    kafka.metrics.polling.interval.secs kafka.metrics.reporters log.dir.failure.timeout.ms
    log.flush.start.offset.checkpoint.interval.ms
    log.local.retention.bytes log.local.retention.ms
    log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.preallocate
    max.connection.creation.rate max.request.partition.size.limit metadata.log.dir
    metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms metadata.log.segment.bytes
    metadata.log.segment.min.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
    metadata.max.retention.ms metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.io.threads num.network.threads num.recovery.threads.per.data.dir num.replica.alter.log.dirs.threads
    offsets.commit.required.acks offsets.load.buffer.size
    offsets.topic.compression.codec
    principal.builder.class
    producer.id.expiration.check.interval.ms producer.purgatory.purge.interval.requests
    queued.max.requests remote.fetch.max.wait.ms
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
    sasl.client.callback.handler.class
    sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor sasl.login.refresh.window.jitter
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class
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
    zookeeper.sync.time.ms
    """.split()
)
"""Settings of Kafka 3.9, of 2.6 or of its authorizer. A node ignores those that `NodeSettings` does not declare."""
