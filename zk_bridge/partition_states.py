"""ZooKeeper operations on partition states, and the data of /brokers/topics/T/partitions/P/state.

Most ZooKeeper requests of a controller are of this kind (controller.md 2.5, zookeeper.md).

Rule 1: entries are written one transaction at a time. Each transaction has a bounded size and begins with a check of
        the controller epoch's znode (the fence). A failover of 100,000 partitions takes 139 requests; Apache Kafka
        needs 101,000.
Rule 2: after a refused or lost transaction, *one* read of all its entries decides what happens to each. An entry that
        already has the requested data counts as written. An entry that can no longer be written gets its error code.
        The other entries are sent again in one transaction. If each attempt left out only one failed entry instead, the
        work would grow with the square of the number of entries.
Rule 3: a znode with the requested state was written by this controller, because the controller epoch and the leader
        epoch in it are unique to this controller. (If the answer to a create is lost, Kafka reports a failed create,
        and the partition stays New: controller.md trap T7.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from messages import store, zookeeper
from messages.ask import BadZnode
from messages.cluster import LeaderIsrAndControllerEpoch, Leadership, leader_isr_and_epoch
from messages.flow.conversation import SLICE, Pause, slices
from messages.probes import probe
from zk_bridge import conversations, paths, znodes

# A controller reads and writes 100,000 state nodes in a row, so their common form has a fast path.
_STATE = b'{"controller_epoch":%d,"leader":%d,"version":1,"leader_epoch":%d,"isr":[%s]}'
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,8})"
_COMMON_STATE = re.compile(
    rb'\{"controller_epoch":(%b),"leader":(%b),"version":1,"leader_epoch":(%b),"isr":\[((?:%b(?:,%b)*)?)\]\}'
    % ((_NUMBER,) * 5)
)


def encode_state(state: LeaderIsrAndControllerEpoch) -> bytes:
    """Encode a state node exactly as Kafka 3.9.1 does."""
    isr = b",".join([b"%d" % broker_id for broker_id in state.isr])
    return _STATE % (state.controller_epoch, state.leader, state.leader_epoch, isr)


def decode_state(path: str, data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch:
    """Decode a state node; `zk_version` is the znode's version. Raises BadZnode."""
    common = _COMMON_STATE.fullmatch(data) if data is not None else None
    if common is None:
        state: LeaderIsrAndControllerEpoch = znodes.naming(path, data, lambda data: _decode_state(data, zk_version))
        return state
    epoch, leader, leader_epoch, isr = common.groups()
    return leader_isr_and_epoch(
        int(leader), int(leader_epoch), tuple(map(int, isr.split(b","))) if isr else (), int(epoch), zk_version
    )


def _decode_state(data: bytes | None, zk_version: int) -> LeaderIsrAndControllerEpoch:
    members = znodes.parse(data)
    return LeaderIsrAndControllerEpoch(
        leader=znodes.number_member(members, "leader"),
        leader_epoch=znodes.number_member(members, "leader_epoch"),
        isr=znodes.broker_ids(znodes.member(members, "isr", list), "isr"),
        controller_epoch=znodes.number_member(members, "controller_epoch"),
        zk_version=zk_version,
    )


_new: Callable[..., Any] = tuple.__new__
"""Makes a NamedTuple in a third of the time; requests have hundreds of thousands of them."""

READ_AT_ONCE = 5 * SLICE
"""Number of states read at a time. It needs several store requests, and its states are decoded in slices."""


def get_partition_states(question: zookeeper.GetPartitionStates) -> conversations.Conversation:
    """Return states in the order requested.

    Znodes with equal data and equal version share one value, because a cluster has few distinct states.
    """
    found: list[zookeeper.PartitionStateRead] = []
    known: dict[tuple[bytes | None, int], LeaderIsrAndControllerEpoch] = {}
    for partitions in slices(question.partitions, READ_AT_ONCE):
        node_paths = tuple([f"{paths.TOPICS}/{topic}/partitions/{number}/state" for topic, number in partitions])
        watches = store.Watches(data=node_paths if question.watch else ())
        nodes = yield from conversations.data_of(node_paths, READ_AT_ONCE, watches)
        for index, (code, data, version, _, _) in enumerate(nodes):
            if index and not index % SLICE:
                yield Pause()
            state, error = known.get((data, version)), ""
            if state is None and code == store.OK:
                try:
                    state = known[data, version] = decode_state(node_paths[index], data, version)
                except BadZnode as bad:
                    probe("T10 a state znode cannot be decoded")
                    error = str(bad)
            found.append(_new(zookeeper.PartitionStateRead, (partitions[index], state, error)))
    return zookeeper.PartitionStates(tuple(found))


