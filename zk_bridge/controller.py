"""ZooKeeper operations of the controller: elect, resign, and read /controller (controller.md 2.5, 7.1)."""

from __future__ import annotations

from messages.ask import ConnectionLoss, Done
from messages.cluster import NO_CONTROLLER
from messages.store import (
    ANY_VERSION,
    BAD_VERSION,
    CHECK,
    CONNECTION_LOSS,
    CREATE,
    CREATE_EPHEMERAL,
    DELETE,
    NO_NODE,
    NODE_EXISTS,
    OK,
    SET,
    WriteOp,
)
from messages.zookeeper import (
    ControllerEpochRead,
    ControllerRead,
    Elect,
    Elected,
    GetController,
    GetControllerEpoch,
    NotElected,
    ResignController,
)
from zk_bridge import paths, znodes
from zk_bridge.conversations import Arm, Conversation, GetSessionIds, SessionIds, Starter, data_of, transact

_BOTH = (paths.CONTROLLER, paths.CONTROLLER_EPOCH)


def get_controller(question: GetController) -> Conversation:
    """Read /controller and /controller_epoch together."""
    if question.watch:
        yield Arm(exists=(paths.CONTROLLER,))
    controller, epoch = yield from data_of(_BOTH)
    session: SessionIds = yield GetSessionIds()
    there = controller.code == OK
    return ControllerRead(
        broker_id=znodes.decode_controller(paths.CONTROLLER, controller.data) if there else NO_CONTROLLER,
        epoch=znodes.decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch.data) if epoch.code == OK else 0,
        ours=there and controller.owner == session.current,
    )


def get_controller_epoch(question: GetControllerEpoch) -> Conversation:
    """Send a transaction that changes nothing, then read /controller_epoch.

    The value is therefore at least as new as that transaction.

    Raises:
        ConnectionLoss: ZooKeeper is disconnected.
    """
    session: SessionIds = yield GetSessionIds()
    if not session.connected:
        raise ConnectionLoss("ZooKeeper is disconnected")
    yield from transact((WriteOp(CHECK, paths.CONTROLLER_EPOCH, None, ANY_VERSION),))
    (epoch,) = yield from data_of((paths.CONTROLLER_EPOCH,))
    return ControllerEpochRead(znodes.decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch.data))


def elect(question: Elect) -> Conversation:
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
    controller, epoch_node = yield from data_of(_BOTH)
    if controller.code == OK:
        return NotElected(znodes.decode_controller(paths.CONTROLLER, controller.data))
    while epoch_node.code == NO_NODE:
        first = WriteOp(CREATE, paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
        yield from transact((first,), CONNECTION_LOSS, NODE_EXISTS)
        (epoch_node,) = yield from data_of((paths.CONTROLLER_EPOCH,))
    epoch = znodes.decode_controller_epoch(paths.CONTROLLER_EPOCH, epoch_node.data) + 1
    ops = (
        WriteOp(
            CREATE_EPHEMERAL, paths.CONTROLLER, znodes.encode_controller(question.broker_id, question.timestamp_ms)
        ),
        WriteOp(SET, paths.CONTROLLER_EPOCH, znodes.encode_controller_epoch(epoch), epoch_node.version),
    )
    while True:
        reply = yield from transact(ops, CONNECTION_LOSS, NODE_EXISTS, BAD_VERSION)
        if reply.code == OK:
            return Elected(epoch, reply.results[1].version)
        controller, now = yield from data_of(_BOTH)
        if controller.code == OK:
            winner = znodes.decode_controller(paths.CONTROLLER, controller.data)
            if winner == question.broker_id and now.data == ops[1].data:
                return Elected(epoch, now.version)
            return NotElected(winner)
        if reply.code != CONNECTION_LOSS or now.version != epoch_node.version:
            return NotElected(NO_CONTROLLER)


def resign_controller(question: ResignController) -> Conversation:
    """Delete /controller if this session created it, so that all candidates start an election.

    The transaction checks the epoch that is read together with /controller. If another controller is elected meanwhile,
    nothing is deleted. The epoch of this controller's own election is not checked: if another client has raised
    /controller_epoch since the election, such a check would fail, and /controller would stay.
    """
    session: SessionIds = yield GetSessionIds()
    controller, epoch = yield from data_of(_BOTH)
    if controller.code == OK and controller.owner == session.current:
        check = WriteOp(CHECK, paths.CONTROLLER_EPOCH, None, epoch.version)
        yield from transact((check, WriteOp(DELETE, paths.CONTROLLER)), NO_NODE)
    return Done()


ANSWERS: dict[type, Starter] = {
    GetController: get_controller,
    GetControllerEpoch: get_controller_epoch,
    Elect: elect,
    ResignController: resign_controller,
}
