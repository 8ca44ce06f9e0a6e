"""Delegation tokens: what identifies a token, and the message with those that are valid (KIP-48).

The secret of a token, its HMAC, is in no message: a listener computes it from the token's id (`actors.gateway.vault`).
"""

from __future__ import annotations

from typing import NamedTuple

from messages.vocabulary import Message, message


class DelegationToken(NamedTuple):
    """A token that authenticates its owner, in any client that has the token's secret.

    Attributes:
        id: The token's id.
        owner: The principal that it authenticates.
        requester: The principal that has created it.
        renewers: Principals that may renew it, in addition to its owner.
        issued_ms: When it was created (ms since 1970).
        expires_ms: When it expires unless it is renewed.
        max_ms: The latest time at which it can expire.
    """

    id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def principals(self) -> tuple[str, ...]:
        """Who owns the token, or may renew it."""
        return self.owner, *self.renewers


@message
class DelegationTokensChanged(Message):
    """A message to the listener: these tokens are valid now, and the removed ones are not.

    If `all`, no other token is valid.
    """

    tokens: tuple[DelegationToken, ...]
    removed: tuple[str, ...] = ()
    all: bool = False
