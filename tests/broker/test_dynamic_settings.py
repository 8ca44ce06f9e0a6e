"""Changed settings of a running broker take effect on open partitions, and removing them restores the old values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.core.config import broker_config
from actors.core.config.log_settings import log_settings
from actors.core.refusal import Refused
from actors.storage.log import Log
from messages.broker import BrokerConfigured
from messages.cluster import ConfigEntry
from messages.errors import INVALID_RECORD, INVALID_TIMESTAMP, MESSAGE_TOO_LARGE, NONE, NOT_ENOUGH_REPLICAS
from tests.broker.harness import Broker
from tests.broker.harness import settings as server
from tests.broker.test_records import batch, configure, fetch, lead, produce, skip


def alter(broker: Broker, of_all: dict[str, str] | None = None, **own: object) -> None:
    """Replace the broker's own overrides and the cluster-wide ones."""
    said = {name.replace("_", "."): str(value) for name, value in own.items()}
    settings = broker_config.apply_overrides(broker.settings, said, of_all or {})
    broker.base.inject(broker.manager, BrokerConfigured(settings))
    broker.run()


def code(broker: Broker, data: bytes, acks: int = 1) -> int:
    found: int = produce(broker, data, acks=acks).error_code
    return found


def segments(place: Path) -> int:
    return len(list((place / "t-0").glob("*.log")))


def rolled(broker: Broker, place: Path) -> bool:
    """Return whether the next append rolls a segment."""
    before = segments(place)
    assert code(broker, batch(b"a", timestamp=20_000)) == NONE
    return segments(place) > before


def rolls_often(broker: Broker, place: Path) -> bool:
    """Return whether segments roll after a few batches, because their indexes are full.

    The setting does not change a segment that is already open.
    """
    before = segments(place)
    for _ in range(20):
        assert code(broker, batch(b"a", timestamp=10_000)) == NONE
    return segments(place) > before + 4


def flushes(broker: Broker, place: Path) -> bool:
    """Return whether an append is flushed at once."""
    assert code(broker, batch(b"a", timestamp=10_000)) == NONE
    log = broker.logs._logs[f"{place}/t-0"]
    assert isinstance(log, Log)
    return log.recovery_point == log.end


def dropped(broker: Broker, place: Path) -> bool:
    """Return whether retention deletes records."""
    before = fetch(broker, 3).log_start_offset
    skip(broker, 600.0)
    after: int = fetch(broker, 3).log_start_offset
    return after > before


EFFECTS: dict[str, tuple[dict[str, object], Callable[[Broker, Path], bool]]] = {
    "message.max.bytes": ({}, lambda broker, _: code(broker, batch(bytes(2000))) == MESSAGE_TOO_LARGE),
    "log.segment.bytes": ({}, rolled),
    "log.roll.ms": ({}, rolled),
    "log.index.size.max.bytes": ({"log_index_interval_bytes": 0, "log_segment_bytes": 500}, rolls_often),
    "log.index.interval.bytes": ({"log_index_size_max_bytes": 24, "log_segment_bytes": 500}, rolls_often),
    "log.retention.ms": ({"log_segment_bytes": 200, "log_retention_ms": -1}, dropped),
    "log.retention.bytes": ({"log_segment_bytes": 200, "log_retention_ms": -1}, dropped),
    "log.cleanup.policy": ({}, lambda broker, _: code(broker, batch(b"no key")) == INVALID_RECORD),
    "log.message.timestamp.type": ({}, lambda broker, _: produce(broker, batch(b"a")).log_append_time_ms > 0),
    **dict.fromkeys(
        ("log.message.timestamp.difference.max.ms", "log.message.timestamp.before.max.ms"),
        ({}, lambda broker, _: code(broker, batch(b"a", timestamp=1000)) == INVALID_TIMESTAMP),
    ),
    "log.message.timestamp.after.max.ms": (
        {},
        lambda broker, _: code(broker, batch(b"a", timestamp=10**15)) == INVALID_TIMESTAMP,
    ),
    "log.message.downconversion.enable": ({}, lambda broker, _: fetch(broker, 0, version=2).error_code == 35),
    "log.flush.interval.messages": ({}, flushes),
    "min.insync.replicas": ({}, lambda broker, _: code(broker, batch(b"a"), acks=-1) == NOT_ENOUGH_REPLICAS),
}
"""Setting -> the broker's server.properties, and a function that returns whether the setting takes effect."""

