"""The text in a frame of a trace: one line of JSON for each record; content that records share is stored once.

Rule 1: a line that begins with "[" is a record (`messages.trace.schema`).
Rule 2: a line {"shared":[...]} has consecutive entries of long tuples. These lines are numbered from 0 in the frame. In
        a record, {"@":[i,j]} in place of a tuple means the entries of the lines i up to but not including j. Entries
        are only shared within a frame, so each frame can be read by itself. A line
        {"rows":[message,version,[[topic,bytes],...], [[k,n],...]]} is numbered in the same sequence. It has the
        entries of one part of a large message, encoded in Kafka's protocol at `version`. The part caches these bytes,
        because the message on the network needs them as well (`messages.wire.parts`).
Rule 3: a run that is recorded by its inputs (`schema.INPUTS`) has lines {"sent":[...]}. Such a line has several
        consecutive deliveries, column by column. Their messages come from actors or timers. The payloads are omitted,
        because a replay sends these messages again. Messages from outside are records as in rule 1.
Rule 4: message fields are never called "@", and quotes inside strings are escaped. References can therefore be found
        and replaced as text, and `record_lines` returns plain JSON.
Rule 5: all work is done in small steps even for large messages: entries are encoded in groups of a few hundred, text
        is compressed in pieces, and the next frame frees the long tuples of the one before one at a time.
"""

from __future__ import annotations

import operator
import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from messages.parts import Part
from messages.trace import codec
from messages.trace.errors import TraceError
from messages.trace.forms import Plain
from messages.trace.schema import NO_PAYLOAD, OUTSIDE, Effect, TraceRecord
from messages.wire.parts import PartRows, entries_of, rows_of
from messages.wire.zstd import zstd

ENTRIES = 500
"""Entries of a long tuple encoded in one step (about 0.3 ms)."""
DELIVERIES = 64
"""Maximum number of deliveries encoded in one step."""
COLUMNS = 256
"""Maximum number of deliveries converted to columns in one step."""
PIECE = 1 << 16
"""Bytes of text compressed in one step."""
READ = 1 << 16
"""Approximate bytes decoded in one step; its records still fit into a processor's cache."""
LEVEL = 1
"""Compression level."""

_SHARED = b'{"shared":'
ROWS = b'{"rows":'
"""The beginning of a line whose entries are not text (rule 2)."""
_SENT = b'{"sent":'
_REFERENCE = b'{"@":['
_REFERENCES = re.compile(rb'\{"@":\[(\d+),(\d+)\]\}')
_TYPE, _PAYLOAD = map(TraceRecord.__struct_fields__.index, ("type", "payload"))
"""The positions of these columns in a record."""


