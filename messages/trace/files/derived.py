"""Keep what is derived from a run's records in a file beside the run, so that it is derived once.

Rule 1: the file names the code that derived it and the state of the run: the digest of its last frame, which is chained
        to all earlier ones, how the run ended, and how many segments were removed. If any of these differ, or the file
        is damaged, it is replaced, and a warning is logged.
Rule 2: no file is written for a run that is still being written, for one below LEAST bytes, or where the folder cannot
        be written.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import msgspec

from messages.trace.files import segments as files
from messages.trace.files.frames import START
from messages.trace.files.runs import Run, RunRecords, ending
from messages.trace.text import compress, decompress

LEAST = 1 << 20
"""Bytes of a run's segments from which on its index is kept. A smaller run is read in less than a second."""
_CODE = Path(__file__).parents[2] / "facts"
_log = logging.getLogger("kafka_actors.trace")


def read_or_derive(run: Run, derive: Callable[[], bytes]) -> bytes:
    """Return what `derive` returns for a run, from the file beside the run if this is valid.

    Raises:
        TraceError: The run is damaged.
    """
    code = _code_version()
    if run.running or not code or sum(path.stat().st_size for path in run.paths) < LEAST:
        return derive()
    path = run.folder / files.index_name(run.header.run)
    state = msgspec.json.encode([code, _last_digest(run), ending(run), run.removed])
    with suppress(FileNotFoundError):
        try:
            head, _, content = decompress(path.read_bytes())[:-1].partition(b"\n")
            digest, _, recorded = head.partition(b" ")
            if digest != _digest(content):
                raise ValueError("its checksum is wrong")
            if recorded == state:
                return content
            reason = "it is older than the run, or of another version"
        except (OSError, ValueError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            reason = str(error)
        _log.warning("Rebuilding the index %s: %s", path, reason)
    content = derive()
    part = path.with_name(f"{path.name}.{os.getpid()}{files.UNNAMED_SUFFIX}")
    with suppress(OSError):
        with files.create(part) as file:
            files.write_all(file, compress([_digest(content) + b" " + state, content]))
        part.replace(path)
    return content


def _last_digest(run: Run) -> str:
    digest = START
    for _, frame in RunRecords(run).frames():
        digest = frame.digest
    return digest.hex()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).hexdigest().encode()


@cache
def _code_version() -> str:
    """Return a digest of the modules that find facts; "" if they are not in a folder."""
    digest = hashlib.blake2b(digest_size=8)
    sources = sorted(_CODE.glob("*.py"))
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest() if sources else ""
