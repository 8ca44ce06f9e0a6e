"""`kafka-actors debug DIR`: walk a recorded run forwards and backwards, with commands from standard input."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from actors.cli.app import FOLDER, CommandFailed
from actors.cli.display import printable
from actors.cli.usage_errors import DAMAGED_OR_DIFFERENT, exit_codes
from actors.trace.changes import value_text
from actors.trace.debugger import Debugger
from actors.trace.delivery_text import line_of
from actors.trace.explanation import explain, explanation_lines, utc
from actors.trace.filters import causes, linked_effects
from actors.trace.links import DeliveryId
from actors.trace.moment import state_in
from actors.trace.reader import Trace, TraceDelivery, open_trace
from actors.trace.state_path import parse_path
from messages.trace.errors import TraceError

SHOWN = 20
"""Maximum number of effects that are printed."""
PROMPT = "({n}) "


@click.command(
    "debug",
    epilog=exit_codes(DAMAGED_OR_DIFFERENT),
)
@click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--node", type=int, help="Debug the run of this node; needed if DIR has several runs.")
@click.option("--run", "name", help="Debug the run with this id; needed if the node has several runs.")
@click.option(
    "--cache",
    type=FOLDER,
    help="The folder in which the debugger keeps its own snapshots, so that it can go back fast.",
)
def command(directory: Path, node: int | None, name: str | None, cache: Path | None) -> int:
    """Step forwards and backwards through a recorded run, starting at its end; `help` lists the commands.

    The first session replays the run from the trace's last snapshot, and keeps snapshots in the cache folder
    (~/.cache/kafka-actors/debug), so that going back is fast. Commands are read from standard input, one per line. If
    standard input is not a terminal, the first command that fails ends the session with exit code 1.
    """
    try:
        trace = open_trace(directory)
        prompt = DebugPrompt(trace, Debugger(trace.only_run(node, name), cache))
        prompt.begin()
    except TraceError as error:
        raise CommandFailed(str(error)) from error
    interactive = sys.stdin.isatty()
    while True:
        if interactive:
            click.echo(PROMPT.format(n=prompt.debugger.n), nl=False)
        line = sys.stdin.readline()
        if not line:
            return 0
        try:
            if not prompt.do(line):
                return 0
        except (TraceError, DebugCommandError) as error:
            if not interactive:
                raise CommandFailed(f"{line.strip()}: {error}") from error
            click.echo(f"Error: {error}", err=True)


class DebugCommandError(Exception):
    """An input line is not a command, or the command's argument is malformed."""


class DebugCommand(NamedTuple):
    """A command of the debugger's prompt: its arguments and help, and the method that executes it."""

    form: str
    help: str
    do: Callable[[DebugPrompt, str], None]


