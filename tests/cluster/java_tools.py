"""Run Kafka's tools in one JVM (`ToolRunner.java`): in a JVM of its own, each takes two seconds of CPU to start."""

from __future__ import annotations

import functools
import struct
import subprocess
import threading
from pathlib import Path

from tests.cluster.apache_java import apache_java
from tests.cluster.processes import die_with_parent


@functools.cache
def _runner(jars: Path) -> subprocess.Popen[bytes]:
    source = Path(__file__).with_name("ToolRunner.java")
    return subprocess.Popen(
        [*apache_java(jars), "--add-opens=java.base/java.lang=ALL-UNNAMED", str(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=die_with_parent,  # noqa: PLW1509 (one libc call, nothing of Python's)
    )


def run_tool(
    jars: Path, tool: str, *arguments: str, text: str = "", timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run the main method of a tool's class with `text` as its input; the tools of a test process share a JVM."""
    runner = _runner(jars)
    assert runner.stdin is not None and runner.stdout is not None
    words = [word.encode() for word in (text, tool, *arguments)]
    deadline = threading.Timer(timeout, runner.kill)
    deadline.start()
    try:
        runner.stdin.write(struct.pack(">i", len(words)) + b"".join(struct.pack(">i", len(w)) + w for w in words))
        runner.stdin.flush()
        numbers = struct.Struct(">i")

        def number() -> int:
            read: int = numbers.unpack(runner.stdout.read(4))[0]  # type: ignore[union-attr]
            return read

        code, out, err = number(), runner.stdout.read(number()).decode(), runner.stdout.read(number()).decode()
    except (OSError, struct.error) as ended:
        _runner.cache_clear()
        raise AssertionError(f"{tool} has ended the JVM, or has not ended within {timeout} s: {arguments}") from ended
    finally:
        deadline.cancel()
    return subprocess.CompletedProcess([tool, *arguments], code, out, err)
