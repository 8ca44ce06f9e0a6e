"""Our broker and Apache's store the same batches for each pair of `compression.type` and producer codec.

So they do for topics with an older `message.format.version`.

The tests compare the records of each batch, and the fields of its header that do not depend on the compressed size.
The compression levels differ, so the compressed bytes are not compared.
"""

from __future__ import annotations

from messages.apis.create_topics import CreatableConfig, CreatableTopic, CreateTopicsRequest
from messages.apis.fetch import FetchPartition, FetchRequest
from messages.apis.produce import ProducePartition, ProduceRequest
from messages.cluster import TopicPartition
from messages.errors import (
    MESSAGE_TOO_LARGE,
    NONE,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from messages.records import CODECS, COMPRESSION_TYPES, PRODUCER, BatchHeader
from messages.wire.batch_records import Record, records
from messages.wire.compression import compress
from messages.wire.message_set import as_batch
from messages.wire.record_batch import has_valid_crc, read_records, whole_batches
from tests.cluster.both import Both
from tests.storage import bad_batches
from tests.storage.bad_batches import record
from tests.storage.batches import header_of, with_header
from tests.waiting import until
from tests.wire_client import WireClient

SMALL = 700
"""`max.message.bytes` of a topic without compression, for which the decompressed batch is too large."""

TOPICS = (
    *(CreatableTopic(name, 1, 1, configs=(CreatableConfig("compression.type", name),)) for name in COMPRESSION_TYPES),
    CreatableTopic(
        "stamped",
        1,
        1,
        configs=(
            CreatableConfig("compression.type", "lz4"),
            CreatableConfig("message.timestamp.type", "LogAppendTime"),
        ),
    ),
    CreatableTopic(
        "small",
        1,
        1,
        configs=(CreatableConfig("compression.type", "uncompressed"), CreatableConfig("max.message.bytes", str(SMALL))),
    ),
    *(
        CreatableTopic(version, 1, 1, configs=(CreatableConfig("message.format.version", version),))
        for version in ("0.9.0", "0.10.2")
    ),
)
THREE = record(0, None, b"a" * 300) + record(1, b"key", None, 5) + record(2, b"k", b"v" * 900, 7)


def batch(codec: int, **fields: int) -> bytes:
    """Return a batch of THREE whose header has their maximum timestamp: ours keeps it, Apache's computes it."""
    data = bad_batches.batch(compress(THREE, codec), 3, codec, **fields)
    return with_header(data, max_timestamp=header_of(data).first_timestamp + 7)


def produced(client: WireClient, topic: str, data: bytes) -> tuple[int, int]:
    """Produce a batch, and return (error code, base offset)."""
    part = ProducePartition(TopicPartition(topic, 0), read_records(data))
    [result] = client.call(ProduceRequest(8, None, 1, 30_000, (part,))).partitions  # type: ignore[attr-defined]
    return result.error_code, result.base_offset


def fetched(client: WireClient, topic: str, version: int = 11) -> tuple[int, list[tuple[BatchHeader, list[Record]]]]:
    """Fetch from offset 0, and return the error code and each batch's header and records. Assert valid checksums."""
    part = FetchPartition(TopicPartition(topic, 0), 0, 1 << 20, -1)
    request = FetchRequest(version, -1, max_wait_ms=0, min_bytes=1, partitions=(part,))
    [result] = client.call(request).partitions  # type: ignore[attr-defined]
    data = bytes(result.body.data) if result.body.size else b""
    found = []
    for position, header in whole_batches(data):
        assert has_valid_crc(data, position, header)
        found.append((header, list(records(*as_batch(data[position:], header)))))
    return result.error_code, found


def facts(batch: tuple[BatchHeader, list[Record]], stamped: bool) -> tuple[object, ...]:
    """Return the parts that must be equal, without the maximum timestamp if the broker sets it."""
    header, found = batch
    fields = header._replace(length=0, crc=0, max_timestamp=0 if stamped else header.max_timestamp)
    return CODECS[header.codec], tuple(fields), tuple(found)


def test_what_is_stored_is_what_apache_stores(both: Both) -> None:
    sent = [batch(codec) for codec in range(len(CODECS))]
    first = bad_batches.batch(bad_batches.TWO, 2)
    sequence = {"producer": 7, "epoch": 0, "sequence": 0}
    sent.append(batch(1, **sequence))
    sent.append(batch(1, **{**sequence, "sequence": 3}))
    stored, said = [], []
    both.answers(CreateTopicsRequest(4, TOPICS, 30_000))
    for port in both.ports:
        with WireClient("127.0.0.1", port) as client:
            for topic in TOPICS:
                until(lambda t=topic.name, b=first: produced(client, t, b)[0], lambda code: code == NONE, "led", 60)
            codes = {topic.name: [produced(client, topic.name, data) for data in (*sent, sent[-1])] for topic in TOPICS}
            batches = {topic.name: fetched(client, topic.name)[1] for topic in TOPICS}
            stored.append({name: [facts(each, name == "stamped") for each in found] for name, found in batches.items()})
            said.append((codes, [fetched(client, "zstd", version)[0] for version in (9, 10)]))
    assert said[0] == said[1]
    codes, zstd = said[1]
    assert zstd == [UNSUPPORTED_COMPRESSION_TYPE, NONE]
    assert {code for code, _ in codes["small"]} == {MESSAGE_TOO_LARGE}
    for name in COMPRESSION_TYPES:
        theirs, ours = stored[0][name], stored[1][name]
        assert len(ours) == 1 + len(sent), "the last batch, sent twice, is a duplicate"
        assert ours == theirs
        wanted = {"uncompressed": {"none"}, PRODUCER: {*CODECS}}.get(name, {name})
        assert {batch[0] for batch in ours} == wanted
    assert stored[1]["stamped"] == stored[0]["stamped"]
    for version, magic in (("0.9.0", 0), ("0.10.2", 1)):
        assert stored[1][version] == stored[0][version]
        assert {batch[1][3] for batch in stored[1][version]} == {magic}
        assert {codec for codec, *_ in stored[1][version]} == {"none", "gzip", "snappy", "lz4"}
        assert {code for code, _ in codes[version]} == {NONE, UNKNOWN_SERVER_ERROR, UNSUPPORTED_FOR_MESSAGE_FORMAT}
