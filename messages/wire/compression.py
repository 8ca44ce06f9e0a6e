"""Compress and decompress the records of a batch in chunks, up to a maximum size.

Rule 1: decompression yields chunks of at most CHUNK bytes for gzip and zstd, and whole blocks for lz4 and snappy. It
        stops with TooManyBytes at its `limit`, by default MAX_DECOMPRESSED.
Rule 2: the formats are those of Kafka's Java classes: gzip; snappy in xerial's blocks or as one block; lz4 frames of
        independent blocks; zstd frames. Data that the Java classes reject is rejected here.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

import cramjam

from messages.records import CODECS
from messages.wire.zstd import zstd

Data: TypeAlias = bytes | memoryview

CHUNK = 1 << 16
"""Maximum bytes per chunk of gzip and zstd. A block of lz4 has up to 4 MB, a block of snappy any size that it
declares.
"""
MAX_DECOMPRESSED = 100 << 20
"""Maximum number of decompressed bytes of one batch: the default of `socket.request.max.bytes`.

A larger batch could not have been sent without compression. Kafka has no such limit.
"""

_WORD = struct.Struct("<I")

_GZIP = 31
"""zlib's window parameter for the gzip format with the largest window."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_OPTIONS: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 27}
"""Maximum window of Java's decoder by default: 2**27 bytes."""

_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 1 << 15
"""Bytes of records in one block, as in Java's SnappyOutputStream."""
_BLOCK_SIZE = struct.Struct(">i")
_MAX_SNAPPY_RATIO = 64
"""Maximum ratio: three bytes of a raw block copy at most 64 bytes, so a larger ratio means damage."""

_LZ4_MAGIC = 0x184D2204
_LZ4_HEAD = struct.Struct("<IBB")
_LZ4_INDEPENDENT, _LZ4_BLOCK_CHECKSUM, _LZ4_SIZE, _LZ4_CHECKSUM, _LZ4_RESERVED = 0x20, 0x10, 0x08, 0x04, 0x03
_LZ4_VERSION = 0x40
_LZ4_64_KB = 4
_LZ4_STORED = 0x80000000
"""The bit in a block's size that marks an uncompressed block."""


class TooManyBytes(ValueError):
    """The decompressed data is larger than its limit."""


class CannotDecompress(ValueError):
    """The compressed data is invalid, or its codec does not exist."""


def decompressed_chunks(data: Data, codec: int, limit: int = MAX_DECOMPRESSED) -> Iterator[Data]:
    """Decompress in chunks.

    Args:
        data: The records of a batch as they are stored, without the batch's header.
        codec: Number of the codec; 0 returns the data in one chunk.
        limit: Maximum number of decompressed bytes.

    Raises:
        TooManyBytes: There are more than `limit` bytes.
        CannotDecompress: The data is damaged, or the codec does not exist.
    """
    if codec == 0:
        yield data
        return
    if codec >= len(CODECS):
        raise CannotDecompress(f"Unknown compression type id: {codec}")
    total = 0
    try:
        for chunk in _DECOMPRESSORS[CODECS[codec]](memoryview(data), limit):
            total += len(chunk)
            if total > limit:
                raise TooManyBytes(f"The records have more than {limit} bytes decompressed")
            yield chunk
    except (IndexError, cramjam.DecompressionError, struct.error, zlib.error, zstd.ZstdError) as error:
        raise CannotDecompress(f"The {CODECS[codec]} data cannot be decompressed: {error}") from error


def decompress(data: Data, codec: int, limit: int = MAX_DECOMPRESSED) -> bytes:
    """Decompress at once; arguments and errors as in `decompressed_chunks`."""
    return b"".join(decompressed_chunks(data, codec, limit))


def compress(data: bytes, codec: int) -> bytes:
    """Compress with Kafka's default level for the codec. The bytes are readable by Kafka's Java classes."""
    return _COMPRESSORS[CODECS[codec]](data)


# ---------------------------------------------------------------------------------------------------- decompression


