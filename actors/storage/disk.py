"""An I/O adapter through which actors use directories and small files.

Actors call it as `self.port("disk").make_directory(path)`. Arguments are positional. Arguments and results are text,
None, numbers, booleans and tuples of them; the only error is OSError.
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
    """Locked path -> (the adapter that holds it, descriptor). For the whole process, as fcntl's locks are."""

    def make_directory(self, path: str, parents: bool = False) -> bool:
        """Make a directory, with its parents if requested. Return False if it exists."""
        try:
            if parents:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            os.mkdir(path)  # noqa: PTH102  (called 100,000 times at a failover, and Path costs as much as the call)
        except FileExistsError:
            if not Path(path).is_dir():
                raise
            return False
        return True

    def list_directories(self, path: str) -> tuple[str, ...]:
        """Return the names of the directories in `path`, sorted."""
        with opening(lambda: os.scandir(path)) as entries:
            return tuple(sorted(entry.name for entry in entries if entry.is_dir()))

    def read_text(self, path: str) -> str | None:
        """Return a small file's text; None if it does not exist. Bytes that are not UTF-8 are replaced."""
        try:
            return opening(lambda: Path(path).read_text(encoding="utf-8", errors="replace"))
        except FileNotFoundError:
            return None

    def write_text(self, path: str, text: str) -> None:
        """Write a small file so that a crash leaves the old or the new file, never a partial file.

        The temporary file is always created anew. An existing file of its name, which may be a link to another place,
        is removed.
        """
        draft = Path(path + ".tmp")
        draft.unlink(missing_ok=True)
        with opening(lambda: draft.open("x", encoding="utf-8")) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)

    def rename(self, path: str, target: str) -> bool:
        """Rename a file or directory within its file system. Return False if it is missing but its parent exists."""
        try:
            os.rename(path, target)  # noqa: PTH104  (as make_directory)
        except FileNotFoundError:
            # Kafka takes the log directory offline even if only the folder of a deleted partition is missing. Here that
            # is no error.
            if not Path(path).parent.is_dir():
                raise
            return False
        return True

    def remove_tree(self, path: str) -> None:
        """Remove a directory with its contents. Do nothing if it does not exist."""
        if Path(path).exists():
            opening(lambda: shutil.rmtree(path))

    def lock(self, path: str) -> bool:
        """Lock a file for this process, as Apache's brokers do. The file is created if missing.

        The lock is released by `unlock` or when the process ends. Java uses the same kind of record lock, so Apache's
        brokers and this program exclude each other. Within this process a table of locked paths excludes a second lock,
        as in Java.

        Returns:
            False if another process, or another adapter of this process, holds the lock.
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
        """Release a lock. Do nothing if this adapter does not hold it."""
        name = os.path.realpath(path)
        holder, descriptor = self._locked.get(name, (None, -1))
        if holder is self:
            del self._locked[name]
            os.close(descriptor)
