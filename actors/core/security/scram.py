"""SCRAM-SHA-256 and SCRAM-SHA-512: credentials, and both sides of an exchange (RFC 5802).

Rule 1: as in Kafka, names and passwords are not normalised (no SASLprep), and a name contains ASCII characters only.
Rule 2: unlike Kafka 3.9.1, the final message must repeat the whole nonce and the channel binding of the first message
        (CVE-2024-56128). An unknown user gets a challenge too, and fails only at the end, so that a stranger cannot
        find out which users exist.

Kafka: `ScramSaslServer`, `ScramSaslClient`, `ScramFormatter`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable, Generator

import attrs

from actors.core.security.sasl_exchange import (
    OTHER_AUTHORIZATION_ID,
    SASL_NAME,
    AuthenticationFailed,
    SaslIdentity,
    escape,
    unescape,
)
from messages.security import Secret

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_HASHES = {"sha256": (hashlib.sha256, 64), "sha512": (hashlib.sha512, 128)}
"""The functions, and their blocks in bytes."""
_INNER, _OUTER = (bytes(each ^ pad for each in range(256)) for pad in (0x36, 0x5C))
MIN_ITERATIONS = 4096
MAX_ITERATIONS = 16384
"""Maximum number that Kafka accepts for a new credential."""
MOST_ITERATIONS = 1_000_000
"""Maximum number that a client computes for a server."""

_NONCE = r"[\x21-\x2b\x2d-\x7e]+"
_EXTENSIONS = r"(?P<extensions>(?:,[A-Za-z]+=[\x01-\x2b\x2d-\x7f]++)*)"
"""A value is matched possessively (++): a proof looks like one, and going back through it took 5 % of a login."""
_BASE64 = r"[A-Za-z0-9+/]+={0,2}"
_CLIENT_FIRST = re.compile(
    rf"(?P<binding>n,(?:a=(?P<authzid>{SASL_NAME}))?,)(?P<bare>n=(?P<name>{SASL_NAME}),r=(?P<nonce>{_NONCE}){_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(rf"r=(?P<nonce>{_NONCE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[1-9][0-9]{{0,9}})(?:,.*)?")
_CLIENT_FINAL = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_NONCE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
BY_TOKEN = "tokenauth"
"""The extension with which a client authenticates by a delegation token."""

_CREDENTIAL = ("salt", "stored_key", "server_key", "iterations")


@attrs.frozen(repr=False)
class ScramCredential:
    """What a server keeps of a user's password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    _signers: list[Callable[[bytes], bytes]] = attrs.field(factory=list, init=False, eq=False)

    def signatures(self, hash: str, exchanged: bytes) -> list[bytes]:
        """Return the signatures of the client and of the server."""
        if not self._signers:
            self._signers.extend(_signer(hash, key) for key in (self.stored_key, self.server_key))
        return [sign(exchanged) for sign in self._signers]


def _signer(hash: str, key: bytes) -> Callable[[bytes], bytes]:
    """Return the HMAC with this key (RFC 2104) as a function.

    It copies hashes that have the key. A new HMAC takes three times as long, and a copied one of the standard library a
    third longer, for the lookups of OpenSSL.
    """
    make, size = _HASHES[hash]
    block = (key if len(key) <= size else make(key).digest()).ljust(size, b"\0")
    inner, outer = make(block.translate(_INNER)), make(block.translate(_OUTER))

    def sign(data: bytes) -> bytes:
        first, second = inner.copy(), outer.copy()
        first.update(data)
        second.update(first.digest())
        return second.digest()

    return sign


def parse_credential(text: str) -> ScramCredential:
    """Return the credential in Kafka's text form. Raises ValueError, without the text, if it is invalid."""
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    if tuple(sorted(fields)) != tuple(sorted(_CREDENTIAL)) or not fields["iterations"].isdecimal():
        raise ValueError("a SCRAM credential has exactly the keys salt, stored_key, server_key and iterations")
    try:
        salt, stored_key, server_key = (base64.b64decode(fields[key], validate=True) for key in _CREDENTIAL[:3])
    except ValueError:
        raise ValueError("a key of a SCRAM credential is not base64") from None
    return ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))


def format_credential(credential: ScramCredential) -> str:
    """Return a credential in Kafka's text form, as /config/users contains it."""
    keys = (credential.salt, credential.stored_key, credential.server_key)
    texts = (*(base64.b64encode(key).decode() for key in keys), str(credential.iterations))
    return ",".join(f"{name}={text}" for name, text in zip(_CREDENTIAL, texts, strict=True))


def credential_of(mechanism: str, salted_password: Secret, salt: bytes, iterations: int) -> ScramCredential:
    """Return the credential of a salted password."""
    hash, key = HASHES[mechanism], salted_password.value
    stored_key = _HASHES[hash][0](hmac.digest(key, b"Client Key", hash)).digest()
    return ScramCredential(salt, stored_key, hmac.digest(key, b"Server Key", hash), iterations)


def salt_password(mechanism: str, password: Secret, salt: bytes, iterations: int) -> Secret:
    """Return the salted password."""
    return Secret(hashlib.pbkdf2_hmac(HASHES[mechanism], password.value, salt, iterations))


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise ValueError("the lengths differ")
    return (int.from_bytes(one, "big") ^ int.from_bytes(other, "big")).to_bytes(len(one), "big")


