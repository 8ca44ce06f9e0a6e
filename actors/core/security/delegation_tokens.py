"""When a delegation token expires, and who may change that (KIP-48). Kafka: `DelegationTokenManager`."""

from __future__ import annotations

from actors.core.refusal import Refused
from messages import errors
from messages.delegation_tokens import DelegationToken
from messages.node_settings import NodeSettings


def create_token(
    id: str,
    owner: str,
    requester: str,
    renewers: tuple[str, ...],
    lifetime_ms: int,
    now_ms: int,
    settings: NodeSettings,
) -> DelegationToken:
    """Return a new token. `lifetime_ms` is its longest life; if it is not positive, the setting applies.

    Raises:
        Refused: A renewer is no user.
    """
    if not all(renewer.startswith("User:") for renewer in renewers):
        raise Refused("", errors.INVALID_PRINCIPAL_TYPE)
    longest = settings.delegation_token_max_lifetime_ms
    max_ms = now_ms + (min(lifetime_ms, longest) if lifetime_ms > 0 else longest)
    expires_ms = min(max_ms, now_ms + settings.delegation_token_expiry_time_ms)
    return DelegationToken(id, owner, requester, renewers, now_ms, expires_ms, max_ms)


def prolong(
    token: DelegationToken | None, principal: str, period_ms: int, now_ms: int, default_ms: int
) -> DelegationToken:
    """Return a token that expires after this time, but not after its longest life.

    Args:
        token: The token; None if it does not exist.
        principal: The client that asks for it.
        period_ms: Milliseconds from now; negative means `default_ms`.
        now_ms: The time.
        default_ms: Milliseconds from now.

    Raises:
        Refused: The client may not do that, or the token has expired.
    """
    if token is None:
        raise Refused("", errors.DELEGATION_TOKEN_NOT_FOUND)
    if principal not in token.principals:
        raise Refused("", errors.DELEGATION_TOKEN_OWNER_MISMATCH)
    if min(token.max_ms, token.expires_ms) < now_ms:
        raise Refused("", errors.DELEGATION_TOKEN_EXPIRED)
    return token._replace(expires_ms=min(token.max_ms, now_ms + (default_ms if period_ms < 0 else period_ms)))