def _gunzip(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress the members of a gzip file in order; bytes after them are ignored, as in Java."""
    rest: Data = data
    while rest is data or rest[:2] == _GZIP_MAGIC:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            chunk = member.decompress(rest, CHUNK)
            rest = member.unconsumed_tail
            if chunk:
                yield chunk
            elif not rest and not member.eof:
                raise CannotDecompress("The gzip data cannot be decompressed: it is cut")
        rest = member.unused_data


def _unzstd(data: memoryview, limit: int) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        try:
            end = position + zstd.get_frame_size(data[position:])
        except zstd.ZstdError as error:
            raise CannotDecompress("The zstd data cannot be decompressed: it is cut or damaged") from error
        frame, rest = zstd.ZstdDecompressor(options=_ZSTD_OPTIONS), data[position:end]
        while not frame.eof:
            chunk = frame.decompress(rest, CHUNK)
            rest = data[:0]
            if chunk:
                yield chunk
            elif frame.needs_input:
                raise CannotDecompress("The zstd data cannot be decompressed: it is cut")
        position = end


def _unsnap(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress blocks in xerial's format, which Java clients write, or the single block that other clients write."""
    if data[: len(_XERIAL)] != _XERIAL:
        yield _unsnap_block(data, limit)
        return
    position = len(_XERIAL_HEADER)
    while position < len(data):
        (size,) = _BLOCK_SIZE.unpack_from(data, position)
        position += _BLOCK_SIZE.size
        if not 0 <= size <= len(data) - position:
            raise CannotDecompress(f"The snappy data cannot be decompressed: a block of {size} bytes is cut")
        yield _unsnap_block(data[position : position + size], limit)
        position += size


def _unsnap_block(block: memoryview, limit: int) -> bytes:
    """Decompress a block. Its declared size is checked before the memory is allocated."""
    size = cramjam.snappy.decompress_raw_len(block)
    if size > _MAX_SNAPPY_RATIO * len(block):
        raise CannotDecompress(f"The snappy data cannot be decompressed: {len(block)} bytes claim to be {size}")
    if size > limit:
        raise TooManyBytes(f"The records have more than {limit} bytes decompressed")
    return bytes(cramjam.snappy.decompress_raw(block))


def _unlz4(data: memoryview, limit: int) -> Iterator[bytes]:
    """Decompress a frame block by block. Checksums of blocks and contents are ignored: the batch's CRC was checked."""
    magic, flags, descriptor = _LZ4_HEAD.unpack_from(data)
    if magic != _LZ4_MAGIC:
        raise CannotDecompress(f"The lz4 data cannot be decompressed: it begins with {magic:#x}")
    if flags & ~(_LZ4_BLOCK_CHECKSUM | _LZ4_SIZE | _LZ4_CHECKSUM) != _LZ4_VERSION | _LZ4_INDEPENDENT:
        raise CannotDecompress(f"The lz4 data cannot be decompressed: frames with flags {flags:#x} are not read")
    block_code = descriptor >> 4
    if descriptor & 0x8F or not _LZ4_64_KB <= block_code <= 7:
        raise CannotDecompress(f"The lz4 data cannot be decompressed: its block descriptor is {descriptor:#x}")
    position = _LZ4_HEAD.size + (8 if flags & _LZ4_SIZE else 0)
    if data[position] != _xxh32_byte(bytes(data[4:position])):
        raise CannotDecompress("The lz4 data cannot be decompressed: the checksum of its header is wrong")
    position += 1
    output = bytearray(min(limit + 1, 1 << (8 + 2 * block_code)))
    while True:
        (size,) = _WORD.unpack_from(data, position)
        position += _WORD.size
        if not size:
            return
        stored, size = size & _LZ4_STORED, size & ~_LZ4_STORED
        block = data[position : position + size]
        if len(block) < size or size > len(output):
            raise CannotDecompress(f"The lz4 data cannot be decompressed: a block of {size} bytes is cut or too large")
        yield bytes(block) if stored else bytes(output[: cramjam.lz4.decompress_block_into(block, output)])
        position += size + (_WORD.size if flags & _LZ4_BLOCK_CHECKSUM else 0)


def with_lz4_checksum(frame: bytes, covers_magic: bool = False) -> bytes:
    """Return an lz4 frame with the right checksum of its header, or with the one that Kafka before 0.10 wrote.

    The latter covers the four bytes with the frame's magic number, too.
    """
    _, flags, _ = _LZ4_HEAD.unpack_from(frame)
    position = _LZ4_HEAD.size + (8 if flags & _LZ4_SIZE else 0)
    checksum = _xxh32_byte(frame[0 if covers_magic else 4 : position])
    return b"".join((frame[:position], bytes((checksum,)), frame[position + 1 :]))


_DECOMPRESSORS: dict[str, Callable[[memoryview, int], Iterator[bytes]]] = {
    "gzip": _gunzip,
    "snappy": _unsnap,
    "lz4": _unlz4,
    "zstd": _unzstd,
}

# ---------------------------------------------------------------------------------------------------- compression


def _gzip(data: bytes) -> bytes:
    made = zlib.compressobj(wbits=_GZIP)
    return made.compress(data) + made.flush()


def _snap(data: bytes) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts += (_BLOCK_SIZE.pack(len(block)), block)
    return b"".join(parts)


def _lz4(data: bytes) -> bytes:
    """Compress to one frame of independent 64 KB blocks: Java cannot read the blocks of cramjam's frames."""
    head = _LZ4_HEAD.pack(_LZ4_MAGIC, _LZ4_VERSION | _LZ4_INDEPENDENT, _LZ4_64_KB << 4)
    parts = [head, bytes([_xxh32_byte(head[4:])])]
    for start in range(0, len(data), CHUNK):
        plain = data[start : start + CHUNK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_WORD.pack(len(block)), block)
        else:
            parts += (_WORD.pack(len(plain) | _LZ4_STORED), plain)
    return b"".join((*parts, _WORD.pack(0)))


_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": _gzip,
    "snappy": _snap,
    "lz4": _lz4,
    "zstd": lambda data: zstd.compress(data, level=3),
}

_PRIME_1, _PRIME_2, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_32_BITS = 0xFFFFFFFF


def _xxh32_byte(data: bytes) -> int:
    """Return the second byte of the xxHash32 of `data` (fewer than 16 bytes): the last byte of an lz4 frame header."""
    found = _PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for (word,) in _WORD.iter_unpack(data[:whole]):
        found = (found + word * _PRIME_3) & _32_BITS
        found = (found << 17 | found >> 15) * _PRIME_4 & _32_BITS
    for byte in data[whole:]:
        found = (found + byte * _PRIME_5) & _32_BITS
        found = (found << 11 | found >> 21) * _PRIME_1 & _32_BITS
    found = (found ^ found >> 15) * _PRIME_2 & _32_BITS
    found = (found ^ found >> 13) * _PRIME_3 & _32_BITS
    return (found ^ found >> 16) >> 8 & 0xFF
