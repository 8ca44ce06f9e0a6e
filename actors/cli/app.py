"""The entry point of the command line: it runs the command, and turns errors into a message and an exit code.

Exit codes: 0 success, 1 failure, 2 wrong use (options, settings), 130 interrupted. No traceback is printed, unless the
environment has KAFKA_ACTORS_DEBUG.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

PROGRAM = "kafka-actors"
_PACKAGE = __name__.rpartition(".")[0]
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "acls": "Add, remove and list ACLs.",
    "broker": "Run one node with the settings in a Kafka server.properties file.",
    "check": "Check the invariants of replication on recorded traces.",
    "configs": "Describe and alter configs of topics and brokers, quotas, and SCRAM users.",
    "consumer-groups": "List, describe and delete consumer groups, and reset their offsets.",
    "debug": "Step forwards and backwards through a recorded run, and look at states, causes and changes.",
    "delete-records": "Delete from partitions the records before an offset.",
    "down": "Stop the cluster that `kafka-actors up` runs in a folder.",
    "dump-log": "Print segments, indexes, snapshots and checkpoints of a log directory.",
    "fixture": "Run clusters for a test program, which sends commands as JSON lines on standard input.",
    "get-offsets": "Print offsets of partitions.",
    "leader-election": "Trigger leader elections: preferred, or unclean where no in-sync replica is alive.",
    "log-dirs": "Print the log directories of brokers with sizes and lags.",
    "reassign-partitions": "Reassign partitions to other brokers.",
    "replay": "Replay recorded actors and compare their messages and I/O calls with the trace.",
    "simulate": "Simulate clusters under random faults, in virtual time.",
    "start": "Start a stopped node of a `kafka-actors up` cluster.",
    "status": "Show the health, controller, brokers, partitions and actors' queue lengths of a cluster.",
    "spark": "Speed up the start of Spark, or pack the files that Spark workers need.",
    "summary": "Summarise failures, elections and latencies from traces or Kafka logs.",
    "topics": "Create, list, describe, alter and delete topics.",
    "trace": "Print traces, restore omitted message contents, or convert traces to other formats.",
    "up": "Run a cluster on this machine.",
    "why": "Explain the state of a partition, topic, broker or controller from traces.",
}
"""Command -> its help; the function `command` is in the module of the same name (with _ for -)."""


class CommandFailed(click.ClickException):
    """A command failed; the exception's message is the reason."""

    exit_code = FAILED


def text_of(path: Path) -> str:
    """Return a file's text.

    Raises:
        CommandFailed: The file cannot be read, or is not UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error


FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
"""Types of options that name a folder or a file, which need not exist."""


class Commands(click.Group):
    """The commands by name. A command's module is imported only when the command runs, because imports take time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command and import its module; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{_PACKAGE}.{cmd_name.replace('-', '_')}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the section Commands of --help; its texts come from COMMANDS, so no command's module is imported."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name=PROGRAM)
def commands() -> None:
    """Run and inspect Kafka in ZooKeeper mode, implemented with actors."""


def fill_standard_streams() -> None:
    """Open the null device for closed standard streams (`>&-`), so their output is discarded."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # open() takes the lowest free descriptor, which is that of the closed stream
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115, PTH123


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's own, and return its exit code."""
    try:
        result = commands.main(
            args=None if arguments is None else list(arguments), prog_name=PROGRAM, standalone_mode=False
        )
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except BaseException as error:
        if os.environ.get("KAFKA_ACTORS_DEBUG"):
            traceback.print_exc()
        return _failure(error)


def _failure(error: BaseException) -> int:
    """Print the error on standard error and return the exit code."""
    from actors.node.settings import SettingsError  # only failures need these imports
    from messages.ask import AskFailed

    match error:
        case SystemExit(code=code):
            return code if isinstance(code, int) else FAILED
        case click.ClickException():
            error.show()
            return error.exit_code
        case KeyboardInterrupt() | click.exceptions.Abort():
            return INTERRUPTED
        case SettingsError(messages=messages):
            _print_line(*messages)
            return WRONG_USE
        case BrokenPipeError():
            os.dup2(
                os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
            )  # the reader has closed the pipe; the flush at exit must not fail
        case AskFailed():
            _print_line(f"ZooKeeper: {type(error).__name__}: {error}")
        case OSError(strerror=str(reason)):
            _print_line(f"{error.filename}: {reason}" if error.filename else reason)
        case _:
            _print_line(
                f"{type(error).__name__}: {error}",
                "This is a bug. Set KAFKA_ACTORS_DEBUG=1 to see where it happened.",
            )
    return FAILED


def _print_line(*lines: str) -> None:
    for line in lines:
        click.echo(f"Error: {line}", err=True)


def write_whole(file: Path, text: str) -> None:
    """Replace the text of a file atomically: a reader reads either the old or the new text.

    Raises:
        OSError: The file cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    part.write_text(text, "utf-8", "replace")
    part.replace(file)
