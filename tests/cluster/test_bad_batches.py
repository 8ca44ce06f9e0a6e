"""Batches that are refused by their records, at a broker of ours and at Apache's own: the same error codes.

Three differences are deliberate (`tests.storage.bad_batches`): a transactional batch without a producer, a producer id
of -2, and compressed records whose own lengths are wrong are refused with 87 here.
"""

from __future__ import annotations

from pathlib import Path

from messages.admin_requests import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.cluster import TopicPartition
from messages.data_requests import LATEST, ListOffsetsRequest, OffsetQuery, ProducePartition, ProduceRequest
from messages.errors import NONE
from messages.wire.record_batch import read_records
from tests.cluster.both import both_running
from tests.storage import bad_batches
from tests.waiting import until
from tests.wire_client import WireClient

TOPICS = (
    CreatableTopic("plain", 1, 1),
    CreatableTopic("compact", 1, 1, configs=(CreatableConfig("cleanup.policy", "compact"),)),
)


def produced(client: WireClient, topic: str, data: bytes) -> int:
    """The error code of a batch."""
    part = ProducePartition(TopicPartition(topic, 0), read_records(data))
    [result] = client.call(ProduceRequest(8, None, 1, 30_000, (part,))).partitions  # type: ignore[attr-defined]
    return int(result.error_code)


def end(client: WireClient, topic: str) -> int:
    """The offset after the last record."""
    query = OffsetQuery(TopicPartition(topic, 0), LATEST)
    [result] = client.call(ListOffsetsRequest(5, -1, (query,))).partitions  # type: ignore[attr-defined]
    return int(result.offset)


def test_every_bad_batch_gets_the_code_that_apache_gives_it(tmp_path: Path, apache_jars: Path) -> None:
    """And the log grows by the records of those that are taken, at either."""
    table = list(bad_batches.table())
    good = next(bad for bad in table if bad.kind == "good").data
    found = []
    with both_running(tmp_path, apache_jars) as both:
        both.answers(CreateTopicsRequest(4, TOPICS, 30_000))
        for port in both.ports:
            with WireClient("127.0.0.1", port) as client:
                codes = {}
                for topic in TOPICS:
                    until(lambda t=topic.name: produced(client, t, good), lambda code: code == NONE, "led", 60)
                    before = end(client, topic.name)
                    said = {bad.name: produced(client, topic.name, bad.data) for bad in table}
                    keyless = [bad.name for bad in table if bad.kind in bad_batches.KEYLESS]
                    taken = [bad.records for bad in table if said[bad.name] == NONE]
                    assert end(client, topic.name) - before == sum(taken)
                    codes[topic.name] = said
                    if topic.name == "compact":
                        assert {said[name] for name in keyless} == {87}
                        assert said.keys() - set(keyless) <= codes["plain"].keys()
                found.append(codes["plain"])
    apaches, ours = found
    assert apaches == {bad.name: bad.apache for bad in table}
    assert ours == {bad.name: bad.code for bad in table}
