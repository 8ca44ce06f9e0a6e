"""The text of a frame: lines of JSON, one per record, and what several records share said once.

Rule 1: a line that begins with "[" is a record (`messages.trace.schema`).
Rule 2: a line {"shared":[...]} is a run of entries of long tuples, numbered from 0 in the frame. In a record,
        {"@":[i,j]} in place of a tuple stands for the entries of those lines from i up to, without, j. What is shared
        is shared within a frame only: each can be read by itself.
Rule 3: no field of a message is called "@", and inside a string quotes are escaped: so the reference is found, and
        replaced, as text. Who reads the lines sees plain JSON.
Rule 4: the work is done in small steps, however large the messages: entries are encoded some hundred at a time, and
        compressed by pieces.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import zstandard

from messages.trace.codec import ENCODER, UNFIT, Apart, address_text, unencodable, unfit
from messages.trace.errors import TraceError
from messages.trace.forms import Plain
from messages.trace.schema import Record

ENTRIES = 500
"""So many entries of a long tuple are encoded in one step (about 0.3 ms)."""
DELIVERIES = 64
"""So many deliveries are encoded in one step."""
PIECE = 1 << 16
"""So many bytes are compressed in one step."""
LEVEL = 1
"""Of compression."""

_SHARED = b'{"shared":'
_REFERENCE = b'{"@":['
_REFERENCES = re.compile(rb'\{"@":\[(\d+),(\d+)\]\}')
_TYPE, _PAYLOAD = 6, 10
"""Where these stand in a record."""


class FrameText(Apart):
    """Turns deliveries into the compressed text of one frame: `take` some, `step` until there is nothing to do."""

    def __init__(self, compressor: zstandard.ZstdCompressor | None = None) -> None:
        self.records = 0
        """How many have been taken, and the number of the last."""
        self.last = 0
        self._compressor = compressor or zstandard.ZstdCompressor(level=LEVEL)
        self._compression = self._compressor.compressobj()
        self._compressed: list[bytes] = []
        self._compressed_from = 0
        self._lines = bytearray()
        self._rows: list[Any] = []
        self._known: dict[tuple[int, int, int], tuple[tuple[Any, ...], msgspec.Raw | Exception]] = {}
        self._unwritten: deque[tuple[tuple[int, int, int], tuple[Any, ...], Plain | None]] = deque()
        self._shared = 0

    @property
    def size(self) -> int:
        """Bytes of text so far, before compression."""
        return self._compressed_from + len(self._lines)

    def take(self, waiting: deque[Any]) -> None:
        """Take some of the deliveries, or of the records that are written as they are.

        A delivery is a tuple of a Record's columns, but for the message itself in place of type and payload: n, kind,
        cause, sender, receiver, actor, message, queued_at, taken_at, finished_at, effects, error.
        """
        rows, box, popleft = self._rows, self.box, waiting.popleft
        before = len(rows)
        for _ in range(min(len(waiting), DELIVERIES)):
            taken = popleft()
            if taken.__class__ is Record:
                rows.append(taken)
                continue
            n, kind, cause, sender, receiver, actor, message, queued_at, taken_at, finished_at, effects, error = taken
            try:
                type_, payload = box(message)
            except (TraceError, *UNFIT) as reason:
                type_, payload = _without_form(message, reason)
            # one tuple in one go, and addresses looked into here: this line is most of what recording costs
            rows.append(
                (
                    n,
                    kind,
                    cause,
                    from_ if (from_ := sender._aaddr).__class__ is str else address_text(sender),
                    to if (to := receiver._aaddr).__class__ is str else address_text(receiver),
                    actor,
                    type_,
                    queued_at,
                    taken_at,
                    finished_at,
                    payload,
                    effects,
                    error,
                )
            )
            if self._unwritten:
                break
        self.records += len(rows) - before
        last = rows[-1]
        self.last = last.n if last.__class__ is Record else last[0]

    def step(self) -> bool:
        """Do a little of the work; False where there is none."""
        if len(self._lines) >= PIECE:
            self._compress()
        elif self._unwritten:
            self._write_shared()
        elif self._rows:
            self._write_rows()
        else:
            return False
        return True

    def finish(self) -> bytes:
        """All of it, compressed; of no use afterwards."""
        while self.step():
            pass
        self._compress()
        self._compressed.append(self._compression.flush())
        return b"".join(self._compressed)

    def share(self, value: tuple[Any, ...], plain: Plain | None) -> Any:
        """A reference to the tuple's entries. Known is a tuple of the very same entries, by their identity."""
        key = len(value), id(value[0]), id(value[-1])
        known = self._known.get(key)
        if known is None or not (known[0] is value or all(map(operator.is_, known[0], value))):
            first = self._shared
            for start in range(0, len(value), ENTRIES):
                self._unwritten.append((key, value[start : start + ENTRIES], plain))
                self._shared += 1
            reference = msgspec.Raw(b"%b%d,%d]}" % (_REFERENCE, first, self._shared))
            known = self._known[key] = value, reference  # the tuple is kept, or an id could be used again
        if isinstance(known[1], Exception):
            raise known[1]
        return known[1]

    def _write_shared(self) -> None:
        key, entries, plain = self._unwritten.popleft()
        try:
            line = ENCODER.encode(entries if plain is None else [plain(entry, _INLINE) for entry in entries])
        except (TraceError, *UNFIT) as reason:
            # The record that asked for these entries is the last one taken; who shares them comes later.
            line = b"[]"
            self._known[key] = self._known[key][0], reason
            self._rows[-1] = _unfit(self._rows[-1], reason)
        self._lines += _SHARED + line + b"}\n"

    def _write_rows(self) -> None:
        rows, self._rows = self._rows, []
        try:
            self._lines += ENCODER.encode_lines(rows)
        except (TraceError, *UNFIT):
            for row in rows:
                try:
                    line = ENCODER.encode(row)
                except (TraceError, *UNFIT) as reason:
                    line = ENCODER.encode(_unfit(row, reason))
                self._lines += line + b"\n"

    def _compress(self) -> None:
        self._compressed.append(self._compression.compress(self._lines))
        self._compressed_from += len(self._lines)
        self._lines = bytearray()


