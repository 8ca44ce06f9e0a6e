"""The principal of a client certificate: its subject as Java writes it, mapped by rules (KIP-371).

Rule 1: the text is that of Java's `X500Principal.getName()` (RFC 2253): the last part first, short names for a few
        types only, and every other value as the hexadecimal digits of its DER. ACLs are compared with this text.
Rule 2: the first rule of ssl.principal.mapping.rules whose pattern matches the whole name applies.

Kafka: `DefaultKafkaPrincipalBuilder`, `SslPrincipalMapper`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_TYPES = {
    "2.5.4.3": "CN",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "2.5.4.6": "C",
    "2.5.4.9": "STREET",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x14: "latin-1", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}
"""DER tag of a string -> its encoding."""
_SPECIAL = re.compile(r'[,=+<>#;"\\]')
_DEFAULT = "DEFAULT"
_RULES = re.compile(r"\s*(DEFAULT|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(,\s*|$)", re.DOTALL)
_FOREIGN = re.compile(r"\\[pPhHRQEGXZ]|&&|\[\[|\(\?[<idmsuxU]*[idmsuxU-]")
"""Constructs of Java's regular expressions that mean something else in Python."""


class _Der(NamedTuple):
    """A value in DER: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def der_values(data: bytes) -> Iterator[_Der]:
    """Yield the values one after another. Raises ValueError."""
    at = 0
    while at < len(data):
        begin, tag = at, data[at]
        length = data[at + 1] if at + 1 < len(data) else 0xFF
        at += 2
        if length & 0x80:
            count = length & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise ValueError("a length in a certificate is invalid")
            length = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + length > len(data):
            raise ValueError("a certificate is cut off")
        yield _Der(tag, data[at : at + length], data[begin : at + length])
        at += length


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER as Java writes it (rule 1); "" if it is empty. Raises ValueError."""
    fields = [each for each in _fields(certificate) if each.tag != 0xA0]  # without the version
    return java_name(fields[4].content)  # after serial number, algorithm, issuer and validity


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """Return the subject alternative names of a certificate in DER. Raises ValueError."""
    try:
        extensions = [
            _parts(each) for field in _fields(certificate) if field.tag == 0xA3 for each in _parts(_parts(field)[0])
        ]
        values = [each[-1] for each in extensions if _dotted_identifier(each[0].content) == "2.5.29.17"]
        return frozenset(name.whole for value in values for name in _parts(_parts(value)[0]))
    except LookupError:
        raise ValueError("the certificate cannot be read") from None


def _fields(certificate: bytes) -> list[_Der]:
    """Return the parts of a certificate that its issuer has signed."""
    (outer,) = der_values(certificate)
    return _parts(_parts(outer)[0])


def _parts(value: _Der) -> list[_Der]:
    return list(der_values(value.content))


def java_name(content: bytes) -> str:
    """Return the text of a name, given the content of its SEQUENCE. Raises ValueError."""
    parts = []
    for part in der_values(content):
        attributes = []
        for attribute in der_values(part.content):
            type, value = der_values(attribute.content)
            attributes.append(_attribute(_dotted_identifier(type.content), value))
        parts.append("+".join(attributes))
    return ",".join(reversed(parts))


def _attribute(type: str, value: _Der) -> str:
    name, encoding = _TYPES.get(type), _TEXTS.get(value.tag)
    if name is None or encoding is None:
        return f"{name or type}=#{value.whole.hex()}"
    text = value.content.decode(encoding)
    escaped = _SPECIAL.sub(lambda match: f"\\{match[0]}", text).replace("\0", "\\00")
    leading, trailing = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    if leading == len(text):
        trailing = 0
    escaped = "\\ " * leading + escaped[leading : len(escaped) - trailing] + "\\ " * trailing
    return f"{name}={escaped}"


def _dotted_identifier(content: bytes) -> str:
    """Return an object identifier as text."""
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


class MappingRule(NamedTuple):
    """A rule; `pattern` is None for DEFAULT, which keeps the name."""

    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """Return the short name; None if the rule does not match."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        short = self.pattern.sub(lambda match: _expand_groups(match, self.replacement), name)
        return short.lower() if self.case == "L" else short.upper() if self.case == "U" else short


def _expand_groups(match: re.Match[str], replacement: str) -> str:
    """Return the replacement with $1 and so on; a group that does not exist stays as it is written."""

    def group(found: re.Match[str]) -> str:
        number = int(found[1])
        return match[number] or "" if number <= match.re.groups else found[0]

    return re.sub(r"\$(\d)", group, replacement)


def parse_rules(text: str) -> tuple[MappingRule, ...]:
    """Return the rules of ssl.principal.mapping.rules. Raises ValueError."""
    rules, at = [], 0
    while at < len(text):
        match = _RULES.match(text, at)
        if match is None:
            raise ValueError(f"Invalid rule: {text[at:]}")
        at = match.end()
        if match[1] == _DEFAULT:
            rules.append(MappingRule())
            continue
        if _FOREIGN.search(match[2]):
            raise ValueError(f"a construct of Java's regular expressions is not supported: {match[2]}")
        try:
            pattern = re.compile(match[2].replace("\\/", "/"), re.ASCII)
        except re.error as error:
            raise ValueError(f"Invalid rule: {match[1]}: {error}") from None
        rules.append(MappingRule(pattern, match[3].replace("\\/", "/"), match[4]))
    return tuple(rules) or (MappingRule(),)


def principal_of(certificate: bytes, rules: Sequence[MappingRule]) -> str:
    """Return the principal of a client certificate in DER. Raises ValueError if it has none."""
    try:
        name = subject_of(certificate)
    except LookupError:
        raise ValueError("the certificate cannot be read") from None
    if not name:
        raise ValueError("the certificate has no subject")
    short = next((found for rule in rules if (found := rule.apply(name)) is not None), None)
    if short is None:
        raise ValueError("no rule of ssl.principal.mapping.rules matches the certificate's subject")
    return f"User:{short}"
