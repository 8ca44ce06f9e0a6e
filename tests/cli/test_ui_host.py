"""A page that other machines reach: each command that serves one warns, and says what they can do."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner

from actors.cli import broker, trace_show, up
from actors.node import process
from actors.public.simulated import SimulatedCluster

COMMANDS: dict[str, tuple[click.Command, str, str]] = {
    "broker": (broker.command, "{folder}/server.properties --ui", "see what this node records"),
    "trace show": (trace_show.command, "{folder} --ui", "read this trace"),
    "up": (up.command, "--zookeeper memory --dir {folder}/up --port 0 --ui", "see the cluster, and break it"),
}
HOSTS = {"": False, "localhost": False, "0.0.0.0": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("ui")
    with SimulatedCluster(1, directory=made) as cluster:
        cluster.create_topic("orders")
    file = made / "server.properties"
    file.write_text(f"broker.id=0\nzookeeper.connect=127.0.0.1:1\nlog.dirs={made}/data\nlisteners=PLAINTEXT://:0\n")
    return made


@pytest.fixture(autouse=True)
def ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each command end when it has served its page."""

    class Interrupted:
        def wait(self) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(process, "run_node", lambda loaded: 0)
    monkeypatch.setattr(process, "tame", lambda: None)
    monkeypatch.setattr(trace_show, "threading", SimpleNamespace(Event=Interrupted))
    monkeypatch.setattr(up, "run_in_memory", lambda *arguments: None)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_for_other_machines_is_warned_of(
    folder: Path, caplog: pytest.LogCaptureFixture, name: str, host: str
) -> None:
    caplog.set_level(logging.INFO)
    command, words, what = COMMANDS[name]
    given = words.format(folder=folder).split() + (["--ui-host", host] if host else [])
    result = CliRunner().invoke(command, given)
    said = result.output + caplog.text
    assert "Error" not in said and not isinstance(result.exception, Exception), said
    warning = f"--ui-host {host}: every machine that reaches this address can {what}"
    assert name == "up" or f"http://{host or '127.0.0.1'}:" in said
    assert (warning in said, "every machine" in said) == (HOSTS[host], HOSTS[host]), said
