"""PasswordEncoder encrypts the passwords in the configs of brokers, in Kafka's form (KIP-226).

Kafka: `PasswordEncoder`, `EncryptingPasswordEncoder`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import os
import re
from typing import Any

from messages.node_settings import NodeSettings
from messages.security import Secret

_KEY_FACTORY = re.compile(r"PBKDF2WithHmacSHA(1|224|256|384|512)")
_CIPHERS = ("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding")
_TAG_BITS = 128
_SALT_BYTES = 256


class PasswordEncoder:
    """Encrypts with a secret; what was encrypted with the old secret can be decrypted, too.

    Raises:
        ValueError: A setting is not supported, or cryptography is not installed.
    """

    def __init__(self, secret: Secret, old: Secret | None, settings: NodeSettings) -> None:
        if importlib.util.find_spec("cryptography") is None:
            raise ValueError("password.encoder.secret needs cryptography: pip install 'kafka-actors[security]'")
        self._secret, self._old = secret, old
        self._key_factory = settings.password_encoder_keyfactory_algorithm or "PBKDF2WithHmacSHA512"
        self._cipher = settings.password_encoder_cipher_algorithm
        self._bits, self._iterations = settings.password_encoder_key_length, settings.password_encoder_iterations
        if not _KEY_FACTORY.fullmatch(self._key_factory):
            raise ValueError(f"password.encoder.keyfactory.algorithm={self._key_factory} is not supported")
        if self._cipher not in _CIPHERS or self._bits not in (128, 192, 256):
            raise ValueError(f"password.encoder.cipher.algorithm takes {' and '.join(_CIPHERS)}, with 128 to 256 bits")

    def encode(self, password: str) -> str:
        """Return the encrypted form of a password."""
        salt = os.urandom(_SALT_BYTES)
        key = _key(self._secret, self._key_factory, salt, self._iterations, self._bits)
        is_gcm = "GCM" in self._cipher
        vector = os.urandom(12 if is_gcm else 16)
        plain = password.encode()
        if is_gcm:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM

            encrypted = AESGCM(key).encrypt(vector, plain, None)
        else:
            encryptor, pad = _cbc(key, vector).encryptor(), 16 - len(plain) % 16
            encrypted = encryptor.update(plain + bytes([pad]) * pad) + encryptor.finalize()
        fields = {
            "keyFactoryAlgorithm": self._key_factory,
            "cipherAlgorithm": self._cipher,
            "keyLength": self._bits,
            "salt": _base64(salt),
            "iterations": self._iterations,
            "initializationVector": _base64(vector),
            **({"authenticationTagLength": _TAG_BITS} if is_gcm else {}),
            "passwordLength": _length(password),
            "encryptedPassword": _base64(encrypted),
        }
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> tuple[str, bool]:
        """Return the password in an encrypted form, and whether the new secret has encrypted it.

        Raises:
            ValueError: It cannot be decrypted; the error does not contain the text.
        """
        for secret in (self._secret, self._old):
            if secret is not None:
                try:
                    return _decode(secret, text), secret is self._secret
                except (ValueError, KeyError):
                    continue
        raise ValueError("it cannot be decrypted by password.encoder.secret or password.encoder.old.secret")


def _decode(secret: Secret, text: str) -> str:
    fields = dict(part.partition(":")[::2] for part in text.split(","))
    encrypted, vector, salt = (
        base64.b64decode(fields[name], validate=True) for name in ("encryptedPassword", "initializationVector", "salt")
    )
    iterations, bits = int(fields["iterations"]), int(fields["keyLength"])
    if not 0 < iterations <= 10_000_000 or bits not in (128, 192, 256):
        raise ValueError("its parameters are not supported")
    key = _key(secret, fields["keyFactoryAlgorithm"], salt, iterations, bits)
    if fields["cipherAlgorithm"] == _CIPHERS[1]:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        try:
            plain = AESGCM(key).decrypt(vector, encrypted, None)
        except InvalidTag:
            raise ValueError("it has another secret") from None
    else:
        decryptor = _cbc(key, vector).decryptor()
        padded = decryptor.update(encrypted) + decryptor.finalize()
        pad = padded[-1] if padded else 0
        if not 1 <= pad <= 16 or padded[-pad:] != bytes([pad]) * pad:
            raise ValueError("it has another secret")
        plain = padded[:-pad]
    password = plain.decode()
    if _length(password) != int(fields["passwordLength"]):
        raise ValueError("it has another length")
    return password


def _key(secret: Secret, key_factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    match = _KEY_FACTORY.fullmatch(key_factory)
    if match is None:
        raise ValueError("its key factory is not supported")
    return hashlib.pbkdf2_hmac(f"sha{match[1]}", secret.value, salt, iterations, bits // 8)


def _cbc(key: bytes, vector: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    return Cipher(algorithms.AES(key), modes.CBC(vector))


def _length(password: str) -> int:
    """Return the length that Java counts: that of UTF-16."""
    return len(password.encode("utf-16-be")) // 2


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
