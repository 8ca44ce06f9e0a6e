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
    """The broker id in /controller (-1 if absent), and the decimal in /controller_epoch (0 where absent).

    `ours`: the asker's own session made /controller.
    """

    broker_id: int
    epoch: int
    ours: bool = False


@message
class GetControllerEpoch(BridgeQuestion["ControllerEpochIs"]):
    """Read /controller_epoch as it is now, not as our server of the ensemble has last heard. -> ControllerEpochIs

    Failure("ConnectionLoss") at once while ZooKeeper is away.
    """


@message
class ControllerEpochIs:
    """The decimal in /controller_epoch."""

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
    """Another node won; -1 where /controller is absent again (then its deletion fires Reelect)."""

    broker_id: int


@message
class ResignController(BridgeQuestion[Done]):
    """Delete /controller if the asker's session made it, fenced by the epoch that is read with it. -> Done"""
