"""The log of nodes: one form of line, on standard error or in a file."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILES = {"kafka.controller": "controller.log", "state.change.logger": "state-change.log"}
"""Logger -> the file that operators know it by (Kafka's log4j.properties). The log has it all as well."""

CLUSTER_LOG = "cluster.log"
"""Where the nodes of a cluster that is one process say what they have to say, in its folder."""

LOG_FORMAT = "[%(asctime)s] %(levelname)s %(message)s (%(name)s)"


@contextmanager
def logging_to(file: Path) -> Iterator[None]:
    """Let this process's nodes say what they have to say in `file`, after what is in it."""
    log = logging.FileHandler(file)
    log.setFormatter(logging.Formatter(LOG_FORMAT))
    root = logging.getLogger()
    root.addHandler(log)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(log)
        log.close()


def log_into(folder: Path) -> None:
    """Let this process say what concerns the controller, and states, in Kafka's files in `folder`, too.

    OSError where they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in FILES.items():
        handler = logging.FileHandler(folder / file)
        handler.setFormatter(logging.Formatter(LOG_FORMAT))
        logging.getLogger(name).addHandler(handler)
