"""The files of a run: its segments, and the manifest that lists the segments.

Rule 1: they are named by their run: RUN-000000.trace.zst, RUN-000001.trace.zst, ..., RUN.manifest.zst, and lie in one
        folder. Folders of many nodes' traces may be moved and copied together; a file that was renamed is not what its
        name says.
Rule 2: they are readable by their owner only, and so is the folder, unless it is there and holds other things too.
Rule 3: who writes a run holds a lock on its manifest: a reader can tell a node that was killed from one that runs.
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
UNNAMED_SUFFIX = ".new"
"""What a file's name ends with until its header is written; a kill may leave one behind, of which no reader knows."""
_SEGMENT = re.compile(r"(?P<run>.+)-(?P<number>\d{6,})" + re.escape(SUFFIX), re.DOTALL)
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700


def segment_name(run: str, segment: int) -> str:
    """File name of a run's segment."""
    return f"{run}-{segment:06d}{SUFFIX}"


def manifest_name(run: str) -> str:
    """File name of a run's manifest."""
    return f"{run}{MANIFEST_SUFFIX}"


class TraceFileName(NamedTuple):
    """The run and the segment number in the name of a trace file; the number is None for the manifest."""

    run: str
    segment: int | None


def parse_name(name: str) -> TraceFileName | None:
    """What the name says; None for a file that is none of ours."""
    if name.endswith(MANIFEST_SUFFIX):
        return TraceFileName(name.removesuffix(MANIFEST_SUFFIX), None)
    match = _SEGMENT.fullmatch(name)
    return None if match is None else TraceFileName(match["run"], int(match["number"]))


def make_folder(folder: Path) -> None:
    """Make the folder where it is missing, for its owner only; so becomes one that is there and holds nothing else.

    Raises OSError.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    mode = stat.S_IMODE(folder.stat().st_mode)
    shared = mode & ~_FOLDER_MODE and not mode & stat.S_ISVTX
    if shared and all(parse_name(path.name.removesuffix(UNNAMED_SUFFIX)) for path in folder.iterdir()):
        with suppress(PermissionError):  # it is another's; the files are ours
            folder.chmod(mode & _FOLDER_MODE)


def create(path: Path) -> BinaryIO:
    """A new file, for its owner only, unbuffered. Raises OSError, where it is there already too."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb", buffering=0)


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write all of it. Raises OSError, when some may have been written."""
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


def hold(manifest: BinaryIO) -> None:
    """Lock it until it is closed. Without file locks a running recording is not detected."""
    try:
        fcntl.flock(manifest, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return


def is_held(manifest: Path) -> bool:
    """Whether a process is writing this run. Raises OSError where there is no such file."""
    with manifest.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False
