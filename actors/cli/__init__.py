"""The command line, `kafka-actors`. One file per command; `app` is the door and the one place where failures end."""

from actors.cli.app import main

__all__ = ["main"]
