"""Offsets committed in transactions: they are pending until the marker, and a load of the log returns the same."""

from __future__ import annotations

import random

import pytest

from actors.core.coordinator.group_states import DEAD, EMPTY
from actors.core.coordinator.membership import Producer
from messages import errors
from messages.apis.offset_commit import CommittedPartition
from messages.cluster import TopicPartition
from messages.groups import OffsetRecord, TransactionEnded
from tests.core.coordinator.life import T0, T1, Life

DAY_MS = 24 * 3600 * 1000
UNSTABLE = -errors.UNSTABLE_OFFSET_COMMIT


def code(life: Life, number: int) -> int:
    return int(life.answer(number).partitions[0].error_code)


# ------------------------------------------------------------------------------------------------ pending offsets


def test_an_offset_counts_with_the_commit_of_its_transaction() -> None:
    life = Life()
    life.commit(offset=1)
    assert code(life, life.commit_in_transaction(offset=5)) == errors.NONE
    assert (life.fetch(), life.fetch(stable=True)) == ({T0: 1}, {T0: UNSTABLE})
    life.end_transaction()
    assert (life.fetch(), life.fetch(stable=True)) == ({T0: 5}, {T0: 5})
    [record] = life.stores[-1].records
    assert isinstance(record, OffsetRecord) and record.value is not None
    assert (life.stores[-1].producer, record.value.expires_at_ms) == (Producer(1, 0, "id"), -1)


def test_the_marker_of_another_producer_has_no_effect() -> None:
    life = Life()
    life.commit_in_transaction(1, 5)
    life.commit_in_transaction(2, 6, partitions=(CommittedPartition(T1, 6),))
    life.end_transaction(2)
    assert life.fetch() == {T1: 6}
    life.end_transaction(1)
    assert life.fetch() == {T1: 6, T0: 5}


def test_the_later_commit_of_a_transaction_replaces_the_earlier() -> None:
    life = Life()
    life.commit_in_transaction(offset=5)
    life.commit_in_transaction(offset=6)
    life.end_transaction()
    assert life.fetch() == {T0: 6}


def test_a_plain_commit_after_the_transactional_one_stays() -> None:
    life = Life()
    life.commit_in_transaction(offset=5)
    life.commit(offset=3)
    life.end_transaction()
    assert life.fetch() == {T0: 3}
    assert life.loaded().offsets == life.group.offsets


def test_a_refused_commit_leaves_what_is_pending() -> None:
    """Kafka drops the pending offset: a zombie's commit removes the one of the live producer."""
    life = Life()
    life.commit_in_transaction(offset=5)
    life.log = errors.INVALID_PRODUCER_EPOCH
    assert code(life, life.commit_in_transaction(offset=9)) == errors.INVALID_PRODUCER_EPOCH
    life.end_transaction()
    assert life.fetch() == {T0: 5}


def test_a_producer_without_id_or_epoch_is_refused_as_in_kafka() -> None:
    life = Life()
    assert code(life, life.commit_in_transaction(-1)) == errors.INVALID_PRODUCER_ID_MAPPING
    assert code(life, life.commit_in_transaction(-1, member="m", generation=3)) == errors.INVALID_PRODUCER_ID_MAPPING
    life.commit_in_transaction(offset=5)
    assert code(life, life.commit_in_transaction(offset=9, epoch=-1)) == errors.UNKNOWN_SERVER_ERROR
    assert len(life.stores) == 1
    life.end_transaction()
    assert life.fetch() == {T0: 5}


def test_what_is_too_large_is_not_pending() -> None:
    """KAFKA-16371: a refused partition stayed pending, and therefore unstable for ever."""
    life = Life(metadata_max_bytes=4)
    large = CommittedPartition(T0, 1, -1, "12345")
    assert code(life, life.commit_in_transaction(partitions=(large,))) == errors.OFFSET_METADATA_TOO_LARGE
    assert life.stores == []
    nowhere = T0._replace(topic="nowhere")
    partitions = (large, CommittedPartition(nowhere, 1), CommittedPartition(T1, 2))
    number = life.commit_in_transaction(partitions=partitions, unknown=(nowhere,))
    codes = [each.error_code for each in life.answer(number).partitions]
    assert codes == [errors.OFFSET_METADATA_TOO_LARGE, errors.UNKNOWN_TOPIC_OR_PARTITION, errors.NONE]
    assert life.group.offsets.all_partitions() == [T1]


def test_a_stable_fetch_waits_for_a_plain_commit_too() -> None:
    life = Life()
    life.commit(offset=1)
    life.log = None
    life.commit(offset=2)
    assert (life.fetch(), life.fetch(stable=True)) == ({T0: 1}, {T0: UNSTABLE})
    life.stored()
    assert life.fetch(stable=True) == {T0: 2}


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_before_the_answer_of_the_log_decides(committed: bool) -> None:
    """Kafka 2.6 throws: "Trying to complete a transactional offset commit ... not been appended"."""
    life = Life()
    life.log = None
    number = life.commit_in_transaction(offset=5)
    life.end_transaction(committed=committed)
    assert (life.answer(number), life.fetch(stable=True)) == (None, {})
    life.stored()
    assert code(life, number) == errors.NONE
    assert life.fetch(stable=True) == ({T0: 5} if committed else {})
    assert life.loaded().offsets == life.group.offsets


def test_a_marker_ends_only_what_is_before_it() -> None:
    life = Life()
    life.commit_in_transaction(offset=5)
    ended = life.mark()
    life.commit_in_transaction(partitions=(CommittedPartition(T1, 6),))
    life.group.end_transaction(ended)
    assert life.fetch() == {T0: 5}
    assert list(life.group.offsets.pending) == [1]
    life.end_transaction(committed=False)
    assert life.fetch() == {T0: 5}