def _match(pattern: re.Pattern[str], data: bytes) -> re.Match[str]:
    match = pattern.fullmatch(data.decode("ascii", "replace"))
    if match is None:
        raise AuthenticationFailed()
    return match


Credentials = Callable[[str, bool], tuple[ScramCredential, SaslIdentity] | None]
"""Function (name, whether it is the id of a delegation token) -> the credential, and whom it authenticates; or None."""


class ScramServer:
    """The server's side of one exchange.

    Args:
        mechanism: A key of HASHES.
        credentials: The credentials of this mechanism.
        nonce: The server's part of the nonce.
        key: A key of this process, which makes up the challenge of an unknown user (rule 2).
    """

    __slots__ = "_credential", "_credentials", "_first", "_identity", "_key", "_mechanism", "_nonce", "_server_first"

    def __init__(self, mechanism: str, credentials: Credentials, nonce: str, key: Secret) -> None:
        self._mechanism, self._credentials, self._nonce, self._key = mechanism, credentials, nonce, key
        self._identity: SaslIdentity | None = None
        self._credential: ScramCredential | None = None
        self._first: re.Match[str] | None = None
        self._server_first = ""

    def respond(self, data: bytes) -> tuple[bytes, SaslIdentity | None]:
        """Return the response to a message of the client, and the client once it is authenticated.

        Raises:
            AuthenticationFailed: The exchange failed.
        """
        return self._challenge(data) if self._first is None else self._verify(data, self._first)

    def _challenge(self, data: bytes) -> tuple[bytes, SaslIdentity | None]:
        self._first = first = _match(_CLIENT_FIRST, data)
        name = unescape(first["name"])
        if first["authzid"] is not None and unescape(first["authzid"]) != name:
            raise AuthenticationFailed(OTHER_AUTHORIZATION_ID)
        extensions = dict([each.split("=", 1) for each in first["extensions"].split(",")[1:]])
        known = self._credentials(name, extensions.get(BY_TOKEN, "").lower() == "true")
        if known is not None and known[0].iterations >= MIN_ITERATIONS:
            self._credential, self._identity = known
        if self._credential is None:
            salt, iterations = hmac.digest(self._key.value, name.encode(), "sha256")[:20], MIN_ITERATIONS
        else:
            salt, iterations = self._credential.salt, self._credential.iterations
        self._nonce = first["nonce"] + self._nonce
        self._server_first = f"r={self._nonce},s={base64.b64encode(salt).decode()},i={iterations}"
        return self._server_first.encode(), None

    def _verify(self, data: bytes, first: re.Match[str]) -> tuple[bytes, SaslIdentity | None]:
        hash, final, credential = HASHES[self._mechanism], _match(_CLIENT_FINAL, data), self._credential
        bound = base64.b64encode(first["binding"].encode()).decode()
        if credential is None or final["nonce"] != self._nonce or final["binding"] != bound:
            raise AuthenticationFailed()
        exchanged = f"{first['bare']},{self._server_first},{final['unproven']}".encode()
        of_client, of_server = credential.signatures(hash, exchanged)
        try:
            client_key = _xor(base64.b64decode(final["proof"], validate=True), of_client)
        except ValueError:  # invalid base64, or of another length
            raise AuthenticationFailed() from None
        if not hmac.compare_digest(_HASHES[hash][0](client_key).digest(), credential.stored_key):
            raise AuthenticationFailed()
        return b"v=" + base64.b64encode(of_server), self._identity


class ScramClient:
    """The client's side of one exchange: `first`, `final` and `verify` are called in this order."""

    def __init__(self, mechanism: str, user: str, password: Secret, nonce: str) -> None:
        self._mechanism, self._password, self._nonce = mechanism, password, nonce
        self._bare = f"n={escape(user)},r={nonce}"
        self._server_signature = b""

    def messages(self) -> Generator[bytes, bytes, None]:
        """Yield each message; the server's response is sent to the generator. Raises AuthenticationFailed."""
        challenge = yield self.first()
        self.verify((yield self.final(challenge)))

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the message that proves the password. Raises AuthenticationFailed if the challenge is unacceptable."""
        server, hash = _match(_SERVER_FIRST, challenge), HASHES[self._mechanism]
        iterations = int(server["iterations"])
        if not server["nonce"].startswith(self._nonce) or not MIN_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise AuthenticationFailed("the server's SCRAM challenge is not acceptable")
        key = salt_password(self._mechanism, self._password, base64.b64decode(server["salt"]), iterations).value
        unproven = f"c={base64.b64encode(b'n,,').decode()},r={server['nonce']}"
        exchanged = f"{self._bare},{challenge.decode()},{unproven}".encode()
        client_key = hmac.digest(key, b"Client Key", hash)
        proof = _xor(client_key, hmac.digest(_HASHES[hash][0](client_key).digest(), exchanged, hash))
        self._server_signature = hmac.digest(hmac.digest(key, b"Server Key", hash), exchanged, hash)
        return f"{unproven},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, final: bytes) -> None:
        """Raise AuthenticationFailed unless the server has proved that it knows the password."""
        if not hmac.compare_digest(final, b"v=" + base64.b64encode(self._server_signature)):
            raise AuthenticationFailed("the server's SCRAM signature is wrong")
