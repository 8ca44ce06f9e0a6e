"""cluster.json describes the cluster that `kafka-actors up` runs, so that other commands and programs can find it.

    {"zookeeper": "127.0.0.1:41077", "dir": "/...", "pid": 700,
     "brokers": [{"id": 0, "host": "127.0.0.1", "port": 9092, "internal": 9092, "pid": 712}, ...]}

`host` and `port` are for clients; other brokers and the tools on this machine use the port `internal`. `pid` is the
process that started the cluster; a broker's pid is null while that node does not run. Only the process that started the
cluster writes the file, and replaces it whenever a node ends or starts. The file stays when the cluster is stopped: the
next `up` in the folder uses the cluster's data again and, where possible, its addresses.
`zookeeper` is "memory" for a ZooKeeper in memory, which other processes cannot reach.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors.cli.app import CommandFailed, write_whole

NAME = "cluster.json"
CLIENT_PROPERTIES = "client.properties"
"""The file beside cluster.json with the client properties of the administrator of a secured cluster."""
IN_MEMORY = "memory"
"""Value of `zookeeper` for a ZooKeeper in the memory of the process that runs the nodes."""


def write_cluster(directory: Path, description: dict[str, Any]) -> None:
    """Replace the description of the cluster atomically."""
    write_whole(directory / NAME, json.dumps(description) + "\n")


def read_cluster(directory: Path) -> dict[str, Any]:
    """Return the description of the cluster.

    Raises:
        CommandFailed: The folder has no description, or the description cannot be read.
    """
    file = directory / NAME
    try:
        description = json.loads(file.read_text())
    except FileNotFoundError:
        raise CommandFailed(
            f"{directory} is not a cluster folder: it contains no {NAME}. Give the folder passed to `up --dir`."
        ) from None
    except ValueError as error:
        raise CommandFailed(f"{file} cannot be read: {error}") from None
    if not isinstance(description, dict) or not isinstance(description.get("zookeeper"), str):
        raise CommandFailed(f"{file} has no ZooKeeper address. Start the cluster again with `kafka-actors up --dir`.")
    return description
