"""With `validate.state`, a broker checks its state for contradictions; all tests of this package enable it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.core.broker.metadata_cache import ClusterView
from actors.core.broker.replica_manager import PartitionCounts
from actors.core.broker.replica_role import UNDER_REPLICATED
from actors.core.broker.validation import log_disagreements, replica_disagreements, view_disagreements
from messages.cluster import LEADER_DURING_DELETE, TopicPartition
from messages.errors import NONE, UNKNOWN_SERVER_ERROR
from tests.broker.harness import Broker, alive, known, order

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (replica_disagreements([A], [B], 1, PartitionCounts({A: (UNDER_REPLICATED,)}, {}, {UNDER_REPLICATED: 1})), ""),
        (replica_disagreements([A], [B], 0, PartitionCounts()), "1 replicas are offline, 0 are counted"),
        (replica_disagreements([A], [B], 1, PartitionCounts({B: ()})), "leaders that are not hosted"),
        (
            replica_disagreements([A], [], 0, PartitionCounts({A: ()}, {}, {UNDER_REPLICATED: 1})),
            "0 leaders are in underreplicatedpartitions, 1 are counted",
        ),
        (log_disagreements([B], {A: "/d"}, ("/d",)), ""),
        (log_disagreements([], {A: "/lost"}, ("/d",)), "a-0 lies in /lost"),
        (log_disagreements([A], {A: "/d"}, ("/d",)), "a-0 is offline, and has a log"),
        (view_disagreements(ClusterView(1, {0: alive(0)}, {"a": {0: known("a")}})), ""),
        (view_disagreements(ClusterView(1, {}, {"a": {}})), "topic a has no partitions"),
        (view_disagreements(ClusterView(1, {}, {"a": {1: known("a")}})), "a-1 is kept as"),
        (view_disagreements(ClusterView(1, {}, {"a": {0: known("a", leader=LEADER_DURING_DELETE)}})), "being deleted"),
        (view_disagreements(ClusterView(1, {1: alive(0)})), "broker 0 is kept as 1"),
    ],
)
def test_contradictions_are_found_and_named(found: list[str], word: str) -> None:
    assert word in " ".join(found)
    assert bool(found) == bool(word)


@pytest.mark.parametrize("validates", [True, False])
def test_a_request_that_finds_a_contradiction_fails_as_a_whole(tmp_path: Path, validates: bool) -> None:
    broker = Broker(tmp_path / "data", validate_state=validates)
    broker.lead(order("a"))
    broker.base.instance_of(broker.manager).replicas._offline = 7
    answer = broker.lead(order("a", epoch=1))
    assert answer.error_code == (UNKNOWN_SERVER_ERROR if validates else NONE)
