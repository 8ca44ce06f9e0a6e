"""Ports: the only door through which an actor does or learns what is not a message.

Rule 1: a call's arguments and result are str, int, bool, None or tuples of those; it fails with OSError only.
Rule 2: live, the call goes to the object in `base.ports` and is noted on the running delivery.
Rule 3: in replay, it is answered from the record; a call that differs from the record ends the replay at once, by an
exception that neither an actor's `except Exception` nor the failure policy can swallow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from actors.runtime.delivery import Effect

if TYPE_CHECKING:
    from actors.runtime.base import LocalBase


class EffectDiverged(BaseException):
    """In replay an actor made another call than recorded: `made` against `recorded` (None: no further call)."""

    def __init__(self, made: tuple[str, str, tuple[Any, ...]], recorded: Effect | None) -> None:
        super().__init__(f"{made[0]}.{made[1]}{made[2]} where the record has {recorded}")
        self.made = made
        self.recorded = recorded


class Port:
    """One port as an actor sees it: every attribute is a method of the object behind it."""

    __slots__ = ("_base", "_name")

    def __init__(self, base: LocalBase, name: str) -> None:
        self._base = base
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*args: Any) -> Any:
            replayed = self._base.replayed_effects
            if replayed is None:
                return perform(self._base, self._name, method, args)
            return answer(self._base, self._name, method, args, replayed)

        return call


def perform(base: LocalBase, port: str, method: str, args: tuple[Any, ...]) -> Any:
    """Make the call and note it on the running delivery."""
    try:
        result = getattr(base.ports[port], method)(*args)
    except OSError as error:
        base.effects.append(Effect(port, method, args, None, f"{error.errno or 0} {error.strerror or error}"))
        raise
    base.effects.append(Effect(port, method, args, result, ""))
    return result


def answer(base: LocalBase, port: str, method: str, args: tuple[Any, ...], replayed: Iterator[Effect]) -> Any:
    """Answer the call as the record does. Raises EffectDiverged where it holds another call."""
    recorded = next(replayed, None)
    if recorded is None or (recorded.port, recorded.method, recorded.args) != (port, method, args):
        raise EffectDiverged((port, method, args), recorded)
    base.effects.append(recorded)
    if recorded.error:
        number, _, text = recorded.error.partition(" ")
        raise OSError(int(number), text)
    return recorded.result
