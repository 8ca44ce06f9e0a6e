"""I/O adapters: actors use them for everything except messages, and each call is recorded in the trace.

Rule 1: arguments and results are str, int, bool, None, bodies of record batches, or tuples of those. A call fails only
        with OSError. A body is recorded as size and checksum: in a replay its bytes are not available.
Rule 2: in a live system a call goes to the adapter object, and is stored in the record of the running delivery.
Rule 3: in a replay a call gets the recorded result. A call that differs from the record ends the replay at once by a
        BaseException, which neither `except Exception` of an actor nor the failure policy catches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from actors.runtime.kernel.delivery import AdapterCall
from messages.records import Body

BODY = "record batches"
"""First element of a recorded body."""


class EffectDiverged(BaseException):
    """The replay made the I/O call `made`, but the trace has a different call, `recorded`, or no call (None)."""

    def __init__(self, made: tuple[str, str, tuple[Any, ...]], recorded: AdapterCall | None) -> None:
        super().__init__(f"{made[0]}.{made[1]}{made[2]} where the record has {recorded}")
        self.made = made
        self.recorded = recorded


class Adapters(dict[str, Any]):
    """The I/O adapters of an actor system, by name, and the I/O calls that the current message's handler has made.

    `recorded` has the recorded calls in a replay; it is None in a live system.
    """

    def __init__(self, objects: dict[str, Any] | None = None) -> None:
        super().__init__(objects or {})
        self.made: list[AdapterCall] = []
        self.recorded: Iterator[AdapterCall] | None = None
        self._doors: dict[str, Adapter] = {}

    def port(self, name: str) -> Adapter:
        """Return the adapter `name`.

        In a replay all names exist.

        Raises:
            LookupError: The system has no such adapter.
        """
        if name not in self and self.recorded is None:
            raise LookupError(f"this actor system has no I/O adapter {name!r}")
        door = self._doors.get(name)
        if door is None:
            door = self._doors[name] = Adapter(self, name)
        return door

    def call(self, port: str, method: str, args: tuple[Any, ...]) -> Any:
        """Make a call, or return its recorded result. Raises OSError, and EffectDiverged in a replay."""
        if self.recorded is not None:
            return self._answer(port, method, args, next(self.recorded, None))
        noted = _noted(args)
        try:
            result = getattr(self[port], method)(*args)
        except OSError as error:
            self.made.append(AdapterCall(port, method, noted, None, f"{error.errno or 0} {error.strerror or error}"))
            raise
        # Three times as fast as AdapterCall(...); this line runs at every call of an adapter.
        self.made.append(tuple.__new__(AdapterCall, (port, method, noted, _noted(result), "")))
        return result

    def _answer(self, port: str, method: str, args: tuple[Any, ...], recorded: AdapterCall | None) -> Any:
        args = _noted(args)
        if recorded is None or (recorded.port, recorded.method, recorded.args) != (port, method, args):
            raise EffectDiverged((port, method, args), recorded)
        self.made.append(recorded._replace(args=args))
        if recorded.error:
            number, _, text = recorded.error.partition(" ")
            raise OSError(int(number), text)
        return _remembered(recorded.result)


class Adapter:
    """An I/O adapter as actors see it; each call of a method is recorded."""

    def __init__(self, ports: Adapters, name: str) -> None:
        self._ports = ports
        self._name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*args: Any) -> Any:
            return self._ports.call(self._name, method, args)

        self.__dict__[method] = call
        return call


def _noted(value: Any) -> Any:
    """Return an argument or result as recorded: a body as (BODY, size, checksum), other values unchanged (rule 1)."""
    if value.__class__ is Body:
        return BODY, value.size, value.crc
    if isinstance(value, tuple):
        for entry in value:
            if entry.__class__ is Body:
                return tuple([_noted(each) if isinstance(each, (Body, tuple)) else each for each in value])
    return value


def _remembered(value: Any) -> Any:
    """Return the recorded `value`, with each (BODY, size, checksum) replaced by a Body that has no `data`."""
    if isinstance(value, tuple):
        if len(value) == 3 and value[0] == BODY:
            return Body(value[1], value[2])
        return tuple([_remembered(entry) for entry in value])
    return value
