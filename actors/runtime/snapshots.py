"""Take a snapshot of an actor system, without stopping its event loop, and restore a system from one.

Rule 1: a snapshot is what was so between two deliveries. Of a system that a loop drives it is read out by a child of
        this process (`actors.runtime.aside`): however much there is, the node's turns are not longer by it. Elsewhere
        it is read out at once.
Rule 2: a trace is not a program: only our own actor classes, or those named by the caller, are restored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from thespian.actors import Actor

from actors.runtime.aside import Tell
from actors.runtime.base import LocalBase, class_name
from actors.runtime.state import actor_class, restore, state_of
from messages.runtime import SystemState
from messages.state import ActorState
from messages.trace.codec import Codec
from messages.trace.snapshots import Piece, line, message_of, pieces


def system_lines(base: LocalBase) -> Iterator[bytes]:
    """All that a system holds, line by line (`messages.trace.snapshots`). Raises ValueError, NoForm, TraceError."""
    yield line(base.system_state())
    for ref in base.living():
        yield line(state_of(ref.actor))


def system_pieces(base: LocalBase) -> Iterator[Piece]:
    """The same as pieces of a snapshot."""
    return pieces(system_lines(base), base.resting)


def read_out(base: LocalBase, tell: Tell) -> None:
    """Say all pieces, in a child."""
    for piece in system_pieces(base):
        tell(piece)


def restore_lines(base: LocalBase, lines: Iterator[bytes], actors: Collection[type[Actor]]) -> None:
    """Let a fresh system hold what the lines say. Raises LookupError, NotAtRest, TraceError, ValueError."""
    known = {class_name(each): each for each in actors}
    head = next(lines)
    for each in message_of(head, Codec()).actors:
        cls = known.get(each.actor) or actor_class(each.actor)
        base.settle(each.address.actorAddressString, each.parent.actorAddressString, cls)
    codec = Codec(base.address_of)
    state: SystemState = message_of(head, codec)
    base.restore_system(state)
    for ref, each in zip(list(base.living()), lines, strict=True):
        held: ActorState = message_of(each, codec)
        restore(ref.actor, held)
