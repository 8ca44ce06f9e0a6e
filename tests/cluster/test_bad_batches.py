"""Our broker and Apache's respond to bad batches with the same error codes, with two deliberate exceptions.

Our broker refuses a producer id of -2 and compressed records with wrong lengths with error 87; Apache's accepts both
(`tests.storage.bad_batches`). A test shows that such lengths stop Java consumers.
"""

from __future__ import annotations

from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.list_offsets import ListOffsetsRequest, OffsetQuery
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import NONE
from messages.errors import TRANSACTIONAL_ID_AUTHORIZATION_FAILED as NO_TRANSACTIONAL_ID
from messages.records import LATEST
from messages.wire.record_batch import read_records
from tests.cluster.both import Both
from tests.storage import bad_batches
from tests.waiting import until
from tests.wire_client import WireClient

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
UNTIL = ("--timeout-ms", "3000")

TOPICS = (
    CreatableTopic("plain", 1, 1),
    CreatableTopic("compact", 1, 1, configs=(CreatableConfig("cleanup.policy", "compact"),)),
)


def produced(client: WireClient, topic: str, data: bytes) -> int:
    """Produce a batch, and return its error code."""
    part = ProducePartition(TopicPartition(topic, 0), read_records(data))
    [result] = client.call(ProduceRequest(8, None, 1, 30_000, (part,))).partitions  # type: ignore[attr-defined]
    return int(result.error_code)


def end(client: WireClient, topic: str) -> int:
    """Return the offset after the last record."""
    query = OffsetQuery(TopicPartition(topic, 0), LATEST)
    [result] = client.call(ListOffsetsRequest(5, -1, (query,))).partitions  # type: ignore[attr-defined]
    return int(result.offset)


def test_every_bad_batch_gets_the_code_that_apache_gives_it(both: Both) -> None:
    """Each broker's log grows by the records of the accepted batches."""
    table = list(bad_batches.table())
    good = next(bad for bad in table if bad.kind == "good").data
    found = []
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
    assert ours == {bad.name: bad.apache if bad.apache == NO_TRANSACTIONAL_ID else bad.code for bad in table}


def test_java_stops_at_a_batch_whose_compressed_records_have_wrong_lengths(both: Both) -> None:
    """Apache's broker stores such a batch. Kafka's consumer stops there, and does not read the records after it."""
    table = list(bad_batches.table())
    good = next(bad for bad in table if bad.kind == "good")
    for number, kind in enumerate(("good", *sorted(bad_batches.LENGTHS))):
        topic = f"lengths-{number}"
        [bad] = [each for each in table if (each.kind, each.codec) == (kind, 1)]
        both.answers(CreateTopicsRequest(4, (CreatableTopic(topic, 1, 1),), 30_000))
        with WireClient("127.0.0.1", both.ports[0]) as client:
            until(lambda c=client, t=topic: produced(c, t, good.data), lambda code: code == NONE, "led", 60)
            assert (produced(client, topic, bad.data), produced(client, topic, good.data)) == (NONE, NONE)
        _, said = both.theirs(CONSUMER, "--topic", topic, "--partition", "0", "--offset", "earliest", *UNTIL)
        read = said.split().count("value")
        assert (read == 3 * good.records) if kind == "good" else (good.records <= read < 2 * good.records), (kind, said)
