"""ZooKeeper operations of the controller (elect, resign, read /controller) and its znodes (controller.md 2.5, 7.1)."""

from __future__ import annotations

import re

from messages import store, zookeeper
from messages.ask import BadZnode, ConnectionLoss, Done
from messages.cluster import NO_CONTROLLER
from zk_bridge import conversations, paths, znodes


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    """Encode /controller, version 1."""
    return znodes.encode({"version": 1, "brokerid": broker_id, "timestamp": str(timestamp_ms)})


def decode_controller(path: str, data: bytes | None) -> int:
    """Return the broker id in /controller, version 1 or 2 (Kafka 3.4 and later add kraftControllerEpoch).

    Raises BadZnode.
    """
    read: int = znodes.naming(path, data, lambda data: znodes.number_member(znodes.parse(data), "brokerid"))
    return read


def encode_controller_epoch(epoch: int) -> bytes:
    """Encode /controller_epoch: a decimal number as text."""
    return b"%d" % epoch


def decode_controller_epoch(path: str, data: bytes | None) -> int:
    """Return the number in /controller_epoch. Raises BadZnode."""
    if data is None or not re.fullmatch(rb"[0-9]{1,10}", data) or int(data) > znodes.INT32:
        raise BadZnode(f"{path}: expected a decimal number, found {znodes.shortened_repr(data)}")
    return int(data)


_BOTH = (paths.CONTROLLER, paths.CONTROLLER_EPOCH)


def get_controller(question: zookeeper.GetController) -> conversations.Conversation:
    """Read /controller and /controller_epoch together."""
    watches = store.Watches(exists=(paths.CONTROLLER,) if question.watch else ())
    controller, epoch = yield from conversations.data_of(_BOTH, watches=watches)
    session: conversations.SessionIds = yield conversations.GetSessionIds()
    there = controller.code == store.OK
    return zookeeper.ControllerRead(
        broker_id=decode_controller(paths.CONTROLLER, controller.data) if there else NO_CONTROLLER,
        epoch=decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch.data) if epoch.code == store.OK else 0,
        ours=there and controller.owner == session.current,
    )


def get_controller_epoch(question: zookeeper.GetControllerEpoch) -> conversations.Conversation:
    """Send a transaction that changes nothing, then read /controller_epoch.

    The value is therefore at least as new as that transaction.

    Raises:
        ConnectionLoss: ZooKeeper is disconnected.
    """
    session: conversations.SessionIds = yield conversations.GetSessionIds()
    if not session.connected:
        raise ConnectionLoss("ZooKeeper is disconnected")
    yield from conversations.transact((store.WriteOp(store.CHECK, paths.CONTROLLER_EPOCH, None, store.ANY_VERSION),))
    (epoch,) = yield from conversations.data_of((paths.CONTROLLER_EPOCH,))
    return zookeeper.ControllerEpochRead(decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch.data))


def elect(question: zookeeper.Elect) -> conversations.Conversation:
    """Create /controller and increment /controller_epoch in one transaction, if /controller is absent.

    If the transaction fails, both znodes are read again:

    - /controller has this broker's id and /controller_epoch has the epoch of this attempt: this broker is elected, and
      the reply was lost.
    - /controller exists, but one of the two znodes has another value: this broker is not elected; /controller has the
      id of the controller.
    - /controller is absent: if the connection was lost and the version of /controller_epoch is unchanged, the
      transaction had no effect and is sent again. Otherwise this broker is not elected.

    Returns:
        Elected with the epoch and the version of /controller_epoch, or NotElected with the controller's id
        (NO_CONTROLLER if absent).
    """
    controller, epoch_node = yield from conversations.data_of(_BOTH)
    if controller.code == store.OK:
        return zookeeper.NotElected(decode_controller(paths.CONTROLLER, controller.data))
    while epoch_node.code == store.NO_NODE:
        first = store.WriteOp(store.CREATE, paths.CONTROLLER_EPOCH, encode_controller_epoch(0))
        yield from conversations.transact((first,), store.CONNECTION_LOSS, store.NODE_EXISTS)
        (epoch_node,) = yield from conversations.data_of((paths.CONTROLLER_EPOCH,))
    epoch = decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch_node.data) + 1
    ops = (
        store.WriteOp(
            store.CREATE_EPHEMERAL,
            paths.CONTROLLER,
            encode_controller(question.broker_id, question.timestamp_ms),
        ),
        store.WriteOp(store.SET, paths.CONTROLLER_EPOCH, encode_controller_epoch(epoch), epoch_node.version),
    )
    while True:
        reply = yield from conversations.transact(ops, store.CONNECTION_LOSS, store.NODE_EXISTS, store.BAD_VERSION)
        if reply.code == store.OK:
            return zookeeper.Elected(epoch, reply.results[1].version)
        controller, now = yield from conversations.data_of(_BOTH)
        if controller.code == store.OK:
            winner = decode_controller(paths.CONTROLLER, controller.data)
            if winner == question.broker_id and now.data == ops[1].data:
                return zookeeper.Elected(epoch, now.version)
            return zookeeper.NotElected(winner)
        if reply.code != store.CONNECTION_LOSS or now.version != epoch_node.version:
            return zookeeper.NotElected(NO_CONTROLLER)


def resign_controller(question: zookeeper.ResignController) -> conversations.Conversation:
    """Delete /controller if this session created it, so that all candidates start an election.

    The transaction checks the epoch that is read together with /controller. If another controller is elected meanwhile,
    nothing is deleted. The epoch of this controller's own election is not checked: if another client has raised
    /controller_epoch since the election, such a check would fail, and /controller would stay.
    """
    session: conversations.SessionIds = yield conversations.GetSessionIds()
    controller, epoch = yield from conversations.data_of(_BOTH)
    if controller.code == store.OK and controller.owner == session.current:
        check = store.WriteOp(store.CHECK, paths.CONTROLLER_EPOCH, None, epoch.version)
        yield from conversations.transact((check, store.WriteOp(store.DELETE, paths.CONTROLLER)), store.NO_NODE)
    return Done()


ANSWERS: dict[type, conversations.Starter] = {
    zookeeper.GetController: get_controller,
    zookeeper.GetControllerEpoch: get_controller_epoch,
    zookeeper.Elect: elect,
    zookeeper.ResignController: resign_controller,
}