VALUES = {
    "message.max.bytes": "1000",
    "log.segment.bytes": "300",
    "log.roll.ms": "5000",
    "log.index.size.max.bytes": "8",
    "log.index.interval.bytes": "0",
    "log.retention.ms": "1",
    "log.retention.bytes": "1",
    "log.cleanup.policy": "compact",
    "log.message.downconversion.enable": "false",
    "log.message.timestamp.type": "LogAppendTime",
    "log.message.timestamp.difference.max.ms": "10",
    "log.message.timestamp.before.max.ms": "10",
    "log.message.timestamp.after.max.ms": "10",
    "log.flush.interval.messages": "1",
    "min.insync.replicas": "2",
}


def test_every_default_of_topics_that_is_dynamic_is_tried_here_or_where_it_acts() -> None:
    elsewhere = {"log.segment.delete.delay.ms", "unclean.leader.election.enable"}  # below; with the controller
    elsewhere |= {"log.roll.jitter.ms", "log.flush.interval.ms"}  # test_log
    elsewhere |= {"replica.alter.log.dirs.io.max.bytes.per.second"}  # test_moves
    elsewhere |= {name for name in broker_config.TOPIC_DEFAULTS if name.startswith("log.cleaner.")}  # test_log_cleaner
    assert broker_config.TOPIC_DEFAULTS.keys() - elsewhere - {"compression.type"} == EFFECTS.keys() == VALUES.keys()
    assert broker_config.TOPIC_DEFAULTS.keys() | set(broker_config.THREADS) < broker_config.DYNAMIC.keys()


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("name", EFFECTS)
def test_an_open_partition_uses_an_override_until_it_is_removed(name: str, of_all: bool, tmp_path: Path) -> None:
    fields, takes_effect = EFFECTS[name]
    broker = Broker(tmp_path, **{"log_retention_check_interval_ms": 1_000, **fields})
    broker.run()
    lead(broker, 1, 2, isr=(0,)) if name == "min.insync.replicas" else lead(broker)
    for _ in range(3):
        assert code(broker, batch(bytes(120), timestamp=10_000)) == NONE
    assert not takes_effect(broker, tmp_path)
    if of_all:
        alter(broker, {name: VALUES[name]})
    else:
        alter(broker, {name: "nonsense"}, **{name.replace(".", "_"): VALUES[name]})
    assert takes_effect(broker, tmp_path)
    alter(broker)
    if "retention" not in name:
        assert not takes_effect(broker, tmp_path)
    broker.end()


def test_a_topics_own_override_counts_before_it(broker: Broker) -> None:
    lead(broker)
    configure(broker, max_message_bytes=5000)
    alter(broker, message_max_bytes=1000)
    assert code(broker, batch(bytes(2000))) == NONE
    configure(broker)
    assert code(broker, batch(bytes(2000))) == MESSAGE_TOO_LARGE


def test_a_topic_created_later_uses_the_override(broker: Broker) -> None:
    alter(broker, {"message.max.bytes": "1000"})
    lead(broker)
    assert code(broker, batch(bytes(2000))) == MESSAGE_TOO_LARGE


def test_a_deleted_log_stays_for_the_delay_of_now(broker: Broker, tmp_path: Path) -> None:
    lead(broker)
    alter(broker, log_segment_delete_delay_ms=1000)
    broker.stop(("t", 0, -2, True))
    assert list(tmp_path.glob("t-0.*-delete"))
    skip(broker, 1.1)
    assert not list(tmp_path.glob("t-0.*-delete"))


def test_an_invalid_override_is_named_and_leaves_the_others() -> None:
    own: dict[str, Any] = {"log.segment.bytes": "x", "message.max.bytes": "7", "num.partitions": "x"}
    assert broker_config.invalid(own) == ["log.segment.bytes=x"]
    settings = broker_config.apply_overrides(server(), own, {"log.segment.bytes": "99"})
    assert (settings.log_segment_bytes, settings.message_max_bytes) == (99, 7)


def test_any_negative_retention_is_unlimited_as_in_kafka() -> None:
    """Kafka 3.9.1 accepts any negative value and refuses 0."""
    broker_config.check_broker_config(ConfigEntry(broker_config.RETENTION, "-7"), True, server())
    assert broker_config.invalid({broker_config.RETENTION: "-7"}) == []
    node = broker_config.apply_overrides(server(), {broker_config.RETENTION: "-7"}, {})
    assert log_settings(node, "t", ()).retention_ms == -1
    with pytest.raises(Refused, match=r"must be unlimited \(-1\) or, greater than or equal to 1"):
        broker_config.check_broker_config(ConfigEntry(broker_config.RETENTION, "0"), True, server())
