"""`kafka-actors spark`: prepare files that make Spark start faster, and pack the code for Spark workers."""

from __future__ import annotations

from pathlib import Path

import click

from actors.cli.app import FILE, CommandFailed
from actors.cli.extras import need
from actors.cli.usage_errors import exit_codes


@click.group("spark")
def command() -> None:
    """Speed up the start of Spark, or pack the files that Spark workers need."""


@command.command("prepare", epilog=exit_codes("Spark cannot be started", success="Spark is prepared"))
def prepare() -> int:
    """Store Spark's Java classes in an archive from which they load faster.

    `kafka-actors summary` then needs half the CPU time. The preparation takes half a minute. The archive is for Java's
    class data sharing, and takes 180 MB in this Python environment. It is valid only for this Java and this Spark.
    """
    need("spark", "spark prepare")
    from spark.archive import prepare
    from spark.child_process import ChildEnded, apart
    from spark.errors import SparkUnavailable
    from spark.java import archive, home

    if archive(home()).exists():
        click.echo(f"{home()} exists already")
        return 0
    click.echo("storing Spark's class data, once (half a minute)")
    try:
        click.echo(f"Spark is ready: {apart(prepare)}")
    except (SparkUnavailable, ChildEnded, OSError) as error:
        raise CommandFailed(str(error)) from error
    return 0


@command.command("bundle", epilog=exit_codes("the file cannot be written", success="done"))
@click.argument("file", metavar="FILE.tar.gz", type=FILE)
def bundle(file: Path) -> int:
    """Pack the code and libraries that Spark workers need to read traces, for `spark-submit --archives`.

    The workers need the same Python version, operating system and CPU architecture.
    """
    need("spark", "spark bundle")
    from spark.bundle import bundle

    try:
        click.echo(f"{bundle(file)}: {file.stat().st_size >> 20} MB")
    except OSError as error:
        raise CommandFailed(f"{file}: {error.strerror}. Name a file that can be written.") from error
    return 0
