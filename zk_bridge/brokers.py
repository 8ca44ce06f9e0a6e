"""ZooKeeper operations on the registrations of brokers (controller.md 2.3)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from messages import store, zookeeper
from messages.ask import BadZnode, Done
from messages.cluster import Broker
from zk_bridge import conversations, paths, znodes

logger = logging.getLogger(__name__)


def register_broker(question: zookeeper.RegisterBroker) -> conversations.Conversation:
    """Create the registration and set its data in one transaction.

    The stat that the set operation returns contains the czxid, which is the broker epoch. If the znode exists, its
    owner decides:

    - This session: the broker is registered.
    - An earlier session of this bridge: the znode is deleted and created again.
    - Another session: the registration is refused. The znode may be left over from a killed process with the same
      broker id. As in Kafka, it is not taken over; it disappears when that session expires.

    Returns:
        BrokerRegistered with the broker epoch, or RegistrationRefused with the owner's session id.
    """
    path = paths.broker(question.broker.id)
    create = (
        store.WriteOp(store.CREATE_EPHEMERAL, path),
        store.WriteOp(store.SET, path, znodes.encode_broker(question.broker, question.timestamp_ms, question.ibp), 0),
    )
    ops: tuple[store.WriteOp, ...] = create
    while True:
        reply = yield from conversations.transact(ops, store.CONNECTION_LOSS, store.NODE_EXISTS, store.NO_NODE)
        if reply.code == store.OK:
            return zookeeper.BrokerRegistered(reply.results[-1].czxid)
        session = yield conversations.GetSessionIds()
        (node,) = yield from conversations.data_of((path,))
        ops = create
        if node.code == store.OK:
            if node.owner == session.current:
                return zookeeper.BrokerRegistered(node.czxid)
            if node.owner not in session.earlier:
                return zookeeper.RegistrationRefused(node.owner)
            ops = (store.WriteOp(store.DELETE, path), *create)


def update_broker(question: zookeeper.UpdateBroker) -> conversations.Conversation:
    """Set the registration's data. The znode is not created again, so the broker epoch stays the same."""
    path = paths.broker(question.broker.id)
    data = znodes.encode_broker(question.broker, question.timestamp_ms, question.ibp)
    while True:
        session = yield conversations.GetSessionIds()
        (node,) = yield from conversations.data_of((path,))
        if node.code != store.OK or node.owner != session.current:
            return Done()
        reply = yield from conversations.transact(
            (store.WriteOp(store.SET, path, data, node.version),), store.BAD_VERSION, store.NO_NODE
        )
        if reply.code == store.OK:
            return Done()


def get_brokers(question: zookeeper.GetBrokers) -> conversations.Conversation:
    """Return all live brokers, sorted by id."""
    if question.watch:
        yield conversations.Arm(children=(paths.BROKER_IDS,))
    (names,) = yield from conversations.children_of((paths.BROKER_IDS,))
    ids = _ids(names or ())
    return _read(ids, (yield from conversations.data_of(tuple(paths.broker(broker_id) for broker_id in ids))))


def watch_brokers(question: zookeeper.WatchBrokers) -> conversations.Conversation:
    """Set a watch on each broker's registration, even if it is absent, as in Kafka. No registration is read."""
    if question.broker_ids:
        yield conversations.Arm(exists=tuple(paths.broker(broker_id) for broker_id in question.broker_ids))
    return Done()


def get_broker(question: zookeeper.GetBroker) -> conversations.Conversation:
    """Return one broker, or an empty result if it is not registered."""
    path = paths.broker(question.broker_id)
    yield conversations.Arm(exists=(path,))
    return _read((question.broker_id,), (yield from conversations.data_of((path,))))


def _ids(names: Iterable[str]) -> tuple[int, ...]:
    """Return the broker ids among the children of /brokers/ids, sorted. Other children are logged and ignored."""
    foreign = [name for name in names if not znodes.is_broker_id(name)]
    if foreign:
        logger.warning("Ignoring children of %s that are not broker ids: %s", paths.BROKER_IDS, ", ".join(foreign))
    return tuple(sorted(int(name) for name in names if name not in foreign))


def _read(ids: tuple[int, ...], nodes: tuple[store.Znode, ...]) -> zookeeper.Brokers:
    """Decode the registrations. An unreadable registration is logged, and its id is in `unreadable`."""
    found: list[Broker] = []
    unreadable: list[int] = []
    for broker_id, node in zip(ids, nodes, strict=True):
        if node.code == store.NO_NODE:
            continue
        try:
            found.append(znodes.decode_broker(paths.broker(broker_id), node.data, node.czxid))
        except BadZnode as error:
            logger.error("Ignoring broker %d until its registration in /brokers/ids can be read: %s", broker_id, error)
            unreadable.append(broker_id)
    return zookeeper.Brokers(tuple(found), tuple(unreadable))


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.RegisterBroker: register_broker,
    zookeeper.UpdateBroker: update_broker,
    zookeeper.GetBrokers: get_brokers,
    zookeeper.WatchBrokers: watch_brokers,
    zookeeper.GetBroker: get_broker,
}
