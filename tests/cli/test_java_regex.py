"""Java's regular expressions, as kafka-topics 3.9.1 accepts them in --topic."""

from __future__ import annotations

import re
import string

import pytest

from actors.cli.java_regex import CLASSES, java_regex

LEGAL = string.ascii_letters + string.digits + "._-"


@pytest.mark.parametrize(
    ("pattern", "matched", "not_matched"),
    [
        (r"foo", ["foo"], ["foobar", "Foo"]),
        (r"foo|bar.*", ["foo", "bar2"], ["foo2"]),
        (r"\p{Lower}+", ["abc"], ["aBc", "a1"]),
        (r"\p{Alpha}\p{Digit}", ["a1", "Z9"], ["11", "a"]),
        (r"\P{Digit}+", ["abc", "a.b"], ["a1"]),
        (r"[\p{Upper}_]+", ["A_B"], ["a_b"]),
        (r"[^\p{Alnum}]", [".", "-"], ["a", "1"]),
        (r"\pL+", ["abc"], ["a1"]),
        (r"\p{Punct}", [".", "_", "-"], ["a"]),
        (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
        (r"\Qa.b", ["a.b"], ["axb"]),
        (r"(?<name>a)\z", ["a"], ["ab"]),
        (r"a++b", ["aab"], ["b"]),
        (r"[a\]]\[?", ["a", "]["], ["b"]),
        (r"a&&b", ["a&&b"], ["a"]),
        (r"\w+\.\d{2}", ["abc.12"], ["abc12"]),
    ],
)
def test_what_it_matches(pattern: str, matched: list[str], not_matched: list[str]) -> None:
    compiled = java_regex(pattern)
    assert [name for name in matched if not compiled.fullmatch(name)] == []
    assert [name for name in not_matched if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    "pattern", [r"\p{Klingon}", r"[a-z&&[^b]]", r"[a[bc]]", r"[\P{Lower}a]", r"\h+", "a(", "[", "*"]
)
def test_unsupported_expressions_are_refused(pattern: str) -> None:
    with pytest.raises(re.error):
        java_regex(pattern)


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_and_its_opposite_share_all_names_between_them(name: str) -> None:
    within, without = java_regex(rf"\p{{{name}}}"), java_regex(rf"\P{{{name}}}")
    assert all(bool(within.fullmatch(char)) != bool(without.fullmatch(char)) for char in map(chr, range(128)))


def test_common_syntax_means_the_same() -> None:
    for pattern in (r"[a-f]+", r"(foo|bar)\d*", r"(?i)foo", r"^a.*z$", r"a{2,3}", r"[\w.-]+", r"(?:x)?y", r"\x41"):
        ours, theirs = java_regex(pattern), re.compile(pattern)
        for name in ("abc", "foo1", "FOO", "abz", "aaa", "a.b-c", "y", "A", *LEGAL):
            assert bool(ours.fullmatch(name)) == bool(theirs.fullmatch(name)), (pattern, name)
