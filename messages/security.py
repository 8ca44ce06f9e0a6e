"""Secret is the type of passwords and keys: they never reach a trace, a log or an error text."""

from __future__ import annotations

from messages.sensitive_configs import MASK


class Secret:
    """A password or a key. Its text is MASK, and a trace stores MASK."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    @property
    def value(self) -> bytes:
        """The secret itself."""
        return self._value

    def __repr__(self) -> str:
        return MASK

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    __hash__ = None  # type: ignore[assignment]
