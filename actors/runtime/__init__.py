"""The actor system on which nodes run: a Thespian system base, clocks, drivers, and base classes of actors."""

from actors.runtime.adapters import Adapter, EffectDiverged
from actors.runtime.answerer import Answerer
from actors.runtime.base import LocalBase, local_system
from actors.runtime.clock import Clock, DriftingClock, RealClock, VirtualClock
from actors.runtime.delivery import DEAD_LETTER, OUTSIDE, SENT, TIMER, AdapterCall, Delivery, Envelope
from actors.runtime.dispatch import Dispatcher, UnknownMessage
from actors.runtime.flow import FlowActor
from actors.runtime.kernel import Kernel, Observer, describe
from actors.runtime.reference import ActorRef
from actors.runtime.scheduler import LoopScheduler, Scheduler, VirtualScheduler
from actors.runtime.state import NotAtRest, UnstorableValue, restore, state_of

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
    "AdapterCall",
    "EffectDiverged",
    "Envelope",
    "FlowActor",
    "Kernel",
    "LocalBase",
    "LoopScheduler",
    "UnstorableValue",
    "NotAtRest",
    "Observer",
    "Adapter",
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
