"""Test each row of the table of controller.md 6.2: actions, and the state of the topic's replicas after them.

A line is an action and, after ->, the expected state: the state of each broker's replica, "ineligible" if the topic is
ineligible, or "gone" if nothing is left of the topic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from messages.apis.declaration import PartitionError
from messages.apis.leader_and_isr import LeaderAndIsrRequest
from messages.apis.stop_replica import StopReplicaRequest, StopReplicaResponse
from messages.errors import KAFKA_STORAGE_ERROR
from messages.store import CREATE, DELETE, NO_NODE, WriteOp
from messages.zookeeper import RequestedReassignment
from tests.controller.test_topics import grow, holding
from tests.controller.world import World, good_answer
from tests.layering import ROOT
from zk_bridge import paths
from zk_bridge.reassignments import encode_reassignments
from zk_bridge.topics import decode_topic, encode_topic

TABLE: dict[str, str] = {
    "All brokers up": """
        hold 3
        delete -> 1 Successful, 2 Successful, 3 Started
        release 3 -> gone
        """,
    "A replica's broker down at request": """
        lose 2
        delete -> 1 Successful, 2 Offline, 3 Successful, ineligible
        return 2 -> gone
        """,
    "Broker dies after Started": """
        hold 2
        hold 3
        delete -> 1 Successful, 2 Started, 3 Started
        lose 2 -> 1 Successful, 2 Ineligible, 3 Started, ineligible
        release 3 -> 1 Successful, 2 Offline, 3 Successful, ineligible
        """,
    "It comes back while others still Started": """
        hold 2
        hold 3
        delete
        lose 2
        free 2
        return 2 -> 1 Successful, 2 Online, 3 Started
        release 3 -> gone
        """,
    "StopReplica partition error": """
        break 2
        delete -> 1 Successful, 2 Offline, 3 Successful, ineligible
        free 2
        bounce 2 -> gone
        """,
    "Failover mid-deletion": """
        hold 2
        lose 3
        delete -> 1 Successful, 2 Started, 3 Ineligible, ineligible
        forget
        failover -> 1 Online, 2 Online, 3 Offline, ineligible
        sent leaders
        return 3 -> 1 Successful, 2 Started, 3 Successful
        release 2 -> gone
        """,
    "Partition znodes partly gone": """
        without states
        failover
        delete -> gone
        """,
    "Partition added while queued": """
        lose 2
        delete
        grow -> 1 Successful, 2 Offline, 3 Successful, ineligible
        return 2 -> gone
        """,
    "Deletion while partition add is in flight": """
        grow and delete -> gone
        """,
    "Reassign request for a queued topic": """
        lose 2
        delete
        reassign -> 1 Successful, 2 Offline, 3 Successful, ineligible
        no request
        return 2 -> gone
        """,
    "Delete request during reassignment": """
        reassign
        delete -> gone
        no request
        """,
    "Preferred election for a queued topic": """
        lose 2
        delete
        forget
        elect -> 1 Successful, 2 Offline, 3 Successful, ineligible
        no request
        sent no leaders
        """,
    "delete.topic.enable=false": """
        not here
        delete -> 1 Online, 2 Online, 3 Online
        no request
        delete by hand
        failover -> 1 Online, 2 Online, 3 Online
        no request
        """,
    "Unknown topic name": """
        delete missing -> 1 Online, 2 Online, 3 Online
        no request
        """,
    "Second delete request": """
        lose 2
        delete
        delete again -> 1 Successful, 2 Offline, 3 Successful, ineligible
        return 2 -> gone
        """,
    "Controlled shutdown of a broker with such replicas": """
        lose 2
        hold 3
        delete -> 1 Successful, 2 Ineligible, 3 Started, ineligible
        shut down 3 -> 1 Successful, 2 Ineligible, 3 Started, ineligible
        lose 3 -> 1 Successful, 2 Offline, 3 Offline, ineligible
        """,
}
"""First column of the table -> actions and expected states."""


class Deletion:
    """Topic t with one partition on brokers 1, 2 and 3; nodes 1 and 5 are candidates, and node 1 is the controller."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        for node_id in (1, 5):
            world.node(node_id, **options)
        for broker_id in (2, 3, 4):
            world.broker(broker_id)
        (self.partition,) = world.topic("t", (1, 2, 3))

    def do(self, action: str) -> None:
        """Execute the action of a line."""
        words = action.split()
        if words[-1].isdigit():
            VERBS[" ".join(words[:-1])](self, int(words[-1]))
        else:
            VERBS[action](self)

    def seen(self) -> str:
        """Return the state of the topic's replicas, in the form of the table."""
        world = self.world
        if "t" not in world.topics():
            assert world.deletions() == () and not [path for path in world.zk.nodes if path.endswith("/t")]
            return "gone"
        (context,) = (node.context for node in world.nodes.values() if node.context.active)
        standing = [
            f"{broker_id} {context.replica_state(broker_id, self.partition).value.removeprefix('ReplicaDeletion')}"
            for broker_id in sorted(context.assignment(self.partition).replicas)
        ]
        waiting = ["ineligible"] * ("t" in context.deletions.ineligible)
        return ", ".join(word.removesuffix("Replica") for word in [*standing, *waiting])

    def write(self, *ops: WriteOp) -> None:
        """Write to ZooKeeper as an admin does, and run the world."""
        self.world.zk.write(ops, 0)
        self.world.run()

    def requests_are_gone(self) -> None:
        """Check that /admin has no request, except the request for a deletion that the controller has queued."""
        deletions = self.world.deletions()
        assert deletions in ((), ("t",)) and (deletions == () or "t" in self.context_queue())
        for path in (paths.REASSIGNMENTS, paths.PREFERRED_ELECTION):
            assert self.world.zk.read(path).code == NO_NODE

    def context_queue(self) -> frozenset[str]:
        """Return the topics that the controller has queued for deletion."""
        (context,) = (node.context for node in self.world.nodes.values() if node.context.active)
        return context.queued

    def sent_leaders(self, wanted: bool = True) -> None:
        """Check whether brokers received LeaderAndIsr requests since `forget`."""
        assert any(self.world.sent(kind=LeaderAndIsrRequest)) is wanted

    def grow_and_delete(self) -> None:
        """Add a partition and request the deletion in one transaction."""
        world = self.world
        data = encode_topic(decode_topic("t", world.zk.read(paths.topic("t")).data))
        more = data.replace(b'{"0":[1,2,3]}', b'{"0":[1,2,3],"1":[4]}')
        assert more != data
        self.write(WriteOp("set", paths.topic("t"), more), WriteOp(CREATE, paths.delete_topic("t")))

    def without_states(self) -> None:
        """Remove the znodes of the topic's partitions."""
        below = [path for path, _ in self.world.zk.walk(paths.partitions("t"))]
        self.write(*(WriteOp(DELETE, path) for path in sorted(below, reverse=True)))

    def failover(self) -> None:
        """Delete /controller, which causes an election."""
        self.write(WriteOp(DELETE, paths.CONTROLLER))

    def reassign(self) -> None:
        """Request that broker 4 replaces broker 1."""
        wanted = (RequestedReassignment(self.partition, (4, 2, 3)),)
        self.write(WriteOp(CREATE, paths.REASSIGNMENTS, encode_reassignments(wanted)))

    def elect(self) -> None:
        """Request the election of the preferred leader."""
        data = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
        self.write(WriteOp(CREATE, paths.PREFERRED_ELECTION, data))


