"""Test transactional offset commits with the group coordinator and its groups, on virtual time and real logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from messages.apis.list_groups import ListGroupsRequest
from messages.apis.offset_commit import CommittedPartition
from messages.apis.offset_fetch import OffsetFetchRequest
from messages.apis.txn_offset_commit import TxnOffsetCommitRequest
from messages.cluster import TopicPartition
from messages.errors import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    INVALID_GROUP_ID,
    NONE,
    NOT_COORDINATOR,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from messages.groups import HandOver, TransactionEnded
from tests.coordinator.world import T0, World

PRODUCER = 5
T1 = TopicPartition("t", 1)


class TransactionWorld(World):
    """A world that sends TransactionEnded to the coordinator, as the handler of WriteTxnMarkers does."""

    def commit_in_transaction(self, offset: int = 5, group: str = "g", version: int = 3, **fields: object) -> int:
        """Send a TxnOffsetCommit for t-0, and return its error code."""
        partitions = (CommittedPartition(T0, offset),)
        request = TxnOffsetCommitRequest(version, "id", group, PRODUCER, 0, partitions, **fields)
        return int(self.ask(request).partitions[0].error_code)

    def end_transaction(self, committed: bool = True, group: str = "g") -> None:
        """Report that a marker was appended at the log end offset."""
        ended = TransactionEnded(PRODUCER, self.partition_of(group), committed, 1_000)
        self.base.inject(self.coordinator, ended)
        self.run()

    def stable(self, group: str = "g") -> dict[TopicPartition, int]:
        """Fetch all offsets with require_stable; a partition with an error has minus its error code."""
        response = self.ask(OffsetFetchRequest(7, group, None, True))
        return {each.partition: -each.error_code or each.committed_offset for each in response.partitions}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[TransactionWorld]:
    world = TransactionWorld(tmp_path)
    world.run()
    yield world
    assert world.base.failures == 0
    world.base.shutdown()


def test_the_group_is_made_and_stays_while_a_transaction_is_open(world: TransactionWorld) -> None:
    world.coordinate(*range(4))
    assert world.commit_in_transaction(generation_id=3, member_id="unknown") == UNKNOWN_MEMBER_ID
    assert [(each.group_id, each.group_state) for each in world.ask(ListGroupsRequest(4)).groups] == [("g", "Empty")]
    assert world.commit_in_transaction() == NONE
    world.pass_time(600)
    assert len(world.ask(ListGroupsRequest(4)).groups) == 1
    world.end_transaction(committed=False)
    world.pass_time(600)
    assert world.ask(ListGroupsRequest(4)).groups == ()


def test_what_is_refused_before_the_group(world: TransactionWorld) -> None:
    world.coordinate(world.partition_of("g"))
    assert world.commit_in_transaction(group="") == INVALID_GROUP_ID
    other = next(name for name in "abcdefgh" if world.partition_of(name) != world.partition_of("g"))
    assert world.commit_in_transaction(group=other) == NOT_COORDINATOR
    nowhere = CommittedPartition(T0._replace(topic="nowhere"), 1)
    request = TxnOffsetCommitRequest(3, "id", "g", PRODUCER, 0, (nowhere, CommittedPartition(T0, 2)))
    assert [each.error_code for each in world.ask(request).partitions] == [UNKNOWN_TOPIC_OR_PARTITION, NONE]


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, COORDINATOR_NOT_AVAILABLE), (1, COORDINATOR_NOT_AVAILABLE), (2, COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_older_clients_do_not_know_that_a_coordinator_loads(
    world: TransactionWorld, monkeypatch: pytest.MonkeyPatch, version: int, code: int
) -> None:
    monkeypatch.setattr("actors.coordinator.group_loader.GroupLoaderActor._read_on", lambda self: None)
    world.coordinate(*range(4))
    assert world.commit_in_transaction(version=version) == code


def test_the_next_leader_loads_pending_offsets(world: TransactionWorld) -> None:
    world.coordinate(*range(4))
    world.commit_in_transaction(5)
    world.coordinate(*range(4), leader=1)
    assert world.commit_in_transaction(6) == NOT_COORDINATOR
    world.end_transaction()
    world.coordinate(*range(4))
    assert (world.fetch(), [each.group_id for each in world.ask(ListGroupsRequest(4)).groups]) == ({}, ["g"])
    world.end_transaction()
    assert world.fetch() == {T0: 5}


def test_a_transaction_that_ends_during_the_load_ends(world: TransactionWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader may have read the partition before the marker was appended."""
    world.coordinate(*range(4))
    world.commit_in_transaction(5)
    world.coordinate(*range(4), leader=1)
    monkeypatch.setattr("actors.coordinator.group_loader.GroupLoaderActor._hand_over", lambda self: None)
    world.coordinate(*range(4))
    loaders = [ref.actor for ref in world.base.register if type(ref.actor).__name__ == "GroupLoaderActor"]
    world.end_transaction()
    monkeypatch.undo()
    for loader in loaders:
        world.base.inject(loader.myAddress, HandOver())
    world.run()
    assert world.fetch() == {T0: 5}
