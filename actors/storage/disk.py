"""An I/O adapter through which actors use directories and small files.

Actors call it as `self.port("disk").make_directory(path)`, and live it is this object. Arguments and results are text,
numbers, truth values and tuples of them; errors are OSError alone. Arguments are given by position.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

from actors.storage.log import opening


class DiskAdapter:
    """An I/O adapter for directories, small text files and lock files of this machine."""

    _locked: dict[str, tuple[DiskAdapter, int]] = {}  # noqa: RUF012
    """Of the process, as fcntl's locks are: path -> who holds it, descriptor."""

    def make_directory(self, path: str, parents: bool = False) -> bool:
        """Make a directory, with its parents if requested. False if it exists."""
        try:
            if parents:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            os.mkdir(path)  # noqa: PTH102  (a hundred thousand times at a failover: Path costs as much as the call)
        except FileExistsError:
            if not Path(path).is_dir():
                raise
            return False
        return True

    def list_directories(self, path: str) -> tuple[str, ...]:
        """Names of the directories in `path`, sorted."""
        with opening(lambda: os.scandir(path)) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir()))

    def read_text(self, path: str) -> str | None:
        """A small file's text; None if it does not exist. Bytes that are not UTF-8 are replaced."""
        try:
            return opening(lambda: Path(path).read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        """Write a small file so that a crash leaves the old one or the new one, never a torn one.

        The draft beside it is always a new file: what lies there, a link to elsewhere perhaps, is removed.
        """
        draft = Path(path + ".tmp")
        draft.unlink(missing_ok=True)
        with opening(lambda: draft.open("x", encoding="utf-8")) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def rename(self, path: str, target: str) -> bool:
        """Rename a file or directory within its file system. False where it is missing from a folder that is there."""
        try:
            os.rename(path, target)  # noqa: PTH104  (as make_directory)
        except FileNotFoundError:
            if not Path(path).parent.is_dir():
                raise
            return False
        return True

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all that is in it; nothing happens where it is gone already."""
        if Path(path).exists():
            opening(lambda: shutil.rmtree(path))

    def lock(self, path: str) -> bool:
        """Lock a file (made if missing) for this process, as Apache's brokers do; False if another process holds it.

        The lock goes with `unlock` or with the process. It is the record lock that Java takes, so the two
        implementations exclude each other; within the process the table of held paths does what Java's does.
        """
        name = os.path.realpath(path)
        if name in self._locked:
            return False
        descriptor = opening(lambda: os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            os.close(descriptor)
            return False
        except OSError:
            os.close(descriptor)
            raise
        self._locked[name] = self, descriptor
        return True

    def unlock(self, path: str) -> None:
        """Give a lock back; nothing happens where it is not ours."""
        name = os.path.realpath(path)
        holder, descriptor = self._locked.get(name, (None, -1))
        if holder is self:
            del self._locked[name]
            os.close(descriptor)
