"""The properties files that `kafka-actors up` writes for its nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.cli.local_cluster import LocalCluster
from actors.node.properties import read_properties

SETTING = "inter.broker.protocol.version"


def versions(directory: Path, nodes: int, **overrides: str) -> list[str | None]:
    LocalCluster(directory, range(1, nodes + 1), "h:1", overrides).configure_nodes()
    files = [directory / f"node-{node}" / "server.properties" for node in range(nodes)]
    return [read_properties(file).get(SETTING) for file in files]


@pytest.mark.parametrize(("given", "first"), [({}, "2.8"), ({SETTING: "2.6"}, "2.6"), ({SETTING: "2.7"}, "2.7")])
def test_a_new_folder_keeps_its_protocol_version_for_more_nodes_too(
    tmp_path: Path, given: dict[str, str], first: str
) -> None:
    assert versions(tmp_path, 2, **given) == [first] * 2
    assert versions(tmp_path, 3) == [first] * 3
    assert versions(tmp_path, 4, **{SETTING: "2.8"}) == ["2.8"] * 4


def test_a_folder_without_the_setting_keeps_its_version_of_2_6(tmp_path: Path) -> None:
    (tmp_path / "node-0").mkdir()
    (tmp_path / "node-0" / "server.properties").write_text("num.partitions=7\n")
    assert versions(tmp_path, 2) == [None, None]