class FrameText(codec.MessageEncoder):
    """Encodes trace records as the compressed text of one frame.

    Add records with `take`, then call `step` until it returns False. If `inputs` is true, messages that actors sent are
    written without payloads (rule 3).
    """

    def __init__(
        self, compressor: zstd.ZstdCompressor | None = None, inputs: bool = False, before: FrameText | None = None
    ) -> None:
        self.records = 0
        """The number of records taken, and the delivery number of the last one."""
        self.last = 0
        self._inputs = inputs
        self._compressor = compressor or zstd.ZstdCompressor(level=LEVEL)
        self._compressed: list[bytes] = []
        self._compressed_from = 0
        self._lines = bytearray()
        self._rows: list[Any] = []
        self._known: dict[tuple[int, int, int], tuple[tuple[Any, ...], msgspec.Raw | Exception]] = {}
        self._freed = {} if before is None else before._known
        self._unwritten: deque[tuple[tuple[int, int, int], tuple[Any, ...], Plain | None, Part | None]] = deque()
        self._shared = 0

    @property
    def size(self) -> int:
        """Bytes of text so far, before compression."""
        return self._compressed_from + len(self._lines)

    def take(self, waiting: deque[Any]) -> None:
        """Take deliveries or TraceRecords from the left end of `waiting`, as many as one step may encode.

        A TraceRecord is written unchanged. A delivery is a tuple of a record's columns, with the message in place of
        type and payload: n, kind, cause, event_id, sender, receiver, actor, message, queued_at, taken_at, finished_at,
        effects, error.
        """
        if self._inputs:
            self._take_inputs(waiting)
        else:
            self._take_rows(waiting)

    def _take_inputs(self, waiting: deque[Any]) -> None:
        batch = [waiting.popleft() for _ in range(min(len(waiting), COLUMNS))]
        own = [place for place, taken in enumerate(batch) if taken.__class__ is TraceRecord or taken[1] == OUTSIDE]
        start = 0
        for place in (*own, len(batch)):
            if start < place:
                self._rows.append({"sent": _columns(batch[start:place])})
                self.records += place - start
                self.last = batch[place - 1][0]
            start = place + 1
            if place < len(batch):
                self._take_rows(deque((batch[place],)))
                if self._unwritten:
                    waiting.extendleft(reversed(batch[start:]))
                    break

    def _take_rows(self, waiting: deque[Any]) -> None:
        rows, box, popleft = self._rows, self.box, waiting.popleft
        before = len(rows)
        for _ in range(min(len(waiting), DELIVERIES)):
            taken = popleft()
            if taken.__class__ is TraceRecord:
                rows.append(taken)
                continue
            n, kind, cause, event_id, sender, to, actor, message, queued_at, taken_at, done_at, effects, error = taken
            try:
                type_, payload = box(message)
            except (TraceError, *codec.UNFIT) as reason:
                type_, payload = _without_form(message, reason)
            # Building rows is most of the cost of recording. So this is one expression, and inlines `address_text`.
            rows.append(
                (
                    n,
                    kind,
                    cause,
                    event_id,
                    from_ if (from_ := sender._aaddr).__class__ is str else codec.address_text(sender),
                    text if (text := to._aaddr).__class__ is str else codec.address_text(to),
                    actor,
                    type_,
                    queued_at,
                    taken_at,
                    done_at,
                    payload,
                    effects,
                    error,
                )
            )
            if self._unwritten:
                break
        self.records += len(rows) - before
        last = rows[-1]
        self.last = last.n if last.__class__ is TraceRecord else last[0]

    def step(self) -> bool:
        """Do a small amount of work; return False if no work is left."""
        if len(self._lines) >= PIECE:
            self._compress()
        elif self._unwritten:
            self._write_shared()
        elif self._rows:
            self._write_rows()
        elif self._freed:
            self._freed.popitem()
        else:
            return False
        return True

    def finish(self) -> bytes:
        """Return the compressed text of the frame; the object cannot be used afterwards."""
        while self.step():
            pass
        self._compress()
        self._compressed.append(self._compressor.flush())
        return b"".join(self._compressed)

    def share(self, value: tuple[Any, ...], plain: Plain | None, part: Part | None = None) -> Any:
        """Return a reference to the tuple's entries; tuples with identical entry objects get the same reference."""
        key = len(value), id(value[0]), id(value[-1])
        known = self._known.get(key)
        if known is None or not (known[0] is value or all(map(operator.is_, known[0], value))):
            first = self._shared
            step = ENTRIES if part is None else len(value)
            for start in range(0, len(value), step):
                self._unwritten.append((key, value[start : start + step], plain, part))
                self._shared += 1
            reference = msgspec.Raw(b"%b%d,%d]}" % (_REFERENCE, first, self._shared))
            known = self._known[key] = value, reference  # keep the tuple alive, because a freed id could be reused
        if isinstance(known[1], Exception):
            raise known[1]
        return known[1]

    def _write_shared(self) -> None:
        key, entries, plain, part = self._unwritten.popleft()
        rows = None if part is None else rows_of(part)
        if rows is not None:
            self._lines += ROWS + codec.ENCODER.encode(rows) + b"}\n"
            return
        try:
            line = codec.ENCODER.encode(entries if plain is None else [plain(entry, _INLINE) for entry in entries])
        except (TraceError, *codec.UNFIT) as reason:
            # The entries of this line cannot be encoded, so the line is empty. At this time only the newest row refers
            # to the line, and `_unfit` replaces the row's payload.
            line = b"[]"
            self._known[key] = self._known[key][0], reason
            self._rows[-1] = _unfit(self._rows[-1], reason)
        self._lines += _SHARED + line + b"}\n"

    def _write_rows(self) -> None:
        rows, self._rows = self._rows, []
        try:
            self._lines += codec.ENCODER.encode_lines(rows)
        except (TraceError, *codec.UNFIT):
            for row in rows:
                try:
                    line = codec.ENCODER.encode(row)
                except (TraceError, *codec.UNFIT) as reason:
                    line = codec.ENCODER.encode(_unfit(row, reason))
                self._lines += line + b"\n"

    def _compress(self) -> None:
        self._compressed.append(self._compressor.compress(self._lines))
        self._compressed_from += len(self._lines)
        self._lines = bytearray()


