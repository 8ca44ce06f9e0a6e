"""Check that the optional libraries of a command are installed; the error message says how to install them."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec

from actors.cli.app import PROGRAM, CommandFailed

EXTRAS = {
    "spark": ("pyspark", "pyarrow", "jinja2"),
    "zookeeper": ("pyspark",),
}
"""Extra -> its libraries, which are also their import names. ZooKeeper's jars are part of pyspark, among others."""


def need(extra: str, what: str, alternative: str = "") -> None:
    """Check that the libraries of an extra are installed.

    Args:
        extra: A key of EXTRAS.
        what: The feature that needs the libraries, for the error text.
        alternative: The last line of the error text, which says what the user can do without the libraries.

    Raises:
        CommandFailed: A library is missing; the text names the command that installs it.
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        pip = shlex.join([sys.executable, "-m", "pip", "install", *map(_requirement, missing)])
        lines = [
            f"{what} needs {', '.join(missing)}, of the extra '{extra}' of {PROGRAM}. Install it:",
            f"  {pip}",
        ]
        raise CommandFailed("\n".join((*lines, alternative) if alternative else lines))


def _requirement(library: str) -> str:
    """Return the requirement of the library, with the versions that this package declares."""
    try:
        declared = requires(PROGRAM) or []
    except PackageNotFoundError:
        declared = []
    return next((each.partition(";")[0].strip() for each in declared if name_of(each) == library), library)


def name_of(requirement: str) -> str:
    """Return the distribution name in a requirement."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower()
