"""`kafka-actors spark`: Spark itself: make it start quickly."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli.app import Failed


@click.group("spark")
def command() -> None:
    """Get Spark ready for `summary`."""


@command.command("prepare", epilog="Exit codes: 0 done, or there already, 1 Spark cannot be started, 2 wrong use.")
def prepared() -> int:
    """Lay out Spark's classes once, so that `summary` needs half the CPU time from then on (half a minute, 180 MB).

    They are kept in this Python environment, for this Java.
    """
    from spark.apart import Ended, apart
    from spark.archive import prepare
    from spark.errors import SparkUnavailable
    from spark.java import archive, home

    if archive(home()).exists():
        click.echo(f"{home()} is there already")
        return 0
    click.echo("laying out Spark's classes, once")
    try:
        click.echo(f"Spark is ready: {apart(prepare)}")
    except (SparkUnavailable, Ended, OSError) as error:
        raise Failed(str(error)) from error
    return 0


@command.command("bundle", epilog="Exit codes: 0 done, 1 the file cannot be written, 2 wrong use.")
@click.argument("file", metavar="FILE.tar.gz", type=click.Path(dir_okay=False, path_type=Path))
def bundled(file: Path) -> int:
    """Pack what Spark's workers need to read traces, our code and its libraries, for `spark-submit --archives`.

    Their Python must be of this one's version, on machines of this one's kind.
    """
    from spark.bundle import bundle

    try:
        click.echo(f"{bundle(file)}: {file.stat().st_size >> 20} MB")
    except OSError as error:
        raise Failed(f"{file}: {error.strerror}") from error
    return 0
