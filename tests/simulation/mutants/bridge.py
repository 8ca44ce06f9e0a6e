"""Mutants of the ZooKeeper bridge: fences, versions, watches, sessions (controller.md 1.2, 2.5, zookeeper.md)."""

from __future__ import annotations

from tests.simulation.mutants.mutant import mutant

STATES = "zk_bridge.partition_states"
WATCHES = "zk_bridge.watches:WatchTable"
CORE = "zk_bridge.core:BridgeCore"
CONTROLLER = "zk_bridge.controller"

BRIDGE_TESTS = "tests/zk_bridge/test_bridge.py"
WATCH_TESTS = "tests/zk_bridge/test_watches.py"

MUTANTS = (
    mutant(
        "states are written without the expected version",
        "controller.md 2.5, broker.md 3.3",
        f"{STATES}:update_partition_states",
        "encoded.bytes_of(state), state.zk_version)",
        "encoded.bytes_of(state), -1)",
        BRIDGE_TESTS,
    ),
    mutant(
        "own write with a lost answer counts as refused",
        "controller.md 2.5, zookeeper.md",
        f"{STATES}:update_partition_states",
        "elif node.version == op.version + 1 and node.data == op.data:",
        "elif False:",
        BRIDGE_TESTS,
    ),
    mutant(
        "own creation with a lost answer counts as another's",
        "controller.md 2.5, trap T7",
        f"{STATES}:_settle_creates",
        "elif node.data == op.data:",
        "elif False:",
        BRIDGE_TESTS,
        needs=("seed 59",),
    ),
    mutant(
        "assignments are written without the fence",
        "controller.md 2.5, KAFKA-6082",
        "zk_bridge.topics:set_assignments",
        "check = conversations.fence(question.epoch_zk_version)",
        "check = ()",
        BRIDGE_TESTS,
        needs=("seed 157",),
    ),
    mutant(
        "topics are deleted without the fence",
        "controller.md 2.5, KAFKA-6082",
        "zk_bridge.topic_deletion:delete_topics",
        "check = conversations.fence(question.epoch_zk_version)",
        "check = ()",
        BRIDGE_TESTS,
    ),
    mutant(
        "controller epoch is not raised",
        "controller.md 2.5, 7.1",
        f"{CONTROLLER}:elect",
        "decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch_node.data) + 1",
        "decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch_node.data)",
        BRIDGE_TESTS,
    ),
    mutant(
        "won election with a lost answer counts as lost",
        "controller.md 7.1",
        f"{CONTROLLER}:elect",
        "if winner == question.broker_id and now.data == ops[1].data:",
        "if False:",
        BRIDGE_TESTS,
        needs=("seed 18",),
    ),
    mutant(
        "watch of /brokers/ids is not set again",
        "controller.md 1.2, 2.3",
        "zk_bridge.brokers:get_brokers",
        "if question.watch:",
        "if False:",
        BRIDGE_TESTS,
    ),
    mutant(
        "watch of a topic is not set again",
        "controller.md 1.2, 2.4",
        "zk_bridge.topics:get_assignments",
        "if question.watch and node_paths:",
        "if False:",
        BRIDGE_TESTS,
    ),
    mutant(
        "watches are not set again",
        "controller.md 1.2",
        f"{WATCHES}.arm",
        ("watch.notified[index] = False\n                        break"),
        "break",
        WATCH_TESTS,
    ),
    mutant(
        "watches are not set again after a lost connection",
        "controller.md 1.2, zookeeper.md",
        f"{CORE}._connected",
        "self._rearm()",
        "pass",
        BRIDGE_TESTS,
    ),
    mutant(
        "changes during a lost connection are missed",
        "controller.md 1.2, zookeeper.md",
        f"{CORE}._rearm",
        "(self._watches.armed(), self._seen)",
        "(self._watches.armed(), None)",
        BRIDGE_TESTS,
        needs=("seed 98",),
    ),
    mutant(
        "expired session is not reported",
        "controller.md 7.3",
        f"{CORE}._expired",
        "self._send(party, SessionExpired(self.generation))",
        "pass",
        BRIDGE_TESTS,
    ),
    mutant(
        "children are read before their watch is set",
        "controller.md 1.2",
        "zk_bridge.topics:get_topics",
        (
            "if question.watch:\n"
            "        yield conversations.Arm(children=(paths.TOPICS,))\n"
            "    (names,) = yield from conversations.children_of((paths.TOPICS,))"
        ),
        (
            "(names,) = yield from conversations.children_of((paths.TOPICS,))\n"
            "    if question.watch:\n"
            "        yield conversations.Arm(children=(paths.TOPICS,))"
        ),
        BRIDGE_TESTS,
    ),
)
"""Mutants of the ZooKeeper bridge."""
