"""Send hostile frames of every API to a real node: it answers each, or closes the connection and logs a reason.

`make soak` sends 200,000 frames, `make test-slow` 1,000. The seed is `--soak-seed`.
"""

from __future__ import annotations

import asyncio
import faulthandler
import itertools
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from messages.apis.find_coordinator import FindCoordinatorRequest
from messages.wire import encode_request
from tests.cluster.processes import OurNode, free_ports
from tests.conftest import LONG_SOAK
from tests.hostile.attack import attack, reasons, tracebacks, until_answered
from tests.hostile.frames import SCHEMAS
from tests.waiting import until
from zk_bridge.embedded import EmbeddedZooKeeper

FRAMES, FEWEST = 200_000, 1_000
NOT_A_FRAME = b"\xff" * 8


@pytest.mark.soak
def test_every_frame_is_answered_or_refused(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    seed, seconds = pytestconfig.getoption("soak_seed"), pytestconfig.getoption("soak_seconds")
    count = FRAMES if seconds >= LONG_SOAK else FEWEST
    faulthandler.cancel_dump_traceback_later()  # the limit for other tests does not apply
    [port] = free_ports(1)
    (tmp_path / "node").mkdir()
    settings = {"group__initial__rebalance__delay__ms": 0, "offsets__topic__replication__factor": 1}
    with EmbeddedZooKeeper(tmp_path / "zookeeper", force_sync=False) as server:
        node = OurNode(
            *(tmp_path / "node", 0, port, server.connect_string),
            **settings,
            offsets__topic__num__partitions=3,
            metrics__port=0,
        )
        try:
            until(lambda: "Ready to serve" in node.output, what="the node is controller", timeout=60)
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
            until(lambda: admin.list_topics(timeout=5).controller_id == 0, what="the controller is known", timeout=30)
            for made in admin.create_topics([NewTopic("t", 3, 1), NewTopic("u", 1, 1)]).values():
                made.result(30)
            asyncio.run(until_answered("127.0.0.1", port, encode_request(FindCoordinatorRequest(0, "g"), 1, "x")))
            outcome = asyncio.run(attack("127.0.0.1", port, seed, count))
            print(f"\n--soak-seed {seed}: {outcome}", flush=True)
            assert node.process.poll() is None
            assert "t" in admin.list_topics(timeout=10).topics or outcome.sent == FRAMES, "it still serves"
            assert tracebacks(node.log) == []
            assert outcome.lost == []
            closed = itertools.count(outcome.closed + 1)
            given_up = outcome.silent + outcome.waiting.total()

            def has_each_reason() -> bool:  # the first line of a second has the number of lines left out before
                asyncio.run(until_answered("127.0.0.1", port, NOT_A_FRAME))
                return 0 <= reasons(node.log) - next(closed) <= given_up  # a slow node closes after the attack gave up

            until(has_each_reason, what="the log has a reason for each closed connection", timeout=15)
            assert outcome.sent == count and (count < FRAMES or outcome.apis.keys() == SCHEMAS.keys())
            assert node.stop() == 0
        finally:
            node.kill()
