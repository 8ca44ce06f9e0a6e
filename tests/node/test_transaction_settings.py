"""Compare the settings and metrics of transactions with Kafka's names and defaults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.gateway.metric_table import METRICS as DECLARED
from actors.node.settings_table import KNOWN
from messages.node_settings import SETTINGS

DEFAULTS = {
    "transactional.id.expiration.ms": "604800000",
    "transaction.max.timeout.ms": "900000",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.segment.bytes": "104857600",
    "transaction.state.log.load.buffer.size": "5242880",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.partition.verification.enable": "true",
    "producer.id.expiration.ms": "86400000",
    "request.timeout.ms": "30000",
    "offsets.commit.timeout.ms": "5000",
    "offset.metadata.max.bytes": "4096",
}
"""Kafka 2.6's defaults. Those of verification and of the expiration of producer ids are Kafka 3.9's."""

WITHOUT_EFFECT = {"producer.id.expiration.check.interval.ms", "offsets.commit.required.acks"}
"""Producer ids are checked together with retention, and offset commits always wait for all in-sync replicas."""

METRICS = {
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize",
    "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=LogAppendRetryQueueSize",
    "kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-max",
    "kafka.server:type=transaction-coordinator-metrics,name=partition-load-time-avg",
    "kafka.cluster:type=Partition,name=LastStableOffsetLag",
    "kafka.server:type=AddPartitionsToTxnManager,name=VerificationFailureRate",
    "kafka.server:type=AddPartitionsToTxnManager,name=VerificationTimeMs",
    "kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount",
    "kafka.server:type=ReplicaManager,name=ProducerIdCount",
}
COUNTERS = {"VerificationFailureRate"}


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_setting_of_transactions_has_kafkas_default(name: str) -> None:
    [setting] = [each for each in SETTINGS if each.name == name]
    assert setting.default == DEFAULTS[name]


def test_the_settings_without_effect_are_accepted() -> None:
    assert WITHOUT_EFFECT <= KNOWN
    assert WITHOUT_EFFECT.isdisjoint(each.name for each in SETTINGS)


def test_every_setting_of_transactions_is_compared() -> None:
    ours = {each.name for each in SETTINGS if re.match(r"transaction|producer\.id", each.name)}
    assert ours <= DEFAULTS.keys()


@pytest.mark.parametrize("name", sorted(METRICS))
def test_a_metric_of_transactions_has_kafkas_name(name: str) -> None:
    """The name has the form that jmx_exporter gives it: lower case, with underscores. Counters end in _total."""
    matched = re.fullmatch(r"([\w.]+):type=([\w-]+),name=([\w-]+)", name)
    assert matched is not None
    exported = re.sub(r"\W", "_", "_".join(matched.groups())).lower()
    exported += "_total" if matched[3] in COUNTERS else ""
    assert exported in DECLARED
    sources = (Path(__file__).resolve().parents[2] / "actors").rglob("*.py")
    parts = exported.removesuffix("_avg").removesuffix("_max")
    used = [path for path in sources if path.name != "metric_table.py" and parts in path.read_text()]
    assert used, "nothing publishes it"
