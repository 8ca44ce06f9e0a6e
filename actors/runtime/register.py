"""A list of the live actors by number, which is the last part of an actor's address.

Rule 1: actors are found by number, listed in the order of their creation.
Rule 2: numbers lie in pages of PAGE. One table of a hundred thousand is made anew, as it grows, in one go of some
        milliseconds, and all actors wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from actors.runtime.reference import ActorRef

PAGE = 1024
LONGEST = 20
"""Digits. What comes out of a trace may be as long as it likes, and Python refuses to read some lengths."""


class ActorRegistry:
    """The live actors by number; `created` is the highest number assigned so far."""

    def __init__(self) -> None:
        self.created = 0
        self._pages: dict[int, dict[int, ActorRef]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._pages.values()))

    def __iter__(self) -> Iterator[ActorRef]:
        """All, the oldest first."""
        return (ref for page in self._pages.values() for ref in page.values())

    def add(self, ref: ActorRef, number: int = 0) -> None:
        """A new actor, and one more child of its parent. `number`, where it is known, is that of its text."""
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
        """The actor is no more; nothing where it is not here."""
        number = _number_of(ref.actorAddressString)
        page = self._pages.get(number // PAGE, {})
        if page.pop(number, None) is None:
            return
        if not page:
            del self._pages[number // PAGE]
        if ref.parent is not None:
            ref.parent.children -= 1

    def find(self, text: str) -> ActorRef | None:
        """The living actor whose address prints as `text`."""
        number = _number_of(text)
        ref = self._pages.get(number // PAGE, {}).get(number)
        return ref if ref is not None and ref.actorAddressString == text else None

    def children(self, parent: ActorRef) -> list[ActorRef]:
        """The living children of an actor, the oldest first. Where there are any, it looks through all actors."""
        return [ref for ref in self if ref.parent is parent] if parent.children else []


def _number_of(text: str) -> int:
    """The number at the end of an address's text; 0, which is never used, if there is none."""
    number = text.rpartition(".")[2]
    return int(number) if number.isdecimal() and number.isascii() and len(number) < LONGEST else 0
