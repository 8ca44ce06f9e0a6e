"""Key stores and trust stores of type PEM, PKCS12 and JKS, made for the tests."""

from __future__ import annotations

import datetime
import hashlib
import os
import ssl
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as some

from actors.node.key_stores import read_identity, read_trusted
from actors.node.tls_settings import listener_tls, read_stores

PASSWORD = "store-password"
NODE = ec.generate_private_key(ec.SECP256R1())
SUITES = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"


def certificate(name: str, key: Any, issuer: x509.Certificate | None = None, issuer_key: Any = None) -> Any:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer.subject if issuer else subject, subject, key.public_key(), 7)
    builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
    constraints = x509.BasicConstraints(issuer is None or "middle" in name, None)
    return builder.add_extension(constraints, critical=True).sign(issuer_key or key, hashes.SHA256())


ROOT = certificate("root", NODE)
MIDDLE_KEY = ec.generate_private_key(ec.SECP256R1())
MIDDLE = certificate("middle", MIDDLE_KEY, ROOT, NODE)
LEAF = certificate("leaf", NODE, MIDDLE, MIDDLE_KEY)
DER = [each.public_bytes(Encoding.DER) for each in (LEAF, MIDDLE, ROOT)]
PEM = NODE.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + b"".join(
    each.public_bytes(Encoding.PEM) for each in (LEAF, MIDDLE)
)


def jks(key: bytes | None, certificates: list[bytes], key_password: str = PASSWORD) -> bytes:
    """Return a JKS store with a private key, or with trusted certificates."""

    def text(content: bytes) -> bytes:
        return struct.pack(">H", len(content)) + content

    def part(content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + content

    def der(tag: int, content: bytes) -> bytes:
        return bytes([tag, 0x82]) + struct.pack(">H", len(content)) + content

    wide, alias = key_password.encode("utf-16-be"), text(b"alias") + bytes(8)
    chain = [text(b"X.509") + part(each) for each in certificates]
    entries = b"".join(b"\0\0\0\2" + alias + each for each in chain)
    if key is not None:
        block = bytes(range(20))
        sealed = bytearray(block)
        for begin in range(0, len(key), 20):
            block = hashlib.sha1(wide + block).digest()
            sealed += bytes(a ^ b for a, b in zip(key[begin:], block, strict=False))
        algorithm = bytes.fromhex("300e060a2b060104012a021101010500")
        info = der(0x30, algorithm + der(4, bytes(sealed) + hashlib.sha1(wide + key).digest()))
        entries = b"\0\0\0\1" + alias + part(info) + struct.pack(">I", len(chain)) + b"".join(chain)
    content = struct.pack(">III", 0xFEEDFEED, 2, 1 if key is not None else len(chain)) + entries
    return content + hashlib.sha1(PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + content).digest()


def key_der() -> bytes:
    return NODE.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


SEAL = (
    PrivateFormat.PKCS12.encryption_builder()
    .kdf_rounds(1000)
    .key_cert_algorithm(pkcs12.PBES.PBESv2SHA256AndAES256CBC)
    .hmac_hash(hashes.SHA256())
    .build(PASSWORD.encode())
)
STORES = {
    "JKS": (jks(key_der(), DER), jks(None, DER[2:])),
    "PKCS12": (
        pkcs12.serialize_key_and_certificates(b"alias", NODE, LEAF, [ROOT, MIDDLE], SEAL),
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(ROOT, b"root")], SEAL),
    ),
    "PEM": (PEM, ROOT.public_bytes(Encoding.PEM)),
}


def stored(folder: Path, keys: bytes, trusted: bytes, declared: str, **changes: str) -> dict[str, str]:
    """Write the stores; return the settings that name them."""
    words = {} if declared == "PEM" else {f"ssl.{each}.password": PASSWORD for each in ("keystore", "truststore")}
    for name, content in (("keystore", keys), ("truststore", trusted)):
        (folder / name).write_bytes(content)
        words |= {f"ssl.{name}.location": str(folder / name), f"ssl.{name}.type": declared}
    return {**words, "ssl.client.auth": "required", **{name.replace("__", "."): each for name, each in changes.items()}}


def tls(words: dict[str, str]) -> Any:
    return listener_tls(lambda name, default="": words.get(name, default), is_between=True)


@pytest.mark.parametrize(
    ("kind", "declared"),
    [("JKS", "JKS"), ("JKS", "PKCS12"), ("PKCS12", "JKS"), ("PKCS12", "pkcs12"), ("PEM", "PEM")],
)
def test_a_listener_connects_to_itself_with_stores_of_each_kind(tmp_path: Path, kind: str, declared: str) -> None:
    words = stored(tmp_path, *STORES[kind], declared)
    assert tls(words).server.verify_mode is ssl.CERT_REQUIRED
    identity = read_stores(lambda name, default="": words.get(name, default)).identity
    assert identity is not None
    assert identity.certificate == DER[0]


@pytest.mark.parametrize("line", ["\n", " ", ""], ids=["lines", "spaces", "joined"])
def test_keys_and_certificates_may_be_settings(line: str) -> None:
    key, _, chain = PEM.decode().partition("-----BEGIN CERTIFICATE")
    words = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key.replace("\n", line),
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE{chain}".replace("\n", line),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": ROOT.public_bytes(Encoding.PEM).decode().replace("\n", line),
    }
    tls(words)
    with pytest.raises(ValueError, match=r"ssl.truststore.certificates is wrong: it is no PEM text"):
        tls({**words, "ssl.truststore.certificates": "/a/path"})


