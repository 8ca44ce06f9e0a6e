"""The files of a run: its segments, and the manifest that lists the segments.

Rule 1: file names begin with the name of the run (RUN): RUN-000000.trace.zst, RUN-000001.trace.zst, ...,
        RUN.manifest.zst, and RUN.facts.zst, which readers write (`derived`). All files of a run are in one folder.
        Folders with traces of many nodes may be moved and merged; a renamed file is reported as damage.
Rule 2: only the owner of the files can read them. The same applies to the folder, unless it existed before and also
        contains other files.
Rule 3: the process that writes a run holds a lock on its manifest, so readers can distinguish a killed node from a
        running one.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

SUFFIX = ".trace.zst"
MANIFEST_SUFFIX = ".manifest.zst"
INDEX_SUFFIX = ".facts.zst"
UNNAMED_SUFFIX = ".new"
"""Suffix of a file's name until its header is written. A kill may leave such a file; readers ignore it."""
_SEGMENT = re.compile(r"(?P<run>.+)-(?P<number>\d{6,})" + re.escape(SUFFIX), re.DOTALL)
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


def segment_name(run: str, segment: int) -> str:
    """Return the file name of a run's segment."""
    return f"{run}-{segment:06d}{SUFFIX}"


def manifest_name(run: str) -> str:
    """Return the file name of a run's manifest."""
    return f"{run}{MANIFEST_SUFFIX}"


def index_name(run: str) -> str:
    """Return the file name of a run's index."""
    return f"{run}{INDEX_SUFFIX}"


class TraceFileName(NamedTuple):
    """The run and the segment number in the name of a trace file; the number is None for the manifest."""

    run: str
    segment: int | None


def parse_name(name: str) -> TraceFileName | None:
    """Return the parts of a trace file's name; None if the file is not a trace file."""
    if name.endswith(MANIFEST_SUFFIX):
        return TraceFileName(name.removesuffix(MANIFEST_SUFFIX), None)
    match = _SEGMENT.fullmatch(name)
    return None if match is None else TraceFileName(match["run"], int(match["number"]))


def make_folder(folder: Path) -> None:
    """Create the folder with access for its owner only; restrict an existing folder if it has only trace files.

    Raises:
        OSError: The folder cannot be created or read.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    shared = mode & ~_FOLDER_MODE and not mode & stat.S_ISVTX
    if shared and all(
        path.name.endswith(INDEX_SUFFIX) or parse_name(path.name.removesuffix(UNNAMED_SUFFIX))
        for path in folder.iterdir()
    ):
        with suppress(PermissionError):  # another user's folder: our files are private anyway
            folder.chmod(mode & _FOLDER_MODE)


def create(path: Path) -> BinaryIO:
    """Create an unbuffered file with access for its owner only. Raises OSError, also if the file exists."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb", buffering=0)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of `data`. Raises OSError, possibly after a part was written."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def hold(manifest: BinaryIO) -> None:
    """Lock the manifest until it is closed. If the file system has no locks, `is_held` always returns False."""
    try:
        fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return


def is_held(manifest: Path) -> bool:
    """Return whether a process is writing this run. Raises OSError if the file does not exist."""
    with manifest.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False
