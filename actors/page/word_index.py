"""An index of the words in a run: which frames contain the name of a subject, of an actor or of a message.

Rule 1: a word is a string in a record that is no key: the name of a subject, also with the number that follows it (a
        partition), or a text that begins with a capital letter, as types and addresses do. Paths of topics are words.
Rule 2: a frame that cannot be searched, because records share its tuples or it is damaged, contains every word.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import cache

_WORDS = (
    re.compile(rb'"[\w.-]++"(?!:)(?:,\d+)?'),
    re.compile(rb':"[\w.-]++"'),
    re.compile(rb"/topics/[\w.-]+(?:/partitions/\d+)?"),
)
_PATH = b"/topics/"
_SEARCHED = re.compile(rb':?"([\w.-]+)(?:"(,\d+)?)?')


class WordIndex:
    """The frames of one run that contain each word; `names` are those of the subjects that are noted."""

    def __init__(self, names: Set[bytes]) -> None:
        self._names = names
        self._frames: dict[bytes, int] = {}
        """Word -> the numbers of its frames, as bits."""
        self._unsearched = 0
        self._noted = cache(self._noted_word)

    def add(self, frame: int, content: bytes | None) -> None:
        """Note the words of a frame; a content of None cannot be searched."""
        bit = 1 << frame
        if content is None:
            self._unsearched |= bit
            return
        found = {self._noted(word) for pattern in _WORDS for word in set(pattern.findall(content))}
        for word in found - {b""}:
            self._frames[word] = self._frames.get(word, 0) | bit

    def _noted_word(self, word: bytes) -> bytes:
        """Return a word as it is noted; empty if it is not."""
        name = word.lstrip(b':"').partition(b'"')[0]
        if word.startswith(_PATH) or name in self._names:
            return word
        return b'"%s"' % name if name[:1].isupper() else b""

    def frames_with(self, texts: tuple[bytes, ...]) -> int | None:
        """Return the numbers of the frames that contain one of the texts, as bits; None if a text is no word."""
        found = self._unsearched
        for text in texts:
            if not self._is_word(text):
                return None
            for word, frames in self._frames.items():
                if text in word:
                    found |= frames
        return found

    def _is_word(self, text: bytes) -> bool:
        """Return whether a text, or what begins with it, is noted wherever it is."""
        if text.startswith(_PATH):
            return True
        match = _SEARCHED.fullmatch(text)
        if match is None:
            return False
        name, number = match.groups()
        return name in self._names or (name[:1].isupper() and number is None)