_INLINE = codec.MessageEncoder()


class RecordColumns(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Consecutive trace records that have no payloads, stored by column; `first` is the number of the first record.

    `effects` and `errors` have entries only for records with effects or an error: (index of the record, value).
    """

    first: int
    kinds: tuple[str, ...]
    causes: tuple[int, ...]
    events: tuple[int, ...]
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    types: tuple[str, ...]
    queued: tuple[float, ...]
    taken: tuple[float, ...]
    finished: tuple[float, ...]
    effects: tuple[tuple[int, tuple[Effect, ...]], ...]
    errors: tuple[tuple[int, str], ...]

    def records(self) -> Iterator[TraceRecord]:
        """Yield each record without a payload. Raises ValueError if the columns have different lengths."""
        effects, errors = dict(self.effects), dict(self.errors)
        columns = (self.kinds, self.causes, self.events, self.senders, self.receivers, self.types)
        rows = zip(*columns, self.queued, self.taken, self.finished, strict=True)
        for place, (kind, cause, event_id, sender, receiver, type_, queued, taken, finished) in enumerate(rows):
            actor = "" if receiver.startswith("outside:") else receiver.rpartition(".")[0]
            made, error = effects.pop(place, ()), errors.pop(place, None)
            yield TraceRecord(
                *(self.first + place, kind, cause, event_id, sender, receiver, actor, type_, queued, taken, finished),
                *(NO_PAYLOAD, made, error),
            )
        if effects or errors:
            raise ValueError("the trace block has I/O calls or errors, but not the delivery to which they belong")


def _columns(batch: list[Any]) -> tuple[Any, ...]:
    """Return the columns of deliveries, in the order of RecordColumns' fields. zip makes this fast."""
    n, kinds, causes, events, senders, receivers, _, content, queued, taken, finished, effects, errors = zip(
        *batch, strict=True
    )
    return (
        n[0],
        kinds,
        causes,
        events,
        [text if (text := each._aaddr).__class__ is str else codec.address_text(each) for each in senders],
        [text if (text := each._aaddr).__class__ is str else codec.address_text(each) for each in receivers],
        [message.__class__.__name__ for message in content],
        queued,
        taken,
        finished,
        [(place, made) for place, made in enumerate(effects) if made] if any(effects) else (),
        [(place, error) for place, error in enumerate(errors) if error is not None] if any(errors) else (),
    )


def _without_form(message: object, reason: Exception) -> tuple[str, Any]:
    """Return (type name, payload that contains `reason`) for a message without a JSON form."""
    name = type(message).__name__
    return name, codec.unencodable(reason if isinstance(reason, TraceError) else codec.unfit(name, reason))


def _unfit(row: tuple[Any, ...], reason: Exception) -> tuple[Any, ...]:
    """Return a record's columns with `reason` in place of the payload."""
    error = reason if isinstance(reason, TraceError) else codec.unfit(row[_TYPE], reason)
    return (*row[:_PAYLOAD], codec.unencodable(error), *row[_PAYLOAD + 1 :])


def compress(lines: Iterable[bytes]) -> bytes:
    """Return lines as the compressed text of a frame."""
    return zstd.compress(b"".join(line + b"\n" for line in lines), level=LEVEL)


def decompress(content: bytes) -> bytes:
    """Return the text of a frame. Raises ValueError if it is damaged."""
    try:
        return zstd.decompress(content)
    except zstd.ZstdError as error:
        raise ValueError(str(error)) from error


_decode = msgspec.json.Decoder(TraceRecord).decode
_decode_all = msgspec.json.Decoder(list[TraceRecord]).decode
_decode_rows = msgspec.json.Decoder(PartRows).decode
_decode_sent = msgspec.json.Decoder(dict[str, RecordColumns]).decode


def records_of(line: bytes) -> tuple[TraceRecord, ...]:
    """Return the record of a line, or the records of a "sent" line (rule 3). Raises ValueError for any other line."""
    if line.startswith(_SENT):
        [sent] = _decode_sent(line).values()
        return tuple(sent.records())
    return (_decode(line),)


def batches(text: bytes) -> Iterator[list[TraceRecord] | bytes]:
    """Yield the records of a text in batches; a line that is not a record is yielded unchanged as bytes.

    Raises:
        ValueError: A line refers to lines that do not exist.
    """
    text = text.strip(b"\n")
    start = 0
    while start < len(text):  # decode piece by piece, up to the first line that refers to shared lines
        end = text.find(b"\n", start + READ)
        piece = text[start:] if end < 0 else text[start:end]
        records = None if b"@" in piece and _REFERENCE in piece else _all_of(piece)
        if records is None:
            break
        yield records
        start += len(piece) + 1
    for piece in _pieces(record_lines(text[start:])):
        records = _all_of(piece)
        if records is not None:
            yield records
            continue
        for line in piece.split(b"\n"):
            try:
                yield list(records_of(line))
            except ValueError:
                yield line


def _all_of(piece: bytes) -> list[TraceRecord] | None:
    """Return the records of some lines; None if a line is not a plain record."""
    try:
        return _decode_all(b"[" + piece.replace(b"\n", b",") + b"]")
    except ValueError:
        return None


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines in groups of about READ bytes; a line of several deliveries is a group of its own."""
    gathered: list[bytes] = []
    size = 0
    for line in lines:
        if size >= READ or (gathered and line.startswith(_SENT)):
            yield b"\n".join(gathered)
            gathered, size = [], 0
        gathered.append(line)
        size += READ if line.startswith(_SENT) else len(line)
    if gathered:
        yield b"\n".join(gathered)


def record_lines(text: bytes) -> Iterator[bytes]:
    """Yield the lines of records, with each reference replaced by the entries of the shared lines that it names.

    Raises:
        ValueError: A reference names shared lines that do not exist.
    """
    shared: list[bytes] = []

    def entries(reference: re.Match[bytes]) -> bytes:
        first, end = int(reference[1]), int(reference[2])
        if not first < end <= len(shared):
            raise ValueError(
                f"a trace record refers to shared entries {first} to {end}, but its frame has only {len(shared)}"
            )
        return b"[" + b",".join(shared[first:end]) + b"]"

    for line in text.split(b"\n"):
        if line.startswith(_SHARED):
            shared.append(line[len(_SHARED) + 1 : -2])
        elif line.startswith(ROWS):
            shared.append(codec.ENCODER.encode(entries_of(_decode_rows(line[len(ROWS) : -1])))[1:-1])
        elif line:
            yield _REFERENCES.sub(entries, line) if _REFERENCE in line else line
