"""`kafka-actors down --dir DIR`: stop the cluster that `kafka-actors up` runs there."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import click

from actors.cli.app import CommandFailed
from actors.cli.local_cluster import LOOK_SECONDS, of_cluster, runner

PATIENCE_SECONDS = 120.0
"""Maximum time to wait, longer than `up` waits for its nodes before it kills them."""


@click.command("down")
@of_cluster
def command(directory: Path) -> int:
    """Cleanly shut down the cluster that `kafka-actors up` runs in a folder, and wait until it has stopped."""
    process = runner(directory)
    if process is None:
        raise CommandFailed(f"no cluster is running in {directory}")
    with suppress(ProcessLookupError):  # the process has just ended
        os.kill(process, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while runner(directory) == process:
        if time.monotonic() > deadline:
            raise CommandFailed(f"the cluster in {directory} did not stop; its process {process} is still running")
        time.sleep(LOOK_SECONDS)
    return 0