def broken(request: Any) -> Any:
    """Respond as a broker whose disk cannot delete replicas."""
    if isinstance(request, StopReplicaRequest) and request.partition_states[0].delete_partition:
        codes = tuple(PartitionError(s.partition, KAFKA_STORAGE_ERROR) for s in request.partition_states)
        return StopReplicaResponse(0, codes)
    return good_answer(request)


VERBS: dict[str, Callable[..., object]] = {
    "hold": lambda it, broker: it.world.answers.update({broker: holding([])}),
    "break": lambda it, broker: it.world.answers.update({broker: broken}),
    "free": lambda it, broker: it.world.answers.pop(broker),
    "release": lambda it, broker: it.world.release(broker),
    "lose": lambda it, broker: it.world.lose(broker),
    "return": lambda it, broker: it.world.broker(broker),
    "bounce": lambda it, broker: it.world.bounce(broker),
    "shut down": lambda it, broker: it.world.shut_down(it.world.nodes[1], broker),
    "delete": lambda it: it.world.delete("t"),
    "delete again": lambda it: it.write(WriteOp("set", paths.delete_topic("t"))),
    "delete by hand": lambda it: it.write(WriteOp(CREATE, paths.delete_topic("t"))),
    "delete missing": lambda it: it.write(WriteOp(CREATE, paths.delete_topic("missing"))),
    "grow": lambda it: grow(it.world, "t", (1, 2, 3), (4,)),
    "grow and delete": Deletion.grow_and_delete,
    "without states": Deletion.without_states,
    "failover": Deletion.failover,
    "reassign": Deletion.reassign,
    "catch up": lambda it: it.world.write_isr(it.partition, 1, 2, 3, 4),
    "elect": Deletion.elect,
    "forget": lambda it: it.world.wire.clear(),
    "sent leaders": Deletion.sent_leaders,
    "sent no leaders": lambda it: it.sent_leaders(False),
    "no request": Deletion.requests_are_gone,
}
"""Action, without the broker at its end -> function that executes it or checks the result."""


@pytest.mark.parametrize("situation", TABLE)
def test_a_row(world: World, situation: str) -> None:
    lines = [line.strip() for line in TABLE[situation].strip().splitlines()]
    enabled = lines[0] != "not here"
    it = Deletion(world, delete_topic_enable=enabled)
    for line in lines if enabled else lines[1:]:
        action, _, expected = line.partition(" -> ")
        it.do(action)
        assert not expected or it.seen() == expected, line


def test_the_table_is_that_of_the_notes() -> None:
    notes = (ROOT / "docs" / "protocol" / "controller.md").read_text(encoding="utf-8")
    table = notes.partition("### 6.2 Situations")[2].partition("\n### ")[0]
    assert list(TABLE) == [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| ")][1:]
