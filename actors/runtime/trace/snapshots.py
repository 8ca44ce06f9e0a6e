"""Take a snapshot of an actor system without stopping its event loop, and restore a system from a snapshot.

Rule 1: a snapshot is the state between two deliveries. If an event loop drives the system, a forked child writes the
        snapshot (`actors.runtime.trace.forked_work`), so that no turn of the loop waits for it. Otherwise the snapshot
        is written at once.
Rule 2: a trace cannot run arbitrary code: only actor classes of this project, or those named by the caller, are
        restored.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from thespian.actors import Actor

from actors.runtime.thespian.base import LocalBase, class_name
from actors.runtime.trace.forked_work import Tell
from actors.runtime.trace.state import actor_class, restore, state_of
from messages.runtime import SystemState
from messages.state import ActorState
from messages.trace.codec import MessageDecoder
from messages.trace.files.snapshots import Piece, line, message_of, pieces


def system_lines(base: LocalBase) -> Iterator[bytes]:
    """Yield the state of an actor system as lines (`messages.trace.files.snapshots`).

    Raises:
        ValueError, UnstorableValue, TraceError: The state cannot be stored.
    """
    yield line(base.system_state())
    for ref in base.living():
        yield line(state_of(ref.actor))


def system_pieces(base: LocalBase) -> Iterator[Piece]:
    """Yield the state of an actor system as pieces of a snapshot."""
    return pieces(system_lines(base), base.resting)


def read_out(base: LocalBase, tell: Tell) -> None:
    """Pass all pieces of a snapshot to `tell`, which sends them from a child process to its parent."""
    for piece in system_pieces(base):
        tell(piece)


def restore_lines(base: LocalBase, lines: Iterator[bytes], actors: Collection[type[Actor]]) -> None:
    """Restore a new system from the lines. Raises LookupError, NotAtRest, TraceError, ValueError."""
    known = {class_name(each): each for each in actors}
    head = next(lines)
    for each in message_of(head, MessageDecoder()).actors:
        cls = known.get(each.actor) or actor_class(each.actor)
        base.settle(each.address.actorAddressString, each.parent.actorAddressString, cls)
    codec = MessageDecoder(base.address_of)
    state: SystemState = message_of(head, codec)
    base.restore_system(state)
    for ref, each in zip(list(base.living()), lines, strict=True):
        held: ActorState = message_of(each, codec)
        restore(ref.actor, held)
