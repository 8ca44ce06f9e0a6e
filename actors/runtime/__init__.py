"""The actor system on which nodes run: a Thespian system base, clocks, drivers, and base classes of actors."""

from actors.runtime.answerer import Answerer
from actors.runtime.base import LocalBase, local_system
from actors.runtime.clock import Clock, DriftingClock, RealClock, VirtualClock
from actors.runtime.delivery import DEAD_LETTER, OUTSIDE, SENT, TIMER, Delivery, Envelope, PortCall
from actors.runtime.dispatch import Dispatcher, UnknownMessage
from actors.runtime.flow import FlowActor
from actors.runtime.kernel import Kernel, Observer, describe
from actors.runtime.ports import EffectDiverged, Port
from actors.runtime.reference import ActorRef
from actors.runtime.scheduler import LoopScheduler, Scheduler, VirtualScheduler
from actors.runtime.state import NoForm, NotAtRest, restore, state_of

__all__ = [
    "DEAD_LETTER",
    "OUTSIDE",
    "SENT",
    "TIMER",
    "ActorRef",
    "Answerer",
    "Clock",
    "DriftingClock",
    "Delivery",
    "Dispatcher",
    "PortCall",
    "EffectDiverged",
    "Envelope",
    "FlowActor",
    "Kernel",
    "LocalBase",
    "LoopScheduler",
    "NoForm",
    "NotAtRest",
    "Observer",
    "Port",
    "RealClock",
    "Scheduler",
    "UnknownMessage",
    "VirtualClock",
    "VirtualScheduler",
    "describe",
    "local_system",
    "restore",
    "state_of",
]
