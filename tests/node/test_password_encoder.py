"""The encryption of passwords in the configs of brokers."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.password_encoder import PasswordEncoder
from messages.security import Secret
from tests.broker.harness import settings

KAFKAS_FIELDS = {
    *("keyFactoryAlgorithm", "cipherAlgorithm", "keyLength", "salt", "iterations", "initializationVector"),
    *("passwordLength", "encryptedPassword"),
}


def encoder(secret: str, old: str | None = None, **fields: Any) -> PasswordEncoder:
    fields = {"password_encoder_iterations": 1024, **fields}
    return PasswordEncoder(
        Secret(secret.encode()), (old and Secret(old.encode())) or None, settings("/nowhere", **fields)
    )


@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
@pytest.mark.parametrize("password", ["", "swordfish", "P\u00e4ssw\U0001f600rd of more than sixteen bytes"])
def test_only_the_same_secret_decrypts_a_password(cipher: str, password: str) -> None:
    text = encoder("secret", password_encoder_cipher_algorithm=cipher).encode(password)
    assert {part.partition(":")[0] for part in text.split(",")} >= KAFKAS_FIELDS
    assert "swordfish" not in text
    assert encoder("secret").decode(text) == encoder("new", "secret").decode(text) == password
    with pytest.raises(ValueError, match="cannot be decrypted"):
        encoder("other").decode(text)


@pytest.mark.parametrize("torn", ["", "swordfish", "salt:x,iterations:1", "keyLength:128"])
def test_a_torn_text_is_refused(torn: str) -> None:
    with pytest.raises(ValueError, match="cannot be decrypted"):
        encoder("secret").decode(torn)


@pytest.mark.parametrize(
    "fields",
    [
        {"password_encoder_cipher_algorithm": "DES"},
        {"password_encoder_keyfactory_algorithm": "PBKDF2WithHmacMD5"},
        {"password_encoder_key_length": 64},
    ],
)
def test_other_algorithms_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"password\.encoder\."):
        encoder("secret", **fields)
