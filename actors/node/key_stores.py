"""Read key stores and trust stores of type PEM, PKCS12 and JKS.

Rule 1: as in Java, the first bytes of a file decide between PKCS12 and JKS, and its type only says whether it is PEM.
Rule 2: the keys of PKCS12 and JKS need the package cryptography, of the extra `security`.
Rule 3: all certificates of a PKCS12 trust store are trusted. Java trusts only those with an attribute of Oracle's.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import ssl
import struct
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from io import BytesIO
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple

import attrs

from actors.core.security.distinguished_name import der_values

PEM = "PEM"
TYPES = ("JKS", "PKCS12", PEM)
JKS = bytes.fromhex("feedfeed")
OTHERS = {bytes.fromhex("cececece"): "JCEKS", b"\0\0\0\1": "BKS", b"\0\0\0\2": "BKS"}
"""First bytes of stores that are not supported."""

_SEAL_OF_KEYS = bytes.fromhex("2b060104012a02110101")
"""The object identifier of Sun's algorithm for the keys in JKS, 1.3.6.1.4.1.42.2.17.1.1."""
_KEY, _TRUSTED = 1, 2
"""Tags of the entries in JKS."""
_CHECK = hashlib.sha1().digest_size


@attrs.frozen(repr=False)
class Identity:
    """A private key and its certificates, in PEM; the password opens the key."""

    pem: bytes
    password: str

    @property
    def certificate(self) -> bytes:
        """The certificate of the key, in DER. Raises ValueError."""
        text = self.pem.decode("ascii", "ignore")
        return ssl.PEM_cert_to_DER_cert(text[text.find("-----BEGIN CERTIFICATE-----") :].partition(_END)[0] + _END)


_END = "-----END CERTIFICATE-----"
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----([A-Za-z0-9+/=\s]+)-----END \1-----")


def pem_of(text: str) -> str:
    """Return PEM text of a setting in lines, which a properties file may have joined. Raises ValueError."""
    blocks = [
        f"-----BEGIN {name}-----\n{textwrap.fill(''.join(content.split()), 64)}\n-----END {name}-----\n"
        for name, content in _BLOCK.findall(text)
    ]
    if not blocks:
        raise ValueError("it is no PEM text")
    return "".join(blocks)


class _Store(NamedTuple):
    """The content of a store; certificates are in DER.

    Attributes:
        keys: For each private key, the function (password) -> key, and its certificates.
        trusted: The trusted certificates.
    """

    keys: list[tuple[Callable[[str], Any], list[bytes]]]
    trusted: list[bytes]


def read_identity(type: str, path: str, password: str, key_password: str) -> Identity:
    """Return the first private key of a key store. Raises ValueError and OSError."""
    data = Path(path).read_bytes()
    if type == PEM:
        return Identity(data, key_password)
    keys = _open_store(data, password).keys
    if not keys:
        raise ValueError("it has no private key")
    from cryptography.hazmat.primitives import serialization as form

    key, chain = keys[0][0](key_password or password), keys[0][1]
    pass_phrase = secrets.token_hex()
    sealed = form.BestAvailableEncryption(pass_phrase.encode())
    pem = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, sealed)
    return Identity(pem + _pem(chain).encode(), pass_phrase)


def read_trusted(type: str, path: str, password: str) -> str:
    """Return the trusted certificates of a trust store, in PEM. Raises ValueError and OSError."""
    data = Path(path).read_bytes()
    if type == PEM:
        return data.decode("ascii", "ignore")
    store = _open_store(data, password)
    trusted = _pem([*store.trusted, *(chain[0] for _, chain in store.keys if chain)])
    if not trusted:
        raise ValueError("it has no trusted certificate")
    return trusted


def _pem(certificates: Iterable[bytes]) -> str:
    return "".join(map(ssl.DER_cert_to_PEM_cert, certificates))


def _open_store(data: bytes, password: str) -> _Store:
    """Return the content of a PKCS12 or JKS store (rule 1)."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ValueError(
            "PKCS12 and JKS stores need cryptography, of the extra 'security': pip install cryptography"
        ) from None
    if data[:4] == JKS:
        try:
            return _jks(data, password)
        except (struct.error, IndexError):
            raise ValueError("the JKS store is cut off") from None
    if data[:1] == b"\x30":
        return _pkcs12(data, password)
    kind = "a PEM file" if b"-----BEGIN" in data else OTHERS.get(data[:4], "no JKS or PKCS12 store")
    raise ValueError(f"it is {kind}; convert it: keytool -importkeystore -deststoretype pkcs12")


def _pkcs12(data: bytes, password: str) -> _Store:
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        content = pkcs12.load_pkcs12(data, password.encode() or None)
    except ValueError:
        raise ValueError("keystore password was incorrect, or it is no PKCS12 store") from None
    others = [each.certificate for each in content.additional_certs]
    if content.cert is None or content.key is None:
        own = [] if content.cert is None else [content.cert.certificate]
        return _Store([], [each.public_bytes(Encoding.DER) for each in [*own, *others]])
    chain, by_subject = [content.cert.certificate], {each.subject: each for each in others}
    while (issuer := by_subject.pop(chain[-1].issuer, None)) is not None:
        chain.append(issuer)
    key = content.key
    trusted = [each.public_bytes(Encoding.DER) for each in others]
    return _Store([(lambda _: key, [each.public_bytes(Encoding.DER) for each in chain])], trusted)


def _jks(data: bytes, password: str) -> _Store:
    content, check = data[:-_CHECK], data[-_CHECK:]
    if password and hashlib.sha1(_wide(password) + b"Mighty Aphrodite" + content).digest() != check:
        raise ValueError("Keystore was tampered with, or password was incorrect")
    stream = BytesIO(content)

    def number(form: str) -> int:
        return int(struct.unpack(f">{form}", stream.read(struct.calcsize(f">{form}")))[0])

    def part(form: str) -> bytes:
        size = number(form)
        found = stream.read(size)
        if len(found) < size:
            raise IndexError
        return found

    def certificate() -> bytes:
        if (kind := part("H")) != b"X.509":
            raise ValueError(f"it has a certificate of type {kind!r}")
        return part("I")

    _, version, count = number("I"), number("I"), number("I")
    if version != 2:
        raise ValueError(f"it is a JKS store of version {version}; only version 2 is supported")
    store = _Store([], [])
    for _ in range(count):
        tag, _, _ = number("I"), part("H"), number("Q")  # the alias and the time have no use here
        if tag == _KEY:
            sealed = part("I")
            store.keys.append((partial(_key, sealed), [certificate() for _ in range(number("I"))]))
        elif tag == _TRUSTED:
            store.trusted.append(certificate())
        else:
            raise ValueError(f"it has an entry of type {tag}")
    return store


def _key(sealed: bytes, password: str) -> Any:
    """Return the key in an EncryptedPrivateKeyInfo of JKS."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    (outer,) = der_values(sealed)
    algorithm, octets, *_ = der_values(outer.content)
    if _SEAL_OF_KEYS not in algorithm.content:
        raise ValueError("its private key is encrypted by an unknown algorithm")
    block, body, check = octets.content[:_CHECK], octets.content[_CHECK:-_CHECK], octets.content[-_CHECK:]
    secret, stream = _wide(password), bytearray()
    while len(stream) < len(body):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = bytes(map(xor, body, stream))
    if hashlib.sha1(secret + plain).digest() != check:
        raise ValueError("Cannot recover key: ssl.key.password is incorrect")
    return load_der_private_key(plain, None)


def _wide(password: str) -> bytes:
    return password.encode("utf-16-be")
