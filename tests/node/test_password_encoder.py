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


OF_KAFKA = (
    (
        "initializationVector:mfuC93y5hK5DG0pw4Gy18Q==,keyLength:128,salt:HSKMdNikf54zt1UETP9DuasHd04YiqdcnkG"
        "taerJXo9FzZe1e6Qgck7mVtMLBjzvgLCU3gfdJqWSDI0S8+iz23toXCLZONL+/Fg5QBiuOAxk8kJ4efx9R22ayLVGp5oRDZa1+rJ"
        "2sKqeKEnzo7uQ+1gfjorLMLBTsBUvamYPWkGaWoE0hXYbqsG8HZgB7rHGjMfgKUSKIm+WwAIDaDJw9kJE+YGnOg1xT6ylxGYbAIt"
        "AoRBCCAhnk1xk3eQrdlKoyzUPPWKkT63+g0UkAJo4iiBw4bVRoM5wiYy+Nv59ayP5aE2O1qEoA47hy1fn8zIk9vVZuFMq9b0/cew"
        "AjXF/TA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1"
        "024,passwordLength:9,encryptedPassword:rEkHfKiRQXQniZSxxWvHlA=="
    ),
    (
        "initializationVector:lIIqMLVe79hohumx,keyLength:128,salt:wXztIj0n1ZkjVBUtSJ6Byanyvb+ifXz/Ay7zLOs6pC0"
        "VJGYtjdbTfcIztv1W1kN72cR/qWtcjVhvFq/o8W8MiVnLHRuocTKl4DGM9scE3OVoc1CVWAAgxRBELqwaWySZo1QZ8kgxZou1JJf"
        "8XDRybfM1YTKF7TeAGQuXeEfAQc57Ss7+XS38iPt+LG6E/N/0CXgJ/CRDzmXGBDv8YlLRMYEY8+QEU1YvCvAQYw3gmMB2qJ8HPhn"
        "zbySCd87AdXZhOlBdR7wZtWLl4Dx6CgjX/MFi3DPDifnhZSRQ4h/z/cxx/RPMJqpzB9lUBGZoLQszWpxC+wyh1XcqfABCJp3ZpQ="
        "=,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength"
        ":128,iterations:1024,passwordLength:9,encryptedPassword:gbjdgL5iMfritDZ9+7Q830lwhJrcHQEZ4V8="
    ),
)
"""A password that Kafka 3.9.1 has encrypted with the secret "encoder-secret", by each cipher."""


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
    assert encoder("secret").decode(text) == (password, True)
    assert encoder("new", "secret").decode(text) == (password, False)
    with pytest.raises(ValueError, match="cannot be decrypted"):
        encoder("other").decode(text)


@pytest.mark.parametrize("text", OF_KAFKA)
def test_a_password_that_kafka_has_encrypted(text: str) -> None:
    assert encoder("encoder-secret").decode(text) == ("P\u00e4ss word", True)


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
