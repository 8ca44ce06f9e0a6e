"""The entry point of all commands: exit codes and error messages."""

from __future__ import annotations

import importlib
import shlex
import signal
import socket
from pathlib import Path

import click
import pytest

from actors.cli import app
from actors.cli.app import COMMANDS, CommandFailed, run
from actors.cli.broker import parse_overrides
from actors.cli.local_cluster import COMMAND, busy, exit_reason
from actors.node.settings import SettingsError
from messages.ask import ConnectionLoss
from tests.cluster.processes import Running, free_ports


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: kafka-actors {name}")


def test_the_list_of_commands_needs_none_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (CommandFailed("no luck"), 1, "Error: no luck"),
        (click.UsageError("wrong"), 2, "Error: wrong"),
        (SettingsError(["one", "two"]), 2, "Error: one\nError: two"),
        (ConnectionLoss("gone"), 1, "Error: ZooKeeper: ConnectionLoss: gone"),
        (PermissionError(13, "Permission denied", "/x"), 1, "Error: /x: Permission denied"),
        (KeyboardInterrupt(), 130, ""),
        (ZeroDivisionError("by zero"), 1, "Error: ZeroDivisionError: by zero"),
    ],
)
def test_every_failure_ends_in_words(
    error: BaseException, code: int, words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.delenv("KAFKA_ACTORS_DEBUG", raising=False)
    monkeypatch.setattr(app.Commands, "get_command", lambda *_: failing)
    assert run(["broker"]) == code
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not said.out


def test_wrong_settings_are_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=one\nzookeeper.connect=h\n")
    assert run(["broker", str(file), "--override", "num.partitions=0"]) == 2
    assert capsys.readouterr().err == (
        "Error: broker.id=one is wrong: it takes a whole number of at least -1\n"
        "Error: num.partitions=0 is wrong: it takes a whole number of at least 1\n"
    )
    assert run(["broker", str(tmp_path / "missing")]) == 2
    assert run(["broker", str(file), "--override", "listener.name.a.plain.sasl.jaas.config=x"]) == 2


def test_a_check_names_everything_and_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nzookeeper.connect=h\nnum.io.threads=8\nsecurity.providers=x\nmine=1\n")
    assert run(["broker", str(file), "--check"]) == 2
    assert "security.providers" in capsys.readouterr().err
    assert run(["broker", str(file), "--check", "--insecure"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "num.io.threads has no effect",
        "security.providers has no effect: security is not supported",
        "mine is no known setting",
        "node 1 can start with these settings",
    ]


def test_closed_standard_streams_are_no_bug(tmp_path: Path) -> None:
    command = shlex.join([*COMMAND, "--version"])
    for streams in (">&-", "<&- >&- 2>&-"):
        done = Running(["sh", "-c", f"{command} {streams}"], tmp_path / "out")
        assert done.process.wait(60) == 0
        assert done.output == ""


def test_the_last_of_equal_overrides_wins() -> None:
    assert parse_overrides(None, None, ("a=1", "b=x=y", "a=2", "c=")) == {"a": "2", "b": "x=y", "c": ""}
    with pytest.raises(click.BadParameter):
        parse_overrides(None, None, ("a",))


def test_modules_hold_their_commands() -> None:
    for name in COMMANDS:
        assert importlib.import_module(f"actors.cli.{name.replace('-', '_')}").command.name == name


def test_busy_ports_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = free_ports(2)
    assert busy([first, second]) == {}
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", first))
        listening.listen()
        assert busy([first, second]) == {first: "in use"}
        assert run(["up", "--brokers", "1", "--port", str(first)]) == 1
    assert f"port {first} (in use)" in capsys.readouterr().err
    assert run(["up", "--brokers", "3", "--port", "65534"]) == 2
    assert run(["up", "--zookeeper", "nowhere:x"]) == 2


def test_a_port_for_which_rights_are_missing_is_not_called_in_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", refuse)
    assert run(["up", "--brokers", "1", "--port", "80"]) == 1
    err = capsys.readouterr().err
    assert err == "Error: cannot listen on 127.0.0.1: port 80 (Permission denied). Choose other ports with --port.\n"


def test_overrides_are_looked_at_before_anything_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "cluster"
    for override, words in (
        ("num.partitions=none", "num.partitions=none is wrong"),
        ("authorizer.class.name=x", "authorizer.class.name"),
        ("broker.id=7", "broker.id cannot be overridden: `up` sets it for each node"),
        ("nothing", "'nothing' does not have the form name=value"),
    ):
        assert run(["up", "--dir", str(place), "--port", "0", "--override", override]) == 2
        assert words in capsys.readouterr().err
    assert not place.exists()


def test_a_folder_without_a_running_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["down"], ["start", "0"]):
        assert run([*arguments, "--dir", str(tmp_path / "none")]) == 1
        assert "is not a cluster folder" in capsys.readouterr().err
        (tmp_path / "lock").touch()
        assert run([*arguments, "--dir", str(tmp_path)]) == 1
        assert f"no cluster is running in {tmp_path}" in capsys.readouterr().err


def test_how_a_process_ended() -> None:
    assert exit_reason(-signal.SIGKILL) == "signal SIGKILL"
    assert exit_reason(1) == "exit code 1"
