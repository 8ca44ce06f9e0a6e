"""The actor system on which nodes run: a Thespian system base, clocks, drivers, and base classes of actors."""

from actors.runtime.flow.flow import Answerer, FlowActor
from actors.runtime.kernel.clock import Clock, DriftingClock, RealClock, VirtualClock
from actors.runtime.kernel.delivery import DEAD_LETTER, AdapterCall, Delivery, Envelope
from actors.runtime.kernel.kernel import Kernel, Observer, describe
from actors.runtime.kernel.reference import ActorRef, Adapter, EffectDiverged
from actors.runtime.thespian.base import LocalBase, local_system
from actors.runtime.thespian.dispatch import Dispatcher, UnknownMessage
from actors.runtime.thespian.scheduler import CallLater, LoopScheduler, ScheduledCall, Scheduler, VirtualScheduler
from actors.runtime.trace.state import NotAtRest, UnstorableValue, restore, state_of
from messages.runtime import OUTSIDE, SENT, TIMER
