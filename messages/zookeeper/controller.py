"""The controller in ZooKeeper: /controller and /controller_epoch."""

from __future__ import annotations

from messages.conversation import Done
from messages.vocabulary import message
from messages.zookeeper.question import BridgeQuestion


@message
class GetController(BridgeQuestion["ControllerIs"]):
    """Read /controller; arms ControllerChange (created, data) and Reelect (deleted) if `watch`. -> ControllerIs"""

    watch: bool = True


@message
class ControllerIs:
    """The broker id in /controller (-1 if absent), and the number in /controller_epoch (0 if absent).

    `ours`: the session of the requesting node created /controller.
    """

    broker_id: int
    epoch: int
    ours: bool = False


@message
class GetControllerEpoch(BridgeQuestion["ControllerEpochIs"]):
    """Read /controller_epoch after an empty transaction, so that the value is current. -> ControllerEpochIs

    Failure("ConnectionLoss") at once while ZooKeeper is disconnected.
    """


@message
class ControllerEpochIs:
    """The number in /controller_epoch."""

    epoch: int


@message
class Elect(BridgeQuestion["Elected | NotElected"]):
    """The election transaction (controller.md 2.5). -> Elected | NotElected"""

    broker_id: int
    timestamp_ms: int


@message
class Elected:
    """This node is controller: the new epoch, and the version of /controller_epoch that fences its writes."""

    epoch: int
    epoch_zk_version: int


@message
class NotElected:
    """Another node was elected; -1 if /controller is absent again (its deletion fires Reelect)."""

    broker_id: int


@message
class ResignController(BridgeQuestion[Done]):
    """Delete /controller if this session created it, fenced by the epoch that is read with it. -> Done"""