def test_a_key_may_have_a_password_of_its_own(tmp_path: Path) -> None:
    keys = jks(key_der(), DER, "another")
    tls(stored(tmp_path, keys, STORES["JKS"][1], "JKS", ssl__key__password="another"))
    with pytest.raises(ValueError, match="Cannot recover key"):
        tls(stored(tmp_path, keys, STORES["JKS"][1], "JKS"))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"ssl__keystore__password": "wrong"}, "ssl.keystore.location=.*keystore: .*password was incorrect"),
        ({"ssl__truststore__password": "wrong"}, "ssl.truststore.location=.*truststore: .*password was incorrect"),
        ({"ssl__keystore__location": "/missing"}, "ssl.keystore.location=/missing: No such file"),
        ({"ssl__keystore__password": ""}, "key store password is not specified"),
        ({"ssl__keystore__location": ""}, "SSL key store is not specified, but key store password is specified"),
        ({"ssl__keystore__type": "PEM"}, "password cannot be specified with PEM"),
        ({"ssl__keystore__type": "JCEKS"}, "ssl.keystore.type=JCEKS"),
        ({"ssl__keystore__key": "x"}, "must be set together"),
        ({"ssl__keystore__key": "x", "ssl__keystore__certificate__chain": "y"}, "Both SSL key store location"),
        ({"ssl__truststore__certificates": "x"}, "Both SSL trust store location"),
        ({"ssl__cipher__suites": "TLS_RSA_WITH_NULL_SHA"}, "Unsupported CipherSuite: TLS_RSA_WITH_NULL_SHA"),
    ],
)
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_an_error_names_the_setting_and_the_file(
    tmp_path: Path, kind: str, changes: dict[str, str], named: str
) -> None:
    with pytest.raises(ValueError, match=named):
        tls(stored(tmp_path, *STORES[kind], kind, **changes))


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"\xce\xce\xce\xce\0", "JCEKS"),
        (PEM, "a PEM file"),
        (b"", "no JKS"),
        (b"\xfe\xed\xfe\xed\0\0\0\1\0\0\0\0", "version 1"),
    ],
)
def test_other_stores_are_named(tmp_path: Path, content: bytes, named: str) -> None:
    (tmp_path / "store").write_bytes(content + bytes(20) * (content[:1] == b"\xfe"))
    with pytest.raises(ValueError, match=named):
        read_trusted("JKS", str(tmp_path / "store"), "")


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    tls(stored(tmp_path, *STORES["PEM"], "PEM"))
    with pytest.raises(ValueError, match="extra 'security': pip install cryptography"):
        tls(stored(tmp_path, *STORES["JKS"], "JKS"))


def test_a_listener_that_does_not_trust_itself_is_refused(tmp_path: Path) -> None:
    stranger = certificate("stranger", MIDDLE_KEY)
    with pytest.raises(ValueError, match="A client SSLEngine created with the provided settings can't connect"):
        tls(stored(tmp_path, STORES["JKS"][0], jks(None, [stranger.public_bytes(Encoding.DER)]), "JKS"))


def test_the_pinned_certificate_of_a_client_is_enough(tmp_path: Path) -> None:
    tls(stored(tmp_path, STORES["JKS"][0], jks(None, DER[:1]), "JKS"))


def test_cipher_suites_have_the_names_of_java(tmp_path: Path) -> None:
    """OpenSSL itself says which names its suites have."""
    listed = subprocess.run(
        ("openssl", "ciphers", "-stdname", "-s", "-tls1_2", "DEFAULT"), capture_output=True, text=True, check=True
    )
    known = [line.split()[0] for line in listed.stdout.splitlines() if line.startswith("TLS_") and "_WITH_" in line]
    assert len(known) > 20
    context = tls(stored(tmp_path, *STORES["JKS"], "JKS", ssl__cipher__suites=",".join(known))).server
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert {line.split()[2] for line in listed.stdout.splitlines() if line.split()[0] in known} <= {
        each["name"] for each in context.get_ciphers()
    }
    newer = tls(stored(tmp_path, *STORES["JKS"], "JKS", ssl__cipher__suites=SUITES)).server
    assert newer.minimum_version is ssl.TLSVersion.TLSv1_3


@given(some.sampled_from(["JKS", "PKCS12"]), some.integers(0, 5000), some.binary(max_size=12), some.booleans())
@settings(max_examples=25, deadline=None)
def test_a_damaged_store_is_an_error(kind: str, at: int, damage: bytes, cut: bool) -> None:
    """Neither its digest nor its password protects the reader."""
    path = Path(tempfile.gettempdir()) / f"store-{os.getpid()}"
    for content in STORES[kind]:
        at %= len(content)
        path.write_bytes(content[:at] + damage + (b"" if cut else content[at + len(damage) :]))
        for read in (lambda: read_trusted(kind, str(path), ""), lambda: read_identity(kind, str(path), PASSWORD, "")):
            try:
                read()
            except ValueError:
                continue
    path.unlink()


@pytest.mark.java
@pytest.mark.soak
@pytest.mark.long
@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_the_stores_of_keytool_are_read(tmp_path: Path, kind: str) -> None:
    for command in (
        "-genkeypair -alias a -keyalg EC -dname CN=a -keystore keystore",
        "-exportcert -alias a -keystore keystore -file a.crt",
        "-importcert -noprompt -alias a -file a.crt -keystore truststore",
    ):
        more = ("-storetype", kind, "-storepass", PASSWORD, *(("-keypass", PASSWORD) if "-gen" in command else ()))
        subprocess.run(("keytool", *command.split(), *more), cwd=tmp_path, check=True, capture_output=True)
    keys, trusted = ((tmp_path / name).read_bytes() for name in ("keystore", "truststore"))
    tls(stored(tmp_path, keys, trusted, kind))
