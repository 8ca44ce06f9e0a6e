"""A list of the live actors by number; an actor's number is the last part of its address.

Rule 1: actors are found by number, and listed in the order of their creation.
Rule 2: numbers are stored in pages of PAGE. A single dict of 100,000 entries is copied as it grows, which blocks all
        actors for some milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.runtime.kernel.reference import ActorRef

PAGE = 1024
LONGEST = 20
"""Maximum number of digits. Numbers from a trace may have any length, and Python refuses to parse very long ones."""


class ActorRegistry:
    """The live actors by number; `created` is the highest number assigned so far."""

    def __init__(self) -> None:
        self.created = 0
        self._pages: dict[int, dict[int, ActorRef]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._pages.values()))

    def __iter__(self) -> Iterator[ActorRef]:
        """Return all live actors, oldest first."""
        return (ref for page in self._pages.values() for ref in page.values())

    def add(self, ref: ActorRef, number: int = 0) -> None:
        """Add an actor, and count it as a child of its parent. `number` is the number in its address; 0 if unknown."""
        number = number or _number_of(ref.actorAddressString)
        if number > self.created:
            self.created = number
        page = self._pages.get(number // PAGE)
        if page is None:
            page = self._pages[number // PAGE] = {}
        page[number] = ref
        if ref.parent is not None:
            ref.parent.children += 1

    def remove(self, ref: ActorRef) -> None:
        """Remove an actor, if it is listed."""
        number = _number_of(ref.actorAddressString)
        page = self._pages.get(number // PAGE, {})
        if page.pop(number, None) is None:
            return
        if not page:
            del self._pages[number // PAGE]
        if ref.parent is not None:
            ref.parent.children -= 1

    def find(self, text: str) -> ActorRef | None:
        """Return the live actor with this address text, or None."""
        number = _number_of(text)
        ref = self._pages.get(number // PAGE, {}).get(number)
        return ref if ref is not None and ref.actorAddressString == text else None

    def children(self, parent: ActorRef) -> list[ActorRef]:
        """Return the live children of an actor, oldest first. If the actor has any, this searches all live actors."""
        return [ref for ref in self if ref.parent is parent] if parent.children else []


def _number_of(text: str) -> int:
    """Return the number at the end of an address's text; 0 without a number (no actor has the number 0)."""
    number = text.rpartition(".")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < LONGEST else 0
