"""`consumer-groups`: invalid combinations of options, and parsing of addresses, durations, times and offset files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.admin_client import places_of
from actors.cli.consumer_groups import _duration, command
from actors.cli.group_admin import moment_of, read_offsets
from messages.cluster import TopicPartition

NOWHERE = ("--bootstrap-server", "127.0.0.1:1")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, [*NOWHERE, *arguments])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "exactly one action"),
        (("--list", "--delete"), "exactly one action"),
        (("--describe",), "--group, --all-groups"),
        (("--describe", "--group", "g", "--all-groups"), "--group, --all-groups"),
        (("--describe", "--group", "g", "--members", "--state"), "--members, --offsets, --state"),
        (("--reset-offsets", "--group", "g", "--topic", "t"), "requires one of these options"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-earliest"), "one of these options"),
        (("--reset-offsets", "--group", "g", "--to-latest"), "--topic, --all-topics"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--execute", "--dry-run"), "--dry-run"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "soon"), "PnDTnHnMnS"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "P9999999D"), "--by-duration P9999999D"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "soon"), "--to-datetime soon"),
        (("--reset-offsets", "--group", "g", "--topic", "t:a", "--to-latest"), "--topic 't:a' should be TOPIC"),
        (("--list", "--bootstrap-server", "somewhere"), "'somewhere' is not the address of a bootstrap server"),
        (("--list", "--timeout", "-1"), "--timeout"),
        (("--reset-offsets", "--group", "g", "--topic", "t", "--to-offset", "x"), "not a valid integer"),
    ],
)
def test_wrong_arguments_exit_with_code_2_and_a_reason(arguments: tuple[str, ...], words: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, words in result.output) == (2, True), result.output


def test_a_bootstrap_server_without_listener() -> None:
    result = run("--list", "--timeout", "100")
    assert (result.exit_code, "no bootstrap server responds: 127.0.0.1:1" in result.output) == (1, True), result.output


@pytest.mark.parametrize("text", ["host", "host:", ":9092", "host:port", "a:1,b", "host:0", "host:65536"])
def test_invalid_bootstrap_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a bootstrap server"):
        places_of(text)
    assert places_of("a:1, [::1]:2") == [("a", 1), ("::1", 2)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P1D", timedelta(days=1)),
        ("PT5M", timedelta(minutes=5)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
        *((text, None) for text in ("", "P", "PT", "P1DT", "5M", "P5M", "PT-5M")),
    ],
)
def test_durations_are_read_in_iso_8601_form_only(text: str, expected: timedelta | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="PnDTnHnMnS"):
            _duration(text)
    else:
        assert _duration(text) == expected


def test_moments_are_read_with_and_without_a_zone() -> None:
    assert moment_of("2026-11-21T10:00:00.500") == datetime(2026, 11, 21, 10, 0, 0, 500_000, UTC)
    assert moment_of("2026-11-21T10:00:00+02:00") == datetime(2026, 11, 21, 8, tzinfo=UTC)


def test_offsets_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "offsets.csv"
    file.write_text("t,0,5\nu,1,6\n")
    assert read_offsets(file) == {TopicPartition("t", 0): 5, TopicPartition("u", 1): 6}
    file.write_text("t,0\n")
    with pytest.raises(ValueError):
        read_offsets(file)
