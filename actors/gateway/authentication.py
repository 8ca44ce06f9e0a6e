"""The SASL authentication of a connection: it handles the frames that no actor may see.

Rule 1: a client that is not authenticated within DEADLINE seconds, or connections.max.idle.ms, is disconnected.
Rule 2: nothing of these frames is recorded. The request handler receives the outcome (`ClientsAuthenticated`,
        `AuthenticationsFailed`).
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from actors.core.security.listener_security import ListenerSecurity
from actors.core.security.sasl_server import SaslAnswer, SaslServer, SaslState
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


def handshake_seconds(max_idle_ms: int) -> float:
    """Return the seconds within which a client must authenticate (rule 1)."""
    return min(DEADLINE, max_idle_ms / 1000) if max_idle_ms >= 0 else DEADLINE


class SaslAuthentication:
    """The server's side of SASL on one connection."""

    __slots__ = "_connection", "_deadline", "_security", "_server"

    def __init__(self, connection: Authenticated, security: ListenerSecurity, max_idle_ms: int, release: str) -> None:
        self._connection, self._security = connection, security
        self._server = SaslServer(security.mechanisms, release)
        self._deadline = asyncio.get_running_loop().call_later(handshake_seconds(max_idle_ms), connection.abort)

    @property
    def by_token(self) -> bool:
        """Whether the client has authenticated with a delegation token."""
        return self._server.by_token

    def close(self) -> None:
        """Stop the timer."""
        self._deadline.cancel()

    def take(self, frame: Data) -> bool:
        """Handle a frame; return False if it is an ordinary request of an authenticated client."""
        server, now = self._server, asyncio.get_running_loop().time()
        if server.state is SaslState.COMPLETE:
            if not server.concerns(int.from_bytes(frame[:2], "big"), now):
                return False
        elif server.state is SaslState.TOKENS:
            self._carry_out(server.token(bytes(frame), now), None)
            return True
        elif not frame or not server.admits(int.from_bytes(frame[:2], "big")):
            self._carry_out(SaslAnswer(None, "Unexpected Kafka request before the SASL handshake", fails=True), None)
            return True
        try:
            header, request = decode_request(bytes(frame))
        except WireError as error:
            self._carry_out(SaslAnswer(None, str(error)), None)
            return True
        answer = server.request(request, now)
        if answer is not None:
            self._carry_out(answer, header)
        return answer is not None

    def _carry_out(self, answer: SaslAnswer, header: RequestHeader | None) -> None:
        piece = _encode(header, answer.response)
        if answer.closes:
            self._connection.authentication_failed(self._server.mechanism, answer.closes)
            self._connection.end(piece, self._security.failure_delay if answer.fails else 0.0)
            return
        if piece:
            self._connection.write_now(piece)
        if answer.authenticated:
            self._deadline.cancel()
            server = self._server
            self._connection.accept(str(server.principal), server.mechanism, server.lifetime_ms)


def _encode(header: RequestHeader | None, response: Message | bytes | None) -> bytes:
    if isinstance(response, bytes):
        return len(response).to_bytes(4, "big") + response
    return b"" if response is None or header is None else encode_response(header, response)
