"""Compute the version of the running code: the installed version and a digest of the sources.

In the wheel, imports have a prefix (see `actors.runtime.kernel.modules`), and the public package has another name. The
digest omits both, so the wheel and the repository's sources have the same digest.
"""

from __future__ import annotations

import glob
import hashlib
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
_PREFIX = b"kafka_actors._internal."
_PUBLIC = "actors/public/"
"""The public package, whose place in the wheel differs; actors do not use it."""
_PACKAGES = ("actors", "messages", "zk_bridge")


@cache
def code_version() -> str:
    """Return "VERSION+DIGEST": the package's version, and 12 hexadecimal digits of a hash of its sources."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        # pathlib would take twice as long: a node computes this at its start
        for name in sorted(glob.iglob(f"{package}/**/*.py", root_dir=ROOT, recursive=True)):  # noqa: PTH207
            if not name.startswith(_PUBLIC):
                digest.update(name.encode())
                with open(f"{ROOT}/{name}", "rb", buffering=0) as source:  # noqa: PTH123
                    digest.update(source.read().replace(_PREFIX, b"").replace(b"actors.public", b"kafka_actors"))
    # the import of importlib.metadata would be 2 % of a node's start
    installed = (folder for entry in sys.path for folder in Path(entry).glob("kafka_actors-*.dist-info"))
    version = next((folder.stem.partition("-")[2] for folder in installed), "0")
    return f"{version}+{digest.hexdigest()[:12]}"