_INLINE = Apart()


def _without_form(message: object, reason: Exception) -> tuple[str, Any]:
    """Type name and payload of a message that has no form."""
    name = type(message).__name__
    return name, unencodable(reason if isinstance(reason, TraceError) else unfit(name, reason))


def _unfit(row: tuple[Any, ...], reason: Exception) -> tuple[Any, ...]:
    """The row with the reason in place of its payload."""
    error = reason if isinstance(reason, TraceError) else unfit(row[_TYPE], reason)
    return (*row[:_PAYLOAD], unencodable(error), *row[_PAYLOAD + 1 :])


def compress(lines: Iterable[bytes]) -> bytes:
    """Lines as the text of a frame."""
    return zstandard.ZstdCompressor(level=LEVEL).compress(b"".join(line + b"\n" for line in lines))


def decompress(content: bytes) -> bytes:
    """The text of a frame. Raises ValueError where it is none."""
    try:
        return zstandard.ZstdDecompressor().decompressobj().decompress(content)
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error


def record_lines(text: bytes) -> Iterator[bytes]:
    """The records' lines, what is shared put where it belongs. Raises ValueError for a reference to nothing."""
    shared: list[bytes] = []

    def entries(reference: re.Match[bytes]) -> bytes:
        first, end = int(reference[1]), int(reference[2])
        if not first < end <= len(shared):
            raise ValueError(f"a reference to {first}..{end} of {len(shared)} shared runs of entries")
        return b"[" + b",".join(shared[first:end]) + b"]"

    for line in text.split(b"\n"):
        if line.startswith(_SHARED):
            shared.append(line[len(_SHARED) + 1 : -2])
        elif line:
            yield _REFERENCES.sub(entries, line) if _REFERENCE in line else line
