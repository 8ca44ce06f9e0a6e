"""Commands whose libraries are not installed."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from actors.cli import extras, up
from actors.cli.app import FAILED, run
from tests.layering import ROOT


@pytest.mark.parametrize(
    ("command", "libraries", "extra"),
    [
        ("summary DIR", "pyspark, pyarrow, jinja2", "spark"),
        ("trace pack DIR DIR/packed", "pyspark, pyarrow, jinja2", "spark"),
        ("spark prepare", "pyspark, pyarrow, jinja2", "spark"),
        ("spark bundle DIR/bundle.tar.gz", "pyspark, pyarrow, jinja2", "spark"),
        ("up --port 0 --dir DIR/cluster", "pyspark", "zookeeper"),
    ],
)
def test_a_command_names_the_extra_it_needs_and_how_to_install_it(
    command: str,
    libraries: str,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    monkeypatch.setattr(up, "jar_sources", list)
    assert run(command.replace("DIR", str(tmp_path)).split()) == FAILED
    said = capsys.readouterr().err
    assert f"needs {libraries}, of the extra '{extra}' of kafka-actors" in said
    assert " -m pip install " in said
    assert ("kafka-actors up --zookeeper memory" in said) == (extra == "zookeeper")
    assert list(tmp_path.iterdir()) == []


def test_only_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "jinja2" else object())
    with pytest.raises(
        extras.CommandFailed, match=r"summary needs jinja2, of the extra 'spark'.*\n.* -m pip install .?jinja2"
    ):
        extras.need("spark", "summary")


def test_the_extras_are_those_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    found = {extra: {extras.name_of(each) for each in declared[extra]} for extra in extras.EXTRAS}
    assert found == {extra: set(libraries) for extra, libraries in extras.EXTRAS.items()}
