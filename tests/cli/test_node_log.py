"""The log files of a node, such as controller.log and state-change.log, and the format of their lines."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli import broker, node_log
from tests.cluster.processes import properties


@pytest.fixture
def no_files_after() -> Iterator[None]:
    before = {name: list(logging.getLogger(name).handlers) for name in node_log.FILES}
    yield
    for name, handlers in before.items():
        for handler in logging.getLogger(name).handlers[:]:
            if handler not in handlers:
                logging.getLogger(name).removeHandler(handler)
                handler.close()


@pytest.mark.usefixtures("no_files_after")
def test_each_logger_has_its_file_and_the_log_has_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node_log.log_into(tmp_path / "logs")
    for name in (*node_log.FILES, "kafka_actors.node"):
        logging.getLogger(name).error("said by %s", name)
    logging.getLogger(node_log.STATE_CHANGES).debug("a partition")
    for name, file in node_log.FILES.items():
        lines = (tmp_path / "logs" / file).read_text().splitlines()
        (line,) = [line for line in lines if line.endswith(f"ERROR said by {name} ({name})")]
        assert line.startswith("[2") and "kafka_actors" not in "".join(lines)
    assert (
        (tmp_path / "logs" / "state-change.log").read_text().endswith(f"DEBUG a partition ({node_log.STATE_CHANGES})\n")
    )
    assert len(caplog.records) == len(node_log.FILES) + 1
    assert "a partition" not in caplog.text, "only its own file has a line for each partition"


@pytest.mark.usefixtures("no_files_after")
def test_a_folder_that_cannot_be_one_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = properties(
        tmp_path / "server.properties", broker__id=1, zookeeper__connect="127.0.0.1:1", log__dirs=tmp_path / "data"
    )
    result = CliRunner().invoke(broker.command, [str(file), "--logs", str(tmp_path / "file" / "logs")])
    assert result.exit_code == 1
    assert f"--logs {tmp_path / 'file' / 'logs'}: Not a directory" in result.stderr


HOSTILE = "t\n[2026-01-01 00:00:00,000] ERROR forged (kafka.controller)\x1b[2J\x00\r\x9b\u2028\ud800"
ESCAPED = r"t\n[2026-01-01 00:00:00,000] ERROR forged (kafka.controller)\x1b[2J\x00\r\x9b\u2028\ud800"


def logged(tmp_path: Path, *args: object, error: Exception | None = None) -> str:
    """Return the content of a node's log file after one call.

    The call bypasses pytest's handlers, because a test report cannot contain a lone surrogate.
    """
    root = logging.getLogger()
    captured, root.handlers[:] = root.handlers[:], []
    try:
        with node_log.logging_to(tmp_path / "node.log"):
            logging.getLogger("tests.hostile").error(*args, exc_info=error)
    finally:
        root.handlers[:] = captured
    return (tmp_path / "node.log").read_text()


def test_text_from_outside_cannot_add_a_log_line(tmp_path: Path) -> None:
    line = logged(tmp_path, "topic %s of %r", HOSTILE, "é")
    assert line.endswith(f" ERROR topic {ESCAPED} of 'é' (tests.hostile)\n") and line.count("\n") == 1


def test_a_long_word_is_cut_and_a_list_of_names_is_not(tmp_path: Path) -> None:
    names = ",".join(f"topic-{number}" for number in range(5000))
    line = logged(tmp_path, "%s and %s", "x" * 30_000, names)
    assert f"{'x' * node_log.MAX_WORD}...(30000 characters) and {names}" in line
    assert len(logged(tmp_path, "%s", " x" * 10_000_000)) < len(line) + node_log.MAX_LINE + 1000


def test_a_traceback_stays_readable_and_its_text_is_escaped(tmp_path: Path) -> None:
    try:
        raise ValueError(HOSTILE)
    except ValueError as error:
        first, *rest = logged(tmp_path, "failed", error=error).splitlines()
    assert first.endswith("ERROR failed (tests.hostile)")
    assert rest[0] == f"{node_log.CONTINUED}Traceback (most recent call last):"
    assert all(line.startswith(node_log.CONTINUED) for line in rest) and "\x1b" not in "".join(rest)


def test_a_node_writes_its_log_in_that_form_to_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    node_log.log_to_standard_error()
    [handler] = root.handlers
    assert isinstance(handler, logging.StreamHandler) and isinstance(handler.formatter, node_log.LineFormatter)
