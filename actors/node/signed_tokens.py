"""SignedTokens validates signed OAUTHBEARER tokens by a local set of keys (KIP-768).

Rule 1: only asymmetric signatures count: the keys in the file cannot sign.
Rule 2: if a token names an unknown key, the file is read again if it has changed.

Kafka: `OAuthBearerValidatorCallbackHandler`, `JwksFileVerificationKeyResolver`.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actors.core.security.oauthbearer import Unacceptable, identity_of
from actors.core.security.sasl_exchange import SaslIdentity

ALGORITHMS = (*(f"{kind}{bits}" for kind in ("RS", "PS", "ES") for bits in (256, 384, 512)), "EdDSA")


class SignedTokens:
    """The tokens that a listener accepts.

    Args:
        file: The keys, as a JSON Web Key Set.
        audiences: A token must name one of them; none: any.
        issuer: A token must name it; "": any.
        skew: Seconds by which clocks may differ.
        subject: The claim that names the user.

    Raises:
        ValueError: The file has no usable keys, or PyJWT is not installed.
        OSError: The file cannot be read.
    """

    def __init__(self, file: Path, audiences: Sequence[str], issuer: str, skew: float, subject: str) -> None:
        try:
            self._jwt: Any = importlib.import_module("jwt")
        except ImportError:
            raise ValueError("signed OAUTHBEARER tokens need PyJWT: pip install 'kafka-actors[security]'") from None
        self._file, self._subject, self._skew = file, subject, skew
        self._expected: dict[str, Any] = {"audience": [*audiences] or None, "issuer": issuer or None}
        self._keys: dict[str | None, Any] = {}
        self._changed_at = 0
        self._read()

    def _read(self) -> None:
        changed_at = self._file.stat().st_mtime_ns
        if changed_at == self._changed_at:
            return
        try:
            keys = self._jwt.PyJWKSet.from_json(self._file.read_text()).keys
        except (self._jwt.PyJWTError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{self._file} has no keys: {error}") from None
        self._keys, self._changed_at = {key.key_id: key.key for key in keys}, changed_at

    def validate_token(self, token: str, now: float) -> SaslIdentity:
        """Return whom a token names; `now` is in seconds since 1970. Raises Unacceptable."""
        try:
            key_id = self._jwt.get_unverified_header(token).get("kid")
            if key_id not in self._keys:
                self._read()
            claims = self._jwt.decode(
                token,
                self._keys[key_id],
                algorithms=[*ALGORITHMS],
                leeway=self._skew,
                options={"require": ["exp"], "verify_aud": self._expected["audience"] is not None},
                **self._expected,
            )
            return identity_of(claims, self._subject, now)
        except (self._jwt.PyJWTError, ValueError, KeyError, TypeError, OSError):
            raise Unacceptable("invalid_token", None) from None
