"""The principal of a certificate: Java's text of its subject, and the rules that map it."""

from __future__ import annotations

import pytest

from actors.core.security.distinguished_name import java_name, parse_rules, principal_of, subject_of

CN, O, OU, L, C = "0603550403", "060355040a", "060355040b", "0603550407", "0603550406"  # noqa: E741
EMAIL, SERIAL = "06092a864886f70d010901", "0603550405"


def der(tag: int, content: bytes) -> bytes:
    length = len(content)
    return bytes([tag]) + (bytes([length]) if length < 128 else b"\x82" + length.to_bytes(2, "big")) + content


def name(*parts: list[tuple[str, str, int]]) -> bytes:
    """Return the content of a name; a part has (type, text, tag of the text) for each of its values."""
    return b"".join(
        der(0x31, b"".join(der(0x30, bytes.fromhex(type) + der(tag, text.encode())) for type, text, tag in part))
        for part in parts
    )


def one(type: str, text: str, tag: int = 0x0C) -> list[tuple[str, str, int]]:
    return [(type, text, tag)]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([one(O, "Suite"), one(CN, "dora")], "CN=dora,O=Suite"),
        ([one(CN, "x,OU=Eng")], r"CN=x\,OU\=Eng"),
        ([one(CN, " lead trail ")], r"CN=\ lead trail\ "),
        ([one(CN, "  ")], r"CN=\ \ "),
        ([one(EMAIL, "a@b.c", 0x16), one(CN, "admin")], "CN=admin,1.2.840.113549.1.9.1=#16056140622e63"),
        ([one(SERIAL, "42", 0x13), one(CN, "tail ")], r"CN=tail\ ,2.5.4.5=#13023432"),
        ([one(O, "o"), [(CN, "m", 0x0C), (OU, "u", 0x0C)]], "CN=m+OU=u,O=o"),
        ([one(C, "DE", 0x13), one(L, "Köln"), one(O, 'a+b;c<d>"e"#\\f')], r"O=a\+b\;c\<d\>\"e\"\#\\f,L=Köln,C=DE"),
        ([], ""),
    ],
)
def test_a_name_is_written_as_in_java(parts: list[list[tuple[str, str, int]]], text: str) -> None:
    assert java_name(name(*parts)) == text


def certificate(subject: bytes, version: bytes = bytes.fromhex("a003020102")) -> bytes:
    empty = der(0x30, b"")
    body = version + der(0x02, b"\x01") + empty + empty + empty + der(0x30, subject) + empty
    return der(0x30, der(0x30, body) + empty + der(0x03, b"\0"))


def test_the_principal_of_a_certificate() -> None:
    dora = certificate(name(one(CN, "dora")))
    assert subject_of(dora) == subject_of(certificate(name(one(CN, "dora")), b"")) == "CN=dora"
    assert principal_of(dora, parse_rules("DEFAULT")) == "User:CN=dora"
    with pytest.raises(ValueError, match="no subject"):
        principal_of(certificate(b""), parse_rules("DEFAULT"))
    with pytest.raises(ValueError, match="no rule"):
        principal_of(dora, parse_rules("RULE:^CN=x$/x/"))
    for cut in range(len(dora)):
        with pytest.raises(ValueError):
            principal_of(dora[:cut], parse_rules(""))


RULES = (
    r"RULE:^CN=svc-([a-z]+),OU=([A-Za-z]+).*$/$1@$2/L, RULE:CN=part/partial/,"
    r" RULE:^CN=([a-z]+),O=Nine$/$1x$9/, DEFAULT"
)


@pytest.mark.parametrize(
    ("dn", "short"),
    [
        ("CN=svc-web,OU=ENG", "web@eng"),
        ("CN=part,O=x", "CN=part,O=x"),
        ("CN=part", "partial"),
        ("CN=a,O=Nine", "ax$9"),
        ("CN=other", "CN=other"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_applies(dn: str, short: str) -> None:
    assert next(found for rule in parse_rules(RULES) if (found := rule.apply(dn)) is not None) == short


@pytest.mark.parametrize("text", ["RULE:a/b", "OTHER", "RULE:(/x/", r"RULE:\p{Alpha}/x/", "DEFAULT RULE:a/b/"])
def test_a_rule_that_is_not_understood_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_rules(text)
