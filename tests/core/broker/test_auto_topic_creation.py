"""Topics created on their first use:

their partitions and configs, and when the creation is refused (6.2 of broker.md).
"""

from __future__ import annotations

import pytest

from actors.core.broker.auto_topic_creation import plan_topic
from actors.core.refusal import Refused
from messages.errors import INVALID_REPLICATION_FACTOR, INVALID_TOPIC
from tests.controller.world import settings

NODE = settings(
    0,
    num_partitions=4,
    default_replication_factor=2,
    offsets_topic_num_partitions=5,
    offsets_topic_segment_bytes=1000,
    transaction_state_log_num_partitions=6,
    transaction_state_log_min_isr=1,
    transaction_state_log_segment_bytes=2000,
)


@pytest.mark.parametrize(
    ("topic", "partitions", "factor", "overrides"),
    [
        ("t", 4, 2, ""),
        ("__consumer_offsets", 5, 3, "cleanup.policy=compact compression.type=producer segment.bytes=1000"),
        (
            *("__transaction_state", 6, 3),
            "cleanup.policy=compact compression.type=uncompressed min.insync.replicas=1 segment.bytes=2000"
            " unclean.leader.election.enable=false",
        ),
    ],
)
def test_internal_topics_have_settings_of_their_own(topic: str, partitions: int, factor: int, overrides: str) -> None:
    replicas, entries = plan_topic(NODE, topic, (), (0, 1, 2))
    assert (len(replicas), {len(each) for each in replicas}) == (partitions, {factor})
    assert " ".join(f"{entry.name}={entry.value}" for entry in entries) == overrides
    assert {each[0] for each in replicas} == {0, 1, 2}


@pytest.mark.parametrize(
    ("topic", "brokers", "code", "words"),
    [
        ("a b", (0, 1), INVALID_TOPIC, "contains one or more characters other than"),
        ("a_b", (0, 1), INVALID_TOPIC, "collides with existing topics: a.b"),
        ("t", (0,), INVALID_REPLICATION_FACTOR, "Number of alive brokers '1' does not meet the required"),
        ("__consumer_offsets", (0, 1), INVALID_REPLICATION_FACTOR, "required replication factor '3'"),
        ("t", (), INVALID_REPLICATION_FACTOR, "Number of alive brokers '0'"),
    ],
)
def test_what_cannot_be_made_is_refused(topic: str, brokers: tuple[int, ...], code: int, words: str) -> None:
    with pytest.raises(Refused, match=words) as refused:
        plan_topic(NODE, topic, ("a.b",), brokers)
    assert refused.value.code == code
