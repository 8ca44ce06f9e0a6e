"""Start and control the separate process that runs a test's cluster (`kafka-actors fixture`).

Rule 1: each request and each response is one line. A process that has not responded within ANSWER_SECONDS is killed.
Rule 2: a process keeps running after its cluster is stopped, so that the next cluster can use it. When this program
        ends, the process ends too, because its standard input is closed.
"""

from __future__ import annotations

import atexit
import json
import operator
import os
import selectors
import subprocess
import threading
from contextlib import suppress
from typing import Any

from .console import command_line
from .operations import ClusterError, UnknownPartition

ANSWER_SECONDS = 90.0
"""Seconds; three times the longest wait in the process itself."""
END_SECONDS = 10.0


__tracebackhide__ = operator.methodcaller("errisinstance", (ClusterError, TimeoutError))
"""pytest leaves this module's frames out of a traceback that ends in these errors."""


class ClusterProcess:
    """A process that runs one cluster at a time, and is used again for the next cluster.

    Get an unused process with `take`, and return it with `give_back`.
    """

    _free: list[ClusterProcess] = []  # noqa: RUF012

    def __init__(self) -> None:
        import tempfile  # imported here, to keep `import kafka_actors` fast

        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command_line("fixture"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,  # Ctrl-C at the terminal must reach only the tests
        )
        self._owner = os.getpid()
        self._gate = threading.Lock()
        self._answers = bytearray()
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        atexit.register(self.end)

    @classmethod
    def take(cls) -> ClusterProcess:
        """Return a process that nothing else uses: a process that was given back, or a new process."""
        while cls._free:
            process = cls._free.pop()
            if process._owner == os.getpid() and process._process.poll() is None:
                return process
        return cls()

    def give_back(self) -> None:
        """Release the process for the next cluster, after its current cluster has ended."""
        self._free.append(self)

    def ask(self, do: str, **options: object) -> Any:
        """Make the process execute the operation `do` with these options, and return the result.

        Raises:
            ClusterError: The operation failed; the text has the reason.
        """
        line = json.dumps({"do": do, "with": options}).encode() + b"\n"
        with self._gate:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(line)
                self._process.stdin.flush()
                answer = json.loads(self._line(do))
            except OSError as error:
                raise ClusterError(f"the cluster process has ended: {self._last_words() or error}") from None
        if "failed" in answer:
            kind = UnknownPartition if answer.get("kind") == UnknownPartition.__name__ else ClusterError
            raise kind(answer["failed"])
        return answer["done"]

    def end(self) -> None:
        """End the process and everything that it runs."""
        atexit.unregister(self.end)
        if self._owner != os.getpid():  # this process is a fork of the one that started the cluster
            return
        process = self._process
        with suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._selector.close()
        assert process.stdout is not None
        process.stdout.close()
        self._complaints.close()

    def _line(self, do: str) -> bytes:
        while b"\n" not in self._answers:
            assert self._process.stdout is not None
            if not self._selector.select(ANSWER_SECONDS):
                self._process.kill()
                self._process.wait()  # otherwise `take` might return this process while it is still running
                raise ClusterError(f"{do}: the cluster process did not respond within {ANSWER_SECONDS:g} s")
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise BrokenPipeError(f"the cluster process ended without a response to the command {do}")
            self._answers += data
        line, _, rest = bytes(self._answers).partition(b"\n")
        self._answers[:] = rest
        return line

    def _last_words(self) -> str:
        """Return the last lines of the process's error output."""
        self._process.poll()
        self._complaints.seek(0)
        return self._complaints.read().decode(errors="replace").strip()[-1000:]
