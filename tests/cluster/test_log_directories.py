"""A running broker loses one of its log directories (broker.md 2.3): real processes on a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.nodes import Nodes
from tests.cluster.processes import free_ports
from tests.waiting import until

ON_BOTH = dict.fromkeys(range(4), (1, 0))


def test_a_directory_lost_while_running_moves_its_leaderships(tmp_path: Path) -> None:
    settings = {"zookeeper__session__timeout__ms": 18000, "controlled__shutdown__enable": "false"}
    with Nodes.running(tmp_path, ids=(0,), **settings) as cluster:
        cluster.settings["log__dirs"] = f"{tmp_path}/1/a,{tmp_path}/1/b"
        cluster.ports += free_ports(1)
        cluster.start(1)

        def logs(name: str) -> set[str]:
            return {path.name for path in (tmp_path / "1" / name).iterdir() if path.is_dir()}

        cluster.create("t", ON_BOTH)
        until(lambda: len(logs("a") | logs("b")) == len(ON_BOTH), what="node 1 has made its logs")
        lost, kept = logs("a"), logs("b")
        assert (len(lost), len(kept)) == (2, 2)
        broken = tmp_path / "1" / "a"
        broken.rename(broken.with_name("a.away"))
        broken.touch()
        cluster.create("u", ON_BOTH)
        moved = until(
            lambda: {f"t-{number}" for number, leader in cluster.zk.leaders("t").items() if leader == 0},
            lambda names: names == lost,
            what="what was in the lost directory is led by the other node",
        )
        for number, state in cluster.zk.states("t").items():
            assert state["isr"] == ([0] if f"t-{number}" in moved else [1, 0])
        assert {*cluster.zk.leaders("u").values()} == {1}, "the new topic found another place"
        assert logs("b") == kept | {f"u-{number}" for number in ON_BOTH}
        notifications = "/log_dir_event_notification"
        until(lambda: not cluster.zk.get_children(notifications), what="the notification is dealt with")
