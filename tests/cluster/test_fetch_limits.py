"""Our broker and Apache's return the same records within the limits of partitions, requests and the broker."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import pytest

from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.wire.record_batch import read_records
from tests.cluster.both import Both
from tests.storage.batches import batch
from tests.waiting import until
from tests.wire_client import WireClient

LENGTHS = ((500, 300, 300, 700), (2000, 400, 90), (), (100,) * 20, (40_000, 40_000, 33_000), (90, 5000, 90))
"""The lengths of the values in each partition; each batch has one record."""
LIMITS = (0, 1, 90, 160, 250, 500, 800, 1800, 2500, 40_000, 75_000, 1 << 20, (1 << 31) - 1)
VERSIONS = (4, 6, 7, 9, 11)
SESSIONS_SINCE = 7
REQUESTS = 300


@pytest.fixture(scope="module")
def filled(both: Both) -> Both:
    # The records are of 1970: each broker would delete them at its own moment, 30 s after its start
    kept = (CreatableConfig("retention.ms", "-1"),)
    both.answers(CreateTopicsRequest(4, (CreatableTopic("t", len(LENGTHS), 1, configs=kept),), 30_000))
    for port in both.ports:
        with WireClient("127.0.0.1", port) as client:
            for number, lengths in enumerate(LENGTHS):
                for length in lengths:
                    until(lambda n=number, size=length: produced(client, n, size), NONE.__eq__, "led", 60)
    return both


def produced(client: WireClient, number: int, length: int) -> int:
    part = ProducePartition(TopicPartition("t", number), read_records(batch(bytes(length))))
    [result] = client.call(ProduceRequest(8, None, 1, 30_000, (part,))).partitions  # type: ignore[attr-defined]
    return int(result.error_code)


def partitions(response: Any) -> list[Any]:
    """Return the partitions in a response; within a session, their order has no meaning."""
    found = [
        (each.partition, each.error_code, each.high_watermark, bytes(each.body.data)) for each in response.partitions
    ]
    return sorted(found)


def test_the_same_records_are_returned_within_the_same_limits(filled: Both) -> None:
    """Partitions in every order, with limits below and above their batches, in sessions and without."""
    random = Random(11)
    clients = [WireClient("127.0.0.1", port) for port in filled.ports]
    for _ in range(REQUESTS):
        version, epochs = random.choice(VERSIONS), range(-1, 0)
        if version >= SESSIONS_SINCE and random.random() < 0.5:
            epochs = range(random.randint(1, 6))
        numbers, ids = random.sample(range(len(LENGTHS)), random.randint(1, len(LENGTHS))), [0, 0]
        for epoch in epochs:
            named = numbers if epoch <= 0 else random.sample(numbers, random.randint(0, 1))
            parts = tuple(
                FetchPartition(
                    TopicPartition("t", number), random.choice((0, 0, 1, 2, 9)), random.choice((-1, *LIMITS))
                )
                for number in named
            )
            asked = FetchRequest(version, -1, 0, 1, parts, random.choice(LIMITS), session_epoch=epoch)
            said: list[Any] = [
                client.call(asked if epoch <= 0 else attrs.evolve(asked, session_id=id))
                for client, id in zip(clients, ids, strict=True)
            ]
            if epoch == 0:
                ids = [response.session_id for response in said]
            apaches, ours = map(partitions, said)
            assert ours == apaches, asked
    for client in clients:
        client.close()


def test_a_fetch_waits_for_no_more_bytes_than_it_may_return(filled: Both) -> None:
    """`min_bytes` is at most `max_bytes`, which is at most the broker's limit: the fetch would wait for a minute."""
    parts = tuple(FetchPartition(TopicPartition("t", number), 0, 1 << 20) for number in range(len(LENGTHS)))
    for max_bytes in (0, 100, 1 << 20):
        apaches, ours = map(partitions, filled.answers(FetchRequest(11, -1, 60_000, 1 << 20, parts, max_bytes)))
        assert ours == apaches


@pytest.mark.parametrize("version", range(4))
def test_old_versions_return_the_same_messages(filled: Both, version: int) -> None:
    """Apache's broker sends an incomplete message behind the converted ones, up to the size of the batches."""
    for number in range(len(LENGTHS)):
        for offset in (0, 1, 2, 9):
            part = FetchPartition(TopicPartition("t", number), offset, 1 << 20)
            apaches, ours = (partitions(each)[0] for each in filled.answers(FetchRequest(version, -1, 0, 1, (part,))))
            messages = ours[-1]
            assert ours[:-1] == apaches[:-1] and apaches[-1].startswith(messages), (number, offset)
            assert apaches[-1][len(messages) :][:8] in (b"", b"\xff" * 8), "no further message"