class DebugPrompt:
    """The commands of the debugger's prompt, and the current position in a run."""

    def __init__(self, trace: Trace, debugger: Debugger) -> None:
        self.debugger = debugger
        self._trace = trace
        self._breaks: list[str] = []

    def begin(self) -> None:
        """Begin the session at the end of the run.

        Raises:
            TraceError: The run is damaged or diverges.
        """
        debugger = self.debugger
        debugger.to_end()
        self._notes()
        click.echo(f"node {debugger.run.node}, run {debugger.run.name}: {debugger.n} deliveries, {debugger.run.ending}")
        self._print_position()

    def do(self, line: str) -> bool:
        """Execute a line; return False for `quit`.

        Raises:
            DebugCommandError: The line is not a command.
            TraceError: The run is damaged or diverges.
        """
        name, _, argument = line.strip().partition(" ")
        if not name or name.startswith("#"):
            return True
        if name in ("quit", "q", "exit"):
            return False
        found = COMMANDS.get(name) or next((COMMANDS[each] for each in COMMANDS if each.startswith(name)), None)
        if found is None:
            raise DebugCommandError(f"Unknown command {name!r}. Enter `help` for a list of the commands.")
        found.do(self, argument.strip())
        self._notes()
        return True

    # -------------------------------------------------------------------------------------------------- move

    def next(self, argument: str) -> None:
        """Go forwards by this number of deliveries; without an argument, by one."""
        steps = _number(argument, 1)
        if not self.debugger.go(self.debugger.n + steps):
            click.echo("the end of the run")
        self._print_position()

    def back(self, argument: str) -> None:
        """Go backwards by this number of deliveries; without an argument, by one."""
        self.debugger.go(max(self.debugger.n - _number(argument, 1), 0))
        self._print_position()

    def goto(self, argument: str) -> None:
        """Go to the delivery with this number, to the start or to the end of the run."""
        if argument == "end":
            self.debugger.to_end()
        elif not self.debugger.go(0 if argument == "start" else _number(argument)):
            click.echo("the end of the run")
        self._print_position()

    def until(self, argument: str) -> None:
        """Go to the next delivery whose message or receiver has this class; without an argument, to the next break."""
        wanted = [argument] if argument else self._breaks
        if not wanted:
            raise DebugCommandError(
                "`until` without an argument goes to the next break, and no break is set. Set one with `break NAME`, or"
                " give `until` the class of a message or actor, or an actor's address such as ControllerActor.3."
            )
        found = next((each for each in self.debugger.deliveries(self.debugger.n) if _is_any_of(each, wanted)), None)
        if found is None:
            self.debugger.to_end()
            click.echo(f"the end of the run: no {' or '.join(wanted)}")
        else:
            self.debugger.go(found.seq)
        self._print_position()

    def break_at(self, argument: str) -> None:
        """Add a break (a class of messages or actors at which `until` stops), or clear all; then print all breaks."""
        if argument == "clear":
            self._breaks.clear()
        elif argument:
            self._breaks.append(argument)
        click.echo("breaks: " + (", ".join(self._breaks) or "none"))

    # ------------------------------------------------------------------------------------------------ inspect

    def state(self, argument: str) -> None:
        """Print an actor's state, or a part of it."""
        if ":" in argument:
            click.echo(json.dumps(self.debugger.value(parse_path(argument)), indent=2, ensure_ascii=False))
        elif argument:
            click.echo(json.dumps(state_in(self.debugger.base, argument), indent=2, ensure_ascii=False))
        else:
            click.echo(", ".join(str(ref) for ref in self.debugger.base.living()) or "no actors")

    def changed(self, argument: str) -> None:
        """Go to the last delivery that changed a part of a state."""
        path = parse_path(argument)
        change = self.debugger.find_change(path)
        if change is None:
            click.echo(f"no delivery up to {self.debugger.n} changed {path}")
            return
        click.echo(f"{path}: {value_text(change.before)} -> {value_text(change.after)}")
        self.debugger.go(change.record.n)
        self._print_position()

    def causes(self, argument: str) -> None:
        """Print the chain of causes of a delivery."""
        for each in causes(self._trace, self._place(argument)):
            self._print(each, node=True)

    def effects(self, argument: str) -> None:
        """Print the effects of a delivery."""
        count = 0
        for count, (each, _) in enumerate(linked_effects(self._trace, [self._place(argument)], polls=False), 1):
            if count > SHOWN:
                click.echo(f"... more: kafka-actors trace show --effects-of {self._place(argument).seq}")
                return
            self._print(each, node=True)

    def why(self, argument: str) -> None:
        """Print the explanation of a subject, for example of a partition."""
        about, *names = shlex.split(argument) or [""]
        try:
            explanation = explain([run.run for run in self._trace.runs], about, " ".join(names) or None)
        except ValueError as error:
            raise DebugCommandError(str(error)) from error
        for line in explanation_lines(explanation, utc, pointers=True):
            click.echo(printable(line))

    def help(self, argument: str) -> None:
        """List the commands."""
        for each in COMMANDS.values():
            click.echo(f"  {each.form:28} {each.help}")
        click.echo(f"  {'quit':28} end")

    # --------------------------------------------------------------------------------------------------- print

    def _place(self, argument: str) -> DeliveryId:
        return DeliveryId(self._trace.runs.index(self.debugger.run), _number(argument, self.debugger.n))

    def _print_position(self) -> None:
        here = self.debugger.delivery(self.debugger.n)
        if here is None:
            click.echo("before the first delivery")
        else:
            self._print(here)

    def _print(self, delivery: TraceDelivery, node: bool = False) -> None:
        click.echo(printable(line_of(delivery, node and len({run.node for run in self._trace.runs}) > 1)))

    def _notes(self) -> None:
        while self.debugger.notes:
            click.echo(self.debugger.notes.pop(0), err=True)


COMMANDS = {
    "next": DebugCommand("next [N]", "go N deliveries forwards (default 1)", DebugPrompt.next),
    "back": DebugCommand("back [N]", "go N deliveries backwards (default 1)", DebugPrompt.back),
    "goto": DebugCommand("goto N|start|end", "go to the moment after delivery N", DebugPrompt.goto),
    "until": DebugCommand(
        "until [NAME]",
        "go to the next message of class NAME, or to or from actor NAME; without NAME, to the next break",
        DebugPrompt.until,
    ),
    "break": DebugCommand(
        "break [NAME|clear]", "add a break, at which `until` stops; list or clear all breaks", DebugPrompt.break_at
    ),
    "state": DebugCommand("state [ACTOR[:PATH]]", "print a state or a part of it, or the actors", DebugPrompt.state),
    "changed": DebugCommand(
        "changed ACTOR:PATH", "go back to the last delivery that changed this part of a state", DebugPrompt.changed
    ),
    "why": DebugCommand("why SUBJECT [NAME]", "explain a state, as `kafka-actors why` does", DebugPrompt.why),
    "causes": DebugCommand("causes [N]", "print the chain of causes of this delivery, or of N", DebugPrompt.causes),
    "effects": DebugCommand("effects [N]", "print what this delivery, or N, led to", DebugPrompt.effects),
    "help": DebugCommand("help", "list the commands", DebugPrompt.help),
}
"""Command name -> command; `do` also accepts a prefix and takes the first match."""


def _number(text: str, default: int | None = None) -> int:
    if not text and default is not None:
        return default
    if not text.isdigit():
        raise DebugCommandError(f"'{text}' is not the number of a delivery" if text else "the number is missing")
    return int(text)


def _is_any_of(delivery: TraceDelivery, names: list[str]) -> bool:
    return any(
        name
        in (delivery.message, delivery.actor, delivery.receiver, delivery.sender, delivery.sender.rpartition(".")[0])
        for name in names
    )
