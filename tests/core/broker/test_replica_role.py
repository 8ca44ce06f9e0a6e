"""Roles of one hosted partition: broker.md 9.1 rows 3, 4, 12, 13, and 9.2 row 26."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.broker import replica_role
from messages.cluster import TopicPartition
from messages.errors import FENCED_LEADER_EPOCH, NONE, STALE_CONTROLLER_EPOCH, UNKNOWN_TOPIC_OR_PARTITION
from tests.broker.harness import order

FRESH = replica_role.ReplicaRole(TopicPartition("t", 0), 0)


def at(epoch: int, **fields: object) -> replica_role.ReplicaRole:
    """Return the partition as leader in this epoch."""
    return replica_role.make_leader(FRESH, order("t", epoch=epoch, **fields))[0]


@pytest.mark.parametrize(
    ("known_epoch", "epoch", "replicas", "code"),
    [
        (-1, 0, (0,), NONE),
        (3, 4, (9, 0), NONE),
        (3, 3, (0,), STALE_CONTROLLER_EPOCH),
        (3, 2, (0,), STALE_CONTROLLER_EPOCH),
        (3, 2, (9,), STALE_CONTROLLER_EPOCH),
        (3, 4, (8, 9), UNKNOWN_TOPIC_OR_PARTITION),
        (-1, 0, (), UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_an_order_is_judged_by_epoch_and_then_by_replicas(
    known_epoch: int, epoch: int, replicas: tuple[int, ...], code: int
) -> None:
    known = FRESH if known_epoch < 0 else at(known_epoch)
    assert replica_role.role_verdict(known, order("t", epoch=epoch, replicas=replicas)) == code


@pytest.mark.parametrize(
    ("known_epoch", "epoch", "code"),
    [
        (1, 2, NONE),
        (1, 1, NONE),
        (1, 0, FENCED_LEADER_EPOCH),
        (1, -2, NONE),
        (1, -1, NONE),
        (-1, -1, NONE),
        (-1, 0, NONE),
    ],
)
def test_a_stop_is_obeyed_from_the_known_epoch_on_and_where_it_names_none(
    known_epoch: int, epoch: int, code: int
) -> None:
    assert replica_role.stop_verdict(FRESH if known_epoch < 0 else at(known_epoch), epoch) == code


def test_a_leader_stores_the_state_of_the_request() -> None:
    said = order("t", epoch=7, isr=(0, 2), replicas=(0, 1, 2), adding_replicas=(1,), controller_epoch=5, zk_version=3)
    leader, is_new = replica_role.make_leader(FRESH, said)
    assert is_new
    assert leader == replica_role.ReplicaRole(
        TopicPartition("t", 0), 0, replica_role.LEADER, 0, 7, 5, 3, (0, 2), (0, 1, 2), (1,), ()
    )


def test_a_leader_announced_again_is_not_new() -> None:
    leader, is_new = replica_role.make_leader(at(1), order("t", epoch=2))
    assert (leader.leader_epoch, is_new) == (2, False)


def test_row_13_a_follower_has_no_isr_and_its_leader_or_epoch_is_news() -> None:
    follower, changed = replica_role.make_follower(FRESH, order("t", leader=1, epoch=1, isr=(1, 0)))
    assert (follower.name, follower.leader, follower.isr, changed) == (replica_role.FOLLOWER, 1, (), True)
    later, changed = replica_role.make_follower(follower, order("t", leader=1, epoch=4))
    assert (later.leader_epoch, changed) == (4, True)
    assert replica_role.make_follower(later, order("t", leader=1, epoch=4)) == (later, False)


def test_an_older_znode_version_changes_nothing() -> None:
    leader = at(1, zk_version=5)
    assert replica_role.make_leader(leader, order("t", epoch=2, zk_version=4)) == (leader, False)
    assert replica_role.make_follower(leader, order("t", leader=9, epoch=2, zk_version=4)) == (leader, False)


@pytest.mark.parametrize(
    ("isr", "replicas", "adding", "under"),
    [
        ((0, 1), (0, 1), (), False),
        ((0,), (0, 1), (), True),
        ((0, 1), (0, 1, 2), (2,), False),
        ((0,), (0, 1, 2), (2,), True),
    ],
)
def test_row_69_under_replicated_counts_the_replicas_before_a_reassignment(
    isr: tuple[int, ...], replicas: tuple[int, ...], adding: tuple[int, ...], under: bool
) -> None:
    role = at(0, isr=isr, replicas=replicas, adding_replicas=adding)
    assert (replica_role.UNDER_REPLICATED in replica_role.health_flags(role, isr, 1)) is under


orders = st.builds(
    order,
    st.just("t"),
    leader=st.integers(0, 2),
    epoch=st.integers(0, 6),
    zk_version=st.integers(0, 6),
    replicas=st.sampled_from([(0, 1, 2), (0,), (1, 2)]),
)


@given(st.lists(orders, max_size=12))
def test_epoch_and_version_never_fall_and_only_a_replica_has_a_role(said: list) -> None:
    known = FRESH
    for one in said:
        if replica_role.role_verdict(known, one) != NONE:
            continue
        new, changed = (replica_role.make_leader if one.leader == 0 else replica_role.make_follower)(known, one)
        assert new.leader_epoch >= known.leader_epoch
        assert new.zk_version >= known.zk_version
        assert (new == known) or 0 in new.replicas
        assert not changed or new != known
        assert new.name != replica_role.NO_ROLE or new == FRESH
        known = new