def update_partition_states(question: zookeeper.UpdatePartitionStates) -> conversations.Conversation:
    """Set each state, if its znode still has the version that the request names."""
    check = conversations.fence(question.epoch_zk_version)
    encoded = _EncodedStates()
    every_op = (
        _new(
            store.WriteOp,
            (store.SET, f"{paths.TOPICS}/{topic}/partitions/{number}/state", encoded.bytes_of(state), state.zk_version),
        )
        for (topic, number), state in question.states
    )
    results: list[zookeeper.WriteResult] = []
    for batch in conversations.batches(
        ((op,) for op in every_op), conversations.WRITE_OPS - len(check)
    ):  # each built only when it is sent
        ops = [op for (op,) in batch]
        entries = question.states[len(results) : len(results) + len(ops)]
        settled: dict[int, zookeeper.WriteResult] = {}
        left: list[int] = list(range(len(ops)))
        while left:
            reply = yield from conversations.transact(
                (*check, *[ops[index] for index in left]), store.CONNECTION_LOSS, store.BAD_VERSION, store.NO_NODE
            )
            if reply.code == store.OK:
                for index, written in zip(left, reply.results[len(check) :], strict=True):
                    settled[index] = _new(zookeeper.WriteResult, (entries[index][0], store.OK, written.version))
                break
            nodes = yield from conversations.data_of(tuple([ops[index].path for index in left]))
            unsettled = []
            for index, node in zip(left, nodes, strict=True):
                op, partition = ops[index], entries[index][0]
                if node.code != store.OK:
                    settled[index] = zookeeper.WriteResult(partition, store.NO_NODE, -1)
                elif node.version == op.version + 1 and node.data == op.data:
                    probe("a written state counts although its response was lost")
                    settled[index] = zookeeper.WriteResult(partition, store.OK, node.version)
                elif node.version == op.version:
                    unsettled.append(index)
                else:
                    settled[index] = zookeeper.WriteResult(partition, store.BAD_VERSION, -1)
            left = unsettled
        results += [settled[index] for index in range(len(ops))]
    return zookeeper.WriteResults(tuple(results))


def create_partition_states(question: zookeeper.CreatePartitionStates) -> conversations.Conversation:
    """Create state znodes; each transaction also creates the missing parents of its state znodes."""
    check = conversations.fence(question.epoch_zk_version)
    entries = question.states
    encoded = _EncodedStates()
    present = {paths.partitions(topic) for topic in question.begun}  # parents known to exist
    results: list[zookeeper.WriteResult] = []
    available, topics = conversations.WRITE_OPS - len(check), len({tp.topic for tp, _ in entries})
    for batch in slices(range(len(entries)), max(available // 3, (available - topics) // 2)):
        settled: dict[int, zookeeper.WriteResult] = {}
        left = list(batch)
        while left:
            parents = _missing_parents([entries[index] for index in left], present)
            states = [
                store.WriteOp(
                    store.CREATE, paths.partition_state(entries[index][0]), encoded.bytes_of(entries[index][1])
                )
                for index in left
            ]
            reply = yield from conversations.transact(
                (*check, *[store.WriteOp(store.CREATE, path) for path in parents], *states),
                *(store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE),
            )
            if reply.code == store.OK:
                present.update(parents)
                for index in left:
                    settled[index] = _new(zookeeper.WriteResult, (entries[index][0], store.OK, 0))
                break
            left = yield from _settle_creates(entries, left, states, present, settled)
        results += [settled[index] for index in batch]
    return zookeeper.WriteResults(tuple(results))


def _missing_parents(entries: Sequence[Leadership], present: set[str]) -> list[str]:
    """Return the entries' partitions/ and partitions/P nodes that are not known to exist, parents first."""
    wanted = dict.fromkeys(each for (tp, _) in entries for each in (paths.partitions(tp.topic), paths.partition(tp)))
    return [path for path in wanted if path not in present]


def _settle_creates(
    entries: Sequence[Leadership],
    left: Sequence[int],
    states: Sequence[store.WriteOp],
    present: set[str],
    settled: dict[int, zookeeper.WriteResult],
) -> conversations.Conversation:
    """Settle entries of a transaction that was refused or whose reply was lost (rule 2).

    The znodes of the transaction are read, and `present` and `settled` are updated.

    Returns:
        The indexes of the entries that still need to be created.
    """
    partitions = [entries[index][0] for index in left]
    topics = tuple(dict.fromkeys(paths.topic(tp.topic) for tp in partitions))
    parents = tuple(_missing_parents([entries[index] for index in left], set()))
    nodes = yield from conversations.data_of((*topics, *parents, *[op.path for op in states]))
    live_topics = _found(topics, nodes)
    present.difference_update(parents)
    present.update(_found(parents, nodes[len(topics) :]))
    unsettled = []
    for index, tp, op, node in zip(left, partitions, states, nodes[len(topics) + len(parents) :], strict=True):
        if paths.topic(tp.topic) not in live_topics:
            settled[index] = zookeeper.WriteResult(tp, store.NO_NODE, -1)
        elif node.code != store.OK:
            unsettled.append(index)
        elif node.data == op.data:
            probe("T7 a created state counts although its response was lost")
            settled[index] = zookeeper.WriteResult(tp, store.OK, node.version)
        else:
            settled[index] = zookeeper.WriteResult(tp, store.NODE_EXISTS, -1)
    return unsettled


def _found(node_paths: Iterable[str], nodes: Iterable[Any]) -> set[str]:
    return {path for path, node in zip(node_paths, nodes, strict=False) if node.code == store.OK}


class _EncodedStates:
    """A cache of encoded partition states; a batch can have 100,000 states, most of which are equal."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, tuple[int, ...], int], bytes] = {}

    def bytes_of(self, state: LeaderIsrAndControllerEpoch) -> bytes:
        """Return the data of the state's znode."""
        key = (state.leader, state.leader_epoch, state.isr, state.controller_epoch)
        data = self._known.get(key)
        if data is None:
            data = self._known[key] = encode_state(state)
        return data


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.GetPartitionStates: get_partition_states,
    zookeeper.CreatePartitionStates: create_partition_states,
    zookeeper.UpdatePartitionStates: update_partition_states,
}
