"""Recompression of batches whose codec differs from their topic's `compression.type`."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from actors.core.config.log_settings import log_config
from actors.storage.log import LogConfig
from actors.storage.log_manager import MAX_RECOMPRESSED, MESSAGE_TOO_LARGE, NONE, RECORD_LIST_TOO_LARGE, LogManager
from messages.partition import LogSettings
from messages.records import CODECS
from messages.wire.batch_records import records
from messages.wire.compression import compress
from messages.wire.record_batch import body_of, has_valid_crc, read_header
from tests.storage import bad_batches
from tests.storage.bad_batches import record

THREE = record(0, None, b"a" * 300) + record(1, b"key", None, 5) + record(2, b"k", b"v" * 900, 7)


def opened(place: Path, **fields: int) -> tuple[LogManager, str]:
    logs, path = LogManager(lambda: 5_000), f"{place}/t-0"
    logs.open(path, True, attrs.astuple(LogConfig(**fields)))
    return logs, path


@pytest.mark.parametrize("append_time", [False, True])
@pytest.mark.parametrize("target", range(len(CODECS)), ids=CODECS)
def test_batches_are_stored_with_the_topics_codec(tmp_path: Path, target: int, append_time: bool) -> None:
    """Recompression keeps the records and the producer fields. A repeated batch is still a duplicate."""
    logs, path = opened(tmp_path, compression=target)
    sent = [
        bad_batches.batch(compress(THREE, codec), 3, codec, producer=7, epoch=1, sequence=3 * codec)
        for codec in range(len(CODECS))
    ]
    end, _, *results = logs.append(path, 2, append_time, True, *map(body_of, sent), body_of(sent[-1]))
    assert end == 3 * len(CODECS)
    assert [result[:3] for result in results] == [(NONE, 3 * n, 3 * n + 2) for n in (0, 1, 2, 3, 4, 4)]
    data, position = bytes(logs.read(path, 0, 1 << 20, end, True)[1].data), 0
    for number, batch in enumerate(sent):
        header, before = read_header(data, position), read_header(batch)
        assert header.codec == target
        assert has_valid_crc(data, position, header)
        assert header._replace(length=0, crc=0, attributes=0) == before._replace(
            length=0,
            crc=0,
            attributes=0,
            base_offset=3 * number,
            leader_epoch=2,
            max_timestamp=5_000 if append_time else before.max_timestamp,
        )
        wanted = [each._replace(offset=each.offset + 3 * number) for each in records(batch, before)]
        assert list(records(data[position:], header)) == wanted
        position += header.size
    assert position == len(data)


def test_a_batch_that_becomes_too_large_is_refused_and_those_around_it_are_not(tmp_path: Path) -> None:
    zstd = CODECS.index("zstd")
    small = bad_batches.batch(compress(bad_batches.TWO, zstd), 2, zstd)
    large = bad_batches.batch(compress(THREE, zstd), 3, zstd)
    huge = bad_batches.batch(compress(record(0, None, bytes(MAX_RECOMPRESSED)), zstd), 1, zstd)
    for fields, code in (
        ({"max_message_bytes": 1000}, MESSAGE_TOO_LARGE),
        ({"max_message_bytes": 1 << 30, "segment_bytes": 1000}, RECORD_LIST_TOO_LARGE),
    ):
        (tmp_path / str(code)).mkdir()
        logs, path = opened(tmp_path / str(code), compression=0, **fields)
        end, _, *results = logs.append(path, 0, False, True, *map(body_of, (small, large, small, huge)))
        assert (end, [result[0] for result in results]) == (4, [NONE, code, NONE, MESSAGE_TOO_LARGE])
        assert [result[1] for result in results] == [0, -1, 2, -1]


@pytest.mark.parametrize(
    ("name", "codec"), [("producer", -1), ("uncompressed", 0), ("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4)]
)
def test_a_log_knows_its_topics_codec_by_number(name: str, codec: int) -> None:
    config = LogConfig(*log_config(LogSettings(compression_type=name, max_message_bytes=77)))
    assert (config.compression, config.max_message_bytes) == (codec, 77)