# ------------------------------------------------------------------------------------------------ membership checks


@pytest.mark.parametrize(
    ("said", "reported"),
    [
        (errors.NETWORK_EXCEPTION, errors.COORDINATOR_LOAD_IN_PROGRESS),
        (errors.NOT_LEADER_OR_FOLLOWER, errors.NOT_COORDINATOR),
    ],
)
def test_errors_of_the_log(said: int, reported: int) -> None:
    life = Life()
    life.log = said
    assert code(life, life.commit_in_transaction()) == reported
    assert not life.group.offsets


@pytest.mark.parametrize(("version", "reported"), [(3, errors.INVALID_TXN_STATE), (4, errors.TRANSACTION_ABORTABLE)])
def test_an_unverified_commit_is_abortable_from_version_4_on(version: int, reported: int) -> None:
    life = Life()
    life.log = errors.TRANSACTION_ABORTABLE
    assert code(life, life.commit_in_transaction(version=version)) == reported


# ------------------------------------------------------------------------------------------------ deletion and expiry


def test_a_group_with_a_pending_offset_does_not_expire() -> None:
    life = Life(retention_ms=DAY_MS)
    life.commit(offset=1)
    life.commit_in_transaction(offset=5)
    life.wait(DAY_MS)
    life.expire_offsets()
    assert (life.fetch(), life.group.state) == ({T0: 1}, EMPTY)
    life.end_transaction(committed=False)
    life.expire_offsets()
    assert life.group.state is DEAD


def test_a_group_of_aborted_offsets_is_over() -> None:
    life = Life()
    life.commit_in_transaction()
    life.expire_offsets()
    assert life.group.state is EMPTY
    life.end_transaction(committed=False)
    life.expire_offsets()
    assert life.group.state is DEAD


@pytest.mark.parametrize("how", ["the group", "its offsets", "the topic"])
def test_what_is_deleted_does_not_come_back_with_the_commit(how: str) -> None:
    """Kafka writes no tombstone for a pending offset, so the next load of the log restores it."""
    life = Life()
    life.commit_in_transaction(offset=5)
    if how == "the group":
        assert life.group.delete(life.now) == errors.NONE
    elif how == "its offsets":
        life.delete_offsets(T0)
    else:
        life.group.forget([T0], life.now)
    life._settle()
    assert life.written[-1] == OffsetRecord("g", T0, None)
    life.end_transaction()
    assert not life.group.offsets
    assert not life.loaded().offsets


def test_what_is_deleted_while_it_is_appended_does_not_come_back() -> None:
    life = Life()
    life.log = None
    number = life.commit_in_transaction(offset=5)
    life.group.forget([T0], life.now)
    life._settle()
    life.stored(which=0)
    assert code(life, number) == errors.NONE
    life.end_transaction()
    assert not life.group.offsets
    assert not life.loaded().offsets


def test_unloading_answers_and_the_next_coordinator_knows() -> None:
    life = Life()
    life.commit_in_transaction(offset=5)
    life.log = None
    number = life.commit_in_transaction(2, 6)
    life.unload()
    assert code(life, number) == errors.NOT_COORDINATOR
    again = Life(life.loaded())
    assert again.group.offsets.producer_ids == (1, 2), "the log has taken both"
    assert again.group.state is EMPTY


# ------------------------------------------------------------------------------------------------ memory and log


@pytest.mark.parametrize("seed", range(40))
def test_what_is_in_memory_is_what_a_load_of_the_log_gives(seed: int) -> None:
    """The test mixes commits, markers, deletions, refusals and late answers of the log in random order."""
    chance, life = random.Random(seed), Life(retention_ms=DAY_MS)
    partitions = [TopicPartition("t", number) for number in range(3)]
    unanswered: list[int] = []
    late: list[TransactionEnded] = []

    def commit_something() -> None:
        life.log = chance.choice([0, 0, None, None, errors.INVALID_PRODUCER_EPOCH])
        wanted = chance.sample(partitions, chance.randrange(1, 3))
        committed = tuple(CommittedPartition(each, chance.randrange(100)) for each in wanted)
        producer, before = chance.randrange(4), len(life.stores)
        if producer == 0:
            life.commit(partitions=committed)
        elif producer not in [each.producer_id for each in late]:
            life.commit_in_transaction(producer, partitions=committed)
        if life.log is None:
            unanswered.extend(range(before, len(life.stores)))
        life.log = 0

    def end_something() -> None:
        late.append(life.mark(chance.randrange(1, 4), chance.random() < 0.6))

    def catch_up() -> None:
        if late and chance.random() < 0.5:
            life.group.end_transaction(late.pop(0))
        elif unanswered:
            life.stored(which=unanswered.pop(chance.randrange(len(unanswered))))

    def forget_something() -> None:
        life.wait(chance.choice([0, DAY_MS]))
        if chance.random() < 0.5:
            life.group.forget(chance.sample(partitions, 1), life.now)
        else:
            life.group.expire_offsets(life.now)
        life._settle()

    for _ in range(60):
        chance.choice(
            [commit_something, commit_something, commit_something, end_something, catch_up, forget_something]
        )()
        if life.group.state is DEAD:
            break
        if chance.random() < 0.2:
            while unanswered:
                life.stored(which=unanswered.pop(0))
            while late:
                life.group.end_transaction(late.pop(0))
            assert life.loaded().offsets == life.group.offsets
