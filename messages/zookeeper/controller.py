"""Requests to the ZooKeeper bridge about the controller: /controller and /controller_epoch."""

from __future__ import annotations

from messages.ask import Done
from messages.vocabulary import Message, message
from messages.zookeeper.question import BridgeQuestion


@message
class GetController(BridgeQuestion["ControllerRead"]):
    """A request to read /controller, and to watch it if `watch` is set; the reply is ControllerRead.

    The watch sends ControllerChange (created, data changed) and Reelect (deleted).
    """

    watch: bool = True


@message
class ControllerRead(Message):
    """The reply to GetController.

    It has the broker id in /controller (-1 if absent), and the epoch in /controller_epoch (0 if absent). `ours` is True
    if the session of the requesting node created /controller.
    """

    broker_id: int
    epoch: int
    ours: bool = False


@message
class GetControllerEpoch(BridgeQuestion["ControllerEpochRead"]):
    """A request to read the current /controller_epoch, after a sync; the reply is ControllerEpochRead.

    The sync is an empty transaction. The reply is Failure("ConnectionLoss") at once while ZooKeeper is disconnected.
    """


@message
class ControllerEpochRead(Message):
    """The reply to GetControllerEpoch: the epoch in /controller_epoch."""

    epoch: int


@message
class Elect(BridgeQuestion["Elected | NotElected"]):
    """A request to become controller by one ZooKeeper transaction (controller.md 2.5).

    The reply is Elected or NotElected.
    """

    broker_id: int
    timestamp_ms: int


@message
class Elected(Message):
    """The reply to Elect if this node is now the controller: the new epoch and the version of /controller_epoch.

    That version fences the controller's writes.
    """

    epoch: int
    epoch_zk_version: int


@message
class NotElected(Message):
    """The reply to Elect if this node was not elected; `broker_id` is the id in /controller.

    If /controller has already been deleted again, `broker_id` is -1, and the watch sends Reelect.
    """

    broker_id: int


@message
class ResignController(BridgeQuestion[Done]):
    """A request to delete /controller if this session created it; the reply is Done.

    The deletion is fenced by the epoch that the bridge reads together with /controller.
    """
