"""CRC-32C, the checksum of record batches: `checksums.crc32c(data, value=0)`.

The package crc32c is imported at the first checksum. It looks up its version in the environment's metadata and imports
argparse, which takes 3 % of a node's start; a node without records needs no checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from crc32c import crc32c as crc32c


def __getattr__(name: str) -> object:
    if name != "crc32c":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crc32c import crc32c

    globals()[name] = crc32c
    return crc32c
