"""OAUTHBEARER: its messages, and unsecured tokens, in which anyone may claim any name (RFC 7628; RFC 7515, alg none).

Rule 1: a token that is not acceptable is answered with its status in JSON. The authentication fails when the client has
        acknowledged the status.
Rule 2: unlike Kafka, a token may have the URL-safe alphabet of base64, which real clients use.

Kafka: `OAuthBearerSaslServer`, `OAuthBearerUnsecuredJws`, `OAuthBearerValidationUtils`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Callable, Generator, Mapping

from actors.core.security.jaas import JaasEntry
from actors.core.security.sasl_exchange import (
    OTHER_AUTHORIZATION_ID,
    SASL_NAME,
    AuthenticationFailed,
    Exchange,
    SaslIdentity,
    unescape,
)
from messages.vocabulary import value_class

OAUTHBEARER = "OAUTHBEARER"
VALIDATOR = "OAuthBearerUnsecuredValidatorCallbackHandler"
"""Kafka's default class for the validation of tokens, which takes unsecured ones."""
MOST_SECONDS = 1 << 40

_PAIRS = r"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{SASL_NAME}))?,\x01(?P<pairs>{_PAIRS})\x01")
_BEARER = re.compile(r"bearer +(?P<token>[-_.+/a-zA-Z0-9]+=*)", re.IGNORECASE)
_URL_SAFE = str.maketrans("-_", "+/")
_STRING, _LIST, _NUMBER = (f"unsecuredLogin{kind}Claim_" for kind in ("String", "List", "Number"))
_EXTENSION = "unsecuredLoginExtension_"


@value_class
class TokenRules:
    """What a listener demands of tokens.

    Attributes:
        principal: The claim that names the user.
        scope: The claim with the token's scopes.
        scopes: The scopes that a token must have.
        skew: Seconds by which the clock of a client may differ.
    """

    principal: str = "sub"
    scope: str = "scope"
    scopes: tuple[str, ...] = ()
    skew: float = 0.0


def token_rules(entry: JaasEntry) -> TokenRules:
    """Return the rules in a JAAS entry. Raises ValueError."""

    def option(name: str, default: str) -> str:
        return entry.option(f"unsecuredValidator{name}") or default

    skew = option("AllowableClockSkewMs", "0")
    if not skew.isdecimal():
        raise ValueError("unsecuredValidatorAllowableClockSkewMs takes milliseconds")
    scopes = tuple(option("RequiredScope", "").split())
    return TokenRules(option("PrincipalClaimName", "sub"), option("ScopeClaimName", "scope"), scopes, int(skew) / 1000)


class Unacceptable(Exception):
    """The token is not acceptable; the arguments are the status and, if they are missing, the scopes."""


def validate_token(token: str, now: float, rules: TokenRules = TokenRules()) -> SaslIdentity:
    """Return whom an unsecured token names; `now` is in seconds since 1970. Raises Unacceptable."""
    parts = token.split(".")
    try:
        header, claims = (json.loads(_decode_part(part), parse_constant=_refuse_constant) for part in parts[:2])
        if not isinstance(header, dict) or "alg" not in header:
            raise AuthenticationFailed  # Kafka's validator fails, and closes the connection
        if len(parts) != 3 or parts[2] or header["alg"] != "none":
            raise ValueError("it is signed, or has not three parts")
        identity = identity_of(claims, rules.principal, now)
        expires, issued = _number(claims["exp"]), _number(claims.get("iat", 0))
        if issued > now + rules.skew or not now - rules.skew < expires or ("iat" in claims and expires <= issued):
            raise ValueError("it is not valid now")
        scopes = claims.get(rules.scope, [])
        scopes = [scopes] if isinstance(scopes, str) else list(scopes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unacceptable("invalid_token", None) from None
    if not set(rules.scopes) <= {each for each in scopes if isinstance(each, str)}:
        raise Unacceptable("insufficient_scope", f"[{', '.join(rules.scopes)}]")
    return identity


def identity_of(claims: Mapping[str, object], principal: str, now: float) -> SaslIdentity:
    """Return whom valid claims name, and how long they are valid. Raises ValueError, KeyError or TypeError."""
    user = claims[principal]
    if not isinstance(user, str) or not user.strip():
        raise ValueError("they have no user")
    return SaslIdentity(user, max(1, int(min(_number(claims["exp"]) - now, MOST_SECONDS) * 1000)))


def _decode_part(part: str) -> bytes:
    return base64.b64decode(part.translate(_URL_SAFE).rstrip("=") + "=" * (-len(part.rstrip("=")) % 4), validate=True)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("it is no number")
    return float(value)


def oauthbearer(validate: Callable[[str, float], SaslIdentity], now: Callable[[], float]) -> Exchange:
    """Return the steps of an exchange.

    Args:
        validate: Function (token, seconds since 1970) -> whom it names. Raises Unacceptable.
        now: Returns the seconds since 1970.
    """
    failure = ""

    def exchange(message: bytes) -> tuple[bytes, SaslIdentity | None]:
        nonlocal failure
        if failure:
            raise AuthenticationFailed(failure)
        first = _FIRST.fullmatch(message.decode("ascii", "replace"))
        pairs = dict(pair.split("=", 1) for pair in first["pairs"].split("\x01")[:-1]) if first else {}
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if first is None or bearer is None:
            raise AuthenticationFailed()
        try:
            identity = validate(bearer["token"], now())
        except Unacceptable as reason:
            status, scopes = reason.args
            failure = json.dumps({"status": status} | ({"scope": scopes} if scopes else {}), separators=(",", ":"))
            return failure.encode(), None
        if first["authzid"] is not None and unescape(first["authzid"]) != identity.user:
            raise AuthenticationFailed(OTHER_AUTHORIZATION_ID)
        return b"", identity

    return exchange


def login(entry: JaasEntry, now: Callable[[], float]) -> Callable[[], Generator[bytes, bytes, None]] | None:
    """Return the client's side of exchanges with the claims in a JAAS entry; None if it has no claims.

    Raises:
        ValueError: A claim is invalid.
    """
    options = {name: entry.option(name) for name in entry.options}
    claims: dict[str, object] = dict(_with_prefix(options, _STRING))
    claims |= {name: text[1:].split(text[:1]) for name, text in _with_prefix(options, _LIST).items()}
    claims |= {name: float(text) for name, text in _with_prefix(options, _NUMBER).items()}
    seconds = float(options.get("unsecuredLoginLifetimeSeconds", "3600"))
    if not claims:
        return None
    extensions = "".join(f"{name}={text}\x01" for name, text in _with_prefix(options, _EXTENSION).items())

    def messages() -> Generator[bytes, bytes, None]:
        issued = now()
        token = ".".join(map(_encode_part, ({"alg": "none"}, {"iat": issued, "exp": issued + seconds} | claims)))
        response = yield f"n,,\x01auth=Bearer {token}.\x01{extensions}\x01".encode()
        if response:
            yield b"\x01"  # the server answers with the failure

    return messages


def _with_prefix(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in options.items() if name.startswith(prefix)}


def _encode_part(value: object) -> str:
    return base64.b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")
