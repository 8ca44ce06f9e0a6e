"""`kafka-actors debug` with commands from standard input, and `replay --changed` and `--diff`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli import debug, replay
from actors.trace.reader import open_trace


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("cache")
    return made


def debugged(folder: Path, cache: Path, *lines: str, node: int = 2) -> Result:
    arguments = [str(folder), "--node", str(node), "--cache", str(cache)]
    return CliRunner().invoke(debug.command, arguments, input="\n".join([*lines, ""]))


def replayed(folder: Path, *arguments: object) -> Result:
    return CliRunner().invoke(replay.command, [str(folder), *map(str, arguments)])


def positions(output: str) -> list[int]:
    """Return the numbers of the deliveries that are printed as positions."""
    return [int(found) for found in re.findall(r"(?m)^\d\d:\d\d:\d\d\.\d{6} (\d+) ", output)]


def test_it_begins_at_the_end_and_moves_both_ways(lived: Path, cache: Path) -> None:
    last = max(each.seq for each in open_trace(lived).select(node=2).deliveries())
    result = debugged(lived, cache, "back", "b 3", "next", "next 2", "goto 7", "goto start", "goto end", "next", "quit")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("node 2, run node2-")
    assert f": {last} deliveries, killed\n" in result.output
    assert positions(result.output) == [last, last - 1, last - 4, last - 3, last - 1, 7, last, last]
    assert "before the first delivery\n" in result.output
    assert "the end of the run\n" in result.output


def test_until_stops_at_messages_actors_and_breaks(lived: Path, cache: Path) -> None:
    deliveries = list(open_trace(lived).select(node=2).deliveries())
    changes = [each.seq for each in deliveries if each.message == "BrokerChange"]
    to_deletion = next(each.seq for each in deliveries if "TopicDeletionActor" in each.receiver + each.sender)
    lines = ("goto 0", "until BrokerChange", "until BrokerChange", "goto 0", "until TopicDeletionActor")
    result = debugged(lived, cache, *lines, "goto 0", "break BrokerChange", "until", "break clear", "until Storm")
    assert positions(result.output)[1:5] == [changes[0], changes[1], to_deletion, changes[0]]
    assert "breaks: BrokerChange\n" in result.output and "breaks: none\n" in result.output
    assert "the end of the run: no Storm\n" in result.output


def test_states_and_their_changes(lived: Path, cache: Path) -> None:
    result = debugged(
        lived,
        cache,
        "goto 1400",
        "state",
        "state ControllerActor:_asked",
        "changed ControllerActor:_asked",
        "state NodeActor",
    )
    assert result.exit_code == 0, result.output
    assert "\nNodeActor.1, ZkBridgeActor.2, " in result.output
    moved = re.search(r"ControllerActor:_asked: (\d+) -> (\d+)\n.* (\d+) \S+ -> ControllerActor", result.output)
    assert moved is not None and int(moved[2]) == int(moved[1]) + 1
    assert f"\n{moved[2]}\n" in result.output
    run = open_trace(lived).only_run(node=2)
    seq = int(moved[3])
    assert [run.at(n).state("ControllerActor")["_asked"] for n in (seq - 1, seq)] == [int(moved[1]), int(moved[2])]
    assert '\n  "requests": ' in result.output
    same = replayed(lived, "--node", 2, "--changed", "ControllerActor:_asked", "--until", 1400)
    assert same.exit_code == 0 and moved[0].splitlines()[0] in same.output and f" {seq} " in same.output


def test_causes_effects_and_explanations(lived: Path, cache: Path) -> None:
    change = next(each for each in open_trace(lived).select(node=2).deliveries() if each.message == "BrokerChange")
    result = debugged(lived, cache, f"goto {change.seq}", "causes", "effects", "why partition pair-0", "help")
    assert result.exit_code == 0, result.output
    line = rf"node 2 {change.time:%H:%M:%S.%f} {change.seq} ZkBridgeActor\.\d+ -> ControllerActor\.\d+: BrokerChange"
    assert re.search(line, result.output)
    assert f"... more: kafka-actors trace show --effects-of {change.seq}\n" in result.output
    assert "Which broker leads it, and why?\n" in result.output
    assert all(f"  {each.form} " in result.output for each in debug.COMMANDS.values())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("jump", "Unknown command 'jump'. Enter `help` for a list of the commands."),
        ("goto x", "'x' is not the number of a delivery"),
        ("goto", "the number is missing"),
        ("until", "`until` without an argument goes to the next break, and no break is set"),
        ("state Missing", "there is not exactly one actor Missing; the actors are NodeActor.1"),
        ("state X:y z", "'X:y z' is not a path such as"),
        ("why weather", "'weather' cannot be explained; use one of partition"),
        ("causes 99999", "has no delivery 99999"),
    ],
)
def test_a_command_that_fails_ends_a_script(lived: Path, cache: Path, line: str, words: str) -> None:
    result = debugged(lived, cache, "# a comment", "", line, "goto 1")
    assert result.exit_code == 1
    assert f"Error: {line}: " in result.output and words in result.output
    assert len(positions(result.output)) == 1


def test_one_run_is_needed(lived: Path, cache: Path) -> None:
    result = CliRunner().invoke(debug.command, [str(lived), "--cache", str(cache)])
    assert (result.exit_code, "Select one by its id (--run) or its node" in result.output) == (1, True)


def test_differences_between_two_moments(lived: Path) -> None:
    changes = [each.seq for each in open_trace(lived).select(node=2).deliveries() if each.message == "BrokerChange"]
    moments = ("--diff", changes[-1] - 1, changes[-1] + 20)
    result = replayed(lived, "--node", 2, *moments)
    assert result.exit_code == 0, result.output
    assert re.search(r"(?m)^ControllerActor\.\d+:_asked: \d+ -> \d+$", result.output)
    one = replayed(lived, "--node", 2, *moments, "--state", "ControllerActor")
    assert one.output and set(one.output.splitlines()) < set(result.output.splitlines())
    assert replayed(lived, "--node", 2, "--diff", 60, 60).output == ""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--changed", "ControllerActor"), 1, "'ControllerActor' is not a path such as"),
        (("--changed", "BrokerChannelActor:_queue"), 1, "actors have the class BrokerChannelActor. Name one of"),
        (("--changed", "A:x", "--diff", 1, 2), 2, "--changed cannot be combined"),
        (("--changed", "NodeActor:_missing"), 0, "changed NodeActor:_missing"),
        (("--changed", "NodeActor:_settings", "--until", 99999), 1, "there is no delivery 99999"),
        (("--diff", 1, 99999), 1, "there is no delivery 99999"),
    ],
)
def test_wrong_use_is_named(lived: Path, arguments: tuple[object, ...], code: int, words: str) -> None:
    result = replayed(lived, "--node", 2, *arguments)
    assert (result.exit_code, words in result.output) == (code, True), result.output
