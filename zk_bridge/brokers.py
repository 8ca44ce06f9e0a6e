"""Conversations about brokers' registrations (controller.md 2.3)."""

from __future__ import annotations

from messages.conversation import Done
from messages.store import CONNECTION_LOSS, CREATE_EPHEMERAL, DELETE, NO_NODE, NODE_EXISTS, OK, SET, WriteOp
from messages.zookeeper import (
    BrokerRegistered,
    Brokers,
    GetBroker,
    GetBrokers,
    RegisterBroker,
    RegistrationRefused,
    WatchBrokers,
)
from zk_bridge import paths, znodes
from zk_bridge.conversations import Arm, Conversation, WhoAmI, children_of, data_of, transact


def register_broker(question: RegisterBroker) -> Conversation:
    """Create the registration and set its data in one transaction: the set's stat has the czxid, the broker epoch.

    A node that is there already is ours (this session's: done), our own earlier session's (deleted and made anew),
    or another owner's: refused. The last holds for a node left by a killed process with the same id, too: Kafka
    waits for that session to expire, and so do we.
    """
    path = paths.broker(question.broker.id)
    create = (
        WriteOp(CREATE_EPHEMERAL, path),
        WriteOp(SET, path, znodes.encode_broker(question.broker, question.timestamp_ms, question.ibp), 0),
    )
    ops: tuple[WriteOp, ...] = create
    while True:
        reply = yield from transact(ops, CONNECTION_LOSS, NODE_EXISTS, NO_NODE)
        if reply.code == OK:
            return BrokerRegistered(reply.results[-1].czxid)
        session = yield WhoAmI()
        (node,) = yield from data_of((path,))
        ops = create
        if node.code == OK:
            if node.owner == session.current:
                return BrokerRegistered(node.czxid)
            if node.owner not in session.earlier:
                return RegistrationRefused(node.owner)
            ops = (WriteOp(DELETE, path), *create)


def get_brokers(question: GetBrokers) -> Conversation:
    """All live brokers, by id."""
    if question.watch:
        yield Arm(children=(paths.BROKER_IDS,))
    (names,) = yield from children_of((paths.BROKER_IDS,))
    node_paths = tuple(f"{paths.BROKER_IDS}/{name}" for name in names or ())
    nodes = yield from data_of(node_paths)
    found = [
        znodes.decode_broker(path, node.data, node.czxid)
        for path, node in zip(node_paths, nodes, strict=True)
        if node.code == OK
    ]
    return Brokers(tuple(sorted(found, key=lambda broker: broker.id)))


def watch_brokers(question: WatchBrokers) -> Conversation:
    """Watch registrations without reading them; one that is absent just now is watched as well, as by Kafka."""
    if question.broker_ids:
        yield Arm(exists=tuple(paths.broker(broker_id) for broker_id in question.broker_ids))
    return Done()


def get_broker(question: GetBroker) -> Conversation:
    """One broker, or none."""
    path = paths.broker(question.broker_id)
    yield Arm(exists=(path,))
    (node,) = yield from data_of((path,))
    return Brokers((znodes.decode_broker(path, node.data, node.czxid),) if node.code == OK else ())
