"""The SASL authentication of a connection: it handles the frames that no actor may see.

Rule 1: a client that is not authenticated within DEADLINE seconds, or connections.max.idle.ms, is disconnected
        (`Deadlines`).
Rule 2: nothing of these frames is recorded. The request handler receives the outcome (`ClientsAuthenticated`,
        `AuthenticationsFailed`).
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from itertools import takewhile
from typing import Protocol

from actors.core.security.listener_security import ListenerSecurity
from actors.core.security.sasl_server import HANDSHAKE, SaslAnswer, SaslServer, SaslState
from actors.runtime import RealClock
from messages.apis.sasl_handshake import SaslHandshakeResponse
from messages.vocabulary import Message
from messages.wire import RequestHeader, WireError, decode_request, encode_response
from messages.wire.data_plane import Data, Piece

DEADLINE = 30.0


class Authenticated(Protocol):
    """The connection that is authenticated."""

    def write_now(self, piece: Piece) -> None:
        """Send bytes at once."""

    def end(self, piece: Piece, delay: float) -> None:
        """Read nothing more; after `delay` seconds, send bytes and close."""

    def accept(self, principal: str, mechanism: str, lifetime_ms: int) -> None:
        """Accept the requests of this principal from now on."""

    def authentication_failed(self, mechanism: str, reason: str) -> None:
        """Count and log a failure."""

    def abort(self) -> None:
        """Close at once."""


class Deadlines:
    """The connections of clients that have not authenticated yet, the oldest first, with one timer for all (rule 1).

    A timer for each took 0.3 KB of a silent connection.
    """

    def __init__(self, max_idle_ms: int) -> None:
        self._seconds = min(DEADLINE, max_idle_ms / 1000) if max_idle_ms >= 0 else DEADLINE
        self._due: dict[Authenticated, float] = {}
        """Connection -> the loop's time at which it ends."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, connection: Authenticated) -> None:
        """Disconnect this client in time, unless it is removed."""
        self._due[connection] = RealClock.now() + self._seconds
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end_due)

    def remove(self, connection: Authenticated) -> None:
        """Let this client stay, if it was added."""
        self._due.pop(connection, None)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _end_due(self) -> None:
        loop, due, now = asyncio.get_running_loop(), self._due, RealClock.now()
        for connection in [*takewhile(lambda each: due[each] <= now, due)]:
            del due[connection]
            connection.abort()
        self._timer = loop.call_at(next(iter(due.values())), self._end_due) if due else None


class SaslAuthentication:
    """The server's side of SASL on one connection."""

    __slots__ = "_connection", "_release", "_security", "_server"

    def __init__(self, connection: Authenticated, security: ListenerSecurity, release: str) -> None:
        self._connection, self._security, self._release = connection, security, release
        self._server: SaslServer | None = None
        """None until the first frame: silent clients must not fill the memory."""

    @property
    def by_token(self) -> bool:
        """Whether the client has authenticated with a delegation token."""
        return self._server is not None and self._server.by_token

    def close(self) -> None:
        """Break the reference cycle with the connection, so that reference counting frees both."""
        del self._connection

    def take(self, frame: Data) -> bool:
        """Handle a frame; return False if it is an ordinary request of an authenticated client."""
        now = RealClock.now()
        if self._server is None:
            self._server = SaslServer(self._security.mechanisms, self._release)
        server = self._server
        if server.state is SaslState.COMPLETE:
            if not server.concerns(int.from_bytes(frame[:2], "big"), now):
                return False
        elif server.state is SaslState.TOKENS:
            self._carry_out(server, server.token(bytes(frame), now), None)
            return True
        elif not frame or not server.admits(int.from_bytes(frame[:2], "big")):
            self._carry_out(
                server, SaslAnswer(None, "Unexpected Kafka request before the SASL handshake", fails=True), None
            )
            return True
        try:
            header, request = decode_request(frame)
        except WireError as error:
            self._carry_out(server, SaslAnswer(None, str(error)), None)
            return True
        answer = server.request(request, now)
        if answer is not None:
            self._carry_out(server, answer, header)
        return answer is not None

    def _carry_out(self, server: SaslServer, answer: SaslAnswer, header: RequestHeader | None) -> None:
        response = answer.response
        if isinstance(response, bytes):
            piece = len(response).to_bytes(4, "big") + response
        else:
            piece = b"" if response is None or header is None else _encode(header, response)
        if answer.closes:
            self._connection.authentication_failed(server.mechanism, answer.closes)
            self._connection.end(piece, self._security.failure_delay if answer.fails else 0.0)
            return
        if piece:
            self._connection.write_now(piece)
        if answer.authenticated:
            self._connection.accept(str(server.principal), server.mechanism, server.lifetime_ms)


def _encode(header: RequestHeader, response: Message) -> bytes:
    """Encode a response; all clients of a listener get the same one to SaslHandshake."""
    if isinstance(response, SaslHandshakeResponse):
        frame = _encode_handshake(header.version, response)
        return frame[:4] + header.correlation_id.to_bytes(4, "big", signed=True) + frame[8:]
    return encode_response(header, response)


@lru_cache(maxsize=32)
def _encode_handshake(version: int, response: SaslHandshakeResponse) -> bytes:
    return encode_response(RequestHeader(HANDSHAKE, version, 0, ""), response)
