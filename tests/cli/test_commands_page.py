"""docs/reference/commands.md describes each command, each option, and each key of the commands' JSON."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click
import pytest

from actors.cli.app import COMMANDS
from actors.cli.local_cluster import LocalCluster
from actors.cli.status import NodeMetrics, PartitionStateCounts, Status
from actors.cli.topics import ACTIONS
from messages.cluster import Broker
from messages.zookeeper import NodeRegistration
from spark.results import Summary
from tests.layering import ROOT

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def quoted(key: str) -> bool:
    """Return whether the page has the key as code, alone or in a JSON example."""
    return f"`{key}`" in PAGE or f'"{key}":' in PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_and_their_options(name: str) -> None:
    assert re.search(rf"^\| `{name}\b", PAGE, re.MULTILINE)
    command: click.Command = importlib.import_module(f"actors.cli.{name.replace('-', '_')}").command
    options = {option for each in command.params if not getattr(each, "hidden", False) for option in each.opts}
    if name == "topics":
        options = {f"--{action}" for action in ACTIONS}
    described = {option for option in options if re.search(rf"`[^`\n]*{option}\b", PAGE)}
    assert {option for option in options if option.startswith("--")} <= described


def test_keys_of_the_json(tmp_path: Path) -> None:
    node = NodeRegistration(1, (), "h", 1, 1)
    status = Status(
        1, 1, (Broker(1, ()),), (node,), 1, 1, PartitionStateCounts(0, (), (), ()), (), {1: NodeMetrics()}
    ).as_dict()
    up = LocalCluster(tmp_path, [1], "h:1").description(1)
    nested = (up["brokers"][0], status["partitions"], status["brokers"][0], status["nodes"][0])
    keys = {key for each in (up, status, *nested) for key in each}
    keys |= {"runs", "messages", "events", "requests", "elections", "leadership", "episodes", "unavailable"} & set(
        Summary.__annotations__
    )
    assert sorted(key for key in keys if not quoted(key)) == []


def test_what_a_newcomer_must_know_is_in_the_readme() -> None:
    for words in ("docs/reference/commands.md", "--dir", "trusted networks"):
        assert words in README
    assert "bash_source" in PAGE and "/metrics" in PAGE
