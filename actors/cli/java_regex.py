"""Translate the Java regular expressions that `kafka-topics --topic` accepts into Python patterns.

Only syntax that differs between Java and Python is translated: named character classes, quoted text, named groups and
the end of the text. The classes contain only ASCII characters, which suffice for topic names. Syntax without a short
Python equivalent is rejected with an error that names it.
"""

from __future__ import annotations

import re

CLASSES = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": "\\x00-\\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": "!-/:-@\\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": " \\t",
    "XDigit": "0-9a-fA-F",
    "Space": " \\t-\\r",
    "L": "a-zA-Z",
    "Ll": "a-z",
    "Lu": "A-Z",
    "N": "0-9",
    "Nd": "0-9",
    "P": "!-#%-*,-/:;?@\\[-\\]_{}",
    "IsAlphabetic": "a-zA-Z",
    "IsLowercase": "a-z",
    "IsUppercase": "A-Z",
    "IsDigit": "0-9",
}
"""Name of a Java class, \\p{Name} -> the equivalent content of a Python class."""

_TOKEN = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)"
    r"|\\(?P<sign>[pP])(?:\{(?P<name>\w+)\}|(?P<letter>[A-Z]))"
    r"|(?P<end>\\z)"
    r"|(?P<group>\(\?<(?=[A-Za-z]))"
    r"|(?P<foreign>\\[hHRvVXGNk]|&&)"
    r"|\\.|[\[\]]|[^\\\[\]\(&]+|.",
    re.DOTALL,
)


def java_regex(text: str) -> re.Pattern[str]:
    """Return the Python pattern for a Java pattern.

    Raises:
        re.error: The pattern is invalid or not supported.
    """
    made: list[str] = []
    inside = False
    for token in _TOKEN.finditer(text):
        sign, name = token["sign"], token["name"] or token["letter"]
        if token["quoted"] is not None:
            made.append(re.escape(token["quoted"]))
        elif sign:
            if name not in CLASSES:
                raise re.error(f"unknown character class {token[0]}", text, token.start())
            if inside and sign == "P":
                raise re.error(f"{token[0]} inside a class is not supported", text, token.start())
            made.append(CLASSES[name] if inside else f"[{'^' if sign == 'P' else ''}{CLASSES[name]}]")
        elif token["end"]:
            made.append(r"\Z")
        elif token["group"]:
            made.append("(?P<")
        elif token["foreign"] and (inside or token["foreign"] != "&&"):
            raise re.error(f"{token[0]} is not supported", text, token.start())
        else:
            if token[0] in "[]":
                if inside and token[0] == "[":
                    raise re.error("a class within a class is not supported", text, token.start())
                inside = token[0] == "["
            made.append(token[0])
    return re.compile("".join(made))
