"""Compute the version of the running code: the installed version and a digest of the sources.

In the wheel, imports have a prefix (see `actors.runtime.kernel.modules`), and the public package has another name. The
digest omits both, so the wheel and the repository's sources have the same digest.
"""

from __future__ import annotations

import hashlib
import os
import sys
from functools import cache
from io import FileIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PREFIX = b"kafka_actors._internal."
_TOOLS = tuple(f"actors/{package}/" for package in ("cli", "explain", "page", "public", "simulation"))
"""Folders whose code a replay does not run. The place of the public package in the wheel differs."""
_PACKAGES = ("actors", "messages", "zk_bridge")


@cache
def code_version() -> str:
    """Return "VERSION+DIGEST": the package's version, and 12 hexadecimal digits of a hash of its sources."""
    digest, root = hashlib.sha256(), f"{ROOT}/"
    folders = (each for package in _PACKAGES for each in os.walk(root + package))
    # glob, pathlib and buffered files would take half as long again: a node computes this at its start
    for name in sorted([f"{folder}/{name}".removeprefix(root) for folder, _, names in folders for name in names]):
        if name.endswith(".py") and not name.startswith(_TOOLS):
            digest.update(name.encode())
            with FileIO(root + name) as source:
                digest.update(source.readall().replace(_PREFIX, b"").replace(b"actors.public", b"kafka_actors"))
    # the import of importlib.metadata would be 2 % of a node's start
    installed = (folder for entry in sys.path for folder in Path(entry).glob("kafka_actors-*.dist-info"))
    version = next((folder.stem.partition("-")[2] for folder in installed), "0")
    return f"{version}+{digest.hexdigest()[:12]}"
