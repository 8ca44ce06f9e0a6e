"""Snapshots in a trace: the state of all actors of a node after a delivered message.

Rule 1: a snapshot consists of lines of text. They are stored in separate frames (pieces), between the frames of
        records. Each frame names the delivery after which the state was taken. The pieces of a snapshot are in order,
        but other frames may be between them, because recording continues meanwhile.
Rule 2: each line except the last is [type name, payload]. The first line is a SystemState. An ActorState follows for
        each actor in the SystemState, in the same order. The last line, an End, has three values: the number of actors,
        whether they were at rest (otherwise no replay can begin at this snapshot), and the digest of the previous
        lines. A snapshot without End is incomplete and ignored.
Rule 3: equal systems have equal lines. At each snapshot, a replay of the run must have the state that the snapshot
        stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import msgspec

from messages.runtime import SystemState
from messages.trace.codec import MessageDecoder, encode
from messages.trace.errors import TraceError
from messages.trace.files.errors import Damaged
from messages.trace.files.frames import SNAPSHOT, Frame, read_frames
from messages.trace.forms import Boxed
from messages.trace.text import compress, decompress
from messages.vocabulary import AnyMessage

PIECE = 1 << 20
"""Maximum bytes of text in a piece, plus one line."""

_BEGINNING = b'["SystemState",'


class End(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of a snapshot, with the number of actors and a digest."""

    actors: int
    resting: bool
    digest: str


class Piece(NamedTuple):
    """A compressed part of a snapshot, and the number of lines in this part."""

    content: bytes
    lines: int


class Snapshot(NamedTuple):
    """A complete snapshot in a trace: for each frame of the snapshot, the file and the offset."""

    after: int
    created: int
    end: End
    places: tuple[tuple[Path, int], ...]

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the snapshot, except the last (End). Raises Damaged, OSError."""
        left = self.end.actors + 1
        for path, offset in self.places:
            with path.open("rb") as stream:
                stream.seek(offset)
                frame = next(read_frames(stream, path))
            for each in _lines(frame)[:left]:
                left -= 1
                yield each


def line(message: object) -> bytes:
    """Return a message as a line. Raises UnknownType, BadPayload."""
    name, payload = encode(message)
    return b'["%s",%s]' % (name.encode(), payload)


def message_of(line: bytes, codec: MessageDecoder) -> AnyMessage:
    """Return the message of a line. Raises UnknownType, BadPayload, msgspec.MsgspecError."""
    boxed = _BOXED.decode(line)
    return codec.decode(boxed.type, boxed.payload)


_BOXED = msgspec.json.Decoder(Boxed)


def pieces(lines: Iterable[bytes], resting: bool) -> Iterator[Piece]:
    """Yield the lines of a system and the End line, in pieces."""
    digest, waiting, size, count = _digest(), list[bytes](), 0, 0
    for each in lines:
        digest.update(each + b"\n")
        waiting.append(each)
        size += len(each)
        count += 1
        if size >= PIECE:
            yield Piece(compress(waiting), len(waiting))
            waiting, size = [], 0
    waiting.append(msgspec.json.encode(End(count - 1, resting, digest.hexdigest())))
    yield Piece(compress(waiting), len(waiting))


def digest_of(lines: Iterable[bytes]) -> str:
    """Return the digest of a snapshot's lines before End; the End line contains the same digest."""
    digest = _digest()
    for each in lines:
        digest.update(each + b"\n")
    return digest.hexdigest()


def _digest() -> blake2b:
    return blake2b(digest_size=16)


class SnapshotCollector:
    """Collects the complete snapshots while the frames of a trace are read; `found` lists the snapshots."""

    def __init__(self) -> None:
        self.found: list[Snapshot] = []
        self._places: list[tuple[Path, int]] = []
        self._after = self._created = self._lines = 0
        self._digest = _digest()

    def take(self, path: Path, frame: Frame) -> None:
        """Process the next frame. Raises Damaged if it does not fit the previous frames."""
        if frame.kind != SNAPSHOT:
            return
        try:
            lines = _lines(frame)
            if lines and lines[0].startswith(_BEGINNING):
                state = message_of(lines[0], _CODEC)
                if not isinstance(state, SystemState) or state.kernel.n != frame.after:
                    raise ValueError(
                        "the message number in the snapshot differs from the one in the header of its frame"
                    )
                self._places, self._after, self._created = [], frame.after, state.created
                self._lines, self._digest = 0, _digest()
            elif not self._places:
                return  # the beginning of the snapshot was removed with its segment
            elif frame.after != self._after:
                raise ValueError("the snapshot is incomplete: a part of another snapshot follows")
            self._places.append((path, frame.offset))
            if len(lines) != frame.records:
                raise ValueError(f"the frame of the trace file has {len(lines)} records, expected {frame.records}")
            self._read(lines)
        except (ValueError, TraceError) as error:  # msgspec's errors are ValueErrors
            raise Damaged(path, frame.offset, f"damaged snapshot, {error}") from error

    def _read(self, lines: list[bytes]) -> None:
        for each in lines[:-1]:
            self._digest.update(each + b"\n")
        last = lines[-1]
        self._lines += len(lines)
        if last.startswith(b"["):
            self._digest.update(last + b"\n")
            return
        end = msgspec.json.decode(last, type=End)
        if (end.actors, end.digest) != (self._lines - 2, self._digest.hexdigest()):
            raise ValueError("the snapshot has a wrong digest or a wrong number of actors")
        self.found.append(Snapshot(self._after, self._created, end, tuple(self._places)))
        self._places = []


_CODEC = MessageDecoder()


def _lines(frame: Frame) -> list[bytes]:
    """Return the lines of a piece. Raises ValueError."""
    return decompress(frame.content).split(b"\n")[:-1]
