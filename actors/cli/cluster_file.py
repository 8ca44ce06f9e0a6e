"""cluster.json describes the cluster that `kafka-actors up` runs, so that other commands and programs can find it.

    {"zookeeper": "127.0.0.1:41077", "dir": "/...", "pid": 700,
     "brokers": [{"id": 0, "host": "127.0.0.1", "port": 9092, "pid": 712}, ...]}

`pid` is the process that started the cluster; a broker's is null while that node is dead. It is written by that process
alone, whole, whenever a node died or was started again. It stays when the cluster is stopped: data and addresses are
what the next `up` there continues. `zookeeper` is "memory" for a ZooKeeper in memory, which other processes cannot
reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors.cli.app import CommandFailed
from actors.cli.whole_file import write_whole

NAME = "cluster.json"
IN_MEMORY = "memory"
"""In place of a ZooKeeper's address: it is in the memory of the process that runs the nodes."""


def write_cluster(directory: Path, description: dict[str, Any]) -> None:
    """Put the description in place of the earlier one; who reads meanwhile sees one of the two."""
    write_whole(directory / NAME, json.dumps(description) + "\n")


def read_cluster(directory: Path) -> dict[str, Any]:
    """Read the description of the cluster. Raises CommandFailed if the folder has none, or an unreadable one."""
    file = directory / NAME
    try:
        description = json.loads(file.read_text())
    except FileNotFoundError:
        raise CommandFailed(
            f"{directory} is not a cluster folder: it contains no {NAME}. Give the folder of `kafka-actors up --dir`."
        ) from None
    except ValueError as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from None
    if not isinstance(description, dict) or not isinstance(description.get("zookeeper"), str):
        raise CommandFailed(f"{file} has no ZooKeeper address. Start the cluster again with `kafka-actors up --dir`.")
    return description
