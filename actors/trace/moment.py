"""The state of a node's actors after a delivery, computed by replay."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from actors.node.node import NodeActor
from actors.runtime.thespian.base import LocalBase
from actors.runtime.trace.replayer import NotReplayable, Replay
from actors.runtime.trace.state import UnstorableValue, displayed_state, state_of
from actors.trace.state_path import addresses_for, addresses_of
from messages.trace.errors import TraceError
from messages.trace.files.runs import Run

ACTORS = (NodeActor,)
"""The top-level actors of a node: a replay creates no others."""


class ActorNotFound(TraceError):
    """The given name matches no actor, or several actors, at the chosen moment of a run."""


class StateNotShown(TraceError):
    """The state of an actor has a value that cannot be shown as plain data."""


class Moment:
    """The state of a node after one message delivery to its actors.

    Attributes:
        run: The run.
        seq: The number of the delivery; 0 is before the first.
    """

    def __init__(self, run: Run, seq: int) -> None:
        self.run = run
        self.seq = seq

    @cached_property
    def _base(self) -> LocalBase:
        return base_after(self.run, self.seq)

    @property
    def actors(self) -> tuple[str, ...]:
        """The addresses of the actors, parents before children.

        Raises:
            TraceError: The run cannot be replayed to this moment.
        """
        return tuple(str(ref) for ref in self._base.living())

    def state(self, actor: str) -> dict[str, Any]:
        """Return an actor's attributes by name, with their values as plain JSON values.

        Args:
            actor: An address such as `ControllerActor.17`, a class name if the node has one actor of that class, or a
                class with its subject: `PartitionActor:orders-0`, `BrokerChannelActor:2`, `GroupActor:readers`.

        Raises:
            ActorNotFound: No actor, or more than one, has this name; the text lists the actors.
            TraceError: The run cannot be replayed to this moment.
        """
        return state_in(self._base, actor)

    def __repr__(self) -> str:
        return f"<node {self.run.header.node} after delivery {self.seq}>"


def base_after(run: Run, seq: int) -> LocalBase:
    """Replay a run until delivery `seq` is handled, from the last snapshot before it.

    Raises:
        NotReplayable: The run cannot be replayed to this moment.
    """
    if seq < 0:
        raise NotReplayable(f"deliveries are numbered from 1, and 0 is the moment before the first: {seq} is neither")
    replay = Replay(run, ACTORS, begin=seq + 1, until=seq)
    result = replay.result()
    if not result.ok:
        what = result.problem or (result.divergence.text() if result.divergence is not None else "")
        raise NotReplayable(f"run {run.header.run} cannot be replayed to delivery {seq}: {what}")
    if replay.base.n < seq:
        raise NotReplayable(f"run {run.header.run} ends after delivery {replay.base.n}; there is no delivery {seq}")
    return replay.base


def actor_named(base: LocalBase, actor: str) -> str:
    """Return the address of the only actor with this address, class name, or class and subject (`GroupActor:readers`).

    Raises:
        ActorNotFound: No actor, or more than one, has this name.
    """
    here = [str(ref) for ref in base.living()]
    named = addresses_of(base, actor) or addresses_for(base, actor)
    if len(named) != 1:
        known = ", ".join(named or here) or "none"
        raise ActorNotFound(f"after message {base.n} there is not exactly one actor {actor}; the actors are {known}")
    return named[0]


def state_in(base: LocalBase, actor: str) -> dict[str, Any]:
    """Return the state of the actor with this address or class name.

    Raises:
        ActorNotFound: No actor, or more than one, has this name.
    """
    return shown_state(base, actor_named(base, actor))


def shown_state(base: LocalBase, address: str) -> dict[str, Any]:
    """Return the state of the actor at an address.

    Raises:
        StateNotShown: A value has no plain form.
    """
    try:
        return displayed_state(state_of(base.instance_of(base.address_of(address))))
    except UnstorableValue as error:
        raise StateNotShown(f"the state after delivery {base.n} cannot be printed: {error}") from error
